"""compare and health as a user meets them: variants that are refused before anything runs, answers, files, alarms."""
import json
import re
import unittest

from harness import DATA, DIVERGED, DONE, ENVIRONMENT, USAGE, FaultTest


class Compare(FaultTest):

    def compare(self, *variants, ranks=2, options=(), **changes):
        words = [word for variant in variants for word in ("--variant", variant)]
        return self.run_program("compare", self.parameters(**changes), *words, *options, ranks=ranks)

    def refuse(self, status, *variants, parts=(), **more):
        self.assert_refused(self.compare(*variants, **more), status, *parts)
        self.assert_absent()
        self.assert_absent("result")

    def test_refusals(self):
        self.refuse(USAGE, "one", parts=["1 variant"])
        self.refuse(USAGE, "one", "one;grid.tp=2", parts=["called 'one'"])
        self.refuse(USAGE, "one", "two;grid.pt=2", parts=["variant 'two'", "grid.pt", "grid.tp"])
        self.refuse(USAGE, "one", "two;grid.tp=4", parts=["'two' needs 4 ranks", "the launch has 2"])
        self.refuse(USAGE, "one", "two;grid.tp=8", parts=["'two'", "8"])
        self.refuse(USAGE, "one", "two;run.seed=2", parts=["'two' cannot be compared", "run.seed"])
        self.refuse(USAGE, "one", f"two={self.path('no.ini')}", parts=["no.ini"])
        self.refuse(USAGE, "one", "two;backend.precision=fp8-delayed;grid.tp=2;model.hidden=32;model.ffn=72",
                    parts=["variant 'two'"], model__ffn=72)
        self.refuse(ENVIRONMENT, "one", "two;backend.precision=nonsense", parts=["'two'", "nonsense"])
        self.refuse(DATA, "one", "two", parts=["no.txt"], data__train=self.path("no.txt"))

    def test_answers_and_writes_only_what_was_asked_for(self):
        overlay = self.path("eight.ini")
        overlay.write_text("[backend]\nprecision = fp8-delayed   # all of it\n[grid]\ntp = 1\n")
        result = self.compare("plain", "wide;grid.tp=2", f"eight={overlay};precision.margin=1",
                              options=["--steps", "3", "--json", self.path("result"), "--output", self.path("there"),
                                       "--set", "backend.precision=bf16", "--set", "precision.margin=2"], ranks=3)
        self.assertEqual(result.status, DONE, str(result))
        self.assert_absent()
        found = json.loads(self.path("result").read_text())
        self.assertEqual(found["steps"], 3)
        self.assertEqual(found["reference"]["name"], "plain")
        self.assertEqual(len(found["reference"]["loss"]), 3)
        wide, eight = found["variants"]
        self.assertEqual(wide["changed"], ["grid.tp"])
        self.assertEqual(wide["variant"]["grid"], {"dp": 1, "tp": 2, "pp": 1, "cp": 1})
        self.assertEqual(wide["trial"]["kind"], "full precision")
        self.assertTrue(wide["trial"]["rounding"]["is_rounding"])
        self.assertEqual(sorted(eight["changed"]), ["backend.precision", "precision.margin"])
        self.assertTrue(eight["findings"][0]["module"].startswith("layers."))
        self.assertEqual(eight["trial"]["kind"], "exclude")
        self.assertEqual([finding for finding in eight["findings"] if finding["fault"]], [])
        self.assertEqual(len(eight["variant"]["steps"][0]["tensors"]), 24)
        self.assertRegex(result.out, r"tested: again with precision.exclude = layers\.\d\.")
        self.assertEqual(sorted(entry.name for entry in self.path("there").iterdir()), ["compare.json", "compare.txt"])
        self.assertEqual(self.path("there/compare.txt").read_text(), result.out)

    def test_loss_curve_is_that_of_train(self):
        self.train("--set", "run.steps=10")
        result = self.compare("one", "two;grid.dp=2", options=["--json", self.path("result")])
        self.assertEqual(result.status, DONE, str(result))
        found = json.loads(self.path("result").read_text())
        self.assertEqual(found["reference"]["loss"], self.losses())

    def test_a_variant_that_diverges(self):
        result = self.compare("one", "hot;optimizer.learning_rate=1e30;optimizer.clip=0")
        self.assert_refused(result, DIVERGED, "'hot' is not finite at step")


class Health(FaultTest):

    def test_frozen_scale(self):
        """The amaxes of a run that learns fast leave the scale of its first step behind."""
        result = self.train(backend__precision="fp8-delayed", precision__amax_algorithm="frozen", run__steps=40,
                            optimizer__learning_rate="5e-2", data__repeat="on")
        alarms = [line for line in result.errors if "stands still while its amax moves" in line]
        self.assertTrue(alarms, str(result))
        self.assertIn("set precision.amax_algorithm = max", alarms[0])
        named = [re.search("scale of '([^']+)'", line)[1] for line in alarms]
        self.assertTrue(all(name.startswith("layers.") for name in named))
        self.assertLessEqual(max(named.count(name) for name in named), 3)  # once a window of 16 or 18 steps

    def test_counters_of_the_worst_tensors_are_logged(self):
        result = self.train(backend__precision="fp8-delayed", run__steps=10)
        lines = re.findall(r"^ +layers\.\S+: saturated \d+  flushed \d+  nonfinite 0  of \d+$", result.out, re.M)
        self.assertTrue(lines, str(result))

    def test_a_sound_run_is_silent(self):
        self.assertEqual(self.train(run__steps=20, optimizer__learning_rate="1e-3").errors, [])


if __name__ == "__main__":
    unittest.main()

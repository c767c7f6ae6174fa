"""Steps that are not finite (A27): skipped by all ranks alike, their origin named, given up with status 5."""
import unittest

from harness import DIVERGED, DONE, FaultTest
from resume_test import masters

DIVERGING = {"optimizer__learning_rate": "1e30", "grid__dp": 2, "grid__tp": 2, "run__steps": 30}


class Divergence(FaultTest):

    def test_given_up(self):
        result = self.train(ranks=4, expect=DIVERGED, run__max_skipped=3, checkpoint__every=2, **DIVERGING)
        lines = self.metrics()
        skipped = [line for line in lines if line["skipped"] > 0]
        self.assertEqual([line["skipped"] for line in skipped], [1, 2, 3, 4])
        for line in skipped:
            self.assertTrue(line["loss"] is None or line["grad_norm"] is None, str(line))
        first = skipped[0]["step"]
        self.assertEqual(len([line for line in result.errors if "is skipped" in line]), 4)
        origins = [line for line in result.errors if "first is not finite on rank" in line]
        self.assertEqual(len(origins), 4, str(result))
        self.assertRegex(origins[0], rf"step {first} .* rank \d \(.+\); ")
        self.assertIn("run.max_skipped = 3", result.errors[-1])
        self.assertIn("diverged", result.errors[-1])

    def test_none_allowed(self):
        result = self.train(ranks=4, expect=DIVERGED, run__max_skipped=0, **DIVERGING)
        self.assertEqual(self.metrics()[-1]["skipped"], 1)

    def test_skipped_steps_change_nothing(self):
        """Saved every step: once steps are skipped, masters and moments stay as they are, bit by bit."""
        self.train(ranks=4, expect=DIVERGED, run__max_skipped=4, checkpoint__every=1, checkpoint__keep=0, **DIVERGING)
        skipped = [line["step"] for line in self.metrics() if line["skipped"] > 0]
        before = self.checkpoint(skipped[0] - 1)
        for step in skipped[:-1]:  # the last is not saved
            self.assert_same(before, self.checkpoint(step))
        self.assertFalse(self.checkpoint(skipped[-1]).exists())

    def test_resume_counts_on(self):
        changes = {**DIVERGING, "run__max_skipped": 100}
        first = None
        for steps in (6, 9):
            result = self.train(ranks=4, **{**changes, "run__steps": steps})
            first = first or self.metrics()[-1]["skipped"]
        self.assertEqual(self.metrics()[-1]["skipped"], first + 3)

    def test_weights_that_overflow(self):
        """A huge init_std: the very first step is not finite, and --check names the operation."""
        for options in ([], ["--check"]):
            with self.subTest(options=options):
                result = self.train(*options, ranks=4, expect=DIVERGED, model__init_std="1e30", run__max_skipped=1,
                                    run__output=self.path("out" + "".join(options)), grid__dp=2, grid__tp=2)
                origins = [line for line in result.errors if "first is not finite" in line]
                self.assertEqual(len(origins), 2, str(result))
                self.assertIn("step 1 ", origins[0])
                self.assertEqual(origins[0].replace("step 1", ""), origins[1].replace("step 2", ""))

    def test_check_is_the_same_run(self):
        for name, options in (("plain", []), ("check", ["--check"])):
            self.train(*options, ranks=2, run__output=self.path(name), run__steps=3, grid__tp=2)
        self.assert_same(self.checkpoint(3, "plain"), self.checkpoint(3, "check"))
        self.assertEqual(self.losses("plain"), self.losses("check"))


if __name__ == "__main__":
    unittest.main()

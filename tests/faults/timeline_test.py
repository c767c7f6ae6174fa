"""Where a step's time went, as a user sees it: lines, metrics, traces, and the examples of inputs/."""
import json
import re
import subprocess
import sys
import unittest

from harness import DONE, ROOT, USAGE, FaultTest

SPLIT = ("compute_ms", "comm_ms", "overlap_ms", "exposed_ms", "idle_ms", "stall_ms")
INPUTS = ROOT / "inputs"
STEPS = 4


class Timeline(FaultTest):

    def test_every_line_has_the_accounting(self):
        result = self.train(ranks=4, grid__dp=2, grid__tp=2, run__steps=9, run__log_every=4, trace__steps="3,6")
        lines = {line["step"]: line for line in self.metrics()}
        printed = {int(step): text for step, text in re.findall(r"^step +(\d+)/9(.*)$", result.out, re.M)}
        self.assertEqual(sorted(printed), [1, 4, 8, 9])
        for step, line in lines.items():
            traced = step in (1, 3, 4, 6, 8, 9)
            for field in SPLIT:
                self.assertEqual(line[field] is not None, traced, f"step {step} {field}")
            if not traced:
                continue
            total = line["compute_ms"] + line["comm_ms"] - line["overlap_ms"] + line["idle_ms"]
            self.assertAlmostEqual(total / line["step_ms"], 1, 9)
            self.assertAlmostEqual(sum(line["exposed_ms_by_axis"].values()), line["exposed_ms"], 6)
            self.assertAlmostEqual(line["comm_ms"] - line["overlap_ms"], line["exposed_ms"], 9)
            self.assertGreater(line["exposed_ms_by_axis"]["tp"], 0)
            self.assertEqual(line["exposed_ms_by_axis"]["pp"], 0)
        for text in printed.values():
            self.assertRegex(text, r"  compute [\d.]+  comm [\d.]+  overlap [\d.]+  idle -?[\d.]+ ms")
        for step in (3, 6):
            subprocess.run([sys.executable, ROOT / "tests/trace/check_trace.py",
                            self.path("out") / f"trace/step-{step}.json", "4"], check=True)  # yapf: disable
        self.assertEqual(len(list((self.path("out") / "trace").iterdir())), 2)

    def test_operation_by_operation_nothing_is_traced(self):
        self.train("--check", run__steps=2, trace__steps="1-2")
        self.assertEqual([line["compute_ms"] for line in self.metrics()], [None, None])
        self.assertFalse((self.path("out") / "trace").exists())


class Examples(FaultTest):

    def example(self, name):
        result = self.run_program("train", INPUTS / name, "--set", f"run.steps={STEPS}", "--set",
                                  f"trace.steps=1-{STEPS}", "--set", f"run.output={self.path(name)}", ranks=2,
                                  environment={"OCTACHORON_COMM_DELAY_US": "20000"})  # yapf: disable
        self.assertEqual(result.status, DONE, str(result))
        self.assertIn("verified: free of races and deadlocks", result.out)
        self.assertEqual(len(re.findall(r"^step \d, means over ranks: ", result.out, re.M)), STEPS, str(result))
        traces = [json.loads((self.path(name) / f"trace/step-{n + 1}.json").read_text()) for n in range(STEPS)]
        gathers = [[event["args"] for event in trace["traceEvents"] if event.get("cat") == "communication"]
                   for trace in traces]  # yapf: disable
        self.assertEqual([len(of_step) for of_step in gathers], [2] * STEPS)
        return [trace["otherData"]["mean"]["overlap_ms"] for trace in traces], sum(gathers, [])

    def test_the_three_are_told_apart(self):
        reasons = {
            "overlap-wait-at-once.ini": "'second_linear' behind it would be independent: the wait is too early",
            "overlap-dependent.ini": "'second_linear' needs it and is next; nothing behind it in its segment is independent",
            "overlap-independent.ini": None,
        }
        for name, reason in reasons.items():
            overlaps, gathers = self.example(name)
            if reason is None:
                self.assertGreater(max(overlaps), 2)  # at best: other work on the machine takes its share
                self.assertNotIn("consumer follows at once", [gather["reason"] for gather in gathers])
                continue
            self.assertEqual(overlaps, [0] * STEPS)
            for gather in gathers:
                if gather["reason"] != "late peer":  # on a busy machine that may cost more
                    self.assertIn(reason, gather["why"])

    def test_operation_by_operation_is_refused(self):
        result = self.run_program("train", INPUTS / "overlap-dependent.ini", "--check", "--set",
                                  f"run.output={self.path('out')}", ranks=2)  # yapf: disable
        self.assert_refused(result, USAGE, "--check has no meaning for example.pattern")
        self.assert_absent()

    def test_a_grid_that_does_not_fit_is_refused(self):
        result = self.run_program("train", INPUTS / "overlap-dependent.ini", "--set", "grid.tp=1", "--set", "grid.dp=2",
                                  "--set", "batch.global=2", ranks=2)  # yapf: disable
        self.assert_refused(result, USAGE, "example.pattern needs a grid of tp alone")


if __name__ == "__main__":
    unittest.main()

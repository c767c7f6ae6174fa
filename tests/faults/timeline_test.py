"""Where a step's time went, as a user sees it: lines, metrics, traces, and the examples of inputs/."""
import re
import subprocess
import sys
import unittest

from harness import ROOT, FaultTest

SPLIT = ("compute_ms", "comm_ms", "overlap_ms", "exposed_ms", "idle_ms", "stall_ms")


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


if __name__ == "__main__":
    unittest.main()

"""What `plan` says of the memory of a rank is what its process takes, with everything that libraries bring."""
import json
import re
import unittest

from harness import DONE, FaultTest

TOLERANCE = 0.05
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MODEL = {"model__layers": 8, "model__hidden": 640, "model__heads": 10, "model__sequence": 128, "model__vocab": 20480,
         "batch__global": 4, "batch__micro": 2, "run__steps": 2, "checkpoint__every": 1}  # yapf: disable


class Memory(FaultTest):

    def assert_planned(self, ranks, **grid):
        changes = {**MODEL, **grid}
        file = self.path("plan.json")
        plan = self.run_program("plan", self.parameters(**changes), "--ranks", ranks, "--json", file)
        self.assertEqual(plan.status, DONE, plan)
        planned = json.loads(file.read_text())
        self.assertGreaterEqual(planned["parameters"], 50e6)
        result = self.train(ranks=ranks, limit=500, **changes)
        self.assertTrue(self.checkpoint(2).exists(), "a save is part of the peak")
        value, unit = re.search(r"memory of a rank, measured: ([\d.]+) (\w+)", result.out).groups()
        measured = float(value) * UNITS[unit]
        print(f"{ranks} ranks {grid}: planned {planned['process_bytes'] / 2**20:.1f} MiB (libraries "
              f"{planned['libraries_bytes'] / 2**20:.1f}), measured {measured / 2**20:.1f} MiB")
        print(re.search(r"  process .*", result.out).group())
        self.assertLess(abs(planned["process_bytes"] / measured - 1), TOLERANCE)

    def test_one_rank(self):
        self.assert_planned(1)

    def test_two_ranks_of_dp(self):
        self.assert_planned(2, grid__dp=2)

    def test_two_ranks_of_tp(self):
        self.assert_planned(2, grid__tp=2)


if __name__ == "__main__":
    unittest.main()

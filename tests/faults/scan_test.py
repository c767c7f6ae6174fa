"""scan as a user meets it: refused before anything runs, or an answer whose numbers add up."""
import json
import unittest

from harness import DATA, DONE, ENVIRONMENT, USAGE, FaultTest


class ScanTest(FaultTest):

    def scan(self, axis, degrees, *options, ranks=2, **changes):
        return self.run_program("scan", self.parameters(**changes), "--axis", axis, "--degrees", degrees,
                                "--json", self.path("result"), *options, ranks=ranks)

    def refuse(self, status, axis, degrees, *parts, **more):
        self.assert_refused(self.scan(axis, degrees, **more), status, *parts)
        self.assert_absent()
        self.assert_absent("result")


class Refused(ScanTest):

    def test_refusals(self):
        self.refuse(USAGE, "tq", "1,2", "--axis tq", "did you mean tp?")
        self.refuse(USAGE, "tp", "2,1", "--degrees 2,1", "ascend")
        self.refuse(USAGE, "tp", "1", "--degrees 1", "nothing to be held against")
        self.refuse(USAGE, "tp", "1,x", "--degrees 1,x", "whole number")
        self.refuse(USAGE, "tp", "1,4", "tp = 4", "needs 4 ranks", "the launch has 2")
        self.refuse(USAGE, "tp", "1,2", "needs 4 ranks", grid__dp=2)
        self.refuse(USAGE, "tp", "1,3", "tp = 3", ranks=3)  # heads are 4
        self.refuse(USAGE, "dp", "1,2", "dp = 2", batch__global=2)  # of micro-batches of 2
        self.refuse(ENVIRONMENT, "tp", "1,2", "nonsense", backend__precision="nonsense")
        self.refuse(DATA, "tp", "1,2", "no.txt", data__train=self.path("no.txt"))

    def test_an_axis_of_a_later_version(self):
        for axis in ("cp", "pp"):
            self.refuse(USAGE, axis, "1,2", f"--axis {axis} is not available in this version")


class Scan(ScanTest):

    def check_sums(self, degree):
        sums = degree["accounting"]
        self.assertAlmostEqual(degree["step_ms"], sums["compute_ms"] + sums["comm_ms"] - sums["overlap_ms"]
                               + sums["idle_ms"])
        self.assertAlmostEqual(degree["step_ms"], degree["gemm_ms"] + degree["other_compute_ms"] + sums["exposed_ms"]
                               + degree["skew_ms"] + degree["host_ms"])
        for term in ("gemm_ms", "other_compute_ms", "skew_ms"):
            self.assertGreaterEqual(degree[term], 0)
        self.assertEqual(len(degree["steps_ms"]), 15)
        self.assertIn(degree["step_ms"], degree["steps_ms"])
        self.assertTrue(all(row["hidden_ms"] <= row["time_ms"] for row in degree["collectives"]))

    def test_tensor_parallel_degrees_on_four_ranks(self):
        result = self.scan("tp", "1,2,4", "--set", "grid.tp=4", ranks=4)
        self.assertEqual(result.status, DONE, str(result))
        self.assert_absent()
        found = json.loads(self.path("result").read_text())
        degrees = found["degrees"]
        self.assertEqual([degree["ranks"] for degree in degrees], [1, 2, 4])
        for degree in degrees:
            self.check_sums(degree)
        self.assertEqual(degrees[0]["collectives"], [])
        self.assertEqual({row["axes"] for row in degrees[2]["collectives"]}, {"tp"})
        widths = [[row["n"] for row in degree["gemms"] if row["product"].endswith("fc1.fprop")] for degree in degrees]
        self.assertEqual(widths, [[128], [64], [32]])  # 4 x hidden, split
        # 6 x weights of matrices x tokens, split: 2 layers of 12 x 32 x 32, a head of 256 x 32; 8 x 16 tokens
        for degree in degrees:
            self.assertEqual(degree["gemm_flops"] * degree["ranks"], 6 * (2 * 12 * 32 * 32 + 256 * 32) * 8 * 16)
        self.assertIn(found["verdict"]["degree"], [1, 2, 4])
        self.assertIn(found["verdict"]["answer"], result.out)
        self.assertIn(found["verdict"]["why"], result.out)

    def test_longer_transfers_are_the_reason(self):
        result = self.run_program("scan", self.parameters(), "--axis", "tp", "--degrees", "1,2", "--json",
                                  self.path("result"), ranks=2, environment={"OCTACHORON_COMM_DELAY_US": "5000"})
        self.assertEqual(result.status, DONE, str(result))
        verdict = json.loads(self.path("result").read_text())["verdict"]
        self.assertEqual((verdict["degree"], verdict["next"]), (1, 2))
        self.assertEqual(verdict["reason"], "communication is exposed")
        self.assertIn("over tp", verdict["why"])

    def test_data_parallel_degrees(self):
        result = self.scan("dp", "1,2", ranks=3)
        self.assertEqual(result.status, DONE, str(result))
        one, two = json.loads(self.path("result").read_text())["degrees"]
        self.assertEqual(one["gemm_flops"], 2 * two["gemm_flops"])
        self.assertEqual({row["axes"] for row in two["collectives"]}, {"dp"})
        self.check_sums(two)


if __name__ == "__main__":
    unittest.main()

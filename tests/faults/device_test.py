"""A device that this machine does not have: status 3 and the reason, once, before any file is made. Runs with and
without a GPU, for no GPU is visible to it."""
import os
import pathlib
import unittest

from harness import DONE, ENVIRONMENT, PROGRAM, FaultTest

PLUGINS = pathlib.Path(PROGRAM).resolve().parents[1] / "lib/octachoron"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
CUDA = {"backend__device": "cuda", "backend__comm": "mpi"}


@unittest.skipUnless(os.path.exists(PLUGINS / "device-cuda.so"), "device cuda was not built")
class NoGpu(FaultTest):

    def assert_no_gpu(self, result):
        self.assert_refused(result, ENVIRONMENT, "device plugin 'cuda'", "no NVIDIA GPU can be used",
                            "CUDA_VISIBLE_DEVICES")

    def test_train(self):
        for ranks in (1, 2):
            file = self.parameters(grid__dp=ranks, **CUDA)
            self.assert_no_gpu(self.run_program("train", file, ranks=ranks, environment=HIDDEN))
            self.assert_absent()

    def test_compare(self):
        result = self.run_program("compare", self.parameters(), "--variant", "one", "--variant",
                                  "two;backend.device=cuda;backend.comm=mpi", ranks=1, environment=HIDDEN)
        self.assert_no_gpu(result)
        self.assert_absent()

    def test_evaluate(self):
        self.train(run__steps=0)
        result = self.run_program("evaluate", self.checkpoint(0), "--data", self.path("train.txt"), "--set",
                                  "backend.device=cuda", ranks=1, environment=HIDDEN)
        self.assert_no_gpu(result)

    def test_a_plan_needs_none(self):
        result = self.run_program("plan", self.parameters(**CUDA), environment=HIDDEN)
        self.assertEqual(result.status, DONE, str(result))
        self.assertIn("memory of a rank", result.out)

    def test_doctor_says_why(self):
        result = self.run_program("doctor", environment=HIDDEN)
        self.assertEqual(result.status, DONE, str(result))
        self.assertRegex(result.out, r"device +cuda +not usable: .*no NVIDIA GPU can be used \(.+\)")
        self.assertNotIn("run 'octachoron doctor'", result.out)


if __name__ == "__main__":
    unittest.main()

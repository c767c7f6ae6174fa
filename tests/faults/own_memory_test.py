"""A device whose memory the host cannot touch: the fixture hidden-cpu, which computes as cpu does, bit by bit.

It stands for GPUs where there is none: state goes through copies of the host, and whoever reads an address of the device
directly crashes.
"""
import math
import os
import unittest

from harness import DIVERGED, ENVIRONMENT, PEER_FAILED, ROOT, USAGE, FaultTest

HIDDEN = os.environ.get("HIDDEN_DEVICE", str(ROOT / "build/tests/plugins/device-hidden-cpu.so"))
PRECISION = "fp8-delayed"


class OwnMemory(FaultTest):

    def both(self, ranks=1, **changes):
        """The same run on both devices: losses, metrics of the cast counters, state and gradients agree bit by bit."""
        for output, device in (("cpu", "cpu"), ("hidden", HIDDEN)):
            self.train(ranks=ranks, run__output=self.path(output), backend__device=device, backend__comm="mpi", **changes)
        self.assert_same(self.checkpoint(changes["run__steps"], "cpu"), self.checkpoint(changes["run__steps"], "hidden"))
        self.assertEqual(self.losses("cpu"), self.losses("hidden"))

    def test_one_rank(self):
        self.both(run__steps=4, backend__precision=PRECISION, trace__gradients="2", model__hidden=32, model__heads=2)
        self.assert_same(self.path("cpu") / "gradients/step-00000002.h5", self.path("hidden") / "gradients/step-00000002.h5")

    def test_graphs_change_no_bit(self):
        for output, graphs in (("on", "on"), ("off", "off")):
            self.train(run__output=self.path(output), run__steps=4, backend__device=HIDDEN, batch__micro=2,
                       data__validation=self.path("train.txt"), data__validate_every=2, engine__graphs=graphs)
        self.assert_same(self.checkpoint(4, "on"), self.checkpoint(4, "off"))

    def test_a_device_that_dies_ends_the_run(self):
        for at, graphs in ((700, "on"), (700, "off"), (20, "on")):
            result = self.train(expect=PEER_FAILED, limit=20, run__steps=100, backend__device=HIDDEN, engine__graphs=graphs,
                                environment={"OCTACHORON_HIDDEN_FAILS_AT": str(at)}, run__output=self.path(f"{at}-{graphs}"))
            self.assertIn("device 'hidden-cpu' of rank 0 failed (the planted fault)", result.err)

    def test_shards(self):
        self.both(ranks=4, run__steps=3, grid__dp=2, grid__tp=2)

    def test_restart_on_the_other_device(self):
        whole = self.path("whole")
        self.train(run__output=whole, run__steps=6, optimizer__decay_steps=6)
        for steps, device in ((2, HIDDEN), (4, "cpu"), (6, HIDDEN)):
            self.train(run__steps=steps, backend__device=device, optimizer__decay_steps=6)
        self.assert_same(self.checkpoint(6, "whole"), self.checkpoint(6))

    def test_a_step_that_is_not_finite_names_its_origin(self):
        result = self.train(expect=DIVERGED, run__steps=8, backend__device=HIDDEN, optimizer__learning_rate="1e30")
        self.assertRegex(result.err, r"wrote it to '|wrote")
        self.assertFalse(math.isnan(self.losses()[0]))

    def test_check_and_compare(self):
        self.assertIn("step", self.train("--check", run__steps=1, backend__device=HIDDEN).out)
        result = self.run_program("compare", self.parameters(run__steps=2), "--variant", "here;backend.device=cpu",
                                  "--variant", f"apart;backend.device={HIDDEN}")
        self.assertEqual(result.status, 0, result)
        self.assertIn("loss and gradients are equal", result.out)


class Gpu(FaultTest):
    """What is said of the devices and networks of GPUs where there are none."""

    def test_no_gpu(self):
        doctor = [line for line in self.run_program("doctor").out.splitlines() if line.split()[:2] == ["device", "cuda"]]
        if any("not usable" not in line for line in doctor):
            self.skipTest("there is a GPU")
        result = self.train(expect=ENVIRONMENT, backend__device="cuda", backend__comm="mpi")
        self.assert_refused(result, ENVIRONMENT, "cuda", "GPU" if doctor else "there is no device plugin")

    def test_a_network_of_another_device(self):
        result = self.run_program("train", self.parameters(backend__comm="nccl"))
        self.assertIn(result.status, (USAGE, ENVIRONMENT), result)
        self.assertIn("nccl", result.err)


if __name__ == "__main__":
    unittest.main()

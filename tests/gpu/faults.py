#!/usr/bin/env python3
"""Faults of the field on a GPU, through the built program, with the harness of tests/faults.

    tests/gpu/faults.py [CLASS or CLASS.test of this file]...

Tests of tests/faults that do not name a device run again on this one; those below need it. OCTACHORON names the
program. With OCTACHORON_DEVICE=cpu the script itself is tried, without what only a GPU does.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/faults"))
import harness  # noqa: E402
from harness import ENVIRONMENT, FaultTest  # noqa: E402

DEVICE = os.environ.get("OCTACHORON_DEVICE", "cuda")

# Written for the CPU, and about what a device can get wrong: steps that are not finite, bits of repeated runs, rates,
# the accounting of time, and peers that die while others wait for them.
ALSO_HERE = (
    "device_test.NoGpu",
    "divergence_test.Divergence.test_given_up",
    "divergence_test.Divergence.test_skipped_steps_change_nothing",
    "divergence_test.Divergence.test_skipped_steps_do_not_age_the_optimiser",
    "divergence_test.Divergence.test_weights_that_overflow",
    "divergence_test.Divergence.test_check_is_the_same_run",
    "divergence_test.Zeros",
    "precision_test.Precision.test_resume_is_bitwise",
    "precision_test.Precision.test_all_zero",
    "timeline_test.Timeline",
    "kills_test.Killed.test_at_the_start",
)
SHARING = re.compile(r"ranks share a GPU \(ranks 0, 1 have \S+ of \S+, .+\); start one rank for each GPU")


def count_gpus():
    if DEVICE == "cpu" or not shutil.which("nvidia-smi"):
        return 1
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return max(1, listed.count("GPU "))


GPUS = count_gpus()


def comms(ranks):
    """What two ranks here can communicate with; NCCL needs a GPU for each."""
    return ("mpi", "nccl") if DEVICE == "cuda" and ranks <= GPUS else ("mpi",)


def own_gpus(ranks):
    """The environment in which each rank has its own GPU, where there are enough."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(min(ranks, GPUS))))}


def train_with_choices(self, *options, **changes):
    """Equal bits need equal algorithms, and a device measures anew for each output: what it has chosen once in a test
    holds for all runs of it."""
    output, kept = pathlib.Path(changes.get("run__output") or self.path("out")), self.path("choices")
    if kept.exists():
        shutil.copytree(kept, output, dirs_exist_ok=True)
    result = train_as_written(self, *options, **changes)
    for file in output.glob("tuning*.json"):
        kept.mkdir(exist_ok=True)
        shutil.copy(file, kept)
    return result


train_as_written, FaultTest.train = FaultTest.train, train_with_choices


class GpuTest(FaultTest):

    def train(self, *options, **changes):
        """Ranks on GPUs of their own, as far as there are enough."""
        environment = {**own_gpus(changes.get("ranks", 1)), **(changes.pop("environment", None) or {})}
        return super().train(*options, environment=environment, **changes)


@unittest.skipIf(DEVICE == "cpu", "needs a GPU")
class Machine(GpuTest):

    def test_one_rank_without_a_gpu(self):
        result = self.run_with_rank_in(1, "export CUDA_VISIBLE_DEVICES=")
        self.assert_refused(result, ENVIRONMENT, "no NVIDIA GPU can be used")
        self.assert_absent()

    def test_more_than_the_memory(self):
        """Planned before it is allocated: 41 billion weights with masters and moments are 600 GiB at least."""
        file = self.parameters(model__hidden=16384, model__layers=12, model__heads=128, model__sequence=64)
        result = self.run_program("train", file, ranks=1)
        self.assert_refused(result, ENVIRONMENT, "GiB of device memory", "lower batch.micro")
        self.assert_absent()

    def test_ranks_that_share_a_gpu(self):  # H06
        self.train(run__output=self.path("one"))
        result = self.train(ranks=2, grid__dp=2, environment={"CUDA_VISIBLE_DEVICES": "0"})
        self.assertEqual(len(SHARING.findall(result.err)), 1, str(result))
        self.assertRegex(result.out, r"node \S+: rank 0 has GPU (\S+), rank 1 has GPU \1\n")
        for one, two in zip(self.losses("one"), self.losses()):
            self.assertAlmostEqual(two / one, 1, delta=1e-5)

    def test_nccl_on_a_shared_gpu(self):
        result = self.run_with_rank_in(0, ":", backend__comm="nccl")
        self.assertEqual(result.status, ENVIRONMENT, str(result))
        self.assertIn("use one GPU", result.err)
        self.assertIn("backend.comm = mpi", result.err)

    def test_misleading_local_ranks(self):  # H06
        if GPUS < 2:
            self.skipTest("needs two GPUs")
        slurm = {"SLURM_LOCALID": "7", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}
        for comm in comms(2):
            result = self.train(ranks=2, environment=slurm, run__output=self.path(comm), grid__dp=2, backend__comm=comm)
            self.assertNotIn("share a GPU", result.err)
            first, second = re.search(r"rank 0 has GPU (\S+), rank 1 has GPU (\S+)\n", result.out).groups()
            self.assertNotEqual(first, second)

    def test_utilisation_is_of_the_dense_peak(self):  # J01
        result = self.run_program("doctor")
        if not re.search("NVIDIA H[12]00", result.out):
            self.skipTest("peaks of this GPU are not known")
        for precision, peak in (("fp32", 67), ("bf16", 989), ("fp8-delayed", 1979)):
            self.train(run__steps=2, run__output=self.path(precision), backend__precision=precision)
            for line in self.metrics(precision):
                self.assertEqual(line["peak_tflops"], peak, precision)
                self.assertAlmostEqual(line["mfu"] * peak / line["model_tflops_per_device"], 1, 9)


class Reductions(GpuTest):
    """E08, I03: a reduction waits for the kernels that write what it sends. Executed operation by operation, which
    waits for everything, a step has the same bits, with kernels that take far longer than to start a reduction."""

    COMMON = {"model__layers": 2, "run__steps": 3, "optimizer__learning_rate": "1e-3"}
    SLOW = {"model__hidden": 768, "model__heads": 12, "model__sequence": 256, "batch__global": 32, "batch__micro": 8,
            "parallel__bucket": "0.5", **COMMON}  # yapf: disable
    QUICK = {"model__hidden": 64, "model__sequence": 32, "parallel__bucket": "0.01", **COMMON}

    def assert_same_bits(self, axis):
        size = self.SLOW if DEVICE == "cuda" else self.QUICK
        for comm in comms(2):
            for name, options, changes in (("checked", ["--check"], {}), ("overlapped", [], {}),
                                           ("sequential", [], {"parallel__overlap": "off"}),
                                           ("ungraphed", [], {"engine__graphs": "off"})):
                name = f"{comm}-{name}"
                self.train(*options, ranks=2, run__output=self.path(name), backend__comm=comm, **{f"grid__{axis}": 2},
                           **size, **changes)
                # Two parts have one sum in whatever order, so networks agree too.
                self.assert_same(self.checkpoint(3, "mpi-checked"), self.checkpoint(3, name))
                self.assertEqual(self.losses("mpi-checked"), self.losses(name))

    def test_over_data_parallel_ranks(self):
        self.assert_same_bits("dp")

    def test_over_tensor_parallel_ranks(self):
        self.assert_same_bits("tp")


class Communication(GpuTest):

    def test_many_collectives_in_flight(self):  # I01, I02
        """Gradients, weights, activations, amaxes and norms, hundreds of times, twice, with the same bits."""
        for ranks, grid in ((2, {"grid__dp": 2}), (2, {"grid__tp": 2}), (4, {"grid__dp": 2, "grid__tp": 2})):
            for comm in comms(ranks):
                names = [f"{ranks}-{next(iter(grid))}-{comm}-{again}" for again in range(2)]
                for name in names:
                    self.train(ranks=ranks, run__steps=200, run__log_every=100, run__output=self.path(name),
                               backend__precision="fp8-delayed", backend__comm=comm, parallel__bucket="0.004", **grid)
                self.assert_same(*(self.checkpoint(200, name) for name in names))

    def test_messages_of_any_size(self):  # I04
        """Activations of 4 KiB, 64 KiB and 1 MiB."""
        for comm in comms(2):
            for micro in (2, 32, 512):
                name = f"{comm}-{micro}"
                self.train(ranks=2, run__steps=2, run__output=self.path(name), grid__tp=2, backend__comm=comm,
                           batch__micro=micro, batch__global=2 * micro)
                self.assertEqual(len(self.losses(name)), 2)


def suite(loader, words):
    here = sys.modules[__name__]
    if words:
        return unittest.TestSuite(loader.loadTestsFromName(word, here) for word in words)
    tests = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (Machine, Reductions, Communication))
    tests.addTests(loader.loadTestsFromName(name) for name in ALSO_HERE)
    return tests


def main(words):
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # for what was written for any number of ranks: they share it
    harness.TINY.update({"backend.device": DEVICE, "backend.comm": "mpi"})
    harness.IGNORED = re.compile("ranks share a GPU")
    tests = suite(unittest.defaultTestLoader, words)
    return 0 if unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

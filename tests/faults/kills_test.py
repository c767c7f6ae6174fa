"""A rank that is killed (F01, F02, K08), at points all over a run: no hang, and the run goes on from its last complete
checkpoint, naming what it passes over. A rank that fails alone ends all (A27's way out)."""
import os
import signal
import time
import unittest

from harness import DATA, ENVIRONMENT, INTERNAL, FaultTest, processes

KILLED = (128 + signal.SIGKILL, signal.SIGKILL)  # Open MPI's mpirun; MPICH's
# 1.2 million weights: a file of 14 MB, so that a kill finds a save under way.
LARGE = {"model__hidden": 128, "model__layers": 6, "model__sequence": 8, "batch__global": 4, "batch__micro": 1,
         "grid__dp": 2}  # yapf: disable


class Killed(FaultTest):

    def kill_when(self, condition, rank, **changes):
        launch = self.start_training(ranks=2, run__steps=1_000_000, optimizer__decay_steps=100, **changes)
        self.wait_until(lambda: condition(launch), launch, "the moment to kill")
        launch.signal_rank(rank, signal.SIGKILL)
        result = launch.wait(30)
        self.assertIn(result.status, KILLED, str(result))
        self.assertEqual(launch.ranks(), {})

    def resume(self, **changes):
        """Two steps more; the same as a run that nobody killed, from the same weights."""
        complete = [name for name in self.checkpoints() if name.endswith(".h5")]
        for name in complete:
            self.assert_sound(self.path("out") / "checkpoints" / name)
        leftovers = [name for name in self.checkpoints() if name.endswith(".tmp")]
        step = int(complete[-1][5:13]) if complete else 0
        common = {"optimizer__decay_steps": 100, "run__steps": step + 2, **changes}
        result = self.train(ranks=2, **common)
        for name in leftovers:
            self.assertRegex(result.out, f"{name}.*not used")
        self.assertIn(f"after step {step}" if complete else "starts from seed", result.out)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, step + 3)))
        behind = [name for name in self.checkpoints() if name.endswith(".tmp") and int(name[5:13]) <= step + 2]
        self.assertEqual(behind, [])
        return step

    def test_between_saves(self):
        for rank, lines in ((1, 2), (0, 7)):
            with self.subTest(rank=rank):
                changes = {"grid__dp": 2, "checkpoint__every": 5}
                self.kill_when(lambda _: self.lines_of_metrics() >= lines, rank, **changes)
                step = self.resume(**changes)
                self.assertEqual(step % 5, 0)
                self.train(ranks=2, run__output=self.path("whole"), run__steps=step + 2, grid__dp=2,
                           optimizer__decay_steps=100)
                self.assert_same(self.checkpoint(step + 2), self.checkpoint(step + 2, "whole"))
                self.tearDown()
                self.setUp()

    def test_at_the_start(self):
        """As soon as the first line is out. Before MPI_Init it is Open MPI's own mpirun that may hang, not its ranks."""
        for rank in (0, 1):
            self.kill_when(lambda launch: os.fstat(launch.out.fileno()).st_size > 0, rank, grid__dp=2)
            self.assertEqual(self.resume(grid__dp=2) % 2, 0)

    def test_the_launcher(self):
        """Without mpirun the ranks end too, and the run can be resumed."""
        changes = {"grid__dp": 2, "checkpoint__every": 5}
        launch = self.start_training(ranks=2, run__steps=1_000_000, optimizer__decay_steps=100, **changes)
        self.wait_until(lambda: self.lines_of_metrics() >= 7, launch, "seven steps")
        ranks = set(launch.ranks().values())
        launch.process.kill()
        launch.process.wait()
        end = time.monotonic() + 30
        while ranks & processes().keys():
            self.assertLess(time.monotonic(), end, "a rank outlives its launcher")
            time.sleep(0.05)
        self.assertGreaterEqual(self.resume(**changes), 5)

    def kill_within_a_save(self, at, rank, keep):
        """Kills when the temporary file of the second save or a later one is `at` of its final size."""
        changes = {**LARGE, "checkpoint__every": 1, "checkpoint__keep": keep}

        def saving(_):
            files = self.checkpoints()
            complete = [name for name in files if name.endswith(".h5")]
            if not complete or not files[-1].endswith(".tmp"):
                return False
            folder = self.path("out") / "checkpoints"
            try:
                whole = (folder / complete[0]).stat().st_size
                return (folder / files[-1]).stat().st_blocks * 512 >= at * whole
            except FileNotFoundError:
                return False

        self.kill_when(saving, rank, **changes)
        self.assertNotEqual([name for name in self.checkpoints() if name.endswith(".h5")], [])
        self.assertLessEqual(len(self.checkpoints()), keep + 1)
        self.resume(**changes)

    def test_within_a_save(self):
        for at, rank, keep in ((0.0, 1, 1), (0.5, 0, 2), (0.99, 1, 1)):
            with self.subTest(at=at, rank=rank):
                self.kill_within_a_save(at, rank, keep)
                self.tearDown()
                self.setUp()

    def test_leftovers_are_refused_by_name_and_replaced(self):
        self.train(run__steps=3)
        leftover = self.path("out") / "checkpoints" / "step-00000005.h5.tmp"
        leftover.write_bytes(self.checkpoint(3).read_bytes()[:20000])
        result = self.train(run__steps=5, run__resume=leftover, expect=DATA)
        self.assert_refused(result, DATA, leftover)
        result = self.train(run__steps=5)
        self.assertRegex(result.out, "step-00000005.h5.tmp.*not used")
        self.assertIn("after step 3", result.out)
        self.assertEqual(self.checkpoints(), ["step-00000003.h5", "step-00000005.h5"])


class Alone(FaultTest):
    """What one rank alone cannot do ends all ranks, with its reason, and does not hang the others."""

    def test_memory(self):
        # 3 GB of address space do for everything but an arena of 200 million weights.
        result = self.run_with_rank_in(1, "ulimit -v 3000000", model__hidden=1024, model__layers=16, model__sequence=4)
        self.assertIn(result.status, (INTERNAL, ENVIRONMENT), str(result))
        self.assertEqual(len(result.errors), 1, str(result))
        self.assertRegex(result.errors[0], "memory|alloc")

    def test_file_size(self):
        result = self.run_with_rank_in(1, "ulimit -f 8000", run__steps=3, checkpoint__every=2, **LARGE)
        self.assertEqual(result.status, DATA, str(result))
        for line, step in zip(result.errors, (2, 3), strict=True):
            self.assertRegex(line, f"step-{step:08d}.h5' was not saved .*rank 1.*; ")
        self.assertEqual(self.checkpoints(), [])


if __name__ == "__main__":
    unittest.main()

"""A stop that is asked for, by signal or clock (H07): one complete checkpoint, status 75, and nothing is lost."""
import os
import signal
import time
import unittest

from harness import DONE, STOPPED, FaultTest

ENDLESS = 1_000_000


class Stop(FaultTest):

    def stopped(self, launch, limit=60):
        """Waits for the end; the step of the one checkpoint that must be there."""
        result = launch.wait(limit)
        self.assertEqual(result.status, STOPPED, str(result))
        self.assertEqual(launch.ranks(), {})
        files = self.checkpoints()
        self.assertEqual(len(files), 1, f"{files}\n{result}")
        step = int(files[0][5:13])
        self.assert_sound(self.checkpoint(step))
        self.assertEqual(self.metrics()[-1]["step"], step)
        return step, result

    def continues(self, step, ranks, **changes):
        """The stopped run, continued, equals a run that nobody stopped."""
        end = {"run__steps": step + 2, "optimizer__decay_steps": 100, **changes}
        self.train(ranks=ranks, **end)
        self.train(ranks=ranks, **{**end, "run__output": self.path("whole"), "checkpoint__every": 0})
        self.assert_same(self.checkpoint(step + 2), self.checkpoint(step + 2, "whole"))
        self.assertEqual(self.losses(), self.losses("whole"))

    def test_one_rank_during_steps(self):
        grid = {"grid__dp": 2, "grid__tp": 2}
        for number, rank in ((signal.SIGUSR1, 3), (signal.SIGTERM, 0), (signal.SIGUSR2, 1), (signal.SIGINT, 2)):
            with self.subTest(signal=number.name):
                launch = self.start_training(ranks=4, run__steps=ENDLESS, optimizer__decay_steps=100,
                                             run__output=self.path("out"), **grid)
                self.wait_until(lambda: self.lines_of_metrics() >= 3, launch, "three steps")
                launch.signal_rank(rank, number)
                step, _ = self.stopped(launch)
                if number == signal.SIGUSR1:
                    self.continues(step, 4, **grid)
                self.tearDown()
                self.setUp()

    def test_during_validation(self):
        self.text_file("validation.txt", 400_000)
        changes = {"data__validation": self.path("validation.txt"), "data__validate_every": 2,
                   "data__validate_batches": 0, "grid__dp": 2}  # yapf: disable
        launch = self.start_training(ranks=2, run__steps=ENDLESS, **changes)
        self.wait_until(lambda: self.lines_of_metrics() >= 1, launch, "one step")
        time.sleep(0.2)  # step 2 takes a few ms, its validation seconds; its line follows
        launch.signal_rank(1, signal.SIGTERM)
        step, _ = self.stopped(launch, 20)
        last = self.metrics()[-1]
        self.assertEqual((step, last["step"]), (2, 2))
        self.assertNotIn("validation_loss", last)

    def test_during_a_save(self):
        grid = {"grid__dp": 2, "grid__tp": 2}
        launch = self.start_training(ranks=4, run__steps=ENDLESS, checkpoint__every=1, checkpoint__keep=1,
                                     optimizer__decay_steps=100, **grid)
        self.wait_until(lambda: any(name.endswith(".tmp") for name in self.checkpoints()), launch, "a save")
        launch.signal_rank(2, signal.SIGUSR1)
        step, _ = self.stopped(launch)
        self.continues(step, 4, **grid)

    def test_signal_to_the_launcher(self):
        launch = self.start_training(ranks=2, run__steps=ENDLESS, grid__dp=2)
        self.wait_until(lambda: self.lines_of_metrics() >= 1, launch, "one step")
        launch.process.send_signal(signal.SIGUSR1)
        self.stopped(launch)

    def test_before_the_first_step(self):
        launch = self.start_training(ranks=2, run__steps=ENDLESS, grid__dp=2)
        self.wait_until(lambda: len(launch.ranks()) == 2, launch, "two ranks")
        # A process that is not yet in main() cannot catch a signal: wait for its handler.
        caught = lambda: all(
            int(line.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1 for pid in launch.ranks().values()
            for line in open(f"/proc/{pid}/status", encoding="ascii") if line.startswith("SigCgt"))
        self.wait_until(caught, launch, "handlers")
        launch.signal_rank(0, signal.SIGUSR1)
        step, _ = self.stopped(launch)
        self.assertLessEqual(step, 2)

    def test_wall_limit(self):
        begin = time.monotonic()
        launch = self.start_training(ranks=2, run__steps=ENDLESS, run__wall_limit="00:00:04", grid__dp=2)
        self.stopped(launch)
        self.assertLess(time.monotonic() - begin, 15)

    def test_wall_limit_during_validation(self):
        self.text_file("validation.txt", 4_000_000)
        begin = time.monotonic()
        launch = self.start_training(ranks=2, run__steps=ENDLESS, run__wall_limit="00:00:03", grid__dp=2,
                                     data__validation=self.path("validation.txt"), data__validate_every=1,
                                     data__validate_batches=0)
        self.assertEqual(self.stopped(launch)[0], 1)
        self.assertLess(time.monotonic() - begin, 15)

    def test_slurm_end_time(self):
        launch = self.start("train", self.parameters(run__steps=ENDLESS, grid__dp=2), ranks=2,
                            environment={"SLURM_JOB_END_TIME": str(int(time.time()) + 4)})
        self.stopped(launch)

    def test_a_stop_after_the_last_step_is_no_stop(self):
        """Steps of some 0.1 s, so that the signal finds the last of them under way."""
        launch = self.start_training(ranks=1, run__steps=2, batch__global=512, batch__micro=8)
        self.wait_until(lambda: self.lines_of_metrics() >= 1, launch, "one step")
        launch.signal_rank(0, signal.SIGUSR1)
        result = launch.wait()
        self.assertIn(result.status, (DONE, STOPPED), str(result))
        step = self.metrics()[-1]["step"]
        self.assertEqual(result.status, DONE if step == 2 else STOPPED)


if __name__ == "__main__":
    unittest.main()

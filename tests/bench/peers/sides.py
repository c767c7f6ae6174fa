"""The two sides: each trains warmup + steps steps from the start and says how long the last ones took."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from report import Block

TOO_LONG_S = 240  # for one block, or for compiling


def fail(problem, log=None):
    """Ends the run, with the last lines of a log."""
    if log and log.exists():
        print("".join(log.open(errors="replace").readlines()[-15:]), file=sys.stderr)
    sys.exit(f"run.py: {problem}")


class Ours:
    """`octachoron train`, started for each block and killed after its steps: a run that ends by itself saves."""

    name = "ours"

    def __init__(self, program, file, settings, folder):
        self.program, self.file, self.output, self.log = program, file, folder / "ours", folder / "ours.log"
        self.settings = [word for each in [*settings, f"run.output={self.output}"] for word in ("--set", each)]
        shutil.rmtree(self.output, ignore_errors=True)

    def arena_bytes(self):
        """By the dry run."""
        report = self.log.with_suffix(".json")
        made = subprocess.run([self.program, "plan", self.file, *self.settings, "--json", report], capture_output=True,
                              text=True, check=False)
        if made.returncode:
            fail(f"our program refuses: {made.stderr}")
        return json.loads(report.read_text())["arena_bytes"]

    def run(self, warmup, steps):
        # The file of choices stays from block to block, metrics do not.
        metrics = self.output / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        begin = time.time()
        with self.log.open("w") as log:
            process = subprocess.Popen([self.program, "train", self.file, *self.settings], stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            lines = []
            while len(lines) < warmup + steps:
                time.sleep(0.05)
                lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
                if process.poll() is not None:
                    fail(f"our program ended with {process.returncode}", self.log)
                if time.time() - begin > TOO_LONG_S:
                    fail(f"our program took more than {TOO_LONG_S} s", self.log)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        rows = [json.loads(line) for line in lines[:warmup + steps]]
        times = [row["time"] for row in rows]
        # From the end of a step to the end of the next, with all that lies between.
        return Block(step_ms=[(b - a) * 1e3 for a, b in zip(times[warmup - 1:], times[warmup:])],
                     losses=[row["loss"] for row in rows], begin=times[warmup - 1], end=times[-1],
                     first_step_s=times[0] - begin)

    def close(self):
        shutil.rmtree(self.output / "checkpoints", ignore_errors=True)


class Peer:
    """torch_gpt.py, one process for all blocks; `about` is what it says once it has compiled."""

    name = "theirs"

    def __init__(self, python, file, options, folder):
        self.log = folder / "peer.log"
        begin = time.time()
        with self.log.open("w") as log:
            self.process = subprocess.Popen([python, Path(__file__).with_name("torch_gpt.py"), file, *options],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.about = dict(self.answer(), ready_s=time.time() - begin)

    def answer(self):
        watchdog = threading.Timer(TOO_LONG_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            watchdog.cancel()
        return fail(f"PyTorch ended with {self.process.wait()}", self.log)

    def run(self, warmup, steps):
        self.process.stdin.write(f"run {warmup} {steps}\n")
        self.process.stdin.flush()
        return Block(**self.answer())

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

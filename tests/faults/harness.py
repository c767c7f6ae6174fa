"""What the fault tests share: a scratch folder, a tiny model, runs of the built program, its ranks, its files.

Program, launcher and the library of failing writes come from the environment, which CMakeLists.txt sets. Every run has
a time limit; a run that passes it is killed with all of its ranks and fails the test: a hang is never waited out.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("OCTACHORON", str(ROOT / "build/bin/octachoron"))
MPIRUN = os.environ.get("MPIRUN", str(ROOT / "tests/mpirun.sh"))
FAILING_WRITES = os.environ.get("FAILING_WRITES", str(ROOT / "build/tests/faults/liboctachoron_failing_writes.so"))
LIMIT_S = 60

DONE, INTERNAL, USAGE, ENVIRONMENT, DATA, DIVERGED, PEER_FAILED, STOPPED = 0, 1, 2, 3, 4, 5, 6, 75

# <problem> (<why>); <what to do>
GRAMMAR = re.compile(r"^octachoron: \S.* \(.+\); \S.*$")

# Lines on stderr that are no matter of a test: set where tests run on another device.
IGNORED = re.compile("(?!)")

TINY = {
    "run.steps": 10, "run.name": "tiny", "run.log_every": 1,
    "model.family": "gpt2", "model.layers": 2, "model.hidden": 32, "model.heads": 4, "model.sequence": 16,
    "batch.global": 8, "batch.micro": 2,
    "optimizer.learning_rate": "1e-2", "optimizer.decay": "constant",
    "engine.threads": 1,
}  # yapf: disable


def processes():
    """The parent of each process. Who ended and waits for its parent to notice is none: it may wait for ever."""
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue  # it ended meanwhile
        if state not in "ZX":
            parents[int(entry.name)] = int(parent)
    return parents


class Result:
    """How a run ended: status, stdout, stderr."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def errors(self):
        """The program's own lines on stderr; what launchers print is left out."""
        return [line for line in self.err.splitlines() if line.startswith("octachoron: ") and not IGNORED.search(line)]

    def __str__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Launch:
    """A program under way."""

    def __init__(self, command, environment, folder):
        self.out = tempfile.TemporaryFile("w+", dir=folder)
        self.err = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(command, stdout=self.out, stderr=self.err, stdin=subprocess.DEVNULL,
                                        env=environment, start_new_session=True)

    def ranks(self):
        """Process ids of the ranks, by rank: children of mpirun, with MPICH of its proxy."""
        found, parents = {}, processes()
        for pid, parent in parents.items():
            if self.process.pid not in (parent, parents.get(parent)):
                continue
            try:
                entry = pathlib.Path("/proc") / str(pid)
                environment = (entry / "environ").read_bytes().decode(errors="replace")
                rank = re.search(r"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0", environment)
                if rank:
                    found[int(rank.group(1))] = pid
            except OSError:
                continue  # it ended meanwhile
        return found

    def signal_rank(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def running(self):
        return self.process.poll() is None

    def wait(self, limit=LIMIT_S):
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {limit} s (a hang):\n{self._result()}") from None
        return self._result()

    def kill(self):
        """Ends mpirun and its ranks, which have a process group of their own each."""
        for pid in [*self.ranks().values(), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def _result(self):
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
        return Result(self.process.returncode, *texts)

    def close(self):
        self.out.close()
        self.err.close()


class FaultTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="octachoron-faults-"))
        self.launches = []
        self.text_file("train.txt", 6000)

    def tearDown(self):
        for launch in self.launches:
            if launch.running():
                launch.kill()
            launch.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- files

    def path(self, name):
        return self.folder / name

    def text_file(self, name, size):
        """Text without a period: word k spells the number k."""
        words, length, k = [], 0, 0
        while length < size:
            words.append(format(k * 7919 % 65521, "x"))
            length += len(words[-1]) + 1
            k += 1
        self.path(name).write_text(" ".join(words)[:size])
        return self.path(name)

    def parameters(self, name="run.ini", **changes):
        """A parameter file: TINY with changes, `model__hidden=64` for model.hidden; None removes a key."""
        values = dict(TINY)
        values["run.output"] = self.path("out")
        values["data.train"] = self.path("train.txt")
        values.update({key.replace("__", "."): value for key, value in changes.items()})
        sections = {}
        for key, value in values.items():
            if value is not None:
                section, short = key.split(".", 1)
                sections.setdefault(section, []).append(f"{short} = {value}")
        text = "".join(f"[{section}]\n" + "\n".join(lines) + "\n\n" for section, lines in sections.items())
        self.path(name).write_text(text)
        return self.path(name)

    def metrics(self, output="out", file="metrics.jsonl"):
        """Lines of a metrics file; every one must be JSON (NaN is not)."""

        def no_constant(name):
            raise AssertionError(f"{name} is not JSON")

        path = self.path(output) / file
        if not path.exists():
            return []
        lines = path.read_text().split("\n")
        self.assertEqual(lines.pop(), "", "the last line has no end")
        return [json.loads(line, parse_constant=no_constant) for line in lines]

    def lines_of_metrics(self, output="out"):
        path = self.path(output) / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def losses(self, output="out"):
        return [line["loss"] for line in self.metrics(output)]

    def checkpoint(self, step, output="out"):
        return self.path(output) / "checkpoints" / f"step-{step:08d}.h5"

    def checkpoints(self, output="out"):
        folder = self.path(output) / "checkpoints"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    # ---- runs

    def start(self, *arguments, ranks=None, environment=None, wrapper=()):
        """Without ranks the binary is started directly; with them under mpirun, which starts the wrapper if given."""
        command = [*map(str, wrapper), PROGRAM, *map(str, arguments)]
        if ranks:
            command = [MPIRUN, str(ranks), *command]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_COMM_", "PMI"))}
        launch = Launch(command, {**inherited, "OMPI_MCA_opal_signal": "", **(environment or {})}, self.folder)
        self.launches.append(launch)
        return launch

    def run_program(self, *arguments, ranks=None, environment=None, limit=LIMIT_S):
        return self.start(*arguments, ranks=ranks, environment=environment).wait(limit)

    def train(self, *options, ranks=1, expect=DONE, environment=None, limit=LIMIT_S, **changes):
        """Trains with TINY and the changes; options are further words of the command line."""
        result = self.run_program("train", self.parameters(**changes), *options, ranks=ranks,
                                  environment=environment, limit=limit)
        self.assertEqual(result.status, expect, str(result))
        for line in result.errors:
            self.assertRegex(line, GRAMMAR)
        return result

    def run_with_rank_in(self, rank, shell, ranks=2, **changes):
        """Trains with dp = ranks; one rank does a line of shell first, which may change its words "$@"."""
        wrapper = self.path("wrapper.sh")
        wrapper.write_text(f'#!/bin/bash\nif [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then {shell}; fi\nexec "$@"\n')
        wrapper.chmod(0o755)
        file = self.parameters(**{"grid__dp": ranks, **changes})
        return self.start("train", file, ranks=ranks, wrapper=[wrapper]).wait()

    def start_training(self, *options, ranks=1, **changes):
        return self.start("train", self.parameters(**changes), *options, ranks=ranks)

    def wait_until(self, condition, launch, what, limit=LIMIT_S):
        end = time.monotonic() + limit
        while not condition():
            if not launch.running():
                raise AssertionError(f"ended before {what}:\n{launch.wait()}")
            if time.monotonic() > end:
                launch.kill()
                raise AssertionError(f"{what}: not within {limit} s:\n{launch.wait()}")
            time.sleep(0.001)

    # ---- what must hold

    def assert_refused(self, result, status, *parts):
        """One sentence, once, in the grammar, with all the parts in it."""
        self.assertEqual(result.status, status, str(result))
        self.assertEqual(len(result.errors), 1, str(result))
        self.assertRegex(result.errors[0], GRAMMAR)
        for part in parts:
            self.assertIn(str(part), result.errors[0])

    def assert_same(self, first, second):
        result = self.run_program("checkpoint", "diff", first, second)
        self.assertEqual(result.status, DONE, str(result))

    def assert_differ(self, first, second):
        result = self.run_program("checkpoint", "diff", first, second)
        self.assertEqual(result.status, DATA, str(result))

    def assert_sound(self, path):
        result = self.run_program("checkpoint", "verify", path)
        self.assertEqual(result.status, DONE, str(result))

    def assert_absent(self, name="out"):
        self.assertFalse(self.path(name).exists(), f"{name} was made")

"""Runs the program in a folder of its own and reads what it has written."""
import json
import os
import subprocess
import sys

import h5py

import cases


class ProgramRun:
    """A run of `steps` steps in `folder`, finished; its files are read on demand."""

    def __init__(self, program, mpirun, folder, case, run, data, steps):
        self.output = os.path.join(folder, "output")
        os.makedirs(folder)
        file = os.path.join(folder, "oracle.ini")
        with open(file, "w", encoding="ascii") as stream:
            stream.write(cases.parameters(case, run, self.output, data, steps))
        command = [mpirun, str(run.dp * run.tp), program, "train", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            print(done.stdout[-2000:], done.stderr[-4000:], sep="\n")
            sys.exit(f"{run.name()}: {' '.join(command)} ended with {done.returncode}")

    def checkpoint(self, step, group):
        """Arrays by tensor name; group: /master, /optimizer/exp_avg or /optimizer/exp_avg_sq."""
        return _read(os.path.join(self.output, "checkpoints", f"step-{step:08d}.h5"), group)

    def gradients(self, step):
        return _read(os.path.join(self.output, "gradients", f"step-{step:08d}.h5"), "/gradient")

    def metrics(self):
        """One dictionary a step."""
        with open(os.path.join(self.output, "metrics.jsonl"), encoding="ascii") as stream:
            return [json.loads(line) for line in stream]


def _read(path, group):
    with h5py.File(path, "r") as file:
        return {name: dataset[()].astype("float64") for name, dataset in file[group].items()}

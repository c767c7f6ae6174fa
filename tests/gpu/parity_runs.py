"""Runs of the program for parity.py: models, parameter files, launches, and what the runs have written."""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/oracle"))
from optimizer import AdamW  # noqa: E402  (the schedule and the rule of weight decay, in float64)

LIMIT_S = 120  # of a run; one that passes it is a hang
BATCH = 8


@dataclasses.dataclass(frozen=True)
class Model:
    """Sizes; the names are those of the parameter file. `tokens`: the kind of data file."""
    family: str
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    tie_embeddings: bool
    tokens: str
    hidden: int = 256
    sequence: int = 128
    norm_epsilon: float = 1e-5
    init_std: float = 0.05  # far from the usual 0.02, so that attention is not uniform
    rope_theta: float = 0.0

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def query_width(self):
        return self.heads * self.head_dim

    @property
    def kv_width(self):
        return self.kv_heads * self.head_dim

    def keys(self):
        values = {key: value for key, value in dataclasses.asdict(self).items() if key != "tokens" and value}
        return {**values, "tie_embeddings": "on" if self.tie_embeddings else "off"}


MODELS = {
    "gpt2": Model("gpt2", layers=2, heads=4, kv_heads=4, ffn=1024, vocab=256, tie_embeddings=True, tokens="text"),
    "llama": Model("llama", layers=3, heads=4, kv_heads=2, ffn=512, vocab=512, tie_embeddings=False, tokens="hdf5",
                   rope_theta=50000.0),
}
# A warm-up: without one the first step of Adam is the rate times the sign of each gradient, and rounding decides the
# sign where a gradient is near zero.
OPTIMIZER = AdamW(learning_rate=1e-3, min_learning_rate=1e-4, warmup=4, decay_steps=20, clip=0.5)


class RunFailed(Exception):
    """A run that did not end with the status it should have; the text says how it ended."""


def draw_tokens(model, count, seed):
    """Ids that can be learnt: eight equally likely successors each."""
    noise = numpy.random.default_rng(seed).integers(0, 8, count)
    ids = numpy.empty(count, dtype=numpy.int64)
    last = 1
    for k in range(count):
        last = ids[k] = (5 * last + noise[k]) % model.vocab
    return ids


def write_tokens(path, model, ids):
    if model.tokens == "text":
        ids.astype(numpy.uint8).tofile(path)
        return
    with h5py.File(path, "w") as file:
        file["tokens"] = ids.astype(numpy.uint16)
        file.attrs["vocab_size"] = model.vocab


def read_group(path, group):
    """Arrays by tensor name, in double."""
    with h5py.File(path, "r") as file:
        return {name: dataset[()].astype("float64") for name, dataset in file[group].items()}


class Output:
    """What a run has written to its folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def metrics(self):
        """One dictionary a step."""
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]

    def losses(self):
        found = [line["loss"] for line in self.metrics()]
        if any(loss is None for loss in found):
            raise RunFailed(f"losses of {self.folder.name} are not finite")
        return numpy.array(found)

    def gradients(self, step=1):
        return read_group(self.folder / "gradients" / f"step-{step:08d}.h5", "/gradient")

    def checkpoint(self, step):
        return self.folder / "checkpoints" / f"step-{step:08d}.h5"

    def take_choices_of(self, other):
        """Algorithms are measured once and kept beside a run: with the same choices come the same bits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in other.folder.glob("tuning*.json"):
            shutil.copy(file, self.folder)


class Runs:
    """Runs of the program below one folder. `reference`: settings of the CPU, `device`: of what is compared with it;
    both are keys of the parameter file, or variables of the environment in capitals."""

    def __init__(self, options, folder):
        self.program, self.mpirun, self.folder = options.program, options.mpirun, pathlib.Path(folder)
        common = {"engine.threads": options.threads}
        if options.plugins:
            common["backend.plugin_path"] = options.plugins
        self.reference = {"backend.device": "cpu", "backend.comm": "mpi", **common}
        self.device = {"backend.device": options.device, "backend.comm": "mpi", **common}
        if options.device == "cpu":  # other instructions: other orders of summation
            self.device["OCTACHORON_CPU_ISA"] = "generic"
        self.data = {}
        for name, model in MODELS.items():
            batch = BATCH * model.sequence
            for kind, batches, seed in (("train", 5, 1), ("held", 2, 2), ("batch", 1, 3)):
                self.data[name, kind] = self.folder / f"{name}-{kind}.{model.tokens}"
                write_tokens(self.data[name, kind], model, draw_tokens(model, batches * batch + 1, seed))

    def tokens(self, model, kind):
        """Inputs and targets of a data file, [samples, sequence]."""
        shape = MODELS[model]
        if shape.tokens == "text":
            ids = numpy.fromfile(self.data[model, kind], dtype=numpy.uint8).astype(numpy.int64)
        else:
            with h5py.File(self.data[model, kind], "r") as file:
                ids = file["tokens"][()].astype(numpy.int64)
        return ids[:-1].reshape(-1, shape.sequence), ids[1:].reshape(-1, shape.sequence)

    def train(self, name, model, settings, *options, steps=10, data="train", ranks=1, **keys):
        """Trains in the folder `name`, where it goes on if there are checkpoints already. keys: `grid__dp=2`."""
        output = Output(self.folder / name)
        values = {
            "run.name": "parity", "run.output": output.folder, "run.steps": steps, "run.log_every": 5,
            "batch.global": BATCH, "batch.micro": 2, "data.train": self.data[model, data], "trace.gradients": 1,
            "data.format": "text" if MODELS[model].tokens == "text" else "hdf5",  # ids of all bytes, 0 too
            **{f"model.{key}": value for key, value in MODELS[model].keys().items()},
            **{f"optimizer.{key}": getattr(OPTIMIZER, key) for key in (
                "learning_rate", "min_learning_rate", "warmup", "decay_steps", "decay", "beta1", "beta2", "epsilon",
                "weight_decay", "clip")},
            **settings, **{key.replace("__", "."): value for key, value in keys.items()},
        }  # yapf: disable
        file = self.folder / f"{name}.ini"
        file.write_text(parameter_text(values))
        self.launch(values, ranks, "train", file, *options)
        return output

    def evaluate(self, checkpoint, model, settings, data="held", **keys):
        """The loss of a checkpoint, after a look at how many targets it is the mean of."""
        answer = self.folder / "answer.json"
        values = {**settings, **{key.replace("__", "."): value for key, value in keys.items()}}
        words = [word for key, value in values.items() if not key.isupper() for word in ("--set", f"{key}={value}")]
        self.launch(values, 1, "evaluate", checkpoint, "--data", self.data[model, data], "--batches", 0, "--json",
                    answer, *words)
        found = json.loads(answer.read_text())
        targets = self.tokens(model, data)[1].size
        if found["tokens"] != targets:
            raise RunFailed(f"evaluate took {found['tokens']} targets, not {targets}")
        return found["loss"]

    def same_bits(self, first, second):
        """Whether two checkpoints hold the same, and what was said if not."""
        done = subprocess.run([self.program, "checkpoint", "diff", first, second], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()
        return done.returncode == 0, "" if done.returncode == 0 else said[-1]

    def launch(self, values, ranks, *words):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_COMM_", "PMI"))}
        environment.update({key: str(value) for key, value in values.items() if key.isupper()})
        command = [self.mpirun, str(ranks), self.program, *map(str, words)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                                  env=environment)
        except subprocess.TimeoutExpired as late:
            raise RunFailed(f"{' '.join(command)}: no end within {LIMIT_S} s") from late
        if done.returncode != 0:
            said = "\n".join(f"    {line}" for line in done.stderr.strip().splitlines()[-8:])
            raise RunFailed(f"{' '.join(command)}: status {done.returncode}\n{said}")


def parameter_text(values):
    sections = {}
    for key, value in values.items():
        if not key.isupper():
            section, short = key.split(".", 1)
            sections.setdefault(section, []).append(f"{short} = {value}\n")
    return "".join(f"[{section}]\n" + "".join(lines) for section, lines in sections.items())


def relative(found, exact):
    """Of arrays, in the Euclidean norm; of vectors of losses see largest()."""
    return float(numpy.linalg.norm(found - exact) / max(numpy.linalg.norm(exact), 1e-300))


def largest(found, exact):
    """The largest relative difference of the elements."""
    if len(found) != len(exact):
        raise RunFailed(f"{len(found)} values beside {len(exact)}")
    return float(numpy.max(numpy.abs(found - exact) / numpy.abs(exact)))


def all_together(found, exact):
    """The relative difference of all gradients together."""
    return relative(numpy.concatenate([found[name].ravel() for name in exact]),
                    numpy.concatenate([exact[name].ravel() for name in exact]))


def gradient_differences(model, found, exact):
    """(difference, tensor) of the tensor where it is largest, then the norm of the key rows of the qkv biases beside
    that of their layer's gradient: their exact gradient is zero without RoPE (they add the same to all scores of a
    row), so they have no relative error."""
    shape, worst, keys = MODELS[model], (0.0, ""), 0.0
    if found.keys() != exact.keys():
        raise RunFailed(f"gradients of other tensors: {sorted(found.keys() ^ exact.keys())}")
    for name in exact:
        one, other = found[name], exact[name]
        if one.shape != other.shape:
            raise RunFailed(f"gradient of {name}: shape {one.shape} beside {other.shape}")
        if shape.family == "gpt2" and name.endswith("qkv.bias"):
            rows = slice(shape.query_width, shape.query_width + shape.kv_width)
            layer = name[:name.index("attention")]
            norm = numpy.sqrt(sum((g**2).sum() for tensor, g in found.items() if tensor.startswith(layer)))
            keys = max(keys, float(numpy.linalg.norm(one[rows]) / norm))
            one, other = numpy.delete(one, rows), numpy.delete(other, rows)
        worst = max(worst, (relative(one, other), name))
    return worst, keys

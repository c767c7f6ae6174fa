"""Compares two training steps of the program with NumPy: oracle_test.py PROGRAM MPIRUN CASE.

The first step starts from the checkpoint of step 0, the second from that of step 1. The data is one global
batch, so each step takes all of it, in whatever order: loss and gradients do not depend on the order. Exit
status 77: NumPy or h5py is missing.
"""
import dataclasses
import os
import sys
import tempfile

try:
    import h5py  # noqa: F401
    import numpy
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-h5py")
    sys.exit(77)

import cases
from model import Conventions, Model, Shape
from optimizer import AdamW, global_norm
from program import ProgramRun

STEPS = 2
GROUPS = ("/master", "/optimizer/exp_avg", "/optimizer/exp_avg_sq")

# Relative: of the loss and the norm, of ||gradient - exact|| / ||exact|| of each tensor, and of the state
# after AdamW. BF16 keeps 8 bits, 2^-9 = 2e-3 a rounding, and weights, activations and their gradients are
# all rounded; its largest differences here are 4e-4, 3e-3 and 4e-2. A BF16 gradient that is nearer than
# `least` was not computed in BF16.
BOUNDS = {"fp32": {"loss": 1e-6, "norm": 5e-6, "gradient": 1e-5, "least": 0},
          "bf16": {"loss": 2e-3, "norm": 1e-2, "gradient": 8e-2, "least": 5e-4}}
UPDATE_BOUND = 1e-6

# Each is wrong somewhere; a comparison that does not notice is worth nothing.
MISTAKES = {
    "gpt2": {"gelu": "erf", "future": 1, "variance": "unbiased", "epsilon_factor": 10.0,
             "qkv_rows": "q v k", "loss": "other count"},
    "llama": {"rope_sign": -1.0, "rope_pairs": "neighbours", "gate": "last", "future": 1,
              "epsilon_factor": 10.0, "qkv_rows": "q v k"},
}
OPTIMIZER_MISTAKES = {"decayed_dimensions": 1, "beta2": 0.96, "clip": 0.1, "weight_decay": 0.0, "warmup": 3}


def shape_of(case):
    model = {**cases.COMMON_MODEL, **case.model}
    gpt2 = model["family"] == "gpt2"
    defaults = {"kv_heads": model["heads"], "head_dim": model["hidden"] // model["heads"],
                "ffn": 4 * model["hidden"], "tie_embeddings": "on" if gpt2 else "off"}
    fields = {field.name for field in dataclasses.fields(Shape)}
    values = {key: value for key, value in {**defaults, **model}.items() if key in fields}
    return Shape(**{**values, "tie_embeddings": values["tie_embeddings"] == "on"})


def optimizer_of(case):
    return AdamW(**{**cases.COMMON_OPTIMIZER, **case.optimizer})


def make_batch(shape, path):
    """Writes the data file; returns ids and targets, [samples, sequence]."""
    tokens = cases.BATCH * shape.sequence + 1
    # Few different ids come often, so that embedding gradients are sums.
    draws = numpy.random.default_rng(11).beta(0.4, 1.2, tokens)
    ids = (draws * shape.vocab).astype(numpy.uint8)
    ids[:2] = shape.vocab - 1, 0
    ids.tofile(path)
    ids = ids.astype(int)
    return ids[:-1].reshape(cases.BATCH, -1), ids[1:].reshape(cases.BATCH, -1)


def difference(found, exact):
    """Relative, in the Euclidean norm."""
    assert found.shape == exact.shape, f"shape {found.shape}, not {exact.shape}"
    return float(numpy.linalg.norm(found - exact) / max(numpy.linalg.norm(exact), 1e-300))


def worst_difference(found, exact):
    """Of arrays by name: the largest difference, and where."""
    if found.keys() != exact.keys():
        return float("inf"), f"names differ: {sorted(found.keys() ^ exact.keys())}"
    return max((difference(found[name], exact[name]), name) for name in exact)


class Comparison:
    """Prints differences beside their bounds and counts those that are too large."""

    def __init__(self):
        self.failures = 0

    def check(self, what, value, bound, where=""):
        good = value <= bound
        self.failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}: {value:.1e} (bound {bound:.0e}) {where}")

    def expect(self, what, good):
        self.failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}")


def compare_step(comparison, step, exact, optimizer, start, run, bounds):
    """exact: loss and gradients of this step; start: master and moments before it."""
    loss, gradients = exact
    line, found = run.metrics()[step - 1], run.gradients(step)
    comparison.check(f"step {step} loss", abs(line["loss"] - loss) / loss, bounds["loss"])
    norm = global_norm(gradients)
    comparison.check(f"step {step} norm", abs(line["grad_norm"] - norm) / norm, bounds["norm"])
    worst, where = worst_difference(found, gradients)
    comparison.check(f"step {step} gradients", worst, bounds["gradient"], where)
    comparison.expect(f"step {step} has the rounding of its precision", worst >= bounds["least"])
    comparison.check(f"step {step} rate", abs(line["learning_rate"] / optimizer.rate(step) - 1), 1e-12)
    # From the gradients of the run: where one is nearly zero, its sign decides about a whole step of AdamW.
    after = [run.checkpoint(step, group) for group in GROUPS]
    for group, got, wanted in zip(GROUPS, after, updated(optimizer, step, found, start)):
        worst, where = worst_difference(got, wanted)
        comparison.check(f"step {step} {group}", worst, UPDATE_BOUND, where)
    return after


def updated(optimizer, step, gradients, start):
    """Master and moments, each by tensor name, after the step."""
    norm, result = global_norm(gradients), [{}, {}, {}]
    for name, gradient in gradients.items():
        state = optimizer.update(step, norm, gradient, *(group[name] for group in start))
        for group, array in zip(result, state):
            group[name] = array
    return result


def check_mistakes(comparison, case, start, batch, run):
    """Every model or optimiser with a mistake in it must be out of bounds in the second step."""
    shape, optimizer, gradients = shape_of(case), optimizer_of(case), run.gradients(STEPS)
    after = run.checkpoint(STEPS, "/master")
    for key, value in OPTIMIZER_MISTAKES.items():
        if key == "warmup" and optimizer.warmup < STEPS:
            continue  # has passed
        wrong = updated(dataclasses.replace(optimizer, **{key: value}), STEPS, gradients, start)[0]
        worst, _ = worst_difference(after, wrong)
        comparison.expect(f"notices {key} = {value}: {worst:.1e}", worst > 3 * UPDATE_BOUND)
    mistakes = dict(MISTAKES[shape.family])
    if shape.family == "llama" and 1 < shape.kv_heads < shape.heads:
        mistakes["kv_head"] = "modulo"
    if shape.head_dim != shape.hidden / shape.heads:
        mistakes["attention_width"] = "hidden / heads"
    for key, value in mistakes.items():
        wrong = Model(shape, start[0], Conventions(**{key: value})).loss_and_gradients(*batch)[1]
        worst, _ = worst_difference(gradients, wrong)
        comparison.expect(f"notices {key} = {value}: {worst:.1e}", worst > 3 * BOUNDS["fp32"]["gradient"])


def main(program, mpirun, name):
    case, comparison = cases.CASES[name], Comparison()
    shape, optimizer = shape_of(case), optimizer_of(case)
    with tempfile.TemporaryDirectory(prefix="octachoron-oracle-") as folder:
        data = os.path.join(folder, "tokens.txt")
        batch = make_batch(shape, data)
        first = ProgramRun(program, mpirun, os.path.join(folder, "start"), case, cases.ONE, data, 0)
        start = [first.checkpoint(0, group) for group in GROUPS]
        for number, variant in enumerate(case.runs):
            print(f"-- {name}, {variant.name()}")
            run = ProgramRun(program, mpirun, os.path.join(folder, str(number)), case, variant, data, STEPS)
            state = start
            for step in range(1, STEPS + 1):
                exact = Model(shape, state[0]).loss_and_gradients(*batch)
                if number == 0 and step == STEPS:
                    check_mistakes(comparison, case, state, batch, run)
                bounds = BOUNDS[variant.precision]
                state = compare_step(comparison, step, exact, optimizer, state, run, bounds)
    print(f"{comparison.failures} out of bounds")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in cases.CASES:
        sys.exit(f"{__doc__}\nCASE: one of {', '.join(cases.CASES)}")
    sys.exit(main(*sys.argv[1:]))

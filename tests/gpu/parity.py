#!/usr/bin/env python3
"""Whole models on a device against the CPU, against themselves, and against PyTorch: one table with verdicts.

    tests/gpu/parity.py [--program build/bin/octachoron] [--device cuda] [--gpus 1] [SECTION...]

Sections: cpu (ten steps of both devices), bits (reruns, resumes and ways to run that must not change a bit), carry
(checkpoints that go from device to device), torch (the same weights in PyTorch and Transformers), grids (two ranks
against one; only with --gpus 2 or more). All without arguments. With --device cpu the CPU is compared with itself
under other instructions, which shows that the script works. The bounds and their reasons are in parity.md.

Exit status 0 if every line is within its bound, else 1. Needs NumPy, h5py; section torch: torch and transformers.
"""
import argparse
import dataclasses
import itertools
import math
import os
import shutil
import sys
import tempfile
import time

import numpy

from parity_runs import MODELS, ROOT, RunFailed, Runs, all_together, gradient_differences, largest

PRECISIONS = ("fp32", "bf16", "fp8-current", "fp8-delayed")
GRID_PRECISIONS = ("fp32", "bf16", "fp8-delayed")
U = 2.0**-9  # rounding to BF16 moves a value by so much of itself at most
E4M3, E5M2 = 0.026, 0.052  # what a cast to FP8 changes of a tensor of normal values, in the Euclidean norm
SECTIONS = {}


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Relative. loss: of all steps; first: of the first; gradient: of each tensor at step 1; keys: norm of the key
    bias's gradient in that of its layer; noise: how far the error that FP8 makes may be from that of the other run."""
    loss: float
    first: float
    gradient: float
    keys: float
    noise: float = 0.0


def bounds(model, precision, exact=(1e-5, 1e-5)):
    """The reasons are in parity.md. exact: of losses and gradients in FP32."""
    layers = MODELS[model].layers
    if precision == "fp32":
        return Bounds(exact[0], exact[0], exact[1], 1e-7)
    if precision == "bf16":
        return Bounds(U, U, (4 * layers + 2) * U, 1e-4)
    return Bounds(5 * U, U, math.sqrt(8 * layers * (E4M3**2 + E5M2**2)), 1e-4, 0.05)


class Table:
    """Lines as they come: verdict, section, case, quantity, value, bound."""

    def __init__(self):
        self.lines, self.failures, self.section, self.started = 0, 0, "", time.monotonic()
        print(f"{'':4} {'section':8} {'case':28} {'quantity':34} {'value':>9} {'bound':>8}", flush=True)

    def check(self, case, quantity, value, bound, note=""):
        good = value <= bound  # and not NaN
        self._line(good, case, quantity, f"{value:9.1e} {bound:8.1e}", note)

    def expect(self, case, quantity, good, note=""):
        self._line(good, case, quantity, f"{'yes' if good else 'no':>9} {'yes':>8}", note)

    def fail(self, case, why):
        self._line(False, case, "the run", f"{'ended':>9} {'':8}", why)

    def _line(self, good, case, quantity, numbers, note):
        self.lines += 1
        self.failures += not good
        verdict = "ok  " if good else "FAIL"
        print(f"{verdict} {self.section:8} {case:28} {quantity:34} {numbers}  {note}".rstrip(), flush=True)

    def summary(self):
        print(f"{self.lines} lines, {self.failures} failed, {time.monotonic() - self.started:.0f} s")
        return 1 if self.failures else 0


class Case:
    """Guards a case: a run that fails is a line of the table, and the next case goes on."""

    def __init__(self, table, name):
        self.table, self.name = table, name

    def __enter__(self):
        return self.name

    def __exit__(self, kind, error, _):
        if kind is not None and issubclass(kind, (RunFailed, OSError, ValueError, KeyError, RuntimeError)):
            self.table.fail(self.name, f"{kind.__name__}: {error}")
            return True
        return False


def section(function):
    SECTIONS[function.__name__] = function
    return function


def compare(table, case, model, precision, found, expected, plain=None, **exact):
    """Lines for the losses of all steps and the gradients of the first. plain: gradients in FP32, for FP8."""
    bound, losses = bounds(model, precision, **exact), expected.losses()
    table.check(case, "loss of step 1", largest(found.losses()[:1], losses[:1]), bound.first)
    table.check(case, f"loss of {len(losses)} steps", largest(found.losses(), losses), bound.loss)
    (worst, tensor), keys = gradient_differences(model, found.gradients(), expected.gradients())
    table.check(case, "gradients of step 1", worst, bound.gradient, tensor)
    if MODELS[model].family == "gpt2":
        table.check(case, "gradient of the key bias", keys, bound.keys)
    if bound.noise:
        here, there = (all_together(run.gradients(), plain) for run in (found, expected))
        table.check(case, "error of FP8 in the gradients", abs(here / there - 1), bound.noise,
                    f"{here:.4f}, {there:.4f}")


@section
def cpu(table, runs, _):
    for model in MODELS:
        with Case(table, model) as case:
            first, other = (runs.train(f"{model}-start-{side}", model, settings, steps=0,
                                       backend__precision=PRECISIONS[-1])
                            for side, settings in (("cpu", runs.reference), ("device", runs.device)))
            good, said = runs.same_bits(first.checkpoint(0), other.checkpoint(0))
            table.expect(case, "the same start, bit by bit", good, said)
        plain = None
        for precision in PRECISIONS:
            with Case(table, f"{model} {precision}") as case:
                expected = runs.train(f"{model}-{precision}-cpu", model, runs.reference, backend__precision=precision)
                plain = plain or expected.gradients()
                found = runs.train(f"{model}-{precision}", model, runs.device, backend__precision=precision)
                compare(table, case, model, precision, found, expected, plain)
                fall = found.losses()[0] - found.losses()[-1]
                table.expect(case, "learns", fall > 0.1, f"by {fall:.2f} nats")


@section
def bits(table, runs, _):
    """Each beside a first run of its own and with its choices of algorithms."""
    for model, precision in (("gpt2", "fp32"), ("gpt2", "bf16"), ("llama", "fp8-delayed")):
        with Case(table, f"{model} {precision}") as case:
            name = f"{model}-{precision}-bits"
            first = runs.train(name, model, runs.device, backend__precision=precision)

            def same(way, *options, steps=(10,), **keys):
                output = type(first)(runs.folder / f"{name}-{way.replace(' ', '-')}")
                output.take_choices_of(first)
                for last in steps:
                    runs.train(output.folder.name, model, runs.device, *options, steps=last,
                               backend__precision=precision, **keys)
                good, said = runs.same_bits(first.checkpoint(10), output.checkpoint(10))
                good = good and (output.losses() == first.losses()).all()
                table.expect(case, f"{way}: the same bits", good, said)

            same("rerun")
            same("resume", steps=(5, 10))
            if precision != "fp32":
                same("without graphs", engine__graphs="off")
                same("checked", "--check")


@section
def carry(table, runs, _):
    """Four steps on the CPU, three on the device, three on the CPU: the losses of ten on the CPU."""
    for model, precision in (("gpt2", "fp32"), ("llama", "fp8-delayed")):
        with Case(table, f"{model} {precision}") as case:
            name = f"{model}-{precision}-carry"
            expected = runs.train(f"{name}-cpu", model, runs.reference, backend__precision=precision)
            for steps, settings in ((4, runs.reference), (7, runs.device), (10, runs.reference)):
                carried = runs.train(name, model, settings, steps=steps, backend__precision=precision,
                                     checkpoint__keep=0)
            bound = bounds(model, precision)
            table.check(case, "loss, CPU to device to CPU", largest(carried.losses(), expected.losses()), bound.loss)
            for step in (4, 7):
                here, there = (numpy.array([runs.evaluate(carried.checkpoint(step), model, settings)])
                               for settings in (runs.reference, runs.device))
                table.check(case, f"evaluate, file of step {step}", largest(there, here), bound.first)


@section
def torch(table, runs, options):
    try:
        import parity_peer
        import torch as library
        import transformers
    except ImportError as error:
        table.fail("PyTorch", f"{error}; install torch and transformers, or name the other sections")
        return
    where = options.torch_device or ("cuda" if library.cuda.is_available() else "cpu")
    print(f"     torch {library.__version__}, transformers {transformers.__version__} on {where}")
    for model in MODELS:
        with Case(table, model) as case:
            # All data is one batch: its order, which is our own, has no effect on loss and gradients.
            batch, held = runs.tokens(model, "batch"), runs.tokens(model, "held")
            found = runs.train(f"{model}-torch", model, runs.device, steps=5, data="batch", backend__precision="fp32",
                               checkpoint__every=5, checkpoint__keep=0)
            start = runs.train(f"{model}-torch-start", model, runs.device, steps=0, data="batch")
            losses, gradients = parity_peer.Peer(model, start.checkpoint(0), where).train(*batch, 5)
            table.check(case, "fp32 loss of the start", abs(found.losses()[0] - losses[0]), 1e-4)
            (worst, tensor), _ = gradient_differences(model, found.gradients(), gradients)
            table.check(case, "fp32 gradients of step 1", worst, 1e-5, tensor)
            table.check(case, "fp32 loss of 5 steps of AdamW", float(abs(found.losses() - losses).max()), 1e-4)
            for precision, dtype, bound in (("fp32", library.float32, 1e-4), ("bf16", library.bfloat16, 2e-3)):
                ours = runs.evaluate(found.checkpoint(5), model, runs.device, backend__precision=precision)
                theirs = parity_peer.Peer(model, found.checkpoint(5), where, dtype).evaluate(*held)
                table.check(case, f"{precision} loss of unseen data, step 5", abs(ours - theirs), bound,
                            f"{ours:.6f}, {theirs:.6f}")


@section
def grids(table, runs, options):
    if options.gpus < 2:
        print("     two ranks need --gpus 2")
        return
    for model in MODELS:
        plain = None
        for precision in GRID_PRECISIONS:
            with Case(table, f"{model} {precision}"):
                one = runs.train(f"{model}-{precision}-one", model, runs.device, backend__precision=precision)
                plain = plain or one.gradients()
                for axis, comm in itertools.product(("dp", "tp"), options.comms):
                    with Case(table, f"{model} {precision} {axis}=2 {comm}") as case:
                        two = runs.train(f"{model}-{precision}-{axis}-{comm}", model, runs.device, ranks=2,
                                         backend__precision=precision, backend__comm=comm, **{f"grid__{axis}": 2})
                        compare(table, case, model, precision, two, one, plain, exact=(1e-6, 5e-6))


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--program", default=os.environ.get("OCTACHORON", str(ROOT / "build/bin/octachoron")))
    parser.add_argument("--mpirun", default=str(ROOT / "tests/mpirun.sh"), help="called as MPIRUN N PROGRAM ...")
    parser.add_argument("--plugins", default="", help="folders of plugins, as backend.plugin_path")
    parser.add_argument("--device", default="cuda", help="what is compared with the CPU")
    parser.add_argument("--comms", type=lambda text: text.split(","), help="of grids; mpi,nccl, with device cpu mpi")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--threads", type=int, default=min(8, os.cpu_count() or 1), help="of a rank on the CPU")
    parser.add_argument("--torch-device", help="cuda if there is one, else cpu")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the runs there")
    options = parser.parse_args(words)
    if set(options.sections) - SECTIONS.keys():
        parser.error(f"sections are {', '.join(SECTIONS)}")
    options.sections = options.sections or list(SECTIONS)
    options.comms = options.comms or (["mpi"] if options.device == "cpu" else ["mpi", "nccl"])
    return options


def main(options):
    folder = options.keep or tempfile.mkdtemp(prefix="octachoron-parity-")
    os.makedirs(folder, exist_ok=True)
    table = Table()
    try:
        runs = Runs(options, folder)
        for name in options.sections:
            table.section, began = name, time.monotonic()
            SECTIONS[name](table, runs, options)
            print(f"     {name}: {time.monotonic() - began:.0f} s")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return table.summary()


if __name__ == "__main__":
    sys.exit(main(parse(sys.argv[1:])))

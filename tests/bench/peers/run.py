#!/usr/bin/env python3
"""A training step of ours beside PyTorch's: blocks in turns; ratio of medians, spread, clocks, memory, losses.

    tests/bench/peers/run.py gpt2-124m [--fp8] [--pairs 3] [--steps 10] [--at-least 0.9] [--json FILE]

The model is a parameter file of this folder, or any; both sides read it, and the same tokens. PyTorch stays one
process, which compiles once and gives its memory back after each block; ours starts anew for each. README.md says what
is measured.
"""
import argparse
import array
import configparser
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

from report import text
from sides import Ours, Peer, fail
from watch import Watch

HERE = pathlib.Path(__file__).resolve().parent


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("file", help="gpt2-124m, gpt2-1558m, llama-8b-l8, llama-1b, or a parameter file")
    parser.add_argument("--fp8", action="store_true", help="ours with delayed scales, PyTorch with current ones")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="timed steps of a block")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--program", default=os.environ.get("OCTACHORON", HERE.parents[2] / "build/bin/octachoron"))
    parser.add_argument("--python", default="python3", help="one that has PyTorch")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="for ours alone")
    parser.add_argument("--peer", default="", metavar="OPTIONS",
                        help="of torch_gpt.py, as '--compile full'; none: ours alone")
    parser.add_argument("--output", type=pathlib.Path, default="runs/peers", help="data, logs and our file of choices")
    parser.add_argument("--at-least", type=float, default=0, metavar="RATIO",
                        help="exit status 1 where the ratio is less")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args(words)
    if (HERE / f"{arguments.file}.ini").exists():
        arguments.file = HERE / f"{arguments.file}.ini"
    if min(arguments.warmup, arguments.steps, arguments.pairs) < 1:
        parser.error("--warmup, --steps and --pairs are at least 1")
    return arguments


def read_sizes(path):
    """Sequences of a step, tokens of a sequence and size of the vocabulary in a parameter file."""
    ini = configparser.ConfigParser(inline_comment_prefixes=("#", ";"))
    if not ini.read(path):
        fail(f"there is no parameter file '{path}'")
    return ini["batch"].getint("global"), ini["model"].getint("sequence"), ini["model"].getint("vocab")


def make_data(arguments, folder):
    """Tokens as rare as words are, so that the loss falls: ids in u32 for the peer, the same as HDF5 for ours."""
    batch, sequence, vocab = read_sizes(arguments.file)
    samples = min(8, arguments.warmup + arguments.steps) * batch
    rarity = [1 / (10 + i) for i in range(vocab)]
    ids = array.array("I", random.Random(1).choices(range(vocab), rarity, k=samples * sequence + 1))
    raw, tokens = folder / "tokens.u32", folder / "tokens.h5"
    raw.write_bytes(ids.tobytes())
    tokens.unlink(missing_ok=True)
    command = [arguments.program, "data", "import", raw, "--from", "u32", "--vocab", str(vocab), "--output", tokens]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        fail(f"the data were not made: {made.stderr}")
    return raw, tokens


def measure(side, warmup, steps, watch, idle):
    """A block of one side, with the clock, the power and the memory that were seen in it; idle: bytes without it."""
    begin, before = time.time(), watch.used()
    block = side.run(warmup, steps)
    memory = watch.between(begin, time.time())[2]
    block.memory = max(memory) - (before if idle is None else idle) if memory else None
    clocks, powers, _ = watch.between(block.begin, block.end)
    block.clock_mhz, block.power_w = (statistics.median(each) if each else None for each in (clocks, powers))
    watch.wait_for_memory(before)
    losses = f"loss {block.losses[0]:.4f} .. {block.losses[-1]:.4f}"
    print(f"  {side.name:6} {statistics.median(block.step_ms):9.2f} ms, {losses}", file=sys.stderr, flush=True)
    return block


def alternate(arguments, ours, peer, watch, idle):
    """Blocks of both sides; which one begins a pair changes, so that a GPU that warms up favours neither."""
    blocks = {ours: [], peer: []}
    for pair in range(arguments.pairs):
        for side in [ours, peer] if pair % 2 == 0 else [peer, ours]:
            if side:  # what the peer's process holds between blocks is its own
                without = idle if side is peer else None
                blocks[side].append(measure(side, arguments.warmup, arguments.steps, watch, without))
    return blocks[ours], blocks[peer]


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run.py: asked to end"))  # so that both sides end too
    folder = arguments.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    batch, sequence, _ = read_sizes(arguments.file)
    raw, tokens = make_data(arguments, folder)
    settings = [f"data.train={tokens}", f"backend.device={arguments.device}", *arguments.set]
    if arguments.fp8:
        settings.append("backend.precision=fp8-delayed")
    options = ["--data", raw, "--device", arguments.device, *arguments.peer.split()]
    options += ["--fp8"] if arguments.fp8 else []
    ours, peer, watch = Ours(arguments.program, arguments.file, settings, folder), None, Watch()
    arena, idle = ours.arena_bytes(), watch.used()
    try:
        if arguments.peer != "none":
            peer = Peer(arguments.python, arguments.file, options, folder)
        mine, theirs = alternate(arguments, ours, peer, watch, idle)
    finally:
        for each in filter(None, (ours, peer, watch)):
            each.close()
    about = dict(name=pathlib.Path(arguments.file).stem, fp8=arguments.fp8, tokens=batch * sequence,
                 warmup=arguments.warmup, arena_bytes=arena,
                 peer=dict(peer.about, options=arguments.peer) if peer else None)
    lines, ratio = text(about, mine, theirs)
    print("\n".join(lines))
    if arguments.json:
        sides = dict(ours=[vars(block) for block in mine], theirs=[vars(block) for block in theirs])
        arguments.json.write_text(json.dumps(dict(about, ratio=ratio, **sides)))
    if ratio is not None and ratio < arguments.at_least:
        sys.exit(f"run.py: the ratio {ratio:.3f} is less than {arguments.at_least}")


if __name__ == "__main__":
    main()

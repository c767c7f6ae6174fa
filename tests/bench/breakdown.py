#!/usr/bin/env python3
"""breakdown.py TRACE [--rank N] [--by operation|label] [--peak TYPE=TFLOPS]... [--copy GBPS] [--metrics FILE]

Where a step's time went on one rank, from the trace that `trace.steps` writes (core/docs/timeline.md), beside what the same
operations would take at measured peaks: products and attention by their arithmetic, or by memory where that takes longer,
all else by memory traffic. Without --peak and --copy the rates are those of an H200 (RATES). With --metrics, the step is also
compared with those around it that were not traced, for tracing takes time of the host.
"""
import argparse
import collections
import json
import re
import statistics
import sys

# Of one H200: cuBLASLt products of 8192^3, sustained for seconds, TFLOP/s by operand type; memory copy, read and write, GB/s.
RATES = {"bf16": 682, "e4m3": 1278, "e5m2": 1278}
COPY = 4280
ARITHMETIC = ("gemm", "attention", "attention_backward")  # judged by TFLOP/s, all others by GB/s


def union_ms(events):
    """Length of the times that the events cover."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted((e["ts"], e["ts"] + e["dur"]) for e in events):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / 1e3


class Row:
    """Operations that are alike."""

    def __init__(self):
        self.count, self.ms, self.flops, self.bytes, self.roofline_ms = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, event, roofline_ms=0.0):
        arguments = event["args"]
        self.count += 1
        self.ms += event["dur"] / 1e3
        self.flops += arguments.get("flops", 0)
        self.bytes += arguments.get("memory_bytes", arguments.get("bytes", 0))
        self.roofline_ms += roofline_ms

    def tflops(self):
        return self.flops / self.ms / 1e9 if self.ms > 0 else 0.0

    def gbps(self):
        return self.bytes / self.ms / 1e6 if self.ms > 0 else 0.0


def roofline_ms(event, peaks, copy):
    """What the operation takes at the rates; its arithmetic counts where its type has one."""
    arguments = event["args"]
    of_memory = arguments["memory_bytes"] / (copy * 1e9)
    peak = peaks.get(arguments["type"]) if arguments["operation"] in ARITHMETIC else None
    return 1e3 * max(of_memory, arguments["flops"] / (peak * 1e12) if peak else 0.0)


def key_of(event, by):
    arguments = event["args"]
    if by == "label":
        return re.sub(r"^layers\.\d+\.", "layers.*.", event["name"])
    if arguments["operation"] == "gemm":
        return "gemm " + arguments["type"]
    return arguments["operation"]


def classify(event):
    """The part of the table that an event belongs to."""
    if event["cat"] == "communication":
        return "communication"
    if event["cat"] == "host copy":
        return "copies from and to the host"
    operation = event["args"]["operation"]
    if operation == "gemm":
        return "products"
    return "attention" if operation in ARITHMETIC else "bound by memory"


def breakdown(trace, rank, by, peaks, copy):
    """Rows by part and key, and the covered times of the rank's operations in ms."""
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == rank and "operation" in e["args"]]
    if not events:
        raise SystemExit(f"breakdown.py: the trace has no operations of rank {rank}")
    parts = collections.defaultdict(lambda: collections.defaultdict(Row))
    computed, sent = [], []
    for event in events:
        part = classify(event)
        if part == "communication":
            sent.append(event)
            parts[part][key_of(event, by)].add(event)
            continue
        if "memory_bytes" not in event["args"]:
            raise SystemExit("breakdown.py: the trace does not say what operations cost; write it anew with this version")
        if part != "copies from and to the host":
            computed.append(event)
        parts[part][key_of(event, by)].add(event, roofline_ms(event, peaks, copy))
    compute, comm, busy = union_ms(computed), union_ms(sent), union_ms(computed + sent)
    return parts, {"compute": compute, "communication": comm, "overlap": compute + comm - busy, "busy": busy}


def print_row(name, row, step_ms, peaks, copy, part):
    if part in ("products", "attention"):
        rate = f"{row.tflops():.1f} TFLOP/s"
        peak = row.roofline_ms / row.ms if row.ms > 0 else 0.0
    else:
        rate = f"{row.gbps():.0f} GB/s"
        peak = row.gbps() / copy
    share = "" if part == "communication" else f"{100 * peak:.0f} %"
    roofline = "" if part == "communication" else f"{row.roofline_ms:.3f}"
    print(f"| {name} | {row.count} | {row.ms:.3f} | {100 * row.ms / step_ms:.1f} % | {rate} | {share} | {roofline} |")


def report(trace, arguments):
    peaks, copy = dict(RATES), arguments.copy
    peaks.update(arguments.peak)
    parts, covered = breakdown(trace, arguments.rank, arguments.by, peaks, copy)
    mean = trace["otherData"]["mean"]
    step_ms = mean["step_ms"]
    print(f"step {trace['otherData']['step']}, rank {arguments.rank}: {step_ms:.3f} ms (mean over ranks); rates: copy {copy:.0f} GB/s, "
          + ", ".join(f"{name} {peak:g} TFLOP/s" for name, peak in sorted(peaks.items())))
    print("\n| what | count | ms | of the step | rate | of the peak | at the peaks, ms |\n|---|---|---|---|---|---|---|")
    total = 0.0
    for part in ("products", "attention", "bound by memory", "copies from and to the host", "communication"):
        rows = parts.get(part, {})
        if not rows:
            continue
        roofline = sum(row.roofline_ms for row in rows.values())
        if part != "copies from and to the host":
            total += roofline
        ms = sum(row.ms for row in rows.values())
        print(f"| **{part}** | {sum(row.count for row in rows.values())} | {ms:.3f} | {100 * ms / step_ms:.1f} % | | | "
              + ("" if part == "communication" else f"{roofline:.3f}") + " |")
        for name, row in sorted(rows.items(), key=lambda item: -item[1].ms):
            print_row(name, row, step_ms, peaks, copy, part)
    print(f"\ncovered: computation {covered['compute']:.3f} ms, communication {covered['communication']:.3f} ms, both at once "
          f"{covered['overlap']:.3f} ms, idle {step_ms - covered['busy']:.3f} ms ({100 * (1 - covered['busy'] / step_ms):.1f} %)")
    print(f"at the peaks: {total:.3f} ms, {100 * total / step_ms:.1f} % of the step")
    if arguments.metrics:
        compare(trace, arguments.metrics, covered["busy"])


def untraced_ms(lines, step, around=10):
    """Lengths of the steps near to it that were not traced."""
    return [line["step_ms"] for line in lines if abs(line["step"] - step) <= around and line["compute_ms"] is None]


def compare(trace, path, busy_ms):
    step = trace["otherData"]["step"]
    with open(path) as file:
        lengths = untraced_ms([json.loads(line) for line in file], step)
    if not lengths:
        raise SystemExit(f"breakdown.py: '{path}' has no untraced step near step {step}")
    median = statistics.median(lengths)
    print(f"steps around it that were not traced: {median:.3f} ms (median of {len(lengths)}), of which idle would be "
          f"{median - busy_ms:.3f} ms ({100 * (1 - busy_ms / median):.1f} %)")


def peak(text):
    name, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form TYPE=TFLOPS")
    return name, float(value)


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("trace")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--by", choices=("operation", "label"), default="operation")
    parser.add_argument("--peak", type=peak, action="append", default=[], metavar="TYPE=TFLOPS")
    parser.add_argument("--copy", type=float, default=COPY, metavar="GBPS")
    parser.add_argument("--metrics", metavar="FILE")
    arguments = parser.parse_args(words)
    with open(arguments.trace) as file:
        report(json.load(file), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])

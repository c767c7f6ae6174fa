"""What the blocks of two sides say: a table, and the ratio of the medians."""
import dataclasses
import statistics


@dataclasses.dataclass
class Block:
    """One uninterrupted run of a side: steps of equal work, after some to warm up."""
    step_ms: list                # of the timed steps
    losses: list                 # of all steps, from the first of a new run
    begin: float                 # of the timed steps, s since the epoch
    end: float
    first_step_s: float = None   # from the start of the process to the end of the first step
    allocated: int = None        # bytes at the peak, by the allocator
    reserved: int = None
    memory: int = None           # bytes at the peak that the GPU had in use more than without this side
    clock_mhz: float = None      # of the SMs, median of the timed steps
    power_w: float = None


def median_ms(blocks):
    return statistics.median(ms for block in blocks for ms in block.step_ms)


def spread(blocks):
    """Between the medians of the blocks, relative: what a repetition may differ by."""
    each = [statistics.median(block.step_ms) for block in blocks]
    return (max(each) - min(each)) / statistics.median(each)


def peak(blocks, field):
    return max((getattr(block, field) for block in blocks if getattr(block, field) is not None), default=None)


def number(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def gib(value):
    return "-" if value is None else f"{value / 2**30:.2f}"


def side_line(name, blocks, tokens):
    ms, all_ms = median_ms(blocks), [ms for block in blocks for ms in block.step_ms]
    return (f"  {name:6} {ms:9.2f} ms  {tokens / ms * 1e3:10.0f} tokens/s   "
            f"blocks differ by {100 * spread(blocks):.2f} %, steps {min(all_ms):.2f} .. {max(all_ms):.2f} ms")


def pair_lines(ours, theirs):
    lines = ["  pair   ours ms  theirs ms   ratio   SM MHz, ours / theirs   W, ours / theirs"]
    for k, (a, b) in enumerate(zip(ours, theirs), 1):
        x, y = statistics.median(a.step_ms), statistics.median(b.step_ms)
        lines.append(f"  {k:4} {x:9.2f}  {y:9.2f}  {y / x:6.3f}   {number(a.clock_mhz):>12} / {number(b.clock_mhz):<7}"
                     f" {number(a.power_w):>9} / {number(b.power_w)}")
    return lines


def memory_lines(arena, ours, theirs):
    """The driver counts all that a process takes; arena and allocator leave out what CUDA itself and libraries hold."""
    mine, other, allocated = peak(ours, "memory"), peak(theirs, "memory"), peak(theirs, "allocated")
    lines = [f"  memory at the peak, GiB: ours {gib(mine)} (arena {gib(arena)}), theirs {gib(other)} "
             f"(allocated {gib(allocated)}, reserved {gib(peak(theirs, 'reserved'))})"]
    pairs = (("arena to allocated", arena, allocated), ("process to process", mine, other))
    ratios = [f"{name} {a / b:.3f}" for name, a, b in pairs if a and b]
    return lines + ([f"  memory, ours to theirs: {', '.join(ratios)}"] if ratios else [])


def loss_lines(ours, theirs):
    steps = len(ours[0].losses)
    chosen = sorted({1, min(2, steps), (steps + 1) // 2, steps})
    lines = ["  loss of step  " + "".join(f"{step:10}" for step in chosen)]
    for name, blocks in (("ours", ours), ("theirs", theirs)):
        if blocks:
            lines.append(f"    {name:11} " + "".join(f"{blocks[0].losses[step - 1]:10.4f}" for step in chosen))
    return lines


def text(about, ours, theirs):
    """Lines to print, and the ratio of tokens/s, ours to theirs (None without theirs). about: see run.py."""
    peer = about["peer"]
    title = f"{about['name']}{' in FP8' if about['fp8'] else ''}, {about['tokens']} tokens a step"
    lines = [f"{title}, {len(ours)} blocks a side of {len(ours[0].step_ms)} steps after {about['warmup']}"]
    if peer:
        lines.append(f"  on {peer['device']}, beside PyTorch {peer['torch']} {peer['options']}".rstrip())
    lines.append(side_line("ours", ours, about["tokens"]))
    ratio = None
    if peer:
        lines.append(side_line("theirs", theirs, about["tokens"]))
        ratio = median_ms(theirs) / median_ms(ours)
        lines.append(f"  ratio of medians, ours to theirs in tokens/s: {ratio:.3f}")
        lines += pair_lines(ours, theirs)
    lines += memory_lines(about["arena_bytes"], ours, theirs) + loss_lines(ours, theirs)
    first = statistics.median(block.first_step_s for block in ours)
    lines.append(f"  start to the end of the first step: ours {first:.1f} s"
                 + (f", theirs {peer['ready_s']:.1f} s" if peer else ""))
    return lines, ratio

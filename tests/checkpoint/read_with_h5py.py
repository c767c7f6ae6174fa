"""Reads a checkpoint with h5py and recomputes its checksums: python3 read_with_h5py.py FILE. Prints what it found."""
import sys

import h5py
import numpy

MASK = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def checksum(values):
    bits = values.view(numpy.uint32 if values.dtype.itemsize == 4 else numpy.uint64).ravel()
    return sum(splitmix64(((i << 32) + int(b)) & MASK) for i, b in enumerate(bits)) & MASK


with h5py.File(sys.argv[1], "r") as file:
    print("attributes", *(int(file.attrs[k]) for k in "format_version step samples tokens skipped seed complete".split()))
    print("run_id", file.attrs["run_id"].decode())

    def visit(name, item):
        if isinstance(item, h5py.Group):
            print("group", name, int(item.attrs["step"]))
            return
        good = "good" if checksum(item[()]) == int(item.attrs["checksum"]) else "bad"
        layout = "contiguous" if item.chunks is None else "chunked"
        print("dataset", name, item.dtype, list(item.shape), layout, good, float(item[()].ravel()[-1]).hex())

    file.visititems(visit)

"""The comparison itself: what it makes of given times, and our side of it on the CPU. PyTorch is not needed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from report import Block, text

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("OCTACHORON", HERE.parents[2] / "build/bin/octachoron")
ABOUT = dict(name="model", fp8=False, tokens=1000, warmup=1, arena_bytes=2**30,
             peer=dict(device="GPU", torch="1", options="", ready_s=7.0))


def block(*step_ms, **other):
    return Block(step_ms=list(step_ms), losses=[3.0, 2.0, 1.0], begin=0, end=1, first_step_s=4.0, **other)


class Report(unittest.TestCase):

    def test_ratio_is_theirs_over_ours(self):
        lines, ratio = text(ABOUT, [block(10, 11), block(10, 500)], [block(21, 21), block(20, 22)])
        self.assertEqual(ratio, 21 / 10.5)
        self.assertIn("ratio of medians, ours to theirs in tokens/s: 2.000", "\n".join(lines))
        self.assertIn("95238 tokens/s", "\n".join(lines))  # 1000 tokens in 10.5 ms

    def test_spread_is_between_blocks(self):
        ours = [block(10, 10, 90), block(11, 11, 11), block(10, 10, 10)]
        lines, _ = text(ABOUT, ours, [block(20), block(20), block(20)])
        self.assertIn("blocks differ by 10.00 %, steps 10.00 .. 90.00 ms", "\n".join(lines))

    def test_memory_compares_like_with_like(self):
        theirs = block(1, memory=2 * 2**30, allocated=2**29, reserved=2**30)
        lines, _ = text(ABOUT, [block(1, memory=3 * 2**30)], [theirs])
        self.assertIn("ours 3.00 (arena 1.00), theirs 2.00 (allocated 0.50, reserved 1.00)", "\n".join(lines))
        self.assertIn("arena to allocated 2.000, process to process 1.500", "\n".join(lines))

    def test_ours_alone(self):
        lines, ratio = text(dict(ABOUT, peer=None), [block(10)], [])
        self.assertIsNone(ratio)
        self.assertNotIn("theirs 7", "\n".join(lines))


class Files(unittest.TestCase):

    def test_shapes(self):
        expected = {"gpt2-124m": 124475904, "gpt2-1558m": 1557686400, "llama-1b": 1235814400,
                    "llama-8b-l8": 2795573248}
        self.assertEqual(sorted(expected), sorted(file.stem for file in HERE.glob("*.ini")))
        for name, parameters in expected.items():
            plan = subprocess.run([PROGRAM, "plan", HERE / f"{name}.ini", "--set", "backend.device=cpu"],
                                  capture_output=True, text=True, check=False)
            self.assertIn(f"parameters: {parameters},", plan.stdout, plan.stderr)


class OursAlone(unittest.TestCase):

    def test_on_the_cpu(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            changes = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 300, "sequence": 32, "global": 4,
                       "micro": 2}
            lines = (HERE / "gpt2-124m.ini").read_text().splitlines()
            for key, value in changes.items():
                lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in lines]
            (folder / "small.ini").write_text("\n".join(lines))
            result = subprocess.run(
                [sys.executable, "-B", HERE / "run.py", folder / "small.ini", "--program", PROGRAM, "--device", "cpu",
                 "--peer", "none", "--pairs", "2", "--steps", "4", "--warmup", "2", "--output", folder / "out",
                 "--json", folder / "result.json"],
                capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("small, 128 tokens a step, 2 blocks a side of 4 steps after 2", result.stdout)
            seen = json.loads((folder / "result.json").read_text())
            first, second = seen["ours"]
            self.assertEqual((len(first["step_ms"]), len(first["losses"])), (4, 6))
            self.assertEqual(first["losses"], second["losses"])  # each block is the same run from its start
            self.assertGreater(second["begin"], first["end"])
            self.assertLess(first["losses"][-1], first["losses"][0])
            self.assertGreater(seen["arena_bytes"], 0)
            self.assertEqual(list((folder / "out").rglob("*.h5")), [folder / "out/tokens.h5"])  # and nothing was saved


if __name__ == "__main__":
    unittest.main()

"""breakdown.py on a step made by hand."""
import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import breakdown


def event(name, category, begin_us, length_us, **arguments):
    return {"name": name, "cat": category, "ph": "X", "pid": 0, "tid": 0, "ts": begin_us, "dur": length_us, "args": arguments}


def product(name, begin_us, length_us, flops, of="bf16"):
    return event(name, "gemm", begin_us, length_us, operation="gemm", type=of, flops=flops, memory_bytes=1e6)


TRACE = {
    "traceEvents": [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "compute"}},
        product("layers.0.mlp.fc1.fprop", 0, 1000, 600e9),
        product("layers.1.mlp.fc1.fprop", 1000, 1000, 600e9),
        product("layers.0.mlp.fc1.wgrad", 2000, 500, 600e9, "e5m2"),
        event("layers.0.attention", "compute", 2500, 1000, operation="attention", type="bf16", flops=341e9, memory_bytes=1e6),
        event("layers.0.gelu", "compute", 3500, 500, operation="gelu", type="bf16", flops=1e9, memory_bytes=1.07e9),
        event("load", "host copy", 0, 9000, operation="copy", type="i32", flops=0, memory_bytes=1e3),
        event("wait", "wait", 0, 9000, **{"for": "x"}),
        event("bucket.0", "communication", 3000, 2000, operation="all_gather", bytes=200e6),
        {**product("of another rank", 0, 9000, 1e9), "pid": 1},
    ],
    "otherData": {"step": 7, "mean": {"step_ms": 8.0}},
}  # yapf: disable


class Breakdown(unittest.TestCase):

    def parts(self, by="operation"):
        return breakdown.breakdown(TRACE, 0, by, breakdown.RATES, breakdown.COPY)

    def test_times_rates_and_rooflines(self):
        parts, covered = self.parts()
        bf16, fp8 = parts["products"]["gemm bf16"], parts["products"]["gemm e5m2"]
        self.assertEqual((bf16.count, bf16.ms), (2, 2.0))
        self.assertAlmostEqual(bf16.tflops(), 600)
        self.assertAlmostEqual(bf16.roofline_ms, 1200 / 682)
        self.assertAlmostEqual(fp8.roofline_ms, 600 / 1278)
        self.assertAlmostEqual(parts["attention"]["attention"].roofline_ms, 0.5)
        gelu = parts["bound by memory"]["gelu"]
        self.assertAlmostEqual(gelu.gbps(), 2140)
        self.assertAlmostEqual(gelu.roofline_ms, 0.25)
        self.assertAlmostEqual(parts["communication"]["all_gather"].gbps(), 100)
        self.assertEqual(covered, {"compute": 4.0, "communication": 2.0, "overlap": 1.0, "busy": 5.0})

    def test_labels_of_layers_are_one(self):
        parts, _ = self.parts("label")
        self.assertEqual(parts["products"]["layers.*.mlp.fc1.fprop"].count, 2)

    def test_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "step-7.json"
            file.write_text(json.dumps(TRACE))
            metrics = pathlib.Path(folder) / "metrics.jsonl"
            lengths = [(1, 900.0, 3.0), (5, 6.0, None), (6, 6.5, None), (7, 8.0, 4.0), (8, 7.0, None), (40, 1.0, None)]
            metrics.write_text("".join(json.dumps({"step": s, "step_ms": ms, "compute_ms": c}) + "\n" for s, ms, c in lengths))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                breakdown.main([str(file), "--peak", "bf16=600", "--copy", "2140", "--metrics", str(metrics)])
        text = out.getvalue()
        self.assertIn("| gemm bf16 | 2 | 2.000 | 25.0 % | 600.0 TFLOP/s | 100 % | 2.000 |", text)
        self.assertIn("| gelu | 1 | 0.500 | 6.2 % | 2140 GB/s | 100 % | 0.500 |", text)
        self.assertIn("idle 3.000 ms (37.5 %)", text)
        self.assertIn("not traced: 6.500 ms (median of 3), of which idle would be 1.500 ms (23.1 %)", text)

    def test_refusals(self):
        with self.assertRaisesRegex(SystemExit, "no operations of rank 5"):
            breakdown.breakdown(TRACE, 5, "operation", breakdown.RATES, breakdown.COPY)
        old = {"traceEvents": [event("x", "gemm", 0, 1, operation="gemm")], "otherData": TRACE["otherData"]}
        with self.assertRaisesRegex(SystemExit, "does not say what operations cost"):
            breakdown.breakdown(old, 0, "operation", breakdown.RATES, breakdown.COPY)


if __name__ == "__main__":
    unittest.main()

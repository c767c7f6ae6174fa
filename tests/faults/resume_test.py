"""A run that is cut in pieces is the run in one piece, bit by bit; other grids start and resume from the same weights.

Groups E and F: F05, F07, F11, F13, F14; L01, L06. Shapes are uneven: hidden 30 and vocabulary 251 are no multiples of
what shards them, and neither are the buckets.
"""
import os
import re
import unittest

import h5py

from harness import DATA, DONE, USAGE, FaultTest

UNEVEN = {"model__hidden": 30, "model__heads": 4, "model__head_dim": 14, "model__ffn": 124, "model__vocab": 251,
          "model__layers": 3, "grid__dp": 2, "grid__tp": 2}  # yapf: disable
FIELDS = """step time loss grad_norm learning_rate samples tokens step_ms tokens_per_s model_tflops_per_device mfu
peak_tflops compute_ms comm_ms overlap_ms exposed_ms idle_ms exposed_ms_by_axis stall_ms saturated flushed nonfinite
amax_max calibrated skipped""".split()
TIMES = ("time", "step_ms", "tokens_per_s", "model_tflops_per_device", "mfu", "compute_ms", "comm_ms", "overlap_ms", "exposed_ms",
         "idle_ms", "exposed_ms_by_axis", "stall_ms")  # yapf: disable


def timeless(lines):
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def masters(path):
    """Values by name, read by a reader that is not ours."""
    values = {}
    with h5py.File(path, "r") as file:
        file["master"].visititems(
            lambda name, item: values.__setitem__(name, item[()].tobytes()) if hasattr(item, "dtype") else None)
    return values


class Resume(FaultTest):

    def cut(self, pieces, ranks, **changes):
        """The run of 10 steps in one piece in `whole`, and in pieces that end at the given steps in `cut`."""
        self.train(ranks=ranks, run__output=self.path("whole"), run__steps=10, optimizer__decay_steps=10, **changes)
        for end in pieces:
            result = self.train(ranks=ranks, run__output=self.path("cut"), run__steps=end,
                                optimizer__decay_steps=10, **changes)
        self.assertIn(f"step-{pieces[-2]:08d}.h5' after step {pieces[-2]}", result.out)
        self.assert_same(self.checkpoint(10, "whole"), self.checkpoint(10, "cut"))
        self.assertEqual(timeless(self.metrics("whole")), timeless(self.metrics("cut")))

    def test_uneven_shards(self):  # F13, F14, F07
        self.cut([4, 10], 4, optimizer__beta2="0.999", optimizer__decay="cosine", optimizer__warmup=3, **UNEVEN)

    def test_three_restarts(self):  # F11: 374 samples, 8 a step: the second pass begins at step 47
        self.text_file("train.txt", 16 * 40 + 1)  # 40 samples: every 5 steps a new order
        self.cut([3, 5, 6, 10], 2, grid__dp=2)

    def test_finished_run(self):
        self.train(run__steps=3)
        before = self.checkpoint(3).stat().st_mtime_ns
        result = self.train(run__steps=3)
        self.assertIn("nothing to do", result.out)
        self.assertEqual(self.checkpoint(3).stat().st_mtime_ns, before)
        result = self.train("--set", "run.steps=2")
        self.assertIn("nothing to do", result.out)
        self.assertEqual(self.checkpoints(), ["step-00000003.h5"])
        self.assertEqual(len(self.metrics()), 3)

    def test_rate_zero_keeps_every_bit(self):  # F05
        self.train(ranks=2, run__steps=2, grid__dp=2)
        self.train(ranks=2, run__steps=3, grid__dp=2, optimizer__learning_rate=0, optimizer__weight_decay=0)
        self.assertEqual(masters(self.checkpoint(2)), masters(self.checkpoint(3)))

    def test_changed_parameters_are_printed_and_used(self):
        self.train(run__steps=2)
        result = self.train(run__steps=4, optimizer__learning_rate="2e-3", batch__global=4)
        self.assertIn("changed since: optimizer.learning_rate: 0.01 -> 0.002", result.out)
        self.assertIn("changed since: batch.global: 8 -> 4", result.out)
        lines = self.metrics()
        self.assertEqual([line["learning_rate"] for line in lines], [0.01, 0.01, 0.002, 0.002])
        self.assertEqual([line["samples"] for line in lines], [8, 16, 20, 24])

    def test_refusals(self):
        self.train(ranks=2, run__steps=2, grid__dp=2)
        files = self.checkpoints()
        dp2 = {"ranks": 2, "grid__dp": 2}
        for status, part, changes in ((USAGE, "run.resume = none", {"run__resume": "none"}),
                                      (DATA, "model.layers = 2 there, 3 here", {"model__layers": 3}),
                                      (DATA, "seed 1 there, 2 here", {"run__seed": 2}),
                                      (DATA, "no.h5", {"run__resume": self.path("no.h5")})):
            self.assert_refused(self.train(expect=status, **dp2, **changes), status, part)
        self.assertEqual(self.checkpoints(), files)
        self.assertEqual(len(self.metrics()), 2)

    def test_resume_none_without_checkpoints(self):
        self.assertIn("starts from seed 1", self.train(run__steps=1, run__resume="none").out)

    def test_resume_a_named_file(self):
        self.train(run__steps=4, checkpoint__every=2, checkpoint__keep=0)
        result = self.train(run__steps=4, run__output=self.path("named"), run__resume=self.checkpoint(2))
        self.assertIn(f"resumes '{self.checkpoint(2)}' after step 2", result.out)
        self.assert_same(self.checkpoint(4), self.checkpoint(4, "named"))

    def test_metrics_after_the_resumed_step_move(self):
        self.train(run__steps=6, checkpoint__every=4, checkpoint__keep=0)
        first = self.metrics()
        for n in (1, 2):
            os.remove(self.checkpoint(6))
            self.train(run__steps=6, checkpoint__every=4, checkpoint__keep=0)
            self.assertEqual([line["step"] for line in self.metrics(file=f"metrics.{n}.jsonl")], [5, 6])
            self.assertEqual(timeless(self.metrics()), timeless(first))

    def test_metrics_after_a_killed_writer(self):
        self.train(run__steps=2)
        whole = (self.path("out") / "metrics.jsonl").read_text()
        for steps, torn in ((4, '{"ste'), (5, '{"step":5,"time":17'), (6, '{"step":1')):
            with open(self.path("out") / "metrics.jsonl", "a", encoding="ascii") as file:
                file.write(torn)
            self.train(run__steps=steps)
            self.assertEqual([line["step"] for line in self.metrics()], list(range(1, steps + 1)))
        self.assertTrue((self.path("out") / "metrics.jsonl").read_text().startswith(whole))


GRIDS = ((1, 1), (2, 2), (1, 4), (4, 1))


class Grids(FaultTest):
    """L01, and loading on another grid."""

    def test_initial_weights(self):
        for dp, tp in GRIDS:
            self.train(ranks=dp * tp, run__output=self.path(f"{dp}x{tp}"), run__steps=0,
                       **{**UNEVEN, "grid__dp": dp, "grid__tp": tp})
            self.assertIn("step-00000000.h5", self.checkpoints(f"{dp}x{tp}"))
            self.assert_same(self.checkpoint(0, "1x1"), self.checkpoint(0, f"{dp}x{tp}"))

    def test_load_on_another_grid(self):
        self.train(ranks=4, run__output=self.path("made"), run__steps=4, optimizer__decay_steps=6,
                   **UNEVEN)
        source = self.checkpoint(4, "made")
        losses = {}
        for dp, tp in GRIDS:
            grid = {**UNEVEN, "grid__dp": dp, "grid__tp": tp}
            self.train(ranks=dp * tp, run__output=self.path(f"{dp}x{tp}"), run__steps=5, run__resume=source,
                       optimizer__learning_rate=0, optimizer__weight_decay=0, **grid)
            self.assertEqual(masters(source), masters(self.checkpoint(5, f"{dp}x{tp}")))
            losses[dp, tp] = self.losses(f"{dp}x{tp}")[0]
        for grid, loss in losses.items():
            self.assertLess(abs(loss / losses[2, 2] - 1), 1e-5, f"{grid}: {losses}")


class Parity(FaultTest):
    """Losses and norms before clipping do not depend on how a batch is cut up."""

    def test_grids(self):  # B01, B10, E01, E03, E11: REF within 1e-5 over 5 steps
        lines = {}
        for dp, tp in GRIDS:
            self.train(ranks=dp * tp, run__output=self.path(f"{dp}x{tp}"), run__steps=5,
                       **{**UNEVEN, "grid__dp": dp, "grid__tp": tp})
            lines[dp, tp] = self.metrics(f"{dp}x{tp}")
        for grid in GRIDS:
            for ours, reference in zip(lines[grid], lines[1, 1]):
                self.assertLess(abs(ours["loss"] / reference["loss"] - 1), 1e-5, f"{grid}")
                self.assertLess(abs(ours["grad_norm"] / reference["grad_norm"] - 1), 1e-4, f"{grid}")

    def test_micro_batches_and_buckets(self):  # E02, E06, E10
        reference = None
        for micro, bucket in ((1, 32), (2, "0.01"), (4, "0.05"), (8, 32)):
            self.train(ranks=1, run__output=self.path(f"{micro}"), run__steps=3, batch__micro=micro,
                       parallel__bucket=bucket)
            lines = self.metrics(f"{micro}")
            reference = reference or lines
            for ours, first in zip(lines, reference):
                self.assertLess(abs(ours["loss"] / first["loss"] - 1), 1e-5, f"{micro}, {bucket}")
                self.assertLess(abs(ours["grad_norm"] / first["grad_norm"] - 1), 1e-4, f"{micro}, {bucket}")


class Repeat(FaultTest):

    def test_same_seed_same_bits(self):  # L06
        for name, overlap in (("a", "on"), ("b", "on"), ("off", "off")):
            self.train(ranks=4, run__output=self.path(name), run__steps=6, parallel__overlap=overlap,
                       parallel__bucket="0.01", **UNEVEN)
            self.assert_same(self.checkpoint(6, "a"), self.checkpoint(6, name))
            self.assertEqual(timeless(self.metrics("a")), timeless(self.metrics(name)))

    def test_other_seed_other_bits(self):
        for seed in (1, 2):
            self.train(run__output=self.path(f"{seed}"), run__steps=1, run__seed=seed)
        self.assert_differ(self.checkpoint(1, "1"), self.checkpoint(1, "2"))
        self.assertNotEqual(self.losses("1"), self.losses("2"))


class Report(FaultTest):
    """J01, J02, J05, J07: rates count the whole grid and all micro-batches, and each step is told once."""

    def test_rates_on_any_grid(self):
        # 6 x (12 hidden^2 x layers + head) + 6 x layers x sequence x hidden, for 8 x 16 tokens
        operations = (6 * (12 * 32 * 32 * 2 + 256 * 32) + 6 * 2 * 16 * 32) * 128
        for ranks, micro, grid in ((1, 8, {}), (1, 1, {}), (4, 1, {"grid__dp": 2, "grid__tp": 2})):
            name = f"{ranks}-{micro}"
            result = self.train(ranks=ranks, run__steps=3, run__output=self.path(name), batch__micro=micro, **grid)
            self.assertEqual(len(re.findall(r"^step +\d+/3  loss ", result.out, re.MULTILINE)), 3, result.out)
            for line in self.metrics(name):
                seconds = line["step_ms"] / 1e3
                self.assertAlmostEqual(line["tokens_per_s"] * seconds, 128, 6)
                self.assertAlmostEqual(line["model_tflops_per_device"] * 1e12 * seconds * ranks / operations, 1, 9)
                self.assertEqual((line["mfu"], line["peak_tflops"]), (None, None))  # no peak is known of a CPU


class Files(FaultTest):

    def test_metrics_fields(self):
        self.train(ranks=2, run__steps=4, grid__dp=2, data__validation=self.path("train.txt"),
                   data__validate_every=2, data__validate_batches=2)
        lines = self.metrics()
        for step, line in enumerate(lines, 1):
            self.assertEqual(list(line), FIELDS + (["validation_loss"] if step % 2 == 0 else []))
            self.assertEqual((line["step"], line["samples"], line["tokens"]), (step, 8 * step, 8 * 16 * step))
            self.assertEqual(list(line["exposed_ms_by_axis"]), ["tp", "cp", "pp", "dp", "mixed"])
            self.assertEqual(line["skipped"], 0)
        text = (self.path("out") / "metrics.jsonl").read_text()
        for name, value in re.findall(r'"(loss|grad_norm|learning_rate|time)":([^,]+)', text):
            self.assertEqual(float(repr(float(value))), float(value))
            self.assertLessEqual(len(value), len(repr(float(value))), f"{name} is not in its shortest form")

    def test_checkpoint_by_an_independent_reader(self):
        self.train(ranks=4, run__steps=2, **UNEVEN)
        with h5py.File(self.checkpoint(2), "r") as file:
            attributes = {key: file.attrs[key] for key in file.attrs}
            for key in "format_version step samples tokens seed run_id parameters versions complete".split():
                self.assertIn(key, attributes)
            self.assertEqual((attributes["step"], attributes["samples"], attributes["tokens"]), (2, 16, 256))
            for group in ("master", "optimizer/exp_avg", "optimizer/exp_avg_sq"):
                self.assertEqual(file[group].attrs["step"], 2)
                shape = file[group]["embedding.token.weight"].shape
                self.assertEqual((shape, file[group]["embedding.token.weight"].dtype.str), ((251, 30), "<f4"))
                self.assertEqual(file[group]["layers.2.attention.qkv.weight"].shape, (168, 30))
                self.assertIn("checksum", file[group]["norm.bias"].attrs)
                self.assertNotIn("head.weight", file[group])

    def test_retention(self):
        self.train(run__steps=5, checkpoint__every=1, checkpoint__keep=2)
        self.assertEqual(self.checkpoints(), ["step-00000004.h5", "step-00000005.h5"])
        self.train(run__steps=7, checkpoint__every=1, checkpoint__keep=0)
        self.assertEqual(len(self.checkpoints()), 4)

    def test_gradients_of_a_step_that_validates(self):
        """Validation uses the memory of the gradients: they must be in the file before."""
        for output, validation in (("with", self.path("train.txt")), ("without", None)):
            self.train(ranks=2, grid__dp=2, run__steps=3, run__output=self.path(output), trace__gradients="2-3",
                       data__validation=validation, data__validate_every=1)
        for step in (2, 3):
            name = f"gradients/step-{step:08d}.h5"
            self.assert_same(self.path("with") / name, self.path("without") / name)

    def test_gradients_that_cannot_be_saved(self):
        self.path("out").mkdir()
        (self.path("out") / "gradients").write_text("a file")
        result = self.train(ranks=2, grid__dp=2, run__steps=3, trace__gradients="2")
        self.assertEqual(len(result.errors), 1, str(result))
        self.assertIn("gradients", result.errors[0])
        self.assertEqual(self.checkpoints(), ["step-00000003.h5"])


if __name__ == "__main__":
    unittest.main()

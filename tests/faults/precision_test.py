"""FP8 through the program: runs in pieces, other recipes on resume, files that do not grow, steps that calibrate.

Group A: A03, A10, A11, A12.
"""
import re
import unittest

import h5py

from harness import DONE, USAGE, FaultTest

ALIGNED = {"model__hidden": 64, "model__heads": 4, "model__sequence": 32, "batch__micro": 2, "optimizer__decay_steps": 10,
           "optimizer__learning_rate": "1e-3"}  # yapf: disable
RECIPES = ("fp8-delayed", "fp8-current", "bf16")
TENSORS, WEIGHTS = 24, 8  # of two layers with four linears each: input, weight and gradient of the output


def datasets(path):
    """Name and shape of each dataset."""
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.__setitem__(name, item.shape)
                        if isinstance(item, h5py.Dataset) else None)
    return found


def tables(path):
    """History and scale by tensor."""
    with h5py.File(path, "r") as file:
        if "precision" not in file:
            return {}
        return {name: (file["precision/amax"][name][()].ravel().tolist(),
                       float(file["precision/scale"][name][()].ravel()[0])) for name in file["precision/amax"]}


class Precision(FaultTest):

    def fp8(self, recipe="fp8-delayed", **changes):
        return self.train(**{**ALIGNED, "backend__precision": recipe, **changes})

    def test_resume_is_bitwise(self):  # A10: the step after the start reads the tables of the file
        for recipe in RECIPES[:2]:
            grid = {"ranks": 4, "grid__dp": 2, "grid__tp": 2}
            cut = recipe + "-cut"
            self.fp8(recipe, run__output=self.path(recipe), run__steps=5, **grid)
            for end in (3, 5):
                result = self.fp8(recipe, run__output=self.path(cut), run__steps=end, **grid)
                self.assertNotIn("amax histories", result.out)
            self.assert_same(self.checkpoint(5, recipe), self.checkpoint(5, cut))
            self.assertEqual(self.losses(recipe), self.losses(cut))
            self.assertEqual([line["calibrated"] for line in self.metrics(cut)], [int(recipe == "fp8-delayed")] + 4 * [0])

    def test_resume_with_another_recipe(self):  # A11
        fresh = "amax histories of {} tensors are not in the checkpoint and begin anew".format
        unused = "amax histories of {} tensors in the checkpoint are not used by this recipe".format
        expected = {
            ("fp8-delayed", "fp8-current"): [unused(TENSORS - WEIGHTS)],
            ("fp8-delayed", "bf16"): [unused(TENSORS)],
            ("fp8-current", "fp8-delayed"): [fresh(TENSORS - WEIGHTS)],
            ("fp8-current", "bf16"): [unused(WEIGHTS)],
            ("bf16", "fp8-delayed"): [fresh(TENSORS)],
            ("bf16", "fp8-current"): [fresh(WEIGHTS)],
        }
        for before in RECIPES:
            self.fp8(before, run__output=self.path(before), run__steps=2)
            for after in sorted(RECIPES, key=lambda name: name != before):  # the same one first
                with self.subTest(before=before, after=after):
                    output = self.path(f"{before}-{after}")
                    result = self.fp8(after, run__output=output, run__steps=4, run__resume=self.checkpoint(2, before))
                    lines = re.findall(r"^.*?(amax histories of .*?)$", result.out, re.MULTILINE)
                    self.assertEqual(lines, expected.get((before, after), []))
                    changed = f"changed since: backend.precision: {before} -> {after}" in result.out
                    self.assertEqual(changed, before != after)
                    metrics = self.metrics(output)
                    self.assertEqual([line["step"] for line in metrics], [3, 4])
                    first = int(after == "fp8-delayed" and before != after)
                    self.assertEqual([line["calibrated"] for line in metrics],
                                     [None, None] if after == "bf16" else [first, 0])
                    self.assertLess(abs(metrics[0]["loss"] / self.losses(f"{before}-{before}")[0] - 1), 5e-3)
                    self.assertEqual(len(tables(self.checkpoint(4, output))),
                                     {"fp8-delayed": TENSORS, "fp8-current": WEIGHTS, "bf16": 0}[after])

    def test_resume_with_another_window_or_format(self):
        """Entries that fit are taken, and scales follow the new rule."""
        self.fp8(run__steps=3, precision__amax_history=4)
        old = tables(self.checkpoint(3))
        result = self.fp8(run__steps=3, run__output=self.path("same"), run__resume=self.checkpoint(3),
                          precision__amax_history=4)
        self.assertNotIn("changed since: precision", result.out)
        self.fp8(run__steps=4, run__output=self.path("short"), run__resume=self.checkpoint(3), precision__amax_history=2,
                 precision__margin=1, precision__format="e4m3", precision__amax_algorithm="most_recent")
        new = tables(self.checkpoint(4, "short"))
        self.assertEqual(set(old), set(new))
        for name, (history, scale) in new.items():
            self.assertEqual(len(history), 2, name)
            self.assertEqual(history[1], old[name][0][0], name)
            self.assertLess(abs(scale / (224 / history[0]) - 1), 1e-6, name)
        (line,) = self.metrics("short")
        self.assertEqual(line["calibrated"], 0)
        self.assertLess(line["saturated"], 100)  # E4M3 with scales of E5M2 would clip all gradients

    def test_files_do_not_grow(self):  # A12
        self.fp8(run__steps=40, checkpoint__keep=0, checkpoint__every=20, precision__amax_history=8, run__log_every=40)
        first, last = self.checkpoint(20), self.checkpoint(40)
        self.assertEqual(datasets(first), datasets(last))
        self.assertLess(abs(first.stat().st_size - last.stat().st_size), 4096)
        for name, (history, _) in tables(last).items():
            self.assertEqual(len(history), 8, name)
            self.assertTrue(all(entry > 0 for entry in history), name)

    def test_a_start_file_holds_what_is_known(self):
        """Weights have histories before the first step, and nothing else has."""
        self.fp8(run__steps=0)
        for name, (history, scale) in tables(self.checkpoint(0)).items():
            self.assertEqual(history[0] > 0, name.endswith(".weight"), name)
            self.assertEqual(history[1:], (len(history) - 1) * [0], name)
            self.assertAlmostEqual(scale, 448 / history[0] if history[0] else 1, delta=1e-4 * scale, msg=name)

    def test_all_zero(self):  # A03: calibrations that find nothing end, with a line that says so
        result = self.fp8(run__steps=6, model__init_std=0)
        self.assertEqual([line["calibrated"] for line in self.metrics()], [1, 1, 1, 0, 0, 0])
        self.assertEqual([line["skipped"] for line in self.metrics()], 6 * [0])
        told = [line for line in result.errors if "calibration has found no scale" in line]
        self.assertEqual(len(told), 1, str(result))
        self.assertIn("layers.0.", told[0])

    def test_misaligned(self):  # A18: before anything is written
        for changes, part in (({"model__ffn": 72}, "set model.ffn to 64 or 80"),
                              ({"model__sequence": 8, "batch__micro": 1}, "set model.sequence to 16")):
            result = self.fp8(expect=USAGE, **changes)
            self.assert_refused(result, USAGE, part, "layers.0.")
            self.assertFalse(self.path("out").exists())
        self.assertEqual(self.fp8(run__steps=1, model__ffn=72, precision__exclude="*.mlp.*").status, DONE)


if __name__ == "__main__":
    unittest.main()

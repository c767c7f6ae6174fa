"""Steps that are not finite (A27): skipped by all ranks alike, their origin named, given up with status 5."""
import math
import shutil
import unittest

import h5py
import numpy

from harness import DIVERGED, FaultTest

DIVERGING = {"ranks": 2, "optimizer__learning_rate": "1e30", "grid__dp": 2, "run__steps": 30}


def splitmix64(x):
    x = x + numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def set_row(path, name, row, value):
    """Fills a row of a dataset, and puts its checksum right."""
    with h5py.File(path, "r+") as file:
        dataset = file[name]
        dataset[row] = value
        bits = dataset[()].ravel().view(numpy.uint32).astype(numpy.uint64)
        index = numpy.arange(bits.size, dtype=numpy.uint64) << numpy.uint64(32)
        dataset.attrs["checksum"] = splitmix64(index + bits).sum(dtype=numpy.uint64)


def state(path):
    """Masters and moments by name, bit by bit."""
    values = {}
    with h5py.File(path, "r") as file:
        for group in ("master", "optimizer"):
            file[group].visititems(lambda name, item: values.__setitem__(
                item.name, item[()].tobytes()) if isinstance(item, h5py.Dataset) else None)
    return values


class Divergence(FaultTest):

    def test_given_up(self):
        result = self.train(expect=DIVERGED, run__max_skipped=3, checkpoint__every=2, **DIVERGING)
        lines = self.metrics()
        skipped = [line for line in lines if line["skipped"] > 0]
        self.assertEqual([line["skipped"] for line in skipped], [1, 2, 3, 4])
        for line in skipped:
            self.assertTrue(line["loss"] is None or line["grad_norm"] is None, str(line))
        first = skipped[0]["step"]
        self.assertEqual(len([line for line in result.errors if "is skipped" in line]), 4)
        origins = [line for line in result.errors if "first is not finite on rank" in line]
        self.assertEqual(len(origins), 4, str(result))
        self.assertRegex(origins[0], rf"step {first} .* rank \d \(.+\); ")
        self.assertIn("run.max_skipped = 3", result.errors[-1])
        self.assertIn("diverged", result.errors[-1])

    def test_none_allowed(self):
        self.train(expect=DIVERGED, run__max_skipped=0, **DIVERGING)
        self.assertEqual(self.metrics()[-1]["skipped"], 1)

    def test_skipped_steps_change_nothing(self):
        """Saved every step: once steps are skipped, masters and moments stay as they are, bit by bit."""
        self.train(expect=DIVERGED, run__max_skipped=4, checkpoint__every=1, checkpoint__keep=0, **DIVERGING)
        skipped = [line["step"] for line in self.metrics() if line["skipped"] > 0]
        before = self.checkpoint(skipped[0] - 1)
        for step in skipped[:-1]:  # the last is not saved
            self.assert_same(before, self.checkpoint(step))
        self.assertFalse(self.checkpoint(skipped[-1]).exists())

    def test_skipped_steps_do_not_age_the_optimiser(self):
        """A token that is not finite makes the one step not finite that meets it. The steps after it are those of a
        run that never saw its batch, bit by bit: Adam's bias correction counts updates, not steps."""
        text = bytearray(self.path("train.txt").read_bytes()[:16 * 40 + 1])  # five steps, each sample once
        text[16 * 11 + 5] = ord("Z")
        self.path("train.txt").write_bytes(text)
        changes = {"ranks": 2, "grid__dp": 2, "model__tie_embeddings": "off", "optimizer__weight_decay": 0,
                   "checkpoint__every": 1, "checkpoint__keep": 0}  # yapf: disable
        self.train(run__steps=0, **changes)
        set_row(self.checkpoint(0), "master/embedding.token.weight", ord("Z"), math.inf)
        self.train(run__steps=5, **changes)
        lines = self.metrics()
        skipped = next(line["step"] for line in lines if line["skipped"] > 0)
        self.assertEqual([line["skipped"] for line in lines], [int(step >= skipped) for step in range(1, 6)])
        self.assertIn(skipped, (2, 3, 4), "the test wants updates before and after it")
        before = self.checkpoint(skipped - 1, "never")
        before.parent.mkdir(parents=True)
        shutil.copy(self.checkpoint(skipped - 1), before)
        with h5py.File(before, "r+") as file:  # the data position behind the batch
            file.attrs["samples"] += numpy.uint64(8)
        self.train(run__steps=4, run__output=self.path("never"), **changes)
        self.assertEqual(self.metrics("never")[-1]["loss"], lines[-1]["loss"])
        self.assertEqual(state(self.checkpoint(4, "never")), state(self.checkpoint(5)))

    def test_resume_counts_on(self):
        changes = {**DIVERGING, "run__max_skipped": 100}
        first = None
        for steps in (6, 9):
            self.train(**{**changes, "run__steps": steps})
            first = first or self.metrics()[-1]["skipped"]
        self.assertEqual(self.metrics()[-1]["skipped"], first + 3)

    def test_weights_that_overflow(self):
        """A huge init_std: the very first step is not finite, and --check names the operation."""
        for options in ([], ["--check"]):
            with self.subTest(options=options):
                result = self.train(*options, ranks=4, expect=DIVERGED, model__init_std="1e30", run__max_skipped=1,
                                    run__output=self.path("out" + "".join(options)), grid__dp=2, grid__tp=2)
                origins = [line for line in result.errors if "first is not finite" in line]
                self.assertEqual(len(origins), 2, str(result))
                self.assertIn("step 1 ", origins[0])
                self.assertEqual(origins[0].replace("step 1", ""), origins[1].replace("step 2", ""))

    def test_check_is_the_same_run(self):
        for name, options in (("plain", []), ("check", ["--check"])):
            self.train(*options, ranks=2, run__output=self.path(name), run__steps=3, grid__tp=2)
        self.assert_same(self.checkpoint(3, "plain"), self.checkpoint(3, "check"))
        self.assertEqual(self.losses("plain"), self.losses("check"))


class Zeros(FaultTest):
    """What is exactly zero, or empty, is no reason for NaN."""

    def test_rows_without_gradient(self):
        """Vocabulary 5 over tp = 4: the last part holds padding only, and id 4 never occurs. Without epsilon the
        update of their rows is 0 / 0. The parts without ids are no origin of anything for --check."""
        data = self.path("four.txt")
        data.write_bytes(bytes(i * i // 7 % 4 for i in range(2000)))
        for name, options in (("plain", []), ("check", ["--check"])):
            result = self.train(*options, ranks=4, grid__tp=4, run__steps=4, run__output=self.path(name),
                                data__train=data, data__format="text", model__vocab=5, model__tie_embeddings="off",
                                optimizer__epsilon=0)
            self.assertEqual(result.errors, [])
            self.assertEqual(self.metrics(name)[-1]["skipped"], 0)
        self.assert_same(self.checkpoint(4, "plain"), self.checkpoint(4, "check"))
        for name, values in state(self.checkpoint(4, "plain")).items():
            self.assertTrue(numpy.isfinite(numpy.frombuffer(values, numpy.float32)).all(), name)
        self.assertLess(abs(self.losses("plain")[0] - math.log(5)), 0.05)


if __name__ == "__main__":
    unittest.main()

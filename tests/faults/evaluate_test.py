"""Token files in HDF5, and the loss of checkpoints: from `data import` over `train` to `evaluate`.

Groups D, E, G: D01, E01, G01, G02, G03, G06. `evaluate` runs the validation program of a run: on the same grid and data
it says, bit by bit, what the run logged.
"""
import json
import os
import unittest

import h5py
import numpy

from harness import DATA, DONE, GRAMMAR, USAGE, FaultTest

GRIDS = ((1, 1), (2, 1), (1, 2), (2, 2))


class WithTokens(FaultTest):

    def token_file(self, name, tokens, dtype="u2", vocab=None, **datasets):
        """Written by a writer that is not ours."""
        with h5py.File(self.path(name), "w") as file:
            file["tokens"] = numpy.asarray(tokens, dtype=dtype)
            for key, values in datasets.items():
                file[key] = values
            if vocab:
                file.attrs["vocab_size"] = vocab
        return self.path(name)

    def ids(self, count, vocab=300):
        k = numpy.arange(count)
        return (k * k // 3 + k // 7) % vocab

    def mask(self, count):
        k = numpy.arange(count)
        return ((k % 3 == 0) | (k % 64 > 40)).astype("u1")

    def evaluate(self, *arguments, ranks=1, expect=DONE):
        """The answer as JSON where there is one."""
        answer = self.path("answer.json")
        if answer.exists():
            answer.unlink()
        result = self.run_program("evaluate", *arguments, "--json", answer, ranks=ranks)
        self.assertEqual(result.status, expect, str(result))
        for line in result.errors:
            self.assertRegex(line, GRAMMAR)
        if expect != DONE:
            self.assertFalse(answer.exists())
            return result
        values = json.loads(answer.read_text())
        self.assertIn(f"loss {values['loss']}", result.out)
        return values


class TokenFiles(WithTokens):

    def refuse(self, *parts, status=DATA, **changes):
        changes = {"grid__tp": 2, **changes}
        self.assert_refused(self.train(ranks=2, expect=status, **changes), status, *parts)
        self.assert_absent()

    def test_the_vocabulary_is_the_files(self):
        file = self.token_file("train.h5", self.ids(2000), vocab=321)
        silent = self.token_file("silent.h5", self.ids(2000))
        self.refuse("model.vocab is missing", status=USAGE, data__train=silent)
        result = self.train(run__steps=1, data__train=file)
        self.assertIn("vocab = 321\n", result.out)
        self.assertIn("1 file, 2000 tokens, 124 samples of 16", result.out)
        self.train(run__steps=1, data__train=silent, model__vocab=300, run__output=self.path("told"))
        plan = self.run_program("plan", self.parameters(data__train=self.path("not-yet-there.txt")))
        self.assertEqual(plan.status, DONE, str(plan))

    def test_ids_beyond_the_vocabulary(self):  # G01, G02
        tokens = self.ids(2000)
        low = self.token_file("low.h5", tokens)
        tokens[1234] = 300
        file = self.token_file("high.h5", tokens)
        for grid in ({"grid__tp": 2}, {"grid__tp": 1, "grid__dp": 2}):
            self.refuse(file, "id 300", "token 1234", data__train=file, model__vocab=300, **grid)
            self.refuse(file, "id 300", "token 1234", data__validation=file, data__train=low, model__vocab=300, **grid)

    def test_other_contents(self):  # G03, G06
        tokens = self.ids(2000)
        for part, file in (
            ("its vocab_size is 70000", self.token_file("wide.h5", tokens, vocab=70000)),
            ("/tokens is not of type u8 to u32", self.token_file("signed.h5", tokens, dtype="i4")),
            ("3 entries", self.token_file("mask.h5", tokens, loss_mask=numpy.ones(3, "u1"))),
            ("document 1 begins at 2001", self.token_file("end.h5", tokens,
                                                          document_offsets=numpy.array([0, 2001], "u8"))),
            ("has no target", self.token_file("none.h5", tokens, loss_mask=numpy.zeros(2000, "u1"))),
        ):
            self.refuse(file, part, data__train=file, model__vocab=300)
        cut = self.token_file("cut.h5", tokens)
        os.truncate(cut, cut.stat().st_size - 1000)
        self.refuse(cut, "truncated", data__train=cut, model__vocab=300)
        a, b = self.token_file("a.h5", tokens, vocab=300), self.token_file("b.h5", tokens, vocab=400)
        self.refuse(a, b, "300", "400", data__train=f"{a},{b}", model__vocab=500)
        self.refuse(a, b, "300", "400", data__train=a, data__validation=b, model__vocab=500)

    def test_masks_on_grids(self):  # D01, E01: unequal numbers of targets on ranks and micro-batches
        file = self.token_file("train.h5", self.ids(4000), vocab=300, loss_mask=self.mask(4000))
        lines = {}
        for dp, tp in GRIDS:
            self.train(ranks=dp * tp, run__output=self.path(f"{dp}x{tp}"), run__steps=4, grid__dp=dp, grid__tp=tp,
                       data__train=file, data__validation=file, data__validate_every=2, data__validate_batches=0)
            lines[dp, tp] = self.metrics(f"{dp}x{tp}")
        for grid in GRIDS:
            for ours, one in zip(lines[grid], lines[1, 1]):
                for field in ("loss", "grad_norm") + (("validation_loss",) if one["step"] % 2 == 0 else ()):
                    self.assertLess(abs(ours[field] / one[field] - 1), 1e-5, f"{grid} {field}")

    def test_a_batch_without_targets(self):
        """One of three samples has targets; a step on another has gradient zero, and its loss is no number."""
        mask = numpy.zeros(3 * 16 + 1, "u1")
        mask[1:17] = 1
        file = self.token_file("train.h5", self.ids(49), vocab=300, loss_mask=mask)
        for dp in (1, 2):
            result = self.train(ranks=dp, grid__dp=dp, run__output=self.path(f"{dp}"), run__steps=3, data__train=file,
                                data__validation=file, data__validate_every=1, data__validate_batches=0,
                                batch__global=dp, batch__micro=1, optimizer__weight_decay=0)
            lines = self.metrics(f"{dp}")
            self.assertEqual([line["skipped"] for line in lines], [0, 0, 0])
            without = [line for line in lines if line["loss"] is None]
            self.assertEqual(len(without), 2 if dp == 1 else 1)
            self.assertTrue(all(line["grad_norm"] == 0 for line in without))
            self.assertTrue(all(line["validation_loss"] > 0 for line in lines))
            self.assertEqual(len(result.errors), 1, str(result))
            self.assertIn("no target", result.errors[0])

    def test_data_info(self):
        file = self.token_file("t.h5", self.ids(2000), vocab=300, loss_mask=self.mask(2000),
                               document_offsets=numpy.array([0, 100, 100, 500], "u8"))
        result = self.run_program("data", "info", file, "--sequence", "16")
        self.assertEqual(result.status, DONE, str(result))
        masked = int((self.mask(2000) == 0).sum())
        self.assertIn(f"hdf5 u16, 2000 tokens, vocabulary 300, 3 documents, {masked} tokens masked", result.out)
        self.assertIn("sequence 16: 124 samples for training", result.out)


class Import(WithTokens):

    def test_text_to_loss(self):
        """The same text as a text file and as a token file: the same run, bit by bit."""
        text = self.path("train.txt")
        result = self.run_program("data", "import", text, "--output", self.path("train.h5"), "--separator", "32")
        self.assertEqual(result.status, DONE, str(result))
        with h5py.File(self.path("train.h5"), "r") as file:
            self.assertEqual(file["tokens"].dtype.str, "|u1")
            self.assertEqual(file["tokens"][()].tobytes(), text.read_bytes())
            self.assertEqual(file.attrs["vocab_size"], 256)
            self.assertEqual(file["document_offsets"].dtype.str, "<u8")
            words = text.read_bytes().split(b" ")
            begins = numpy.cumsum([0] + [len(word) + 1 for word in words[:-1]])
            self.assertEqual(file["document_offsets"][()].tolist(), [b for b in begins.tolist() if b < 6000])
        for name in ("train.txt", "train.h5"):
            self.train(ranks=2, grid__dp=2, run__output=self.path(name + ".out"), run__steps=3,
                       data__train=self.path(name), data__validation=self.path(name))
        self.assert_same(self.checkpoint(3, "train.txt.out"), self.checkpoint(3, "train.h5.out"))
        self.assertEqual(self.losses("train.txt.out"), self.losses("train.h5.out"))
        values = self.evaluate(self.checkpoint(3, "train.h5.out"), "--data", text, ranks=2)
        self.assertEqual(values["loss"], self.metrics("train.txt.out")[-1]["validation_loss"])

    def test_raw_ids(self):
        ids = self.ids(2000, 1000)
        self.path("raw").write_bytes(ids.astype("<u2").tobytes())
        self.path("list").write_text("\n".join(map(str, ids)))
        for source, words in (("raw", ("--from", "u16")), ("list", ("--from", "ids"))):
            result = self.run_program("data", "import", self.path(source), "--output", self.path("t.h5"),
                                      "--vocab", "1000", *words)
            self.assertEqual(result.status, DONE, str(result))
            with h5py.File(self.path("t.h5"), "r") as file:
                self.assertEqual(file["tokens"].dtype.str, "<u2")
                self.assertEqual(file["tokens"][()].tolist(), ids.tolist())
        self.assertEqual(self.train(run__steps=1, data__train=self.path("t.h5")).status, DONE)

    def test_a_full_disk_leaves_nothing(self):
        self.path("big").write_bytes(b"x" * 300000)
        result = self.start("data", "import", self.path("big"), "--output", self.path("t.h5"),
                            wrapper=("bash", "-c", 'ulimit -f 100; exec "$@"', "bash")).wait()
        self.assert_refused(result, DATA, self.path("t.h5"), "cannot be written")
        self.assertEqual([entry.name for entry in self.folder.iterdir() if entry.name.startswith("t.h5")], [])


class Evaluate(WithTokens):

    def made(self, ranks=4, **changes):
        """A run with a masked validation file; its last checkpoint and the validation loss it logged."""
        self.token_file("train.h5", self.ids(4000), vocab=301)
        self.token_file("validation.h5", self.ids(1003)[::-1], vocab=301, loss_mask=self.mask(1003))
        changes = {"grid__dp": 2, "grid__tp": 2, "run__steps": 4, "data__validate_every": 2, "checkpoint__every": 2,
                   "data__train": self.path("train.h5"), "data__validation": self.path("validation.h5"), **changes}
        self.train(ranks=ranks, **changes)
        return self.checkpoint(4), self.metrics()[-1]["validation_loss"]

    def test_is_what_the_run_logged(self):
        checkpoint, logged = self.made()
        values = self.evaluate(checkpoint, ranks=4)
        self.assertEqual(values["loss"], logged, "bit by bit: floats are printed so that they read back the same")
        self.assertEqual(values["step"], 4)
        self.assertEqual(values["tokens"], int(self.mask(1003)[1:].sum()))
        self.assertEqual(values["batches"], 8)
        self.assertEqual(values["grid"], {"dp": 2, "tp": 2, "pp": 1, "cp": 1})
        self.assertAlmostEqual(values["perplexity"], numpy.exp(logged), places=9)
        before = self.evaluate(self.checkpoint(2), ranks=4)
        self.assertEqual(before["loss"], self.metrics()[1]["validation_loss"])
        self.assertNotEqual(before["loss"], logged)

    def test_on_other_grids(self):
        checkpoint, logged = self.made()
        for dp, tp in ((1, 1), (1, 2), (4, 1)):
            values = self.evaluate(checkpoint, "--set", f"grid.dp={dp}", "--set", f"grid.tp={tp}", ranks=dp * tp)
            self.assertLess(abs(values["loss"] / logged - 1), 1e-6)

    def test_low_precision(self):
        checkpoint, logged = self.made(ranks=2, grid__tp=1, backend__precision="bf16")
        self.assertEqual(self.evaluate(checkpoint, ranks=2)["loss"], logged)
        exact = self.evaluate(checkpoint, "--set", "backend.precision=fp32", ranks=2)["loss"]
        self.assertNotEqual(exact, logged)
        self.assertLess(abs(exact / logged - 1), 1e-2)

    def test_data_and_batches(self):
        checkpoint, _ = self.made(ranks=1, grid__dp=1, grid__tp=1)
        one = self.evaluate(checkpoint, "--batches", "1")
        self.assertEqual(one["tokens"], int(self.mask(1003)[1:8 * 16 + 1].sum()))
        train = self.evaluate(checkpoint, "--data", self.path("train.h5"), "--batches", "0")
        self.assertEqual(train["tokens"], 3999)
        self.assertEqual(self.evaluate(checkpoint, "--data", self.path("train.h5"))["batches"], 10)

    def test_batches_without_targets(self):
        checkpoint, _ = self.made(ranks=1, grid__dp=1, grid__tp=1)
        mask = numpy.zeros(1003, "u1")
        mask[500] = 1
        late = self.token_file("late.h5", self.ids(1003), vocab=301, loss_mask=mask)
        self.assertEqual(self.evaluate(checkpoint, "--data", late)["tokens"], 1)
        result = self.evaluate(checkpoint, "--data", late, "--batches", "2", expect=DATA)
        self.assert_refused(result, DATA, "first 2 batches", late, "no target")

    def test_refusals(self):
        checkpoint, _ = self.made(ranks=2, grid__tp=1)
        other = self.token_file("other.h5", self.ids(1003, 500), vocab=500)
        empty = self.path("no-such-checkpoint.h5")
        damaged = self.path("damaged.h5")
        damaged.write_bytes(checkpoint.read_bytes()[:-5000])
        flipped = self.path("flipped.h5")
        flipped.write_bytes(checkpoint.read_bytes())
        with h5py.File(flipped, "r+") as file:
            file["master/norm.weight"][3] += 1
        for status, parts, words in (
            (DATA, (empty,), (empty,)),
            (DATA, (damaged,), (damaged,)),
            (DATA, (flipped, "/master/norm.weight"), (flipped,)),
            (DATA, (self.path("train.txt"), "not complete"), (self.path("train.txt"),)),
            (DATA, (self.path("no.h5"),), (checkpoint, "--data", self.path("no.h5"))),
            (DATA, (other, "model.vocab is 301"), (checkpoint, "--data", other)),
            (DATA, ("model.layers = 2 there, 3 here",), (checkpoint, "--set", "model.layers=3")),
            (USAGE, ("launch has 2 ranks",), (checkpoint, "--set", "grid.dp=1")),
            (USAGE, ("grid.dpp",), (checkpoint, "--set", "grid.dpp=1")),
            (USAGE, ("batch.global",), (checkpoint, "--set", "batch.global=7")),
        ):
            self.assert_refused(self.evaluate(*words, ranks=2, expect=status), status, *parts)
        result = self.run_program("evaluate", checkpoint, "--json", self.path("no/such/folder"), ranks=2)
        self.assert_refused(result, USAGE, "no/such/folder")

    def test_a_run_without_validation(self):
        self.train(run__steps=1)
        result = self.evaluate(self.checkpoint(1), expect=USAGE)
        self.assert_refused(result, USAGE, "add --data FILE")
        self.evaluate(self.checkpoint(1), "--data", self.path("train.txt"))

    def test_writes_nothing(self):
        checkpoint, _ = self.made(ranks=1, grid__dp=1, grid__tp=1)
        before = {entry: entry.stat().st_mtime_ns for entry in self.path("out").rglob("*")}
        self.evaluate(checkpoint)
        self.assertEqual(before, {entry: entry.stat().st_mtime_ns for entry in self.path("out").rglob("*")})


if __name__ == "__main__":
    unittest.main()

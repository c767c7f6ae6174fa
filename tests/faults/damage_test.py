"""Damaged checkpoints and disks that fill up (K05, K07, K09): named, passed over, and never taken for whole."""
import os
import subprocess
import unittest

import h5py

from harness import DATA, DONE, FAILING_WRITES, GRAMMAR, FaultTest


def cut_end(path):
    os.truncate(path, path.stat().st_size - 1024)


def cut_short(path):
    os.truncate(path, 96)


def empty(path):
    os.truncate(path, 0)


def flip(path, dataset="master/layers.1.mlp.fc1.weight"):
    """One bit of one value."""
    with h5py.File(path, "r") as file:
        at = file[dataset].id.get_offset() or file[dataset].id.get_chunk_info(0).byte_offset
    with open(path, "r+b") as file:
        file.seek(at + 401)
        byte = file.read(1)
        file.seek(at + 401)
        file.write(bytes([byte[0] ^ 16]))


DAMAGES = {"cut by 1 KiB": cut_end, "cut to 96 bytes": cut_short, "empty": empty, "one bit": flip}


class Damage(FaultTest):

    def make(self):
        self.train(run__steps=6, checkpoint__every=3, checkpoint__keep=0)
        return self.checkpoint(3), self.checkpoint(6)

    def test_verify_list_show_diff(self):
        good, bad = self.make()
        folder = good.parent
        self.assertIn("complete", self.run_program("checkpoint", "verify", good).out)
        listing = self.run_program("checkpoint", "list", folder)
        self.assertEqual(listing.status, DONE)
        self.assertRegex(listing.out, r"step-00000006.h5: .* step 6,[^\n]*\n[^\n]*step-00000003.h5: .* step 3,")
        shown = self.run_program("checkpoint", "show", good)
        self.assertIn("/master/layers.0.attention.qkv.weight f32", shown.out)
        self.assertIn("learning_rate = 0.01", shown.out)
        differ = self.run_program("checkpoint", "diff", good, bad)
        self.assertEqual(differ.status, DATA)
        self.assertIn("attribute step: 3 and 6", differ.out)
        self.assertIn("/master/norm.weight", differ.out)
        whole = bad.read_bytes()
        for name, damage in DAMAGES.items():
            with self.subTest(damage=name):
                bad.write_bytes(whole)
                damage(bad)
                result = self.run_program("checkpoint", "verify", bad)
                self.assertEqual(result.status, DATA, str(result))
                self.assertIn(str(bad), result.out + result.err)
                if damage is flip:
                    self.assertIn("/master/layers.1.mlp.fc1.weight", result.out + result.err)
                    continue
                self.assertEqual(self.run_program("checkpoint", "list", folder).status, DONE)
                self.assert_refused(self.run_program("checkpoint", "show", bad), DATA, bad)
                self.assert_refused(self.run_program("checkpoint", "diff", good, bad), DATA, bad)

    def test_verify_of_several(self):
        good, bad = self.make()
        cut_end(bad)
        result = self.run_program("checkpoint", "verify", good, bad)
        self.assertEqual(result.status, DATA, str(result))
        self.assertIn(str(good), result.out)
        self.assertIn(str(bad), result.out)

    def test_missing(self):
        for command in ("verify", "show", "list"):
            result = self.run_program("checkpoint", command, self.path("no"))
            self.assertEqual(result.status, DATA, str(result))
            self.assertIn(str(self.path("no")), result.out + result.err)

    def test_resume_passes_over(self):
        good, bad = self.make()
        whole, metrics = bad.read_bytes(), (self.path("out") / "metrics.jsonl").read_text()
        for name, damage in DAMAGES.items():
            with self.subTest(damage=name):
                bad.write_bytes(whole)
                damage(bad)
                (self.path("out") / "metrics.jsonl").write_text(metrics)
                named = self.train(ranks=2, grid__dp=2, run__steps=6, run__resume=bad, expect=DATA)
                self.assert_refused(named, DATA, bad)
                result = self.train(run__steps=6)
                self.assertIn(f"'{bad}'", result.out)
                self.assertIn(f"resumes '{good}' after step 3", result.out)
                self.assert_sound(bad)  # written anew
                self.assertEqual([line["step"] for line in self.metrics()], [1, 2, 3, 4, 5, 6])

    def test_damaged_ones_are_not_among_those_kept(self):
        good, bad = self.make()
        flip(bad)
        self.train(run__steps=9, checkpoint__every=0, checkpoint__keep=2)  # resumes the good one
        self.assertTrue(good.exists() and self.checkpoint(9).exists())

    def test_all_damaged(self):
        good, bad = self.make()
        flip(good)
        flip(bad)
        leftover = bad.with_name("step-00000009.h5.tmp")
        leftover.write_bytes(b"x")
        result = self.train(ranks=2, grid__dp=2, run__steps=6)
        self.assertIn(f"'{good}'", result.out)
        self.assertIn(f"'{bad}'", result.out)
        self.assertIn(f"'{leftover}'", result.out)
        self.assertIn("starts from seed 1", result.out)


class FailingWrites(FaultTest):
    """K05, K09: a disk that fails within a save, under one rank only: reported, the run goes on, and nobody hangs."""

    def run_with_failing(self, rank, settings, **changes):
        shell = f'export LD_PRELOAD={FAILING_WRITES} {settings}'
        return self.run_with_rank_in(rank, shell, checkpoint__every=2, **changes)

    def test_each_rank(self):
        """The first write, one amid the values, what HDF5 made around them (rank 0 writes it last), the sync."""
        for rank, settings in ((0, "FAIL_AFTER=0"), (1, "FAIL_AFTER=0"), (1, "FAIL_AFTER=7"), (0, "FAIL_BEGIN=1"),
                               (1, "FAIL_SYNC=1")):
            with self.subTest(rank=rank, settings=settings):
                output = self.path(f"{rank}-{settings}")
                result = self.run_with_failing(rank, settings, run__output=output, run__steps=3)
                self.assertEqual(result.status, DATA, str(result))
                self.assertEqual(len(result.errors), 2, str(result))  # step 2, reported; step 3, the last
                for line, step in zip(result.errors, (2, 3)):
                    self.assertRegex(line, GRAMMAR)
                    self.assertIn(f"step-{step:08d}.h5' was not saved", line)
                    self.assertIn("Input/output error", line)
                self.assertEqual(os.listdir(output / "checkpoints"), [])

    def test_the_checkpoint_before_stays(self):
        self.train(ranks=2, grid__dp=2, run__steps=2)
        result = self.run_with_failing(1, "FAIL_AFTER=3", run__steps=4, checkpoint__keep=1)
        self.assertEqual(result.status, DATA, str(result))
        self.assertEqual(self.checkpoints(), ["step-00000002.h5"])
        self.assert_sound(self.checkpoint(2))
        self.assertEqual([line["step"] for line in self.metrics()], [1, 2, 3, 4])


@unittest.skipUnless(os.geteuid() == 0, "only root may mount")
class FullDisk(FaultTest):

    def setUp(self):
        super().setUp()
        self.disk = self.path("disk")
        self.disk.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "octachoron-faults", self.disk],
                              capture_output=True, check=False)
        if made.returncode != 0:
            super().tearDown()
            self.skipTest(f"mount is not permitted: {made.stderr.decode()}")

    def tearDown(self):
        subprocess.run(["umount", "-l", self.disk], check=False)
        super().tearDown()

    def test_checkpoints(self):
        """A file of 0.4 MB fits, a second one does not in what the filler leaves."""
        changes = {"grid__dp": 2, "checkpoint__directory": self.disk / "c", "checkpoint__every": 2,
                   "checkpoint__keep": 1}  # yapf: disable
        self.train(ranks=2, run__steps=2, **changes)
        first = self.disk / "c/step-00000002.h5"
        (self.disk / "filler").write_bytes(bytes((2 << 20) - first.stat().st_size - 200_000))
        result = self.train(ranks=2, run__steps=5, expect=DATA, **changes)
        failures = [line for line in result.errors if "was not saved" in line]
        self.assertEqual(len(failures), 2, str(result))  # step 4, reported; step 5, the last
        for line, step in zip(failures, (4, 5)):
            self.assertIn(f"step-{step:08d}.h5", line)
            self.assertRegex(line, "space|free")
        self.assertEqual([line["step"] for line in self.metrics()], [1, 2, 3, 4, 5])
        self.assertEqual(sorted(os.listdir(self.disk / "c")), ["step-00000002.h5"])
        self.assert_sound(first)
        (self.disk / "filler").unlink()
        result = self.train(ranks=2, run__steps=5, **changes)
        self.assertIn("after step 2", result.out)

    def test_read_only(self):  # K05; a mount, since root may write into any folder
        (self.disk / "c").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)
        for key in ("run__output", "checkpoint__directory"):
            result = self.train(ranks=2, expect=DATA, grid__dp=2, **{key: self.disk / "c"})
            self.assert_refused(result, DATA, self.disk / "c", "ead-only")

    def test_metrics(self):
        """The run is worth more than its log."""
        output = self.disk / "out"
        output.mkdir()
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        os.truncate(filler, filler.stat().st_size - 8192)  # room for the probe, and for a few lines
        result = self.train(run__steps=40, run__output=output, checkpoint__directory=self.path("c"))
        warnings = [line for line in result.errors if "metrics" in line]
        self.assertEqual(len(warnings), 1, str(result))
        lines = self.metrics("disk/out")
        self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)))
        self.assertLess(len(lines), 40)
        self.assert_sound(self.path("c") / "step-00000040.h5")


if __name__ == "__main__":
    unittest.main()

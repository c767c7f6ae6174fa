"""Exit statuses and refusals: before any file is made, once, with names and numbers. Groups G and H, K05."""
import subprocess
import unittest

from harness import DATA, DONE, ENVIRONMENT, PROGRAM, USAGE, FaultTest


class CommandLine(FaultTest):

    def test_no_arguments(self):
        result = self.run_program()
        self.assertEqual(result.status, USAGE)
        self.assertIn("usage: octachoron", result.err)
        self.assertEqual(result.out, "")

    def test_help_and_version(self):
        for words in (["--help"], ["train", "--help"], ["checkpoint", "--help"]):
            result = self.run_program(*words)
            self.assertEqual(result.status, DONE, str(result))
            self.assertIn("usage: octachoron", result.out)
        result = self.run_program("--version")
        self.assertEqual(result.status, DONE)
        self.assertRegex(result.out, r"^octachoron \d+\.\d+\.\d+\S*\n$")

    def test_unknown_words_name_the_nearest(self):
        self.assert_refused(self.run_program("trian", "x.ini"), USAGE, "trian", "did you mean train?")
        self.assert_refused(self.run_program("checkpoint", "verfy", "x"), USAGE, "verfy", "did you mean verify?")
        self.assert_refused(self.run_program("train", "x.ini", "--chek"), USAGE, "--chek", "--check")

    def test_a_launch_has_one_voice(self):
        """Whatever is wrong with the command line, it is said once, not once a rank."""
        for words, part in ((["trian", "x.ini"], "trian"), (["train", "x.ini", "--chek"], "--chek"),
                            (["train", self.path("no.ini"), "--set", "run.seed=2"], "no.ini")):
            self.assert_refused(self.run_program(*words, ranks=3), USAGE, part)
        result = self.run_program(ranks=3)
        self.assertEqual((result.status, result.err.count("usage: octachoron")), (USAGE, 1), str(result))

    def test_later_commands(self):
        for words in (["compare", "x.ini"], ["report", "x"], ["train"]):
            result = self.run_program(*words)
            self.assert_refused(result, USAGE)
        self.assertIn("not available in this version", self.run_program("report", "x").err)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for words in (["--help"], ["plan", str(self.parameters())]):
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
                self.assertIn("standard output", done.stderr)


class Parameters(FaultTest):
    """H01, H02: through file and command line; nothing trains, nothing is made."""

    def refuse(self, *parts, status=USAGE, options=(), ranks=2, **changes):
        result = self.train(*options, ranks=ranks, expect=status, **changes)
        self.assert_refused(result, status, *parts)
        self.assert_absent()

    def test_unknown_keys(self):
        self.refuse("learning_rat", "optimizer.learning_rate", "run.ini:", optimizer__learning_rat="1e-3")
        self.refuse("learning_rate", "optimizer.learning_rate", model__learning_rate="1e-3")
        self.refuse("num-layers", "model.layers", options=["--set", "model.num-layers=2"])
        self.refuse("optimizer.learning_rat", "learning_rate", options=["--set", "optimizer.learning_rat=1"])

    def test_bad_values(self):
        for value in ("1e-3x", "1,000", ""):
            self.refuse("optimizer.learning_rate", optimizer__learning_rate=value)
        self.refuse("optimizer.learning_rate", options=["--set", "optimizer.learning_rate=1e-3x"])

    def test_duplicated_key(self):
        file = self.parameters()
        file.write_text(file.read_text() + "[model]\nlayers = 3\n")
        result = self.run_program("train", file, ranks=2)
        self.assert_refused(result, USAGE, "model.layers", "run.ini:")
        self.assert_absent()

    def test_crlf_and_blanks_are_accepted(self):
        file = self.parameters(run__steps=0)
        file.write_bytes(file.read_text().replace("\n", "  \r\n").encode())
        self.assertEqual(self.run_program("train", file, ranks=1).status, DONE)

    def test_missing_file(self):
        result = self.run_program("train", self.path("no.ini"), ranks=2)
        self.assert_refused(result, USAGE, self.path("no.ini"))
        result = self.run_program("train", self.folder, ranks=1)
        self.assert_refused(result, USAGE, self.folder)

    def test_world_size_is_not_the_grid(self):
        self.refuse("2", "4", grid__dp=2, grid__tp=2)
        self.refuse("2", "1", "grid")
        self.refuse("2", "1", "grid", options=["--check"])

    def test_grids_that_do_not_fit(self):
        file = self.parameters(model__heads=52, model__hidden=104, grid__tp=8)  # B08
        self.assert_refused(self.run_program("plan", file), USAGE, "52", "8", "13", "26")
        self.refuse("heads", "3", grid__tp=2, model__heads=3, model__hidden=30)
        self.refuse("heads", model__heads=0)
        self.refuse("batch.global", grid__dp=2, batch__global=6)

    def test_backends(self):
        self.refuse("abacus", "cpu", status=ENVIRONMENT, grid__dp=2, backend__device="abacus")
        self.refuse("nonsense", "fp32", "fp64", status=ENVIRONMENT, grid__dp=2, backend__precision="nonsense")
        self.refuse("carrier-pigeon", "mpi", status=ENVIRONMENT, grid__dp=2, backend__comm="carrier-pigeon")
        self.refuse("Nonsense!", status=USAGE, grid__dp=2, backend__precision="Nonsense!")
        self.refuse(self.path("no.so"), status=ENVIRONMENT, grid__dp=2, backend__device=self.path("no.so"))
        self.refuse("train.txt", status=ENVIRONMENT, grid__dp=2, backend__device=self.path("train.txt"))


class Precision(FaultTest):
    """Keys of [precision] that a recipe has no use for are legal, but nobody shall believe in them."""

    def test_excluded_modules_that_do_not_exist(self):
        result = self.train(ranks=2, grid__tp=2, expect=USAGE, precision__exclude="layers.0.*,layers.7.mlp.fc1")
        refusals = [line for line in result.errors if "has no effect" not in line]  # of a recipe that quantises nothing
        self.assertEqual(len(refusals), 1, str(result))
        self.assertIn("precision.exclude = layers.7.mlp.fc1 matches no module", refusals[0])
        self.assert_absent()
        plan = self.run_program("plan", self.parameters(precision__exclude="nothing"))
        self.assert_refused(plan, USAGE, "precision.exclude = nothing")

    def test_keys_without_effect_are_named_once(self):
        result = self.train(ranks=4, run__steps=2, grid__dp=2, grid__tp=2, precision__margin=3,
                            precision__exclude="layers.0.*")
        self.assertEqual(len(result.errors), 1, str(result))
        self.assertIn("precision.margin, precision.exclude has no effect", result.errors[0])
        self.assertEqual(self.train(run__steps=0, run__output=self.path("other")).errors, [])


class Differing(FaultTest):
    """Ranks that were started with other words or other files than each other: all are refused, nobody waits."""

    def refuse(self, status, part, shell, **changes):
        result = self.run_with_rank_in(1, shell, **changes)
        self.assert_refused(result, status, "rank 1", part)

    def test_parameters(self):
        self.train(ranks=2, grid__dp=2, run__steps=1)
        for words, part in (("--set run.resume=none", "run.resume: auto -> none"), ("--check", "--check: off -> on"),
                            ("--set model.ffn=64", "model.ffn"), ("--set run.max_skipped=3", "run.max_skipped: 5 -> 3")):
            self.refuse(USAGE, part, f'set -- "$@" {words}')
        self.assertEqual(self.checkpoints(), ["step-00000001.h5"])

    def test_data(self):
        self.text_file("short.txt", 5000)
        other = self.path("other.txt")
        other.write_bytes(self.path("train.txt").read_bytes().swapcase())
        for word, part in ((f"data.train={self.path('short.txt')}", "5000 tokens, rank 0 6000"),
                           (f"data.train={other}", "of other ids"),
                           (f"data.validation={other}", "validation data")):
            self.refuse(DATA, part, f'set -- "$@" --set {word}')
        self.assert_absent()


class Launch(FaultTest):
    """N singletons: each would train alone. H06: misleading variables of a batch system."""

    def refuse_alone(self, environment, *parts):
        result = self.run_program("train", self.parameters(), environment=environment)
        self.assert_refused(result, ENVIRONMENT, *parts)
        self.assert_absent()

    def test_singletons(self):
        self.refuse_alone({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE = 4", "1 rank")
        self.refuse_alone({"PMI_SIZE": "4"}, "PMI_SIZE = 4")
        self.refuse_alone({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, "SLURM_NTASKS = 4")

    def test_only_the_first_singleton_speaks(self):
        result = self.run_program("train", self.parameters(), environment={"SLURM_NTASKS": "4", "SLURM_PROCID": "3"})
        self.assertEqual(result.status, ENVIRONMENT, str(result))
        self.assertEqual(result.errors, [])

    def test_an_allocation_is_no_launch(self):
        result = self.run_program("train", self.parameters(run__steps=0), environment={"SLURM_NTASKS": "4"})
        self.assertEqual(result.status, DONE, str(result))

    def test_mpirun_within_an_allocation(self):
        result = self.train(environment={"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, run__steps=0)
        self.assertEqual(result.status, DONE, str(result))

    def test_misleading_local_ranks(self):
        slurm = {"SLURM_LOCALID": "7", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}
        result = self.train(ranks=4, environment=slurm, run__steps=0, grid__dp=4)
        self.assertRegex(result.out, "dp=4")
        self.assertRegex(result.out, r"\n +3 +3 +0 +0 +0 +\S+\n")


class Data(FaultTest):
    """G01 to G07: status 4, the path named, nothing made."""

    def refuse(self, *parts, status=DATA, **changes):
        changes = {"grid__tp": 2, **changes}
        result = self.train(ranks=2, expect=status, **changes)
        self.assert_refused(result, status, *parts)
        self.assert_absent()

    def test_ids_beyond_the_vocabulary(self):  # G01, G02
        file, low = self.path("ids.txt"), self.path("low.txt")
        low.write_bytes(bytes(range(64)) * 8)
        file.write_bytes(bytes(range(64)) * 8 + bytes([64]) + bytes(range(64)))
        for grid in ({"grid__tp": 2}, {"grid__tp": 1, "grid__dp": 2}):
            self.refuse(file, "id 64", "512", data__train=file, model__vocab=64, data__format="text", **grid)
            self.refuse(file, "id 64", "512", data__validation=file, data__train=low, model__vocab=64,
                        data__format="text", **grid)
        file.write_bytes(bytes(range(64)) * 8 + bytes([65]))
        self.refuse(file, "id 65", "512", data__train=file, model__vocab=64, data__format="text")

    def test_paths(self):  # G06
        self.refuse(self.path("no.txt"), data__train=self.path("no.txt"))
        self.refuse(self.path("no.txt"), data__validation=self.path("no.txt"))
        self.refuse(self.folder, data__train=self.folder)
        self.path("empty.txt").touch()
        self.refuse(self.path("empty.txt"), data__train=self.path("empty.txt"))
        self.text_file("short.txt", 16)
        self.refuse(self.path("short.txt"), "16", "17", data__train=self.path("short.txt"))

    def test_data_that_run_out(self):  # G07: 6000 tokens are 374 samples of 16
        self.refuse("100 steps", "12800", "5984", "46", run__steps=100, data__repeat="off")
        result = self.train(ranks=2, grid__tp=2, run__steps=60)
        self.assertRegex(result.out, "374 samples of 16; 60 steps need 7680 tokens, 5984 are there: 1.28")


class Folders(FaultTest):
    """K05: an output folder that cannot be written to is found at the start, by all ranks."""

    def test_a_file_in_place_of_a_folder(self):
        self.path("file").write_text("x")
        for changes in ({"run__output": self.path("file")}, {"checkpoint__directory": self.path("file")},
                        {"checkpoint__directory": self.path("file/below")}, {"run__output": "/proc/octachoron"}):
            result = self.train(ranks=2, grid__dp=2, expect=DATA, **changes)
            self.assert_refused(result, DATA, list(changes.values())[0])
            self.assertEqual(self.path("file").read_text(), "x")
            self.assert_absent()
            self.assertNotIn("memory of a rank", result.out)  # what a run says once it has taken its memory

    def test_what_is_refused_leaves_no_folder(self):
        """Folders are tried before the memory is taken; those that were made for it are gone again."""
        changes = {"run__output": self.path("a/b"), "checkpoint__directory": self.path("c/d")}
        self.train(ranks=2, grid__dp=2, expect=USAGE, precision__exclude="nothing", **changes)
        self.train(ranks=2, grid__dp=2, expect=DATA, run__resume=self.path("no.h5"), **changes)
        self.assert_absent("a")
        self.assert_absent("c")

    def test_metrics_that_cannot_be_written(self):
        (self.path("out") / "metrics.jsonl").mkdir(parents=True)
        result = self.train(ranks=2, grid__dp=2, expect=DATA)
        self.assert_refused(result, DATA, "metrics.jsonl")
        self.assertNotIn("memory of a rank", result.out)


if __name__ == "__main__":
    unittest.main()

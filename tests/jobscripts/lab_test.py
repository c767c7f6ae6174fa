"""jobscripts/lab.sh as a user runs it, with a program that is built already."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

LAB = pathlib.Path(__file__).resolve().parents[2] / "jobscripts/lab.sh"


def lab(*arguments, limit):
    return subprocess.run([LAB, *map(str, arguments)], capture_output=True, text=True, timeout=limit, check=False)


class CommandLine(unittest.TestCase):

    def test_help(self):
        result = lab("--help", limit=20)
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("usage: jobscripts/lab.sh", "--ranks", "--device", "--comm", "--output", "scan", "compare"):
            self.assertIn(word, result.stdout)

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "out"
            for wrong in (["--ranks", "3"], ["--ranks", "x"], ["--ranks"], ["--rank", "4"], ["--output"], ["--device"], ["--comm", ""]):
                result = lab("--output", output, *wrong, limit=20)
                self.assertEqual(result.returncode, 2, (wrong, result.stdout, result.stderr))
                self.assertRegex(result.stderr, r"^octachoron: \S.* \(.+\); \S.*\n$")
                self.assertFalse(output.exists())


class Experiment(unittest.TestCase):

    def test_all_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "a lab"
            result = lab("--output", output, limit=800)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            index = (output / "index.txt").read_text()
            self.assertEqual(len(re.findall(r"^done ", index, re.M)), 11, index)
            self.assertNotIn("FAILED", index)
            texts = re.findall(r"^done +\d+ s +(\S+)", index, re.M)
            for text in texts:
                self.assertGreater((output / text).stat().st_size, 100, text)
            files = sorted(path.relative_to(output) for path in output.rglob("*.json"))
            self.assertEqual(len(files), 4 + 2 + 4, files)
            for file in files:
                json.loads((output / file).read_text())
                self.assertIn(str(file), index)
            self.check_scans(output)

    def check_scans(self, output):
        for file in ("scan-tp-bf16.json", "scan-tp-fp8-delayed.json"):
            scan = json.loads((output / file).read_text())
            self.assertEqual([degree["degree"] for degree in scan["degrees"]], [1, 2, 4])
            self.assertTrue(scan["verdict"]["answer"])
            formats = {row["formats"] for degree in scan["degrees"] for row in degree["gemms"]}
            self.assertEqual(any("e4m3" in each for each in formats), "fp8" in file, formats)


if __name__ == "__main__":
    unittest.main()

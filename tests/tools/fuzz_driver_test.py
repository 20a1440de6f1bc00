"""Our own fuzz driver finds a planted crash, keeps the input, and the input replays."""
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = r"""
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (size_t i = 0; i + 1 < size; ++i) {
    if (data[i] == 'n' && data[i + 1] == 0xff) abort();
    if (data[i] == '[' && data[i + 1] == ']' && size == 2) throw std::runtime_error("thrown");
  }
  return 0;
}
"""


class Driver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.binary = os.path.join(cls.folder.name, "fuzz_planted")
        source = cls.binary + ".cpp"
        with open(source, "w") as f:
            f.write(TARGET)
        subprocess.run(["g++", "-std=c++20", "-O1", source, os.path.join(ROOT, "tests/fuzz/driver.cpp"), "-o", cls.binary],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_driver(self, *arguments):
        return subprocess.run([self.binary, *arguments], cwd=self.folder.name, capture_output=True, text=True)

    def test_finds_keeps_and_replays_a_crash(self):
        kept = os.path.join(self.folder.name, "kept")
        got = self.run_driver("--runs", "2000000", "--seed", "1", "--artifacts", kept)
        self.assertNotEqual(got.returncode, 0)
        self.assertIn("input written to", got.stderr)
        files = os.listdir(kept)
        self.assertEqual(len(files), 1)
        again = self.run_driver("--artifacts", kept + "2", os.path.join(kept, files[0]))
        self.assertEqual(again.returncode, got.returncode)

    def test_the_same_seed_gives_the_same_input(self):
        inputs = []
        for name in ("a", "b"):
            folder = os.path.join(self.folder.name, name)
            self.run_driver("--runs", "2000000", "--seed", "7", "--artifacts", folder)
            path = os.path.join(folder, os.listdir(folder)[0])
            with open(path, "rb") as f:
                inputs.append(f.read())
        self.assertEqual(inputs[0], inputs[1])

    def test_an_exception_is_a_finding(self):
        corpus = os.path.join(self.folder.name, "input")
        with open(corpus, "w") as f:
            f.write("[]")
        got = self.run_driver(corpus)
        self.assertEqual(got.returncode, 1)
        self.assertIn("uncaught exception: thrown", got.stderr)

    def test_prints_executions_and_seed(self):
        got = self.run_driver("--runs", "50", "--seed", "9")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertRegex(got.stdout, r"50 executions in .* seed 9")

    def test_bad_arguments(self):
        for arguments in (["--runs"], ["--runs", "x"], ["--what", "1"], ["/nonexistent"]):
            self.assertEqual(self.run_driver(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()

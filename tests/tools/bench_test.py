"""tools/bench builds what a benchmark needs, says so, and runs it. The build and the peers are fakes."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FAKE_BUILD = """\
#!/bin/bash
echo "$@" >> built
[ ! -e fail ] || { echo "no compiler"; exit 3; }
mkdir -p build/release/bench
printf '#!/bin/bash\\necho "binary $@"\\n' > build/release/bench/bench_fast
chmod +x build/release/bench/bench_fast
"""
CMAKE = "add_executable(bench_fast fast.cpp)\nadd_executable(side side.cpp)\nadd_executable(other other.cpp)\n"


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plimsoll-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(self.path("tools"))
        os.makedirs(self.path("bench"))
        shutil.copy(os.path.join(ROOT, "tools", "bench"), self.path("tools/bench"))
        self.write("tools/build", FAKE_BUILD, 0o755)
        self.write("tools/peers", f"#!/bin/bash\necho {sys.executable}\n", 0o755)
        self.write("bench/CMakeLists.txt", CMAKE)
        self.write("bench/fast.cpp", "// --smoke")
        self.write("bench/script.py", "import sys\n# runs BUILD / 'side'; --smoke\nprint('script', *sys.argv[1:])\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path(name), mode)

    def bench(self, *arguments, **variables):
        env = {k: v for k, v in os.environ.items() if k != "PLIMSOLL_BENCH_NO_BUILD"}
        return subprocess.run([self.path("tools/bench"), *arguments], capture_output=True, text=True, timeout=60,
                              env={**env, **variables})

    def built(self):
        try:
            with open(self.path("built"), encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def test_a_script_gets_the_program_and_the_helpers_it_names(self):
        got = self.bench("script", "--smoke")
        self.assertEqual((got.returncode, got.stdout), (0, "script --smoke\n"), got.stderr)
        self.assertEqual(self.built(), ["release plimsoll_launcher side"])
        self.assertIn("building plimsoll_launcher side", got.stderr)

    def test_a_binary_is_built_alone(self):
        got = self.bench("fast", "--smoke")
        self.assertEqual((got.returncode, got.stdout), (0, "binary --smoke\n"), got.stderr)
        self.assertEqual(self.built(), ["release bench_fast"])
        self.assertIn("building bench_fast", got.stderr)

    def test_a_build_that_fails_is_shown(self):
        self.write("fail", "")
        got = self.bench("fast")
        self.assertEqual(got.returncode, 1)
        self.assertIn("no compiler", got.stderr)

    def test_nothing_is_built_unasked(self):
        got = self.bench("script", PLIMSOLL_BENCH_NO_BUILD="1")
        self.assertEqual((got.returncode, got.stderr, self.built()), (0, "", []))

    def test_unknown_names_list_those_there_are(self):
        got = self.bench("slow")
        self.assertEqual(got.returncode, 2)
        self.assertIn("fast script", got.stderr)
        self.assertEqual(self.bench("--list").stdout.split(), ["fast", "script"])

    def test_every_real_benchmark_has_a_target(self):
        with open(os.path.join(ROOT, "bench", "CMakeLists.txt"), encoding="utf-8") as f:
            cmake = f.read()
        names = subprocess.run([os.path.join(ROOT, "tools", "bench"), "--list"], capture_output=True, text=True,
                               check=True).stdout.split()
        for name in names:
            if os.path.exists(os.path.join(ROOT, "bench", name + ".cpp")):
                self.assertIn(f"add_executable(bench_{name} ", cmake)


if __name__ == "__main__":
    unittest.main()

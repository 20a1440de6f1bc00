"""The runner must count right: it is what everything else is believed by."""
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
loader = importlib.machinery.SourceFileLoader("run_tests", os.path.join(ROOT, "tools", "run_tests"))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(run_tests)
run_tests.say = lambda text="": None

OUTPUT = """\
[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.Fails
x.cpp:3: Failure
Value of: false
[  FAILED  ] A.Fails (1 ms)
[ RUN      ] B.Skips
x.cpp:9: Skipped
no such input
[  SKIPPED ] B.Skips (0 ms)
[ RUN      ] P/C.Each/0
said without newline[  FAILED  ] P/C.Each/0, where GetParam() = 3 (0 ms)
[----------] end
[  FAILED  ] A.Fails
[  FAILED  ] P/C.Each/0, where GetParam() = 3
"""


class Parsing(unittest.TestCase):
    def test_each_outcome_once(self):
        outcomes, running = run_tests.parse_gtest(OUTPUT)
        self.assertIsNone(running)
        self.assertEqual({n: o for n, (o, _) in outcomes.items()},
                         {"A.Passes": "passed", "A.Fails": "failed", "B.Skips": "skipped", "P/C.Each/0": "failed"})
        self.assertEqual(outcomes["B.Skips"][1], "no such input")

    def test_a_crash_leaves_the_running_case(self):
        outcomes, running = run_tests.parse_gtest("[ RUN      ] A.One\n[       OK ] A.One (0 ms)\n[ RUN      ] A.Two\n")
        self.assertEqual((list(outcomes), running), (["A.One"], "A.Two"))


class Binaries(unittest.TestCase):
    def tally_of(self, script, timeout=None):
        tally = run_tests.Tally()
        old = run_tests.BINARY_TIMEOUT
        run_tests.BINARY_TIMEOUT = timeout or old
        try:
            run_tests.run_gtest(tally, "unit", "x", [sys.executable, "-c", textwrap.dedent(script)], dict(os.environ))
        finally:
            run_tests.BINARY_TIMEOUT = old
        return tally

    def test_failures_and_skips_are_named(self):
        tally = self.tally_of(f"print({OUTPUT!r}); raise SystemExit(1)")
        self.assertEqual(tally.passed, 1)
        self.assertEqual([n for n, _ in tally.failed], ["x:A.Fails", "x:P/C.Each/0"])
        self.assertEqual([n for n, _ in tally.skipped], ["x:B.Skips"])

    def test_a_crash_is_a_failure_of_the_running_case(self):
        tally = self.tally_of("""
            import os
            print("[ RUN      ] A.Two", flush=True)
            os.abort()""")
        self.assertEqual([n for n, _ in tally.failed], ["x:A.Two"])

    def test_a_failing_exit_code_without_a_failed_case_is_a_failure(self):
        tally = self.tally_of("print('[ RUN      ] A.B\\n[       OK ] A.B (0 ms)'); raise SystemExit(66)")
        self.assertEqual((tally.passed, [n for n, _ in tally.failed]), (1, ["x:(whole binary)"]))

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(len(self.tally_of("pass").failed), 1)

    def test_a_hang_is_ended_and_named(self):
        tally = self.tally_of("""
            import time
            print("[ RUN      ] A.Hangs", flush=True)
            time.sleep(600)""", timeout=2)
        self.assertEqual([n for n, _ in tally.failed], ["x:A.Hangs"])


class PythonFiles(unittest.TestCase):
    def test_outcomes(self):
        runner = run_tests.Runner([])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "some_test.py")
            with open(path, "w") as f:
                f.write(textwrap.dedent("""
                    import unittest
                    class T(unittest.TestCase):
                        def test_a(self): pass
                        def test_b(self): self.fail("no")
                        @unittest.skip("because")
                        def test_c(self): pass
                        def test_d(self):
                            for i in range(3):
                                with self.subTest(i=i): self.assertNotEqual(i, 1)
                """))
            runner.python_file(sys.executable, path, "some_test")
            runner.python_file(sys.executable, os.path.join(folder, "absent_test.py"), "absent_test")
        self.assertEqual(runner.tally.passed, 1)
        self.assertEqual(len(runner.tally.failed), 3, runner.tally.failed)
        self.assertEqual(runner.tally.skipped, [("some_test:T.test_c", "because")])


class BenchLine(unittest.TestCase):
    def test_last_line_must_be_a_named_object(self):
        self.assertEqual(run_tests.bench_line_problem("text\n" + json.dumps({"bench": "x", "ratio": 2})), "")
        for bad in ("", "text", "[1]", '{"ratio": 1}', '{"bench": "x"}\ntail'):
            self.assertNotEqual(run_tests.bench_line_problem(bad), "", bad)


if __name__ == "__main__":
    unittest.main()

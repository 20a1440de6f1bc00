"""loss_compare: what is equal, what differs and where, and what it cannot use."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def lines(*rows):
    return "".join(f'{{"step": {step}, "loss": {loss}, "grad_norm": {norm}}}\n' for step, loss, norm in rows)


class LossCompare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_folder(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(path)
        with open(os.path.join(path, "metrics.jsonl"), "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def compare(self, a, b, *options):
        for name, text in (("a", a), ("b", b)):
            path = os.path.join(self.folder.name, name, "metrics.jsonl")
            if os.path.exists(path):
                os.remove(path)
                os.rmdir(os.path.dirname(path))
            self.run_folder(name, text)
        return self.call(os.path.join(self.folder.name, "a"), os.path.join(self.folder.name, "b"), *options)

    def call(self, *arguments):
        got = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "loss_compare"), *arguments],
                             capture_output=True, text=True)
        self.assertNotIn("Traceback", got.stderr)
        return got.returncode, (got.stdout + got.stderr).strip()

    def test_equal_runs(self):
        text = lines((1, 8.049097061157227, 1.5), (2, 7.5, 0.25))
        self.assertEqual(self.compare(text, text), (0, "loss_compare: equal over 2 steps"))
        # Integers and floats of one value are one value, and order does not matter.
        self.assertEqual(self.compare(lines((1, 8, 1), (2, 2, 2)), lines((2, 2.0, 2.0), (1, 8.0, 1.0)))[0], 0)

    def test_the_first_difference_is_named(self):
        a = lines((1, 8.0, 1.0), (2, 7.0, 2.0), (3, 6.0, 3.0))
        self.assertEqual(self.compare(a, lines((1, 8.0, 1.0), (2, 7.0, 2.0000000000000004), (3, 5.0, 3.0))),
                         (1, "loss_compare: step 2: grad_norm: A 2.0, B 2.0000000000000004"))
        self.assertEqual(self.compare(a, lines((1, 8.000000000000002, 9.0))),
                         (1, "loss_compare: step 1: loss: A 8.0, B 8.000000000000002"))
        self.assertEqual(self.compare(lines((1, "0.0", 1)), lines((1, "-0.0", 1)))[0], 1)

    def test_steps_must_match(self):
        a, b = lines((1, 8.0, 1.0), (2, 7.0, 2.0)), lines((1, 8.0, 1.0))
        self.assertEqual(self.compare(a, b), (1, "loss_compare: step 2: missing in B"))
        self.assertEqual(self.compare(b, a), (1, "loss_compare: step 2: missing in A"))
        self.assertEqual(self.compare(a, b, "--only-common"), (0, "loss_compare: equal over 1 step"))
        self.assertEqual(self.compare(b, lines((5, 1, 1)), "--only-common")[0], 1)

    def test_what_is_not_finite_is_compared_by_its_text(self):
        nan = '{"step": 1, "loss": null, "loss_text": "nan", "grad_norm": null}\n'
        inf = '{"step": 1, "loss": null, "loss_text": "inf", "grad_norm": null}\n'
        self.assertEqual(self.compare(nan, nan)[0], 0)
        self.assertEqual(self.compare(nan, inf), (1, "loss_compare: step 1: loss: A nan, B inf"))
        self.assertEqual(self.compare(lines((1, 8.0, 1.0)), '{"step": 1, "loss": 8.0, "grad_norm": null}\n'),
                         (1, "loss_compare: step 1: grad_norm: A 1.0, B absent"))

    def test_a_torn_last_line_is_left_out(self):
        text = lines((1, 8.0, 1.0))
        self.assertEqual(self.compare(text, text + '{"step": 2, "lo')[0], 0)

    def test_unusable_input(self):
        good = lines((1, 8.0, 1.0))
        for bad in ("", "\n", "[1]\n", "{}\n", '{"step": 1}\n', '{"step": 1, "loss": null}\n', '{"step": true}\n', '{"step": 1.5}\n', "not json\n", "[" * 100000 + "\n",
                    '{"step": 1, "loss": "8"}\n', '{"step": 1, "loss": 1' + "0" * 400 + "}\n", good + good,
                    good + "\n" + good):
            code, output = self.compare(good, bad)
            self.assertEqual(code, 2, bad[:40])
            self.assertIn(os.path.join("b", "metrics.jsonl"), output)
            self.assertEqual(len(output.splitlines()), 1)
        self.assertEqual(self.call(self.folder.name, os.path.join(self.folder.name, "absent"))[0], 2)
        self.assertEqual(self.call(self.folder.name)[0], 2)


if __name__ == "__main__":
    unittest.main()

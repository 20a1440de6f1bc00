"""`plimsoll tokenizer`: special tokens, files with bad lines, folders that hold one already."""
import json
import os
import unittest

from tiny import TinyCase, run

GOOD = json.dumps({"text": "bado kemi lusa nori"})
DEFAULTS = ["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"]


class Train(TinyCase):
    def tokenizer(self, *options, files=("a.jsonl",), code=0, out="out"):
        return self.expect(run("tokenizer", "train", *files, "--vocab-size", 290, "--out", self.path(out), *options,
                               cwd=self.folder), code)

    def expect(self, got, code):
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got

    def special(self, out="out"):
        with open(self.path(f"{out}/tokenizer.json"), encoding="utf-8") as f:
            added = json.load(f)["added_tokens"]
        self.assertEqual([t["id"] for t in added], list(range(len(added))))
        with open(self.path(f"{out}/tokenizer_config.json"), encoding="utf-8") as f:
            config = json.load(f)
        return [t["content"] for t in added], [config.get(f"{k}_token") for k in ("pad", "bos", "eos")]

    def setUp(self):
        super().setUp()
        self.write("a.jsonl", GOOD + "\n")

    def test_further_special_tokens(self):
        self.tokenizer("--special", "<a>", "<b>", "<|pad|>", "<a>")
        self.assertEqual(self.special(), (DEFAULTS + ["<a>", "<b>"], DEFAULTS))

    def test_other_names(self):
        self.tokenizer("--bos", "<s>", "--eos", "<s>", "--pad", "")
        self.assertEqual(self.special(), (["<s>"], [None, "<s>", "<s>"]))
        help_text = run("tokenizer", "train", "--help").stdout
        for name in DEFAULTS:
            self.assertIn(name, help_text)

    def test_bad_lines(self):
        self.write("a.jsonl", f"{GOOD}\nno\n{GOOD}\n[1]\n")
        got = self.tokenizer(code=1)
        self.assert_one_error(got, 1, "a.jsonl:2", "not JSON", hint="--on-bad-line skip")
        self.assertNotIn("data.", got.stderr)
        got = self.tokenizer("--on-bad-line", "skip")
        self.assertIn("from 2 documents", got.stdout)
        self.assertIn("2 bad lines skipped", got.stdout)

    def test_bytes_that_are_no_utf8(self):
        self.write("a.txt", b"bado\xffkemi\n")
        self.assert_one_error(self.tokenizer(files=["a.txt"], code=1), 1, "UTF-8", hint="--invalid-utf8 replace")
        self.assertIn("1 documents repaired", self.tokenizer("--invalid-utf8", "replace", files=["a.txt"]).stdout)

    def test_lines_of_plain_text(self):
        self.write("a.txt", b"bado\nkemi\nlu\xffsa\n")
        got = self.tokenizer("--text-documents", "line", "--on-bad-line", "skip", files=["a.txt"])
        self.assertIn("from 2 documents", got.stdout)
        self.assert_one_error(self.tokenizer("--text-documents", "word", files=["a.txt"], code=2), 2,
                              "text-documents", "word")

    def test_files_that_are_not_there(self):
        got = self.tokenizer(files=["nope.txt"], code=2)
        self.assertTrue(got.stderr.startswith("error: cannot open nope.txt: No such file"), got.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_tokenizer_is_not_replaced_unless_asked(self):
        self.tokenizer()
        before = self.special()
        self.assert_one_error(self.tokenizer("--special", "<a>", code=2), 2, "already holds a tokenizer",
                              hint="--force")
        self.assertEqual(self.special(), before)
        self.tokenizer("--special", "<a>", "--force")
        self.assertEqual(self.special()[0], DEFAULTS + ["<a>"])


class Encode(TinyCase):
    def test_standard_input(self):
        text = "bado kemi\n"
        got = run("tokenizer", "encode", f"{self.shared}/tokenizer", "-", text=text)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout, run("tokenizer", "encode", f"{self.shared}/tokenizer", text).stdout)
        self.assertTrue(got.stdout)


if __name__ == "__main__":
    unittest.main()

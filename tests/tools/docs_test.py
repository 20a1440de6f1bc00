"""The documentation against the code: keys, operators, variables of the environment, links.

`docs_test.py --write` puts the output of `plimsoll keys` into docs/configuration.md.
"""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True
from repo_files import CPP, all_files, blank_comments, read_text  # noqa: E402

PROGRAM = os.environ.get("PLIMSOLL_BIN") or os.path.join(ROOT, "build", "release", "plimsoll")
CONFIGURATION = os.path.join(ROOT, "docs", "configuration.md")
KEYS = re.compile(r"(<!-- keys -->\n)(.*)(<!-- end of keys -->\n)", re.S)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)|(?:src|href)=\"([^\"#]+)")


def text_of(*path):
    return read_text(os.path.join(ROOT, *path))


def printed_keys():
    return "\n" + subprocess.run([PROGRAM, "keys"], check=True, capture_output=True, text=True).stdout + "\n"


def pages():
    return [f for f in all_files(ROOT) if f.endswith(".md")]


class Docs(unittest.TestCase):
    def test_keys_are_those_of_the_program(self):
        if not os.path.exists(PROGRAM):
            self.skipTest("the program is not built")
        found = KEYS.search(read_text(CONFIGURATION))
        self.assertIsNotNone(found, "docs/configuration.md has no marks")
        self.assertEqual(found.group(2), printed_keys(), "run tests/tools/docs_test.py --write")

    def test_links_lead_somewhere(self):
        missing = []
        for page in pages():
            for match in LINK.finditer(text_of(page)):
                target = match.group(1) or match.group(2)
                if "://" in target:
                    continue
                if not os.path.exists(os.path.join(ROOT, os.path.dirname(page), target)):
                    missing.append(f"{page}: {target}")
        self.assertEqual(missing, [])

    def test_every_operator_has_its_line(self):
        names = set()
        for path in all_files(ROOT):
            if path.startswith("plimsoll/ops/") and path.endswith(".cpp"):
                names |= set(re.findall(r"m\.def\(\s*\"(\w+)\(", text_of(path)))
        self.assertIn("rms_norm", names)
        page = text_of("docs", "operators.md")
        forward = [n for n in names if not re.search(r"_backward_?$", n)]
        self.assertEqual([n for n in sorted(forward) if f"`{n}`" not in page], [])

    def test_every_variable_is_named(self):
        names = set()
        for path in all_files(ROOT):
            text = text_of(path) if path.startswith(("plimsoll/", "cli/", "bench/", "tests/", "cmake/", "tools/")) else None
            if text is None or path.endswith("docs_test.py"):
                continue
            if path.endswith(CPP):
                names |= set(re.findall(r"(?:getenv|is_set)\(\"(\w+)\"\)", blank_comments(text)))
            elif path.endswith(".cmake"):
                names |= set(re.findall(r"\$?ENV\{(\w+)\}", text))
            else:
                names |= set(re.findall(r"environ(?:\.get\(|\[)\"(PLIMSOLL_\w+)\"", text))
                if text.startswith("#!/bin/bash"):
                    names |= set(re.findall(r"\$\{(PLIMSOLL_\w+|TORCH_DIR)[:}]", text))
        self.assertIn("PLIMSOLL_CACHE", names)
        page = text_of("docs", "environment.md")
        self.assertEqual([n for n in sorted(names) if f"`{n}`" not in page], [])

    def test_files_that_are_named_exist(self):
        missing = []
        named = re.compile(r"`((?:plimsoll|tools|tests|recipes|examples|bench|cli|cmake|docs|profiles)/[\w./-]+)`")
        for page in pages():
            for name in named.findall(text_of(page)):
                if not os.path.exists(os.path.join(ROOT, name)):
                    missing.append(f"{page}: {name}")
        self.assertEqual(missing, [])


def write():
    page = read_text(CONFIGURATION)
    with open(CONFIGURATION, "w", encoding="utf-8") as f:
        f.write(KEYS.sub(lambda m: m.group(1) + printed_keys() + m.group(3), page))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()

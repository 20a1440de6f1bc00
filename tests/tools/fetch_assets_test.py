"""fetch_assets without a network: what takes the place of the corpus, and that it is said."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# pip sees no index, no configuration of the user and no wheels.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}


def fetch(cache, *arguments, **env):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "fetch_assets"), *arguments],
                          env={**os.environ, **OFFLINE, "PLIMSOLL_CACHE": cache, **env}, capture_output=True, text=True)


class Offline(unittest.TestCase):
    def test_licence_texts_take_the_place_of_the_corpus(self):
        with tempfile.TemporaryDirectory() as cache:
            got = fetch(cache, "kjv")
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertIn("using the licence texts", got.stderr)
            path = got.stdout.strip().splitlines()[-1]
            self.assertEqual(path, os.path.join(cache, "assets", "licences.jsonl"))
            with open(path, encoding="utf-8") as f:
                rows = [json.loads(line) for line in f]
            self.assertTrue(rows)
            self.assertTrue(all(list(row) == ["text"] and row["text"] for row in rows))
            self.assertEqual(os.listdir(os.path.join(cache, "assets")), ["licences.jsonl"], "nothing half-made is left")

    def test_no_fallback_is_an_error(self):
        with tempfile.TemporaryDirectory() as cache:
            for arguments in (["kjv", "--no-fallback"], ["owt_1k"]):
                got = fetch(cache, *arguments)
                self.assertEqual(got.returncode, 1)
                self.assertIn("cannot be had", got.stderr)
                self.assertEqual(got.stdout, "")

    def test_a_damaged_file_is_not_taken(self):
        with tempfile.TemporaryDirectory() as cache:
            os.makedirs(os.path.join(cache, "assets"))
            with open(os.path.join(cache, "assets", "kjv.jsonl"), "w") as f:
                f.write('{"text": "cut off')
            self.assertEqual(fetch(cache, "kjv", "--no-fallback").returncode, 1)

    def test_unknown_names_list_the_known(self):
        with tempfile.TemporaryDirectory() as cache:
            got = fetch(cache, "bible")
            self.assertEqual(got.returncode, 2)
            self.assertIn("kjv", got.stderr)


if __name__ == "__main__":
    unittest.main()

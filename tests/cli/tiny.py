"""A tiny corpus, tokenizer and recipe of our own making, and ways to run the program on them."""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("PLIMSOLL_BIN") or os.path.join(ROOT, "build", "release", "plimsoll")
TIMEOUT = 120
VOCAB = 320

RECIPE = """\
[model]
architecture = "llama3"
flavor = "debugmodel"
dim = 32
layers = 2
heads = 4
kv_heads = 2
head_dim = 8
ffn = 48
vocab = {vocab}
[data]
files = ["{folder}/corpus.jsonl"]
tokenizer = "{folder}/tokenizer"
cache_dir = "{folder}/cache"
[train]
steps = 6
tokens_per_batch = 64
max_context = 32
precision = "fp32"
deterministic = true
[optim]
lr = 1e-2
[optim.schedule]
warmup_steps = 2
[device]
name = "cpu"
threads = 1
[metrics]
interval = 1
tensorboard = false
"""


def corpus(documents=60, seed=1):
    """Sentences of made-up words with some order in them, so that a model can learn something."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("bdklmnrst") + draw.choice("aeiou") for _ in range(draw.randint(1, 3)))
             for _ in range(40)]
    texts = []
    for _ in range(documents):
        word, text = draw.randrange(40), []
        for _ in range(draw.randint(5, 40)):
            text.append(words[word])
            word = (word * 7 + draw.choice((1, 2, 3))) % 40
        texts.append(" ".join(text) + ".")
    return texts


def environment():
    # Nothing of the caller's settings may reach the runs.
    return {**{k: v for k, v in os.environ.items() if not k.startswith("OMP_")},
            "TERM": "dumb", "OMP_NUM_THREADS": "1"}


def start(*arguments, cwd=None, **options):
    return subprocess.Popen([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment(), **options)


def run(*arguments, cwd=None, text="", **options):
    """`text` is the standard input."""
    return subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, encoding="utf-8",
                          cwd=cwd, env=environment(), timeout=TIMEOUT, **options)


def loss_compare(a, b):
    got = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "loss_compare"), a, b],
                         capture_output=True, text=True, timeout=TIMEOUT)
    return got.returncode, got.stdout + got.stderr


def tensors(path):
    """{name: (dtype, shape, hash of the bytes)} of a safetensors file."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], tuple(t["shape"]),
                   hashlib.sha256(data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]).hexdigest())
            for name, t in header.items()}


def steps_logged(folder):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line)["step"] for line in f]


class TinyCase(unittest.TestCase):
    """Corpus, tokenizer and recipe are made once a class; each test has a folder of its own."""

    @classmethod
    def setUpClass(cls):
        if not os.access(BINARY, os.X_OK):
            raise RuntimeError(f"{BINARY} is not built")
        folder = tempfile.TemporaryDirectory(prefix="plimsoll-cli-")
        cls.addClassCleanup(folder.cleanup)
        cls.shared = folder.name
        with open(f"{cls.shared}/corpus.jsonl", "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": text}) + "\n" for text in corpus())
        got = run("tokenizer", "train", f"{cls.shared}/corpus.jsonl", "--vocab-size", VOCAB,
                  "--out", f"{cls.shared}/tokenizer")
        if got.returncode != 0:
            raise RuntimeError(got.stderr)
        cls.recipe = f"{cls.shared}/tiny.toml"
        with open(cls.recipe, "w", encoding="utf-8") as f:
            f.write(RECIPE.format(vocab=VOCAB, folder=cls.shared))

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="plimsoll-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def arguments(self, name, sets=(), options=()):
        """Of a run into the test's folder `name`."""
        out = ["train", self.recipe, "--set", f"run.dir={self.path(name)}"]
        for item in sets:
            out += ["--set", item]
        return out + list(options)

    def train(self, name, *sets, options=(), code=0):
        got = run(*self.arguments(name, sets, options), cwd=self.folder)
        self.assertEqual(got.returncode, code, got.stdout[-1500:] + got.stderr[-1500:])
        return got

    def assert_one_error(self, got, code, *parts, hint=None):
        """One clear error on stderr, nothing of the program's insides."""
        text = got.stderr
        self.assertEqual(got.returncode, code, f"stdout: {got.stdout[-800:]}\nstderr: {text[-1500:]}")
        lines = text.strip().splitlines()
        self.assertTrue(lines and lines[0].startswith("error: "), text)
        self.assertEqual(sum(line.startswith("error: ") for line in lines), 1, text)
        self.assertLessEqual(sum(line.startswith("hint: ") for line in lines), 1, text)
        for line in lines[1:]:
            self.assertTrue(line.startswith("hint: ") or "error" not in line.lower(), text)
        for inside in ("frame #", "Exception raised", "terminate", "what()", ".cpp:", "Traceback"):
            self.assertNotIn(inside, text)
        for part in parts:
            self.assertIn(str(part), text)
        if hint:
            self.assertIn(hint, "\n".join(line for line in lines if line.startswith("hint: ")))

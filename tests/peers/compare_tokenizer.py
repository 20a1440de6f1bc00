#!/usr/bin/env python3
"""Compares our tokenizer with Hugging Face's: ids, decoded text, trained merges, files.

    python tests/peers/compare_tokenizer.py PROBE [--strings N] [--corpus FILE] [TOKENIZER.json ...]

PROBE is the built tokenizer_probe. Every tokenizer compared by default is trained here on generated
text; real files may be named besides. Exits with 1 if anything differs.
Needs tokenizers (and transformers, for the check that it loads our files).
"""
import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import argparse
import copy
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
VALID = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
PLANES = [
    (0, 0x80), (0x80, 0x800), (0x800, 0x3000), (0x3000, 0xA000), (0xA000, 0xD800),
    (0xE000, 0x10000), (0x10000, 0x20000), (0x20000, 0x32400), (0xE0000, 0xE0200), (0xF0000, 0x110000),
]
MARKS = [*range(0x300, 0x370), *range(0x591, 0x5BE), 0x3099, 0x309A, 0x1D165, 0x1D16D, 0x93C, 0x9BE,
         0x9D7, 0xDD9, 0xDCA, 0x1DC0, 0x1DF6, 0x1E130, 0x11938, 0x11935, 0x11930, 0x10F46, 0x8D4, 0x1ABF]
SPACES = ["\t", "\n", "\r", "\r\n", " ", "  ", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u180e", "\u2000",
          "\u2003", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", "\x1c", "\x1f"]
SUFFIXES = ["'s", "'T", "'re", "'VE", "'m", "'ll", "'LL", "'d", "'\u017f", "'Ss", "''s", " 's", "'lL", "'r",
            "'l", "\u2019s", "'\ufb05", "'\u017ft", "", "", "", ""]
WORDS = ["word", "Hello", " World", " the", " x", "don", "HTTPServer", "na\u00efve", "stra\u00dfe", "\u043f\u0440\u0438\u0432\u0435\u0442",
         "\u05e9\u05dc\u05d5\u05dd", "\u0e2a\u0e27\u0e31\u0e2a", "\u65e5\u672c\u8a9e", "\u4e2d\u6587", "\ud55c\uad6d\uc5b4"]
EMOJI = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f469\U0001f3fd\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\u2764\ufe0f\u200d\U0001f525"]
COMPOSED = ["\u212b", "\u2126", "\u212a", "\uf900", "\ufb2a", "\u0958", "A\u030a", "\uac00", "\u0340a", "\ufb01", "\u1e69",
            "s\u0323\u0307", "\u1e9b\u0323", "\u0f71\u0f72", "\u304b\u3099", "\U0001d15e", "\U00011935\U00011930"]
NUMBERS = "\u0660\u0661\u0967\uff15\u00b2\u00b3\u00bd\u2153\u2167\u2460\U0001d7d8\U000116da\U00016d709"
SPECIALS = ["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>", "<mask>", "<r>", "<both>", "ab", "Caf\u00e9", "<mask>s"]


def generated_string(r):
    def run(items, most):
        return "".join(r.choice(items) for _ in range(r.randint(1, most)))

    def chars(a, b, most):
        return "".join(chr(c) for c in (r.randrange(a, b) for _ in range(r.randint(1, most))) if not 0xD800 <= c < 0xE000)

    def broken(s):
        return r.choice([s[:-1], s[1:], s.upper(), s[:3] + " " + s[3:], "<" + s, s + s[:5], " " + s + " ", s + "_"])

    kinds = [
        lambda: chars(*r.choice(PLANES), 8),
        lambda: "".join(chr(r.choice(VALID)) for _ in range(r.randint(1, 6))),
        lambda: chars(0, 0x20, 5),
        lambda: r.choice(SPACES) * r.randint(1, r.choice([1, 2, 3, 40])),
        lambda: run(SPACES, 9),
        lambda: run("0123456789", r.choice([3, 7, 30])),
        lambda: run(NUMBERS, 6),
        lambda: r.choice("aeiouAEIOU\u00f1\ud55c\u1100\uac00\u01d6\u03a9") + "".join(chr(r.choice(MARKS)) for _ in range(r.randint(1, 5))),
        lambda: r.choice(EMOJI) * r.randint(1, 3),
        lambda: r.choice(SPECIALS),
        lambda: broken(r.choice(SPECIALS)),
        lambda: run("\u1100\u1161\u11a8\uac00\uac01\u1112\u1175\u11c2\ud7a3", 7),
        lambda: r.choice(COMPOSED),
        lambda: r.choice(WORDS) + r.choice(SUFFIXES),
        lambda: run("!@#$%^&*()-_=+[]{}|;:,.<>/?`~\\\"'", 12) + r.choice(["", "\n", "\r\n\r\n", " \n"]),
        lambda: r.choice(["a", "\u00e9", "\u3042", "\u0301", "z\u0323\u0307"]) * r.randint(1, 60),
    ]
    return "".join(r.choice(kinds)() for _ in range(r.randint(0, 12)))


def generated_corpus(r, words):
    syllables = ["ka", "lo", "mi", "te", "shu", "ran", "or", "ing", "e", "ter", "\u00e9", "\u043f\u0440\u0438", "\u65e5", "'s", "12"]
    lexicon = ["".join(r.choice(syllables) for _ in range(r.randint(1, 4))) for _ in range(3000)]
    out = []
    for _ in range(words):
        w = lexicon[min(int(r.paretovariate(0.7)) - 1, len(lexicon) - 1)]
        out.append(w + r.choice([" "] * 9 + [", ", ".\n", "\n\n", "  ", "!", "\t"]))
    return "".join(out)


def pack(strings):
    return b"".join(struct.pack("<I", len(b)) + b for b in strings)


def unpack(blob, size):
    at, out = 0, []
    while at < len(blob):
        (n,) = struct.unpack_from("<I", blob, at)
        at += 4
        out.append(list(struct.unpack_from(f"<{n}i", blob, at)) if size == 4 else blob[at : at + n])
        at += n * size
    return out


class Comparison:
    def __init__(self, probe, folder):
        self.probe, self.folder, self.failed = probe, folder, 0

    def run(self, *args, data=b""):
        done = subprocess.run([self.probe, *map(str, args)], input=data, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout

    def report(self, name, cases, differences):
        self.failed += bool(differences)
        print(f"{name}: {cases} cases, {len(differences)} differ", flush=True)
        for d in differences[:3]:
            print("   ", ascii(d)[:300])

    def ids(self, name, file, strings):
        t = Tokenizer.from_file(str(file))
        data = pack([s.encode() for s in strings])
        for flag in ([], ["as_text"]):
            t.encode_special_tokens = bool(flag)
            theirs = [e.ids for e in t.encode_batch_fast(strings, add_special_tokens=False)]
            ours = unpack(self.run("encode", file, *flag, data=data), 4)
            assert len(ours) == len(theirs)
            bad = [(s, a, b) for s, a, b in zip(strings, ours, theirs) if a != b]
            self.report(f"{name} encode {' '.join(flag)}", len(strings), bad)
        r = random.Random(3)
        size = t.get_vocab_size()
        lists = [e.ids for e in t.encode_batch_fast(strings[:2000])]
        lists += [[r.randrange(size) for _ in range(r.randint(0, 12))] for _ in range(5000)]
        blob = b"".join(struct.pack(f"<I{len(i)}i", len(i), *i) for i in lists)
        for flag, skip in ([], True), (["keep"], False):
            ours = unpack(self.run("decode", file, *flag, data=blob), 1)
            theirs = [t.decode(i, skip_special_tokens=skip).encode() for i in lists]
            bad = [(i, a, b) for i, a, b in zip(lists, ours, theirs) if a != b]
            self.report(f"{name} decode {' '.join(flag)}", len(lists), bad)

    def training(self, name, text, size, minimum=0, mode="whole", pattern=0, specials=("<|end_of_text|>",)):
        source, folder = self.folder / "corpus.txt", self.folder / "trained"
        source.write_bytes(text.encode())
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if pattern:
            split = pre_tokenizers.Split(__import__("tokenizers").Regex(CL100K % ["", "{1,3}"][pattern - 1]), "isolated")
            t.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=minimum, special_tokens=list(specials),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        if mode == "lines":
            t.train([str(source)], trainer)
        else:
            t.train_from_iterator([text], trainer)
        said = self.run("train", folder, size, minimum, pattern, source, mode, *specials).decode().strip()
        theirs, ours = json.loads(t.to_str())["model"], json.loads((folder / "tokenizer.json").read_text())["model"]
        bad = [k for k in ("vocab", "merges") if theirs[k] != ours[k]]
        self.report(f"train {name} {size} {mode}: {said}", len(ours["merges"]), bad)
        return folder


def variants(base):
    """The trained file with other parts: what each family of tokenizers uses."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}

    def split(digits, **more):
        return {"type": "Split", "pattern": {"Regex": CL100K % digits}, "behavior": "Isolated", "invert": False, **more}

    def sequence(*parts):
        return {"type": "Sequence", "pretokenizers": list(parts)}

    def make(**changes):
        d = copy.deepcopy(base)
        for key, value in changes.items():
            (d["model"] if key in d["model"] else d)[key] = value
        return d

    yield "gpt2", base
    qwen = make(pre_tokenizer=sequence(split(""), byte_level), normalizer={"type": "NFC"})
    yield "qwen", qwen
    yield "llama3", make(pre_tokenizer=sequence(split("{1,3}"), byte_level), ignore_merges=True)
    yield "removed", make(pre_tokenizer=sequence(split("{1,3}", behavior="Removed", invert=True), byte_level))
    regex = {**byte_level, "use_regex": True}
    yield "digits", make(pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, regex))
    yield "digit runs", make(pre_tokenizer=sequence({"type": "Digits", "individual_digits": False}, regex))
    yield "prefix", make(pre_tokenizer={**regex, "add_prefix_space": True})
    yield "prefix digits", make(
        pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, {**regex, "add_prefix_space": True}))
    # Merges fewer by the tokens that ignore_merges finds as they stand.
    yield "half the merges", make(merges=base["model"]["merges"][::2], ignore_merges=True)
    yield "legacy merges", make(merges=[" ".join(m) for m in base["model"]["merges"]])
    # Bytes that the vocabulary lacks are dropped.
    gone = {"\u0120", "1", "\u0109", "\u00e3", "\u00c3", "e"}
    few = make(vocab={k: v for k, v in base["model"]["vocab"].items() if k not in gone},
               merges=[m for m in base["model"]["merges"] if not set(m) & gone], added_tokens=[])
    yield "missing bytes", few
    flags = copy.deepcopy(qwen)
    plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    more = [
        dict(content="<mask>", lstrip=True), dict(content="<r>", rstrip=True), dict(content="<both>", lstrip=True, rstrip=True),
        dict(content="ab", single_word=True, special=False), dict(content="b<", special=False),
        dict(content="Caf\u00e9", normalized=True, special=False), dict(content="e\u0301<", normalized=True, special=False),
        dict(content="\u0301x", special=False), dict(content="<mask>s", single_word=True),
    ]
    first = max(base["model"]["vocab"].values()) + 1
    flags["added_tokens"] += [{**plain, **m, "id": first + i} for i, m in enumerate(more)]
    yield "flags", flags


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--strings", type=int, default=10000)
    parser.add_argument("--corpus", help="a text to train on besides, and to encode in lines")
    parser.add_argument("files", nargs="*")
    args = parser.parse_intermixed_args()
    r = random.Random(11)
    strings = ["", " ", "\n"] + [generated_string(r) for _ in range(args.strings)]
    flag_parts = [*SPECIALS, "b<", "Cafe\u0301", "e\u0301<", "\u00e9<", "\u0301x", " ", "  ", "\n", "\u00a0", "\u3000", "c", "_",
                  "\u00e9", "\u0301", "1", "-", "x", "ab<mask>", "\u200d", "\u20dd"]
    strings += ["".join(r.choice(flag_parts) for _ in range(r.randint(1, 10))) for _ in range(args.strings // 4)]
    text = generated_corpus(r, 60000)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        c = Comparison(args.probe, folder)
        for mode in "whole", "lines":
            for pattern in 0, 1, 2:
                c.training("generated", text, 2048, mode=mode, pattern=pattern)
        c.training("generated, frequent", text, 4000, minimum=5)
        c.training("every plane", "".join(strings[:3000]), 1500)
        for i in range(150):
            letters = ["ab", "abc", "a", "aab", "ab \u00e9\n"][i % 5]
            small = "".join(r.choice(letters) if r.random() < 0.9 else " " for _ in range(r.choice([30, 200, 2000])))
            before = c.failed
            out, sys.stdout = sys.stdout, open(os.devnull, "w")
            c.training("small", small, r.choice([265, 300, 400, 3000]), specials=["<|end_of_text|>", "ab", "aba"])
            sys.stdout = out
            if c.failed > before:
                print("train small: differs on", ascii(small)[:100])
        print("train small: 150 corpora", flush=True)
        if args.corpus:
            real = open(args.corpus, encoding="utf8", newline="").read()
            for size in 2048, 8192:
                c.training(args.corpus, real, size, mode="lines")
            strings += real.splitlines(keepends=True)[:20000]
        ours = c.training("generated", text, 2048, specials=["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"])
        base = json.loads((ours / "tokenizer.json").read_text())
        for name, d in variants(base):
            file = folder / "variant.json"
            file.write_text(json.dumps(d, ensure_ascii=r.random() < 0.5))
            c.ids(name, file, strings)
        for file in args.files:
            c.ids(file, file, strings)
        try:
            from transformers import AutoTokenizer
        except ImportError:
            print("transformers is not installed: its loading of our files was not checked")
        else:
            auto = AutoTokenizer.from_pretrained(str(ours))
            theirs = [auto(s, add_special_tokens=False)["input_ids"] for s in strings[:1000]]
            data = pack([s.encode() for s in strings[:1000]])
            got = unpack(c.run("encode", ours, data=data), 4)
            c.report("AutoTokenizer on our folder", 1000, [x for x in zip(got, theirs) if x[0] != x[1]])
            if auto.eos_token != "<|pad|>":
                c.report("AutoTokenizer eos", 1, [auto.eos_token])
    print("all equal" if not c.failed else f"{c.failed} comparisons differ")
    return bool(c.failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes tests/golden/tokenizer.json: what Hugging Face makes of generated text.

    python tests/golden/tokenizer.py > tests/golden/tokenizer.json

Holds a generated corpus and the merges trained on it, and generated strings with their ids under
that vocabulary in the shapes of several families of tokenizers. Written with tokenizers 0.23.3.
"""
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "peers"))
import compare_tokenizer as peers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIALS = ["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"]
# Each names a trap of the patterns.
PIECES = [
    "", " ", "\n", "I'm you're they'll we've he'd it's I'M YOU'RE", "don't 'S 'Re x's's", "a  b   c    d", "a \n b", "  \n\n  x",
    "\r\n\r\n", " \r\n x", "tab\t\tx", "1 12 123 1234 12345678", "x1y22z333", "3.14159, -2e10", "\u0661\u0662\u0663 \u00bd\u00b2", "\u00a0\u3000 a",
    "a\u00a0b", "trailing   ", "!!! ??? ...", " ?!\n\n", "$x = {y: [1,2]};", "#include <x>\n", "na\u00efve caf\u00e9", "cafe\u0301", "\u1100\u1161\u11a8",
    "\u65e5\u672c\u8a9e\u306e\u6587", "\u0645\u0631\u062d\u0628\u0627", "\U0001f469\u200d\U0001f680 \U0001f1e9\U0001f1ea", "'\u017f it'\u017ft", "\u0000\u0001\u007f",
    "<|begin_of_text|>a<|end_of_text|>", "<|pad|", "<|pad|>\n<|pad|>", "a" * 70, "ab" * 40, " " * 50 + "x", "\n" * 30,
]


def patch_of(base, changed):
    """A JSON merge patch from base to changed."""
    out = {}
    for key in base:
        if isinstance(base[key], dict) and isinstance(changed.get(key), dict) and key in ("model", "vocab"):
            inner = patch_of(base[key], changed[key])
            if inner:
                out[key] = inner
        elif key not in changed:
            out[key] = None
        elif base[key] != changed[key]:
            out[key] = changed[key]
    return out


def main():
    r = random.Random(5)
    corpus = peers.generated_corpus(r, 2500)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        [corpus],
        trainers.BpeTrainer(vocab_size=460, special_tokens=SPECIALS, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    base = json.loads(t.to_str())
    strings = PIECES + [peers.generated_string(r)[:50] for _ in range(40)]
    families = []
    for name, changed in peers.variants(base):
        t = Tokenizer.from_str(json.dumps(changed))
        ids = [e.ids for e in t.encode_batch_fast(strings, add_special_tokens=False)]
        families.append({
            "name": name,
            "patch": patch_of(base, changed),
            "ids": ids,
            # null: the string itself
            "decoded": [
                None if d == s else d for s, d in zip(strings, (t.decode(i, skip_special_tokens=False) for i in ids))
            ],
        })
    json.dump({"corpus": corpus, "base": base, "strings": strings, "families": families}, sys.stdout,
              separators=(",", ":"))
    print()


main()

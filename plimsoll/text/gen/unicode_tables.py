#!/usr/bin/env python3
"""Writes unicode_tables.inc: character classes and NFC data as Hugging Face tokenizers sees them.

    python plimsoll/text/gen/unicode_tables.py > plimsoll/text/unicode_tables.inc

That library mixes Unicode versions (patterns, digits and NFC each have their own), so its answers
are probed, character by character, rather than taken from one version of the standard.
Needs the tokenizers package; takes about half a minute.
"""
import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CHUNK = 20000
LETTER, NUMBER, SPACE = 1, 2, 3  # the two low bits
NUMERIC, WORD, NFC_UNSAFE = 4, 8, 16
HANGUL = range(0xAC00, 0xD7A4)


def chunks():
    for i in range(0, len(CODE_POINTS), CHUNK):
        part = CODE_POINTS[i : i + CHUNK]
        yield part, "".join(map(chr, part))


def matching(pattern):
    """Code points that the pattern (one character class) matches."""
    split = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
    found = set()
    for part, text in chunks():
        for _, (a, b) in split.pre_tokenize_str(text):
            found.update(part[a:b])
    return found


def numeric():
    """Code points that the Digits pre-tokenizer isolates."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in CODE_POINTS if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3}


def word_characters():
    """Code points next to which a single_word token is not recognised."""
    t = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    t.add_tokens([AddedToken("[X]", single_word=True, normalized=False)])
    token, found = t.token_to_id("[X]"), set()
    for i in range(0, len(CODE_POINTS), CHUNK):
        part = CODE_POINTS[i : i + CHUNK]
        for c, e in zip(part, t.encode_batch([chr(c) + "[X]" for c in part])):
            if token not in e.ids:
                found.add(c)
    return found


def nfc_data():
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    decomposed, changed = {}, set()
    for c in CODE_POINTS:
        s = chr(c)
        if nfd(s) != s:
            decomposed[c] = nfd(s)
        if nfc(s) != s:
            changed.add(c)
    # One mark of each combining class, then the class of every mark by how it sorts beside those.
    lowest = next(chr(c) for c in CODE_POINTS if unicodedata.ucd_3_2_0.combining(chr(c)) == 1)
    highest = "\u0345"

    def is_mark(s):
        return nfd("a" + s + lowest) == "a" + lowest + s or nfd("a" + highest + s) == "a" + s + highest

    reference = {}
    for c in CODE_POINTS:
        k = unicodedata.combining(chr(c))
        if k and k not in reference and c not in decomposed and is_mark(chr(c)):
            reference[k] = chr(c)
    classes = {}
    for c in CODE_POINTS:
        s = chr(c)
        if c in decomposed or not is_mark(s):
            continue
        same = [
            k
            for k, m in sorted(reference.items())
            if nfd("a" + s + m) == "a" + s + m and nfd("a" + m + s) == "a" + m + s
        ]
        classes[c] = same[0]
    compositions = {}
    for c in decomposed:
        parts = unicodedata.decomposition(chr(c)).split()
        if c not in HANGUL and len(parts) == 2 and not parts[0].startswith("<"):
            a, b = (int(p, 16) for p in parts)
            if nfc(chr(a) + chr(b)) == chr(c):
                compositions[a, b] = c
    seconds = {b for _, b in compositions} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    unsafe = changed | set(classes) | seconds
    return {c: d for c, d in decomposed.items() if c not in HANGUL}, classes, compositions, unsafe


def emit(name, comment, numbers):
    print(f"// {comment}")
    print(f"inline constexpr uint32_t {name}[] = {{")
    line = ""
    for n in numbers:
        item = f"{n:#x},"
        if len(line) + len(item) > 99:
            print(line)
            line = ""
        line += item
    print(line)
    print("};")


def main():
    letters, numbers, spaces = matching(r"\p{L}"), matching(r"\p{N}"), matching(r"\s")
    assert not letters & numbers and not letters & spaces and not numbers & spaces
    digits, words = numeric(), word_characters()
    decomposed, classes, compositions, unsafe = nfc_data()
    runs, last = [], None
    for c in range(0x110000):
        p = LETTER if c in letters else NUMBER if c in numbers else SPACE if c in spaces else 0
        p |= NUMERIC * (c in digits) | WORD * (c in words) | NFC_UNSAFE * (c in unsafe)
        if p != last:
            runs.append(c << 8 | p)
            last = p
    print(f"// Written by gen/unicode_tables.py from tokenizers {tokenizers.__version__}. Do not edit.")
    print("// clang-format off")
    emit("kPropertyRuns", "first code point of a run << 8 | its properties", runs)
    flat = []
    for c, d in decomposed.items():
        flat += [c << 8 | len(d)] + [ord(x) for x in d]
    emit("kDecompositions", "code point << 8 | length, then the full decomposition", flat)
    emit("kCombiningClasses", "code point << 8 | class", [c << 8 | k for c, k in classes.items()])
    flat = [n for (a, b), c in compositions.items() for n in (a, b, c)]
    emit("kCompositions", "first, second, composed", flat)
    print("// clang-format on")


main()

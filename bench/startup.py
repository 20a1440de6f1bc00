#!/usr/bin/env python3
"""From exec to the end of a first step of 1,024 tokens of the debug model, beside transformers.

Ours is `plimsoll train` of a one-step recipe on a generated corpus that is tokenised already: it
reads the recipe, the tokenizer and the corpus, builds model and optimizer, opens a run folder and
trains. The peer imports torch and transformers, loads the same tokenizer, encodes as many documents
as a step needs, builds the same model and does the step, with no recipe and no run folder. Both are
timed by the parent, from starting the process to reading the line that follows the step. The peer
runs in fp32 and, where ours is bf16, under autocast too; the faster counts. One process per side and
repetition, interleaved, everything in the page cache. ratio: peer / ours in seconds, medians (10 or
more is the target); ratio_of_minima: the same of the fastest of each, which other users of the
machine disturb least. exit_s: until our process is gone, its last checkpoint written.

  startup.py [--repetitions 7] [--smoke]
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from peers import BUILD, ROOT, environment, require_python, spread, threads

PEER = ROOT / "bench/peer_llama.py"
RECIPE = """\
[model]
architecture = "llama3"
flavor = "debugmodel"

[data]
files = ["{folder}/corpus.jsonl"]
tokenizer = "{folder}/tokenizer"

[train]
steps = 1
tokens_per_batch = {tokens}
max_context = {tokens}
"""


def write_corpus(path):
    """Documents of words made of random syllables."""
    rng = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(3000)]
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(200):
            f.write(json.dumps({"text": " ".join(rng.choices(words, k=200))}) + "\n")


def seconds_to_step(command, env, mark):
    """Seconds to the first line that starts with `mark`, and to the exit of the process."""
    begin = time.perf_counter()
    with subprocess.Popen([str(c) for c in command], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        step, lines = None, []
        for line in process.stdout:
            if step is None and line.startswith(mark):
                step = time.perf_counter() - begin
            lines.append(line)
    end = time.perf_counter() - begin
    if process.returncode != 0 or step is None:
        sys.exit(f"{command[0]} did not come to a line '{mark}' (exit code {process.returncode}):\n"
                 + "".join(lines)[-2000:])
    return step, end, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path,
                        default=os.environ.get("PLIMSOLL_BIN") or BUILD / "plimsoll")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, default=threads())
    parser.add_argument("--smoke", action="store_true", help="1 repetition of 64 tokens")
    args = parser.parse_args()
    tokens = 1024
    if args.smoke:
        tokens, args.repetitions = 64, 1

    python = require_python(args.smoke)
    with tempfile.TemporaryDirectory(prefix="plimsoll-startup-") as folder:
        write_corpus(f"{folder}/corpus.jsonl")
        recipe = pathlib.Path(folder, "one_step.toml")
        recipe.write_text(RECIPE.format(folder=folder, tokens=tokens), encoding="utf-8")
        env = environment(args.threads) | {"PLIMSOLL_CACHE": f"{folder}/cache"}
        subprocess.run([args.binary, "tokenizer", "train", f"{folder}/corpus.jsonl", "--vocab-size",
                        "2048", "--out", f"{folder}/tokenizer"], check=True, env=env,
                       stdout=subprocess.DEVNULL)

        ours, exits, peers, version = [], [], {}, None
        for i in range(args.repetitions + 1):  # the first one, untimed, fills the caches
            step, end, lines = seconds_to_step(
                [args.binary, "train", recipe, "--set", f"run.dir={folder}/run-{i}"], env, "step:")
            modes = ["fp32"] + (["amp"] if any("bf16 arithmetic" in line for line in lines) else [])
            if i > 0:
                ours.append(step)
                exits.append(end)
            for mode in modes if python else ():
                step, _, lines = seconds_to_step(
                    [python, PEER, mode, 1, tokens, 0, 1, args.threads, "--corpus", f"{folder}/corpus.jsonl",
                     "--tokenizer", f"{folder}/tokenizer"], env, "step 1")
                version = json.loads(lines[-1])["version"]
                if i > 0:
                    peers.setdefault(mode, []).append(step)

    mine = statistics.median(ours)
    result = {"bench": "startup", "ratio": None, "ours_s": round(mine, 4), "peer_s": None,
              "exit_s": round(statistics.median(exits), 4), "tokens": tokens,
              "repetitions": args.repetitions, "threads": args.threads, "spread": spread(ours),
              "peer": version}
    if peers:
        mode = min(peers, key=lambda m: statistics.median(peers[m]))
        theirs = statistics.median(peers[mode])
        result |= {"ratio": round(theirs / mine, 2), "peer_s": round(theirs, 4), "peer_mode": mode,
                   "ratio_of_minima": round(min(peers[mode]) / min(ours), 2),
                   "minima_s": [round(min(ours), 4), round(min(peers[mode]), 4)],
                   "spread": max(spread(ours), spread(peers[mode]))}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

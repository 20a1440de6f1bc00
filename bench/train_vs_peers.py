#!/usr/bin/env python3
"""Training steps of the debug model beside transformers: tokens a second and peak memory.

Both sides: the same shape and number of threads, 8 x 2,048 random tokens (ours in one row whose
positions restart every 2,048, theirs as a batch of 8), gradients clipped, fused AdamW, the loss
read each step. The peer uses scaled-dot-product attention and no cache. In bf16 it runs under
autocast and with everything in bf16, and the faster counts; fp32 runs against fp32. One process per
side and repetition, interleaved; medians. ratio: ours / peer in tokens a second (above 1: ahead);
memory_ratio: ours / peer in peak resident bytes of the whole process (below 1: ahead).

  train_vs_peers.py [--precision bf16|fp32|both] [--repetitions 3] [--smoke]
"""
import argparse
import json
import pathlib
import statistics
import sys

from peers import BUILD, ROOT, environment, require_python, run_json, spread, threads

PEER = ROOT / "bench/peer_llama.py"
MODES = {"bf16": ["amp", "bf16"], "fp32": ["fp32"]}


class Side:
    """What the runs of one side came to."""

    def __init__(self):
        self.runs = []

    def rates(self, tokens):
        return [tokens / statistics.median(r["seconds"]) for r in self.runs]

    def rate(self, tokens):
        return statistics.median(self.rates(tokens))

    def peak_mb(self):
        return round(statistics.median(r["peak_bytes"] for r in self.runs) / 1e6, 1)


def compare(precision, args, python):
    """One entry of the result. The first repetition of each side also warms the page cache."""
    ours, peers = Side(), {m: Side() for m in MODES[precision] if python}
    env = environment(args.threads)
    shape = [args.rows, args.length, args.warmup, args.steps, args.threads]
    for i in range(args.repetitions):
        ours.runs.append(run_json([args.binary, precision, *shape], env))
        for mode, side in peers.items():
            side.runs.append(run_json([python, PEER, mode, *shape], env))
        print(f"{precision} {i + 1}/{args.repetitions}:",
              f"ours {ours.rates(args.rows * args.length)[-1]:,.0f} tokens/s;",
              *(f"peer {m} {s.rates(args.rows * args.length)[-1]:,.0f}" for m, s in peers.items()),
              file=sys.stderr)
    tokens = args.rows * args.length
    result = {"ratio": None, "ours": round(ours.rate(tokens), 1), "peer": None, "memory_ratio": None,
              "ours_mb": ours.peak_mb(), "spread": spread(ours.rates(tokens))}
    if peers:
        mode = max(peers, key=lambda m: peers[m].rate(tokens))
        peer = peers[mode]
        for side in peers.values():
            if side.runs[0]["parameters"] != ours.runs[0]["parameters"]:
                sys.exit(f"not the same model: ours has {ours.runs[0]['parameters']} parameters, "
                         f"the peer {side.runs[0]['parameters']}")
        result |= {"ratio": round(ours.rate(tokens) / peer.rate(tokens), 3),
                   "peer": round(peer.rate(tokens), 1),
                   "memory_ratio": round(ours.peak_mb() / peer.peak_mb(), 3),
                   "peer_mb": peer.peak_mb(), "peer_mode": mode,
                   "peer_modes": {m: {"tokens_per_second": round(s.rate(tokens), 1),
                                      "mb": s.peak_mb()} for m, s in peers.items()},
                   "spread": max(spread(ours.rates(tokens)), spread(peer.rates(tokens)))}
    return result, peers


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=BUILD / "bench/train_step")
    parser.add_argument("--precision", choices=["bf16", "fp32", "both"], default="both")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=threads())
    parser.add_argument("--smoke", action="store_true", help="2 x 64 tokens, 1 repetition")
    args = parser.parse_args()
    if args.smoke:
        args.rows, args.length, args.repetitions, args.steps = 2, 64, 1, 2

    python = require_python(args.smoke)
    result = {"bench": "train_vs_peers", "repetitions": args.repetitions, "threads": args.threads,
              "rows": args.rows, "length": args.length, "peer": None}
    for precision in MODES if args.precision == "both" else [args.precision]:
        name = {"bf16": "debug", "fp32": "debug_fp32"}[precision]
        result[name], peers = compare(precision, args, python)
        for side in peers.values():
            result["peer"] = side.runs[0]["version"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()

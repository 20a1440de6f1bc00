#!/usr/bin/env python3
"""Loading a safetensors file into tensors whose pages are all touched: ours beside the Python
library. One process per side and repetition, interleaved, the file in the page cache; medians.

The peer is timed two ways: "copy" does the same job (load_file, then copy_ into tensors that exist,
what loading weights into a model is); "touch" only maps the file and reads one byte of every page,
so it moves nothing. The ratio (peer / ours, above 1 is faster than the peer) is against "copy";
"ratio_touch" is against the other. Neither side's process start or imports are timed.

  load_vs_safetensors.py --binary build/release/bench/load_safetensors [--mb 500] [--smoke]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def peer(mode, path):
    """Runs in the peers' Python."""
    import torch
    import safetensors
    from safetensors.torch import load_file

    places = {}
    if mode == "copy":
        places = {k: torch.full_like(v, 1) for k, v in load_file(path).items()}
    start = time.perf_counter()
    loaded = load_file(path)
    if mode == "copy":
        with torch.no_grad():
            for name, place in places.items():
                place.copy_(loaded[name])
    else:
        for tensor in loaded.values():
            tensor.view(-1).view(torch.uint8)[::4096].sum()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "version": safetensors.__version__}))


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path,
                        default=ROOT / "build/release/bench/load_safetensors")
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="4 MB, 2 repetitions")
    parser.add_argument("--peer", choices=["copy", "touch"], help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer(args.peer, args.file)
    if args.smoke:
        args.mb, args.repetitions = 4, 2

    python = os.environ.get("PLIMSOLL_PEERS_PYTHON") or str(ROOT / "build/venv-peers/bin/python")
    have_peer = pathlib.Path(python).exists() and subprocess.run(
        [python, "-c", "import torch, safetensors.torch"], capture_output=True).returncode == 0

    ours, copy, touch, version = [], [], [], None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        subprocess.run([args.binary, "make", path, str(args.mb * 1_000_000)], check=True)
        size = os.path.getsize(path)
        for i in range(args.repetitions + 1):
            one = float(subprocess.run([args.binary, "read", path], check=True,
                                       capture_output=True, text=True).stdout)
            two = {}
            for mode in ("copy", "touch") if have_peer else ():
                out = subprocess.run([python, __file__, "--peer", mode, "--file", path],
                                     check=True, capture_output=True, text=True).stdout
                two[mode] = json.loads(out.strip().splitlines()[-1])
            if i == 0:
                continue  # brings file and libraries into the page cache
            ours.append(one)
            if have_peer:
                copy.append(two["copy"]["seconds"])
                touch.append(two["touch"]["seconds"])
                version = two["copy"]["version"]
    result = {"bench": "load_vs_safetensors", "ratio": None,
              "ours_s": round(statistics.median(ours), 5), "peer_s": None,
              "repetitions": args.repetitions, "spread": round(spread(ours), 3), "peer": None,
              "bytes": size}
    if have_peer:
        mine = statistics.median(ours)
        result |= {"ratio": round(statistics.median(copy) / mine, 3),
                   "ratio_touch": round(statistics.median(touch) / mine, 3),
                   "peer_s": round(statistics.median(copy), 5),
                   "peer_touch_s": round(statistics.median(touch), 5),
                   "spread": round(max(spread(ours), spread(copy)), 3),
                   "peer": f"safetensors {version}"}
    else:
        print(f"no peer: {python} has no torch and safetensors (PLIMSOLL_PEERS_PYTHON)", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""What the benchmarks beside a peer share: where its Python is, runs of one process, medians."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PLIMSOLL_BUILD_DIR") or ROOT / "build/release")
CACHE = pathlib.Path(os.environ.get("PLIMSOLL_CACHE") or pathlib.Path.home() / ".cache/plimsoll")


def find_python(modules="torch, transformers"):
    """The Python that has the peers, or None."""
    places = [os.environ.get("PLIMSOLL_PEERS_PYTHON"), ROOT / "build/venv-peers",
              CACHE / "venv-peers"]
    for place in filter(None, places):
        path = pathlib.Path(place)
        python = path / "bin/python" if path.is_dir() else path
        check = f"from importlib.util import find_spec as f\nassert all(map(f, {modules.split(', ')}))"
        if python.exists() and subprocess.run([python, "-c", check],
                                              capture_output=True).returncode == 0:
            return str(python)
    return None


def require_python(smoke):
    """As find_python; without the peers a smoke run goes on alone, a real one ends."""
    python = find_python()
    if python is None:
        print("no peers: torch and transformers are not installed beside us\n"
              "  hint: tools/peers makes their environment", file=sys.stderr)
        if not smoke:
            sys.exit(1)
    return python


def environment(threads):
    """Of both sides: the same threads, nothing else of ours."""
    return os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1",
                         "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


def threads():
    return len(os.sched_getaffinity(0))


def run_json(command, env):
    """Runs one process; its last line as JSON. A failed one ends the benchmark with its words."""
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(values):
    return round((max(values) - min(values)) / statistics.median(values), 3)

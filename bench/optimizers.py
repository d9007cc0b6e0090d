"""How near the update of a parameter comes to a copy: for each optimizer the bytes that its
command reads and writes, by the time that it takes, beside the machine's copy rate, on all
threads and in one run.

    python3 bench/optimizers.py [--rounds 3]

Needs meshc and meshc-rates in build/bin (bench/cpu.sh builds both)."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
SPEC = (ROOT / "bench" / "adamw.mesh").read_text(encoding="utf-8")
OPTIMIZERS = {
    "sgd": "sgd(lr = lr)", "momentum": "momentum(lr = lr)", "adam": "adam(lr = lr)",
    "adamw": None,  # as the spec has it
    "lion": "lion(lr = lr)", "lamb": "lamb(lr = lr)", "adafactor": "adafactor(lr = lr)",
}
# The share of the copy rate that AdamW is to reach.
GOAL = 0.9


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def measure_copy():
    found = run(BIN / "meshc-rates", "--benchmark_filter=copy",
                "--benchmark_format=json")["benchmarks"]
    return max(entry["bytes"] for entry in found if "bytes" in entry)


def measure_update(spec):
    """Bytes per second of the update's commands together, on all threads."""
    found = run(BIN / "meshc", "run", spec, "--bench", 10, "--profile")
    updates = [entry for entry in found["costliest"] if entry["phase"] == "update"]
    return found["threads"] * sum(entry["bytes"] for entry in updates) / sum(
        entry["worker_ms"] for entry in updates) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    shares = {name: [] for name in OPTIMIZERS}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in OPTIMIZERS.items():
            text = SPEC if call is None else re.sub(
                "optimizer .*", f"optimizer {call}", SPEC)
            (pathlib.Path(folder) / f"{name}.mesh").write_text(text, encoding="utf-8")
        for _ in range(rounds):
            for name, found in shares.items():
                copy = measure_copy()
                found.append(measure_update(pathlib.Path(folder) / f"{name}.mesh") / copy)
    print("| optimizer | of the copy rate | rounds |\n|---|---|---|")
    for name, found in shares.items():
        goal = f" (goal {GOAL})" if name == "adamw" else ""
        print(f"| {name} | {statistics.median(found):.2f}{goal} | "
              f"{', '.join(f'{share:.2f}' for share in sorted(found))} |")


main()

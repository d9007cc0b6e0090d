"""What the workers of both peers are told and answer.

Arguments: sizes as in the .mesh file (--batch 8 --pos 2048 ...), --precision,
--device. Without --check a worker compiles, runs twice to warm up, prints a line of
JSON with its versions, and then runs as many steps as each line of standard input
says, with a line of JSON each time. With --check FOLDER it reads FOLDER/in/<name>.npy
('/' in names is '.'), and writes the loss and its gradients into FOLDER/out.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np

SIZES = {"batch": 8, "pos": 2048, "d_model": 2048, "heads": 16, "d_head": 128, "d_ff": 8192}
LEARNING_RATE = 0.01


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--check", type=pathlib.Path)
    return parser.parse_args()


def get_sizes(arguments):
    return {name: getattr(arguments, name) for name in SIZES}


def get_path(folder, name):
    return folder / f"{name.replace('/', '.')}.npy"


def read_arrays(folder, names):
    return {name: np.load(get_path(folder / "in", name)) for name in names}


def write_arrays(folder, arrays):
    (folder / "out").mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(get_path(folder / "out", name), np.asarray(array, dtype=np.float32))


def serve(versions, step):
    """Runs step(), which returns the loss when it is computed, as standard input asks."""
    started = time.perf_counter()
    step()
    compile_s = time.perf_counter() - started
    step()
    print(json.dumps({**versions, "compile_s": compile_s}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            started = time.perf_counter()
            loss = step()
            times.append((time.perf_counter() - started) * 1e3)
        print(json.dumps({"step_ms_median": statistics.median(times),
                          "step_ms_min": min(times), "loss": loss}), flush=True)

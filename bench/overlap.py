"""Full sharding on processes of this machine: gathers a layer ahead, and buckets, beside none.

    overlap.py [--processes 2] [--rounds 5] [--steps 20]

A training of eight layers of 1024 x 1024 whose parameters are split over the processes, with
one thread each: the median step with what the plan does, with gathers sent a layer ahead of
their readers, and with nothing sent together. In turns; ratios to the first.
"""

import argparse
import array
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

from compare import BIN, read_processor

WIDE, LAYERS, BATCH = 1024, 8, 256
SPEC = f"""dim batch = {BATCH}
dim wide = {WIDE}
dim layers = {LAYERS}
mesh data = PROCESSES
layout {{ batch -> data  params: * -> data }}
model layered(x: f32[batch, wide], target: f32[batch, wide]) {{
  let h = x
  for layer in layers {{ h = h + tanh(dense(h, from = wide, to = wide') as inner)[wide' = wide] }}
  output loss = mean((h - target) ^ 2)
}}
data over batch {{ x = npy("x.npy")  target = npy("target.npy") }}
train {{ minimize loss  optimizer sgd(lr = 0.01)  steps 10 }}
"""
VARIANTS = {"as planned": (), "a layer ahead": ("--prefetch", "1"),
            "nothing together": ("--bucket-bytes", "0"),
            "a layer ahead, nothing together": ("--prefetch", "1", "--bucket-bytes", "0")}


def write_npy(path, rows, columns):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    numbers = random.Random(path.name)
    values = array.array("f", (numbers.uniform(-1, 1) for _ in range(rows * columns)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") +
                     header.encode() + values.tobytes())


def measure(program, folder, processes, steps):
    """Milliseconds of the median step but the first."""
    metrics = folder / "metrics"
    metrics.unlink(missing_ok=True)
    subprocess.run([program, "train", "--data-dir", folder, "--no-eval", "--processes",
                    str(processes), "--threads", "1", "--steps", str(steps), "--metrics",
                    metrics], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    return statistics.median(1e3 * BATCH / line["samples_per_s"] for line in lines[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        spec = folder / "layers.mesh"
        spec.write_text(SPEC.replace("PROCESSES", str(options.processes)), encoding="utf-8")
        for file in ("x", "target"):
            write_npy(folder / f"{file}.npy", 2 * BATCH, WIDE)
        programs = {}
        for number, (variant, flags) in enumerate(VARIANTS.items()):
            programs[variant] = folder / f"program-{number}"
            subprocess.run([BIN / "meshc", "compile", spec, *flags, "-o", programs[variant]],
                           check=True)
        times = {variant: [] for variant in VARIANTS}
        for turn in range(options.rounds):
            for variant in list(VARIANTS)[::-1 if turn % 2 else 1]:
                times[variant].append(measure(programs[variant], folder, options.processes,
                                              options.steps))
    print(f"{read_processor()}, {options.processes} processes, medians of {options.rounds} "
          "rounds\n\n| | ms a step | to the first |\n|---|---|---|")
    first = times["as planned"]
    for variant, own in times.items():
        ratio = statistics.median(new / old for new, old in zip(own, first))
        print(f"| {variant} | {statistics.median(own):.2f} | {ratio:.3f} |")


main()

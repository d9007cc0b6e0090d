"""What a recipe costs beside its model: a block of GPT-2 with AdamW, dropout and clipped
gradients, beside JAX and beside the same without dropout and clip, on one device and on eight;
and a step with Muon beside one with AdamW. Times are medians over rounds in turns.

    build/bench-environment/bin/python bench/recipes.py [--rounds 3] [--steps 2] [--only muon]

Needs meshc in build/bin, and JAX (bench/cpu.sh makes both)."""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = (ROOT / "bench" / "recipe.mesh").read_text(encoding="utf-8")
RATE, BATCH, POS = 0.1, 8, 128
# Of a step with dropout and clip, by one without; of one with Muon, by AdamW's.
MOST_RECIPE, MOST_MUON = 1.20, 1.10
MUON = 'optimizer muon(rows = d_model) for "decoder/*/weight"\n  optimizer adamw(lr = lr)'


class Bench:
    def __init__(self, folder, steps):
        self.folder, self.steps = pathlib.Path(folder), steps

    def compile(self, name, *flags, recipe=None):
        spec, program = self.folder / f"{name}.mesh", self.folder / name
        text = SPEC if recipe is None else re.sub(r"optimizer .*\n.*clip .*", recipe, SPEC)
        spec.write_text(text, encoding="utf-8")
        subprocess.run([ROOT / "build" / "bin" / "meshc", "compile", spec, "-o", program, *flags], check=True)
        return program

    def time(self, program, steps):
        """The median of so many steps behind two, in ms."""
        done = subprocess.run([program, "bench", "--steps", str(steps)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["step_ms_median"]

    def time_jax(self, devices, rate, limit):
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "bench" / "jax_recipe.py",
             *map(str, (devices, rate, limit, BATCH, POS))],
            input=f"{self.steps}\n", capture_output=True, text=True, check=True)
        return statistics.median(json.loads(done.stdout.splitlines()[1]))

    def measure_recipe(self, devices, rounds):
        flags = () if devices == 1 else ("--mesh", f"data={devices}", "--layout", "batch=data")
        full = self.compile(f"full{devices}", *flags)
        plain = self.compile(f"plain{devices}", *flags, "-D", "rate=0", recipe="optimizer adamw(lr = lr)")
        times = {"full": [], "plain": [], "JAX full": [], "JAX plain": []}
        for _ in range(rounds):
            times["full"].append(self.time(full, self.steps))
            times["JAX full"].append(self.time_jax(devices, RATE, 1))
            times["plain"].append(self.time(plain, self.steps))
            times["JAX plain"].append(self.time_jax(devices, 0, 0))
        found = {name: statistics.median(each) for name, each in times.items()}
        print(f"| {devices} | {found['full']:.0f} | {found['JAX full'] / found['full']:.2f} (goal 1) | "
              f"{found['JAX plain'] / found['plain']:.2f} | {found['full'] / found['plain']:.3f} "
              f"(limit {MOST_RECIPE}) | {found['JAX full'] / found['JAX plain']:.3f} |", flush=True)

    def measure_muon(self, rounds):
        """Of 8,192 tokens."""
        sizes = ("-D", "batch=64")
        programs = {"adamw": self.compile("adamw", *sizes), "muon": self.compile(
            "muon", *sizes, recipe=f"{MUON}\n  clip norm(1)")}
        times = {name: [] for name in programs}
        for _ in range(rounds):
            for name, program in programs.items():
                times[name].append(self.time(program, 1))
        found = {name: statistics.median(each) for name, each in times.items()}
        print(f"\n| AdamW, s | Muon, s | Muon / AdamW |\n|---|---|---|\n| {found['adamw'] / 1e3:.1f} | "
              f"{found['muon'] / 1e3:.1f} | {found['muon'] / found['adamw']:.3f} (limit {MOST_MUON}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--only", choices=("recipe", "muon"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, arguments.steps)
        if arguments.only != "muon":
            print("| devices | meshc ms | JAX / meshc | the same without dropout and clip | full / plain | JAX's |\n"
                  "|---|---|---|---|---|---|")
            for devices in (1, 8):
                bench.measure_recipe(devices, arguments.rounds)
        if arguments.only != "recipe":
            bench.measure_muon(arguments.rounds)


main()

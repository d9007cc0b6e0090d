"""Trainings of a small spec by what a train block says, and what they leave."""

import itertools
import json
import math
import pathlib
import random
import subprocess
import sys

MESHC, ROOT, LIBRARIES = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks", "state")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes
import tensors

SPEC = (pathlib.Path(__file__).parent / "parts.mesh").read_text(encoding="utf-8")
SAMPLES, STEPS = 36, 6
GPU = ("--target", "cuda", "--gpu", "host")


class Trainings:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        self.numbers = itertools.count()
        draws = random.Random(11)
        for name, shape in (("x", (SAMPLES, 5)), ("target", (SAMPLES, 2))):
            # Exact in 16 bits.
            values = [draws.randint(-12, 12) / 8 for _ in range(math.prod(shape))]
            npy.write(self.folder / f"{name}.npy", values, list(shape))

    def run(self, program, *arguments, gpus=0):
        done = subprocess.run(
            [str(word) for word in (program, *arguments)], capture_output=True, text=True,
            check=False, timeout=300, env=processes.environment(
                MESHC_CUDA_LIBRARIES=LIBRARIES, MESHC_EMULATION_DEVICES=str(gpus)))
        assert done.returncode == 0, (program, arguments, done.stdout, done.stderr)
        return done.stdout

    def write(self, recipe, spec=SPEC):
        path = self.folder / f"spec-{next(self.numbers)}.mesh"
        path.write_text(f"{spec}train {{\n  minimize loss\n  {recipe}\n}}\n", encoding="utf-8")
        return path

    def train(self, spec, place, steps=STEPS):
        """The metrics of each step, and all variables of the model behind the last one.
        A place has flags of the compiler and of the program, and a number of GPUs."""
        compiled, flags, gpus = place[:3]
        return self.run_training(self.compile(spec, compiled), flags, gpus, steps)

    def compile(self, spec, flags=()):
        program = self.folder / f"program-{next(self.numbers)}"
        self.meshc.run("compile", str(spec), *flags, "-o", str(program))
        return program

    def run_training(self, program, flags, gpus, steps):
        number = next(self.numbers)
        saved, lines = (self.folder / f"{kind}-{number}" for kind in ("saved", "metrics"))
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--seed", 3,
                 "--steps", steps, "--save", saved, "--metrics", lines, *flags, gpus=gpus)
        exported = self.folder / f"exported-{number}.safetensors"
        self.run(program, "export", "--from", saved, "--to", exported)
        metrics = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
        return metrics, tensors.read(exported)

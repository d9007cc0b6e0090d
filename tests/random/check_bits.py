"""A random number is a function of the seed, the name, the run, the iteration and the
position alone: it has the same bits on every mesh and layout, fused or not, in tiles, in one
process or several, on emulated GPUs, and when the backward phase draws it again. A training
that is resumed draws what one draws that was never stopped, and an initial value keeps its
bits.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import pathlib
import shutil
import subprocess
import sys

MESHC, ROOT, LIBRARIES = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes

SPEC = str(pathlib.Path(__file__).parent / "masks.mesh")
OUTPUTS = ("outside", "carried", "mapped", "numbers")
GPU = ("--target", "cuda", "--gpu", "host")
# Name, flags of the compiler, flags of the program, GPUs.
PLACES = [
    ("whole", (), (), 0),
    ("apart", ("--no-fusion",), (), 0),
    ("tiles", ("--tile-bytes", "1024"), (), 0),
    ("square", ("--mesh", "a=2,b=3", "--layout", "batch=a,wide=b"), (), 0),
    ("uneven", ("--mesh", "a=2,b=3", "--layout", "pos=b,heads=a,half=a"), (), 0),
    ("eight", ("--mesh", "a=8", "--layout", "wide=a"), (), 0),
    ("loops", ("--mesh", "a=3", "--layout", "layers=a"), (), 0),
    ("ranks", ("--mesh", "a=3", "--layout", "batch=a"), ("--processes", "3"), 0),
    ("gpu", GPU, (), 1),
    ("gpus", ("--mesh", "a=2", "--layout", "wide=a", *GPU), ("--devices-per-gpu", "2"), 1),
    ("bf16", ("--precision", "bf16"), (), 0),
]


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        # Two batches of ones.
        npy.write(self.folder / "x.npy", [1] * 20 * 7 * 24, [20, 7, 24])
        npy.write(self.folder / "h.npy", [1] * 20 * 2 * 24, [20, 2, 24])

    def compile(self, name, flags):
        program = self.folder / f"program-{name}"
        self.meshc.run("compile", SPEC, *flags, "--grad", "x", "--grad", "h", "-o", str(program))
        return program

    def run(self, program, *arguments, gpus=0):
        done = subprocess.run(
            [str(word) for word in (program, *arguments)], capture_output=True, text=True,
            check=False, timeout=300, env=processes.environment(
                MESHC_CUDA_LIBRARIES=LIBRARIES, MESHC_EMULATION_DEVICES=str(gpus)))
        assert done.returncode == 0, (program, arguments, done.stdout, done.stderr)
        return done.stdout

    def predict(self, program, flags, gpus, seed=5):
        """Bytes of every output of two batches; gradients of the first."""
        inputs = [f"{name}={self.folder / name}.npy" for name in ("x", "h")]
        files = {name: self.folder / f"{name}.out" for name in OUTPUTS}
        self.run(program, "predict", "--init", "random", "--seed", seed, *flags, "--batch",
                 "batch", "--in", *inputs, "--out",
                 *(f"{name}={path}" for name, path in files.items()), gpus=gpus)
        found = {name: npy.read(path) for name, path in files.items()}
        gradients = {name: self.folder / f"grad-{name}.out" for name in ("x", "h")}
        self.run(program, "predict", "--init", "random", "--seed", seed, *flags, "--samples", 10,
                 "--batch", "batch", "--in", *inputs, "--grad",
                 *(f"{name}={path}" for name, path in gradients.items()), gpus=gpus)
        for name, path in gradients.items():
            found[f"gradient of {name}"] = npy.read(path)
        return found

    def train(self, program, metrics, *flags, gpus=0):
        """The loss of each step, and what else there is."""
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--metrics",
                 self.folder / metrics, *flags, gpus=gpus)
        return processes.read_metrics(self.folder / metrics)

    def check_places(self):
        expected = None
        for name, compiled, flags, gpus in PLACES:
            program = self.compile(name, compiled)
            found = self.predict(program, flags, gpus)
            # Its masks are those of the training step, too.
            found["step"] = [step["loss"] for step in self.train(
                program, f"{name}.jsonl", "--steps", 1, "--seed", 5, *flags, gpus=gpus)]
            expected = expected or found
            for value, numbers in expected.items():
                assert found[value] == numbers, (name, value)
        first, second = expected["numbers"][:], expected["outside"]
        assert len(set(first)) > len(first) * 0.9
        half = len(second) // 2
        assert second[:half] != second[half:], "both batches have one mask"
        # What the loss is made of adds up to what the backward phase is told.
        x = expected["gradient of x"]
        sums = [a + b for a, b in zip(expected["outside"], expected["mapped"])]
        assert list(x) == sums[:len(x)], "the backward phase has other masks"
        assert expected["gradient of h"] == expected["carried"][:len(expected["gradient of h"])]
        other = self.predict(self.folder / "program-whole", (), 0, seed=6)
        assert other["numbers"] != expected["numbers"]
        # Dropout is nothing in an evaluation: the step has lost some of `mapped`.
        evaluated = sum(sum(expected[name][:len(expected[name]) // 2])
                        for name in ("outside", "carried", "mapped"))
        assert len(expected["step"]) == 1 and expected["step"][0] != evaluated

    def check_resumed(self):
        program = self.folder / "program-whole"
        through = self.train(program, "through", "--steps", 6, "--seed", 3)
        saved = self.folder / "saved"
        self.train(program, "resumed", "--steps", 2, "--seed", 3, "--save", saved)
        assert self.train(program, "resumed", "--steps", 6, "--resume", saved) == through
        losses = [step["loss"] for step in through]
        assert len(set(losses)) == len(losses), losses
        shutil.rmtree(saved)


def main():
    test = Test()
    test.check_places()
    test.check_resumed()


main()

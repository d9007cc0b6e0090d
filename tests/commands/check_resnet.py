"""samples/resnet/resnet.mesh learns, and does so alike on every mesh: with samples split, with rows
split, and with both, though batch norm takes its statistics of the whole batch and each image is
moved and mirrored. Its running statistics are in the checkpoint, and evaluation goes by them.

Arguments: meshc, the repository."""

import gzip
import math
import pathlib
import random
import re
import struct
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks", "state")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes
import tensors

# Rows and columns that no stage can halve.
SIZES = {"batch": 14, "y": 11, "x": 13, "width": 3, "class": 3, "steps": 60,
         "rising": 5, "lr": 0.02}
CLASS = SIZES["class"]
SAMPLES = {"train": 98, "t10k": 35}
# Mesh and layout; samples and rows lie unevenly.
ROWS = "y=rows,y2=rows,y4=rows"
SPLIT = (("data=3", "batch=data"), ("rows=2", ROWS), ("data=2,rows=3", f"batch=data,{ROWS}"))
FEW = 20
# Losses of one step on two meshes: they differed by 2e-7 at most.
ROUNDING = 5e-6
# Each of nine norms has both.
STATISTICS = re.compile(r"(stage[123]/)?norm[12]?/(centre|spread)")


def write_data(folder):
    """Stripes, level, upright or both, however an image is moved and mirrored."""
    draw = random.Random(3)
    height, width = SIZES["y"], SIZES["x"]
    for split, count in SAMPLES.items():
        labels = [i % CLASS for i in range(count)]
        images = []
        for label in labels:
            first = draw.randrange(4)
            for y in range(height):
                for x in range(width):
                    at = (y, x, x + y)[label] + first
                    images.append(draw.randrange(60) + (150 if at // 2 % 2 else 0))
        for name, sizes, values in (("images-idx3", [count, height, width], images),
                                    ("labels-idx1", [count], labels)):
            header = struct.pack(f">4B{len(sizes)}i", 0, 0, 8, len(sizes), *sizes)
            path = folder / f"{split}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(header + bytes(values)))


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        write_data(self.folder)
        self.plain = self.compile("plain")

    def compile(self, name, mesh="", layout=""):
        program = str(self.folder / name)
        self.meshc.run("compile", "samples/resnet/resnet.mesh", "-o", program, "--mesh", mesh,
                       "--layout", layout,
                       *(f"-D{name}={size}" for name, size in SIZES.items()))
        return program

    def execute(self, program, command, *arguments):
        return self.meshc.execute(program, command, "--data-dir", str(self.folder), *arguments)

    def get_losses(self, program, steps, *arguments):
        metrics = self.folder / "metrics.jsonl"
        self.execute(program, "train", "--steps", str(steps), "--no-eval", "--metrics", str(metrics),
                     *arguments)
        return [step["loss"] for step in processes.read_metrics(metrics)]

    def check_learning(self, saved):
        losses = self.get_losses(self.plain, SIZES["steps"], "--save", saved)
        first, last = (math.fsum(part) / len(part) for part in (losses[:5], losses[-5:]))
        accuracy = get_value(self.execute(self.plain, "eval", "--from", saved), "accuracy")
        print(f"loss {first:.3f} at first, {last:.3f} at last; {accuracy} % of the test samples")
        assert last < 0.3 * first, (first, last)
        assert accuracy > 85, accuracy

    def check_meshes(self):
        losses = self.get_losses(self.plain, FEW)
        for mesh, layout in SPLIT:
            found = self.get_losses(self.compile("split", mesh, layout), FEW)
            apart = max(abs(one - other) for one, other in zip(losses, found))
            print(f"{mesh}: losses of {FEW} steps differ by {apart:.1g}")
            assert apart <= ROUNDING, (mesh, losses, found)

    def check_statistics(self, saved):
        exported = self.folder / "exported.safetensors"
        self.meshc.execute(self.plain, "export", "--from", saved, "--to", str(exported))
        values = tensors.read(exported)
        statistics = {name for name in values if STATISTICS.fullmatch(name)}
        assert len(statistics) == 18, sorted(values)
        for name in statistics:
            start = 1 if name.endswith("spread") else 0
            assert all(value != start for value in values[name]), (name, values[name])
            assert not name.endswith("spread") or min(values[name]) > 0, (name, values[name])

        # Other statistics, another loss.
        loss = get_value(self.execute(self.plain, "eval", "--from", saved), "loss")
        npy.write(self.folder / "wide.npy", [9 * value for value in values["norm/spread"]])
        other = get_value(self.execute(self.plain, "eval", "--from", saved, "--param",
                                       f"norm/spread={self.folder}/wide.npy"), "loss")
        assert abs(other - loss) > 0.01, (other, loss)

    def check_alone(self, saved):
        """What evaluation says of an image does not depend on those beside it."""
        logits = []
        for samples in (1, SIZES["batch"]):
            path = self.folder / "logits.npy"
            self.execute(self.plain, "predict", "--from", saved, "--samples", str(samples),
                         "--out", f"logits={path}")
            logits.append(npy.read(path)[:CLASS])
        assert all(abs(one - other) < 1e-4 for one, other in zip(*logits)), logits


def get_value(printed, name):
    return float(re.search(rf"^test {name} ([\d.]+)( %)?$", printed, re.MULTILINE)[1])


def main():
    test = Test()
    saved = str(test.folder / "saved")
    test.check_learning(saved)
    test.check_meshes()
    test.check_statistics(saved)
    test.check_alone(saved)


main()

"""The loss curve of a training run does not depend on mesh and layout.

Each executable is trained and its curve compared with that of one device. What
may differ is the order of summation. A sum of n terms in f32 has a relative
error of at most n u, u = 2^-24, against the sum of magnitudes (Higham, "Accuracy
and Stability of Numerical Algorithms", section 4.2), and all sums along a forward
and backward pass together have the length N of the model. So a loss differs by
N u of itself, and a gradient g by N u |g|, which changes the parameters by
lr N u |g| in one step of sgd, and the loss by lr N u |g|^2: by N u of what the
step itself changes. Over all steps that is N u |loss_k - loss_1|, as long as the
steps are small enough to descend, which keeps errors from growing. adam divides by
|g|, so that the same holds but where a gradient is nothing but its error N u: there
its step of lr may go either way, which changes the loss by at most lr N u for each
of the P parameters. With two ends to compare:

  |difference in the loss of step k| <= 2 N u (loss_1 + |loss_k - loss_1| + k lr P)

where the last term is for adam only. A run that does not move the loss by many
times the bound would show nothing, so that is checked too.
"""

import gzip
import json
import random
import struct
import subprocess
import sys

import cases
import compiler

STEPS = 20


def write_idx(path, shape, limit, numbers):
    with gzip.open(path, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}i", *shape))
        count = 1
        for size in shape:
            count *= size
        file.write(bytes(numbers.randrange(limit) for _ in range(count)))


def write_data(folder, side, classes):
    numbers = random.Random(7)
    for kind, samples in (("train", 96), ("t10k", 40)):
        write_idx(f"{folder}/{kind}-images-idx3-ubyte.gz", (samples, side, side), 256, numbers)
        write_idx(f"{folder}/{kind}-labels-idx1-ubyte.gz", (samples,), classes, numbers)


class Model:
    """A sample with sizes: how to run it, and what its curve may differ by."""

    def __init__(self, meshc, spec, sizes, reduction, parameters, adam_rate):
        self.meshc = meshc
        self.spec = spec
        self.sizes = [f"-D{name}={size}" for name, size in sizes.items()]
        self.reduction = reduction
        self.parameters = parameters
        self.adam_rate = adam_rate
        self.reference = None

    def bound(self, step):
        first, loss = self.reference[0], self.reference[step]
        signs = (step + 1) * self.adam_rate * self.parameters
        return 2 * self.reduction * 2.0 ** -24 * (first + abs(loss - first) + signs)

    def compile(self, mesh, layout):
        program = f"{self.meshc.folder.name}/program"
        self.meshc.run("compile", self.spec, *self.sizes, "--mesh", mesh, "--layout", layout,
                       "-o", program)
        return program

    def compare(self, mesh, layout):
        """What is wrong with the curve under this layout; empty if nothing is."""
        curve = self.train(self.compile(mesh, layout))
        if self.reference is None:
            self.reference = curve
            moved = abs(curve[-1] - curve[0])
            if moved < 10 * self.bound(len(curve) - 1):
                return [f"{self.spec}: the loss moves by {moved}, too little to compare"]
        wrong = [f"{self.spec} on {mesh}, {layout}: loss {found} in step {step + 1}, "
                 f"expected {expected} +- {self.bound(step)}"
                 for step, (found, expected) in enumerate(zip(curve, self.reference))
                 if not abs(found - expected) <= self.bound(step)]
        if len(curve) != len(self.reference):
            wrong.append(f"{self.spec} on {mesh}, {layout}: {len(curve)} steps")
        return wrong[:1]


class Classifier(Model):
    """samples/mlp.mesh, trained by its own data reader; evaluated at the end."""

    def train(self, program):
        metrics = f"{self.meshc.folder.name}/metrics.jsonl"
        done = subprocess.run(
            [program, "train", "--data-dir", self.meshc.folder.name, "--steps", str(STEPS),
             "--seed", "3", "--metrics", metrics],
            capture_output=True, text=True, check=True)
        assert "test accuracy" in done.stdout, done.stdout
        with open(metrics, encoding="utf-8") as lines:
            return [json.loads(line)["loss"] for line in lines]


class Blocks(Model):
    """samples/transformer_block.mesh, which reads no data: trained on the random
    batch of `bench`, which tells the loss after 2 steps more than it is asked."""

    def train(self, program):
        curve = []
        for steps in (1, 2, 4, 8, STEPS - 2):
            done = subprocess.run([program, "bench", str(steps), "--seed", "3"],
                                  capture_output=True, text=True, check=True)
            curve.append(json.loads(done.stdout)["loss"])
        return curve


# The eight layouts of the multi-layer perceptron, over meshes of all shapes, and
# dimensions over several axes in both orders.
MLP_LAYOUTS = [
    ("", ""),
    ("a=8", "batch=a"), ("a=8", "hidden=a"), ("a=8", "pixel=a"),
    ("a=2,b=2", ""), ("a=2,b=2", "batch=a,hidden=b"), ("a=2,b=2", "batch=a,pixel=b"),
    ("a=2,b=2", "hidden=a,pixel=b"), ("a=2,b=2", "batch=b+a"),
    ("a=2,b=3", "batch=a,hidden=b"), ("a=2,b=3", "batch=b,pixel=a"),
    ("a=2,b=3", "hidden=b,pixel=a"), ("a=2,b=3", "hidden=a+b"),
    ("a=2,b=2,c=2", "batch=a,hidden=b,pixel=c"), ("a=2,b=2,c=2", "batch=c+a,hidden=b"),
]

BLOCK_LAYOUTS = [
    ("", ""),
    ("a=2", "key_pos=a"), ("a=2", "d_model=a"), ("a=2", "pos=a"), ("a=2", "d_head=a"),
    ("a=2,b=2", "batch=a,heads=b,d_ff=b"), ("a=2,b=3", "batch=b,d_model=a"),
    ("a=2,b=3", "batch=a+b"), ("a=2,b=3", "heads=b,d_ff=b+a"),
    ("a=2,b=3", "key_pos=b,d_head=a"), ("a=8", "batch=a"),
    ("a=2,b=2,c=2", "batch=a,heads=b,d_ff=c"),
]


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    write_data(meshc.folder.name, side=3, classes=5)
    problems = []
    for sizes in ({"batch": 16, "pixel": 9, "hidden": 8, "class": 5},
                  {"batch": 10, "pixel": 9, "hidden": 7, "class": 5}):
        batch, pixel, hidden, classes = sizes.values()
        model = Classifier(meshc, cases.MLP, sizes,
                           reduction=batch + pixel + hidden + classes,
                           parameters=pixel * hidden + hidden + hidden * classes + classes,
                           adam_rate=0.001)
        for mesh, layout in MLP_LAYOUTS:
            problems += model.compare(mesh, layout)
    b, pos, m, heads, head, ff = 6, 5, 9, 3, 4, 7
    model = Blocks(
        meshc, cases.BLOCKS,
        {"batch": b, "pos": pos, "d_model": m, "heads": heads, "d_head": head, "d_ff": ff,
         "lr": 0.1},
        reduction=4 * (4 * m + head + 2 * pos + heads * head + ff) + b * pos * m,
        parameters=4 * (4 * m + 4 * m * heads * head + 2 * m * ff + ff + m), adam_rate=0)
    for mesh, layout in BLOCK_LAYOUTS:
        problems += model.compare(mesh, layout)
    if problems:
        sys.exit("\n".join(problems))


main()

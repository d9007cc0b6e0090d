"""Loss curves of training runs, and what two of them may differ by.

Each executable is trained and its curve compared with that of one CPU device. What
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

In 16 bits worst cases bound nothing: u is 2^-8 or 2^-11, and every value between is
rounded. There the bound comes from what the CPU mesh's own layouts differ by, see
Spread.
"""

import gzip
import json
import random
import struct
import subprocess

import cases

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


def get_devices(mesh):
    devices = 1
    for axis in mesh.split(","):
        devices *= int(axis.split("=")[1])
    return devices


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
        #: Of the last training, step by step, where the program writes them.
        self.metrics = []

    def bound(self, step):
        first, loss = self.reference[0], self.reference[step]
        signs = (step + 1) * self.adam_rate * self.parameters
        return 2 * self.reduction * 2.0 ** -24 * (first + abs(loss - first) + signs)

    def compile(self, mesh, layout, *flags):
        program = f"{self.meshc.folder.name}/program"
        self.meshc.run("compile", self.spec, *self.sizes, "--mesh", mesh, "--layout", layout,
                       *flags, "-o", program)
        return program

    def compare(self, mesh, layout):
        """What is wrong with the curve under this layout; empty if nothing is."""
        return self.check(self.train(self.compile(mesh, layout)), f"{mesh}, {layout}")

    def check(self, curve, what):
        """The same for a curve, the first of which becomes the reference."""
        if self.reference is None:
            self.reference = curve
            moved = abs(curve[-1] - curve[0])
            if moved < 10 * self.bound(len(curve) - 1):
                return [f"{self.spec}: the loss moves by {moved}, too little to compare"]
        wrong = [f"{self.spec} on {what}: loss {found} in step {step + 1}, "
                 f"expected {expected} +- {self.bound(step)}"
                 for step, (found, expected) in enumerate(zip(curve, self.reference))
                 if not abs(found - expected) <= self.bound(step)]
        if len(curve) != len(self.reference):
            wrong.append(f"{self.spec} on {what}: {len(curve)} steps")
        return wrong[:1]


class Spread:
    """Curves of one training that differ in roundings alone, and what another one may be.

    Which way a 16-bit value is rounded changes with the order of the sum before it, so
    to a curve layouts are draws of the many roundings below it: its loss in a step is
    about normal, with some deviation s. The range of five draws is 2.33 s on average
    (Tippett, "On the extreme individuals and the range of samples", Biometrika 17, 1925),
    so three times the range is 7 s, farther than another draw ever lies from the mean;
    what is left is for a range that came out small by chance. Deviations grow along a
    curve, so the range counts that is the largest up to a step.
    """

    FACTOR = 3

    def __init__(self, curves):
        assert len(curves) == 5 and len({len(curve) for curve in curves}) == 1
        self.means = [sum(losses) / len(losses) for losses in zip(*curves)]
        self.bounds = []
        largest = 0
        for losses in zip(*curves):
            largest = max(largest, max(losses) - min(losses))
            self.bounds.append(self.FACTOR * largest)

    def find_problem(self, curve, what):
        """The first step in which `curve` is none of these; empty if it is one."""
        if len(curve) != len(self.means):
            return f"{what}: {len(curve)} steps"
        for step, (found, mean, bound) in enumerate(zip(curve, self.means, self.bounds)):
            if not abs(found - mean) <= bound:
                return (f"{what}: loss {found} in step {step + 1}, expected {mean} +- {bound}")
        return ""


class Classifier(Model):
    """samples/mlp.mesh, trained by its own data reader; evaluated at the end."""

    steps = STEPS

    def train(self, program, *flags, environment=None):
        metrics = f"{self.meshc.folder.name}/metrics.jsonl"
        done = subprocess.run(
            [program, "train", "--data-dir", self.meshc.folder.name, "--steps", str(self.steps),
             "--seed", "3", "--metrics", metrics, *flags],
            capture_output=True, text=True, check=True, env=environment)
        assert "test accuracy" in done.stdout, done.stdout
        with open(metrics, encoding="utf-8") as lines:
            self.metrics = [json.loads(line) for line in lines]
        return [step["loss"] for step in self.metrics]


class Blocks(Model):
    """samples/transformer_block.mesh, which reads no data: trained on the random
    batch of `bench`, which tells the loss after 2 steps more than it is asked."""

    points = (1, 2, 4, 8, STEPS - 2)

    def train(self, program, *flags, environment=None):
        curve = []
        for steps in self.points:
            done = subprocess.run([program, "bench", "--steps", str(steps), "--seed", "3", *flags],
                                  capture_output=True, text=True, check=True, env=environment)
            curve.append(json.loads(done.stdout)["loss"])
        return curve


def make_classifier(meshc, sizes):
    batch, pixel, hidden, classes = sizes.values()
    return Classifier(meshc, cases.MLP, sizes,
                      reduction=batch + pixel + hidden + classes,
                      parameters=pixel * hidden + hidden + hidden * classes + classes,
                      adam_rate=0.002)


def make_blocks(meshc):
    b, pos, m, heads, head, ff = 6, 5, 9, 3, 4, 7
    return Blocks(
        meshc, cases.BLOCKS,
        {"batch": b, "pos": pos, "d_model": m, "heads": heads, "d_head": head, "d_ff": ff,
         "lr": 0.1},
        reduction=4 * (4 * m + head + 2 * pos + heads * head + ff) + b * pos * m,
        parameters=4 * (4 * m + 4 * m * heads * head + 2 * m * ff + ff + m), adam_rate=0)

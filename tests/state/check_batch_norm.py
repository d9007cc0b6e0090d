"""A training of ten steps with state: batch norm, in a loop too, a count and state that
calls share, of which some are in a loop. Parameters and state are those of a computation in
f64 that knows nothing of meshc, whose gradients are differences of losses, on meshes that
split batch, channels and rows unevenly, in several processes and on emulated GPUs. So are
an evaluation by what the training left, and the values and gradients of a single step; a
step that fp16 skips changes no state.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import itertools
import math
import pathlib
import random
import subprocess
import sys

MESHC, ROOT, LIBRARIES = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes
import tensors

SPEC = str(pathlib.Path(__file__).parent / "normed.mesh")
BATCH, ROWS, FROM, CHANNELS, LAYERS, STEPS, RATE = 7, 5, 2, 3, 2, 10, 0.002
SHAPES = {
    "w": (FROM, CHANNELS), "v": (ROWS, CHANNELS),
    "first/gain": (CHANNELS,), "first/bias": (CHANNELS,),
    "layer/norm/gain": (LAYERS, CHANNELS), "layer/norm/bias": (LAYERS, CHANNELS),
}
STATE = ("first/centre", "first/spread", "layer/norm/centre", "layer/norm/spread",
         "both/mean_of", "steps")
GPU = ("--target", "cuda", "--gpu", "host")
# Name, flags of the compiler, flags of the program, GPUs.
PLACES = [
    ("whole", (), (), 0),
    ("grid", ("--mesh", "a=2,b=3", "--layout", "batch=a,c=b"), (), 0),
    ("rows", ("--mesh", "a=3", "--layout", "row=a"), (), 0),
    ("channels", ("--mesh", "a=2,b=2", "--layout", "c=a,row=b"), ("--processes", "2"), 0),
    ("gpus", ("--mesh", "a=4", "--layout", "batch=a", *GPU), ("--devices-per-gpu", "4"), 1),
]
# f32 sums of a few dozen terms, ten steps.
TOLERANCE = 2e-5


def flat(shape):
    return itertools.product(*(range(size) for size in shape))


class Model:
    """The computation in f64; values are dictionaries by position, variables lists."""

    def __init__(self, variables):
        self.variables = variables

    def get(self, name, *position):
        index = 0
        for size, at in zip(SHAPES.get(name, (LAYERS, CHANNELS)[-len(position):]), position):
            index = index * size + at
        return self.variables[name][index]

    def norm(self, x, name, layer, momentum, is_training, left):
        """x by batch, row and channel, normalised; what it leaves goes into `left`."""
        at = () if layer is None else (layer,)
        result = {}
        for c in range(CHANNELS):
            centre = self.get(f"{name}/centre", *at, c)
            spread = self.get(f"{name}/spread", *at, c)
            if is_training:
                column = [x[b, r, c] for b in range(BATCH) for r in range(ROWS)]
                mean = math.fsum(column) / len(column)
                variance = math.fsum((value - mean) ** 2 for value in column) / len(column)
                left.setdefault(f"{name}/centre", []).append(
                    momentum * centre + (1 - momentum) * mean)
                left.setdefault(f"{name}/spread", []).append(
                    momentum * spread + (1 - momentum) * variance)
                centre, spread = mean, variance
            for b, r in flat((BATCH, ROWS)):
                scaled = (x[b, r, c] - centre) / math.sqrt(spread + 1e-5)
                result[b, r, c] = (scaled * self.get(f"{name}/gain", *at, c)
                                   + self.get(f"{name}/bias", *at, c))
        return result

    def run(self, image, target, is_training):
        """The errors by sample, and the state after a step."""
        left = {}
        h = {(b, r, c): sum(image[(b * ROWS + r) * FROM + f] * self.get("w", f, c)
                            for f in range(FROM))
             for b, r, c in flat((BATCH, ROWS, CHANNELS))}
        normed = self.norm(h, "first", None, 0.9, is_training, left)
        h = {at: math.tanh(value) for at, value in normed.items()}
        for layer in range(LAYERS):
            normed = self.norm(h, "layer/norm", layer, 0.75, is_training, left)
            h = {at: h[at] + math.tanh(value) for at, value in normed.items()}
        state = list(self.variables["both/mean_of"])
        for factor in (1, 2, 0.125, 0.125):  # the last two in a loop
            means = [math.fsum(factor * h[b, r, c] for b, r in flat((BATCH, ROWS)))
                     / (BATCH * ROWS) for c in range(CHANNELS)]
            after = [0.5 * old + mean for old, mean in zip(state, means)]
            h = {(b, r, c): factor * value + after[c] for (b, r, c), value in h.items()}
            # An evaluation leaves nothing for the next call.
            state = after if is_training else state
        left["both/mean_of"] = state
        left["steps"] = [self.variables["steps"][0] + 1]
        errors = [math.fsum(h[b, r, c] * self.get("v", r, c)
                            for r, c in flat((ROWS, CHANNELS))) - target[b]
                  for b in range(BATCH)]
        return errors, left

    def loss(self, image, target):
        errors, _ = self.run(image, target, True)
        return math.fsum(error * error for error in errors) / BATCH

    def gradient(self, name, index, image, target):
        values, step = self.variables[name], 1e-5
        kept = values[index]
        losses = []
        for shift in (step, -step):
            values[index] = kept + shift
            losses.append(self.loss(image, target))
        values[index] = kept
        return (losses[0] - losses[1]) / (2 * step)

    def gradients(self, image, target):
        return {name: [self.gradient(name, index, image, target)
                       for index in range(math.prod(shape))] for name, shape in SHAPES.items()}

    def train_step(self, image, target):
        gradients = self.gradients(image, target)
        _, left = self.run(image, target, True)
        self.variables = {
            **left, **{name: [value - RATE * slope
                              for value, slope in zip(self.variables[name], gradients[name])]
                       for name in SHAPES}}


def check_close(what, found, expected, tolerance=TOLERANCE):
    assert len(found) == len(expected), (what, found, expected)
    for one, other in zip(found, expected):
        assert math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance), (
            what, found, expected)


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        numbers = random.Random(7)
        self.data = {}
        for prefix in ("", "other_"):
            for name, shape in (("image", (BATCH, ROWS, FROM)), ("target", (BATCH,))):
                values = [numbers.gauss(0.5, 1) for _ in flat(shape)]
                path = self.folder / f"{prefix}{name}.npy"
                npy.write(path, values, list(shape))
                self.data[prefix + name] = list(npy.read(path)) # rounded to f32

    def run(self, program, *arguments, gpus=0):
        done = subprocess.run(
            [str(word) for word in (program, *arguments)], capture_output=True, text=True,
            check=False, timeout=300, env=processes.environment(
                MESHC_CUDA_LIBRARIES=LIBRARIES, MESHC_EMULATION_DEVICES=str(gpus)))
        assert done.returncode == 0, (program, arguments, done.stdout, done.stderr)
        return done.stdout

    def export(self, program, saved):
        path = self.folder / "exported.safetensors"
        self.run(program, "export", "--from", saved, "--to", path)
        found = tensors.read(path)
        assert set(found) == {*SHAPES, *STATE}, sorted(found)
        return found

    def compile(self, name, flags):
        program = self.folder / f"program-{name}"
        self.meshc.run("compile", SPEC, *flags, "--grad", "*", "-o", str(program))
        return program

    def start(self):
        """How the training begins."""
        program = self.compile("start", ())
        files = {name: self.folder / f"{name}.npy" for name in ("start_w", "start_v")}
        self.run(program, "predict", "--init", "random", "--seed", 3, "--data-dir", self.folder,
                 "--out", *(f"{name}={path}" for name, path in files.items()))
        variables = {name[6:]: list(npy.read(path)) for name, path in files.items()}
        for name in (*SHAPES, *STATE):
            is_one = name.endswith(("gain", "spread"))
            size = LAYERS * CHANNELS if name.startswith("layer") else CHANNELS
            variables.setdefault(name, [1.0 if is_one else 0.0] * size)
        variables["steps"] = [0]
        return Model(variables)

    def check_place(self, place, start, expected):
        """Values after ten steps, those of an evaluation by them, and the first step."""
        name, compiled, flags, gpus = place
        program = self.compile(name, compiled)
        saved = self.folder / f"saved-{name}"
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--seed", 3,
                 "--save", saved, *flags, gpus=gpus)
        left_by = self.export(program, saved)
        for value, numbers in expected.variables.items():
            check_close((name, value), left_by[value], numbers)
        assert left_by["steps"] == [STEPS]

        errors = self.folder / "errors.npy"
        self.run(program, "predict", "--from", saved, "--data-dir", self.folder,
                 "--out", f"error={errors}", *flags, gpus=gpus)
        wanted, _ = expected.run(self.data["other_image"], self.data["other_target"], False)
        check_close((name, "evaluation"), npy.read(errors), wanted, 5 * TOLERANCE)

        inputs = [f"{value}={self.folder / value}.npy" for value in ("image", "target")]
        files = {value: self.folder / f"{value.replace('/', '.')}.npy"
                 for value in ("error", *STATE[:-1])}
        gradients = {value: self.folder / f"grad-{value.replace('/', '.')}.npy"
                     for value in SHAPES}
        self.run(program, "predict", "--training", "--init", "random", "--seed", 3, "--in",
                 *inputs, "--out", *(f"{value}={path}" for value, path in files.items()),
                 "--grad", *(f"{value}={path}" for value, path in gradients.items()), *flags,
                 gpus=gpus)
        wanted, left = start.run(self.data["image"], self.data["target"], True)
        check_close((name, "training"), npy.read(files["error"]), wanted)
        for value in STATE[:-1]:
            check_close((name, "after a step", value), npy.read(files[value]), left[value])
        for value, slopes in start.gradients(self.data["image"], self.data["target"]).items():
            check_close((name, "gradient", value), npy.read(gradients[value]), slopes)

    def check_skipped(self):
        """The first step of fp16 with a loss scale far too large."""
        spec = self.folder / "skipped.mesh"
        text = pathlib.Path(SPEC).read_text(encoding="utf-8")
        text = text.replace("  steps     10", "  steps 1 precision fp16(initial_scale = 16777216)")
        assert "fp16" in text
        spec.write_text(text.replace("mean((y - target) ^ 2)", "mean((1000 * (y - target)) ^ 2)"),
                        encoding="utf-8")
        program, saved = self.folder / "program-skipped", self.folder / "saved-skipped"
        self.meshc.run("compile", str(spec), "-o", str(program))
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--seed", 3,
                 "--save", saved, "--metrics", self.folder / "skipped.jsonl")
        assert processes.read_metrics(self.folder / "skipped.jsonl")[0][
            "fp16/skipped_steps"] == 1
        left_by = self.export(program, saved)
        for value in STATE:
            start = 1 if value.endswith("spread") else 0
            assert set(left_by[value]) == {start}, (value, left_by[value])


def main():
    test = Test()
    expected = test.start()
    start = Model(dict(expected.variables))
    for _ in range(STEPS):
        expected.train_step(test.data["image"], test.data["target"])
    for place in PLACES:
        test.check_place(place, start, expected)
    test.check_skipped()


main()

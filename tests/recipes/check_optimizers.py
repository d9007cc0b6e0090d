"""Trainings of ten steps with each optimizer and schedule of the library, in groups, clipped
and with parts that are frozen: parameters are those of plain loops in f64 that know nothing
of meshc, on meshes that split batch, rows and columns unevenly, in several processes, on
emulated GPUs and in 16 bits.

Arguments: meshc, the repository, the folder of the emulated libraries."""

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

SPEC = pathlib.Path(__file__).parent / "optimizers.mesh"
BATCH, FROM, LAYERS, TO, STEPS = 7, 5, 3, 2, 10
SIZES = {"shared": FROM * TO, "bias": TO, "i/w": LAYERS * FROM * TO}
GPU = ("--target", "cuda", "--gpu", "host")
# Name, flags of the compiler, flags of the program, GPUs.
PLACES = {
    "whole": ((), (), 0),
    "grid": (("--mesh", "a=2,b=3", "--layout", "batch=a,from=b"), (), 0),
    "columns": (("--mesh", "a=3,b=2", "--layout", "batch=a,to=b"), ("--processes", "2"), 0),
    "gpus": (("--mesh", "a=4", "--layout", "from=a", *GPU), ("--devices-per-gpu", "4"), 1),
    "zero": (("--mesh", "a=2,b=2", "--layout", "batch -> a, params: * -> b", *GPU),
             ("--devices-per-gpu", "4"), 1),
}
# f32 sums of a few dozen terms, ten steps.
TOLERANCE = 2e-5


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


# Optimizers: of one parameter, or one layer of a stack, with its state, its gradient and the
# step, what is taken from it.

def sgd(w, g, _state, _t, lr):
    return [lr * slope for slope in g]


def momentum(w, g, state, _t, lr, beta=0.9):
    v = state["v"] = [beta * old + slope for old, slope in zip(state.get("v", [0] * len(g)), g)]
    return [lr * value for value in v]


def nesterov(w, g, state, t, lr, beta=0.9):
    momentum(w, g, state, t, lr, beta)
    return [lr * (slope + beta * v) for slope, v in zip(g, state["v"])]


def adam_direction(g, state, t, beta1, beta2, epsilon):
    zeros = [0] * len(g)
    m = state["m"] = [beta1 * old + (1 - beta1) * slope
                      for old, slope in zip(state.get("m", zeros), g)]
    v = state["v"] = [beta2 * old + (1 - beta2) * slope ** 2
                      for old, slope in zip(state.get("v", zeros), g)]
    return [mean / (1 - beta1 ** t) / (math.sqrt(square / (1 - beta2 ** t)) + epsilon)
            for mean, square in zip(m, v)]


def adam(w, g, state, t, lr=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8):
    return [lr * u for u in adam_direction(g, state, t, beta1, beta2, epsilon)]


def adamw(w, g, state, t, lr=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.01):
    return [lr * (u + decay * value)
            for u, value in zip(adam_direction(g, state, t, beta1, beta2, epsilon), w)]


def lamb(w, g, state, t, lr=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, decay=0.01):
    u = [direction + decay * value
         for direction, value in zip(adam_direction(g, state, t, beta1, beta2, epsilon), w)]
    trust = norm(w) / norm(u) if norm(w) * norm(u) > 0 else 1
    return [lr * trust * value for value in u]


def lion(w, g, state, _t, lr=1e-4, beta1=0.9, beta2=0.99, decay=0):
    m = state.get("m", [0] * len(g))
    u = [beta1 * old + (1 - beta1) * slope for old, slope in zip(m, g)]
    state["m"] = [beta2 * old + (1 - beta2) * slope for old, slope in zip(m, g)]
    return [lr * ((side > 0) - (side < 0) + decay * value) for side, value in zip(u, w)]


def rms(values):
    return norm(values) / math.sqrt(len(values))


def adafactor(w, g, state, t, lr=0.01, decay=0.8, clip=1, epsilon=1e-30, least=0.001):
    kept = 1 - t ** -decay
    square = [slope ** 2 + epsilon for slope in g]

    def average(name, values):
        old = state.get(name, [0] * len(values))
        state[name] = [kept * a + (1 - kept) * b for a, b in zip(old, values)]
        return state[name]

    if len(w) == FROM * TO:
        rows = average("rows", [math.fsum(square[to::TO]) / FROM for to in range(TO)])
        columns = average("columns", [math.fsum(square[f * TO:(f + 1) * TO]) / TO
                                      for f in range(FROM)])
        second = [rows[to] / (math.fsum(rows) / TO) * columns[f]
                  for f, to in itertools.product(range(FROM), range(TO))]
    else:
        second = average("v", square)
    u = [slope / math.sqrt(value) for slope, value in zip(g, second)]
    scale = lr * max(least, rms(w)) / max(1, rms(u) / clip)
    return [scale * value for value in u]


def muon(w, g, state, _t, scale, lr=0.02, beta=0.95):
    """Of [FROM, TO]; `scale` is sqrt(max(1, rows / columns))."""
    v = state["v"] = [beta * old + slope for old, slope in zip(state.get("v", [0] * len(g)), g)]
    x = [slope + beta * value for slope, value in zip(g, v)]
    x = [value / (norm(x) + 1e-7) for value in x]

    def product(a, b):
        """Of matrices [.., TO] and [TO, TO]."""
        return [math.fsum(a[i * TO + k] * b[k * TO + j] for k in range(TO))
                for i in range(len(a) // TO) for j in range(TO)]

    for _ in range(5):
        gram = [math.fsum(x[f * TO + i] * x[f * TO + j] for f in range(FROM))
                for i in range(TO) for j in range(TO)]
        factor = [2.0315 * square - 4.775 * value
                  for square, value in zip(product(gram, gram), gram)]
        x = [3.4445 * value + more for value, more in zip(x, product(x, factor))]
    return [lr * scale * value for value in x]


def clamp(value):
    return min(max(value, 0), 1)


class Recipe:
    """A train block and what it does; `rules` are names of parameters or "" for all others,
    with the function that gives what is taken."""

    def __init__(self, text, rules, clip_norm=math.inf, clip_value=math.inf, ema=0):
        self.text, self.rules = text, rules
        self.clip_norm, self.clip_value, self.ema = clip_norm, clip_value, ema

    rate = None  # by the step, where a schedule makes it

    def get_rule(self, name):
        return self.rules[name] if name in self.rules else self.rules.get("")


def plain(rate, lr):
    recipe = Recipe(f"optimizer sgd(lr = {rate})",
                    {"": lambda w, g, state, t: sgd(w, g, state, t, lr(t))})
    recipe.rate = lr
    return recipe


def of(function, **hyper):
    return lambda w, g, state, t: function(w, g, state, t, **hyper)


def simple(function, **hyper):
    given = ", ".join(f"{name} = {value}" for name, value in hyper.items())
    return Recipe(f"optimizer {function.__name__}({given})", {"": of(function, **hyper)})


RECIPES = {
    "sgd": simple(sgd, lr=0.02),
    "momentum": simple(momentum, lr=0.01, beta=0.7),
    "nesterov": simple(nesterov, lr=0.01),
    "adam": simple(adam, lr=0.02),
    "adamw": simple(adamw, lr=0.02, beta2=0.95, decay=0.1),
    "lamb": simple(lamb, lr=0.02),
    "lion": simple(lion, lr=0.003, decay=0.1),
    "adafactor": simple(adafactor, lr=0.05),
    "muon": Recipe("optimizer muon(rows = from, lr = 0.02) for \"shared\", \"i/w\"\n"
                   "  optimizer sgd(lr = 0.02)",
                   {"bias": of(sgd, lr=0.02), "": of(muon, scale=math.sqrt(FROM / TO))}),
    "muon_wide": Recipe("optimizer muon(rows = to) for \"shared\", \"i/w\"\n"
                        "  optimizer sgd(lr = 0.02)",
                        {"bias": of(sgd, lr=0.02), "": of(muon, scale=1)}),
    "warmup": plain("0.03 * warmup(4)", lambda t: 0.03 * min(t / 4, 1)),
    "cosine": plain("0.02 * warmup(2) * cosine(2, 8, low = 0.1)", lambda t: 0.02 * min(t / 2, 1) * (
        0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * clamp((t - 2) / 6))))),
    "linear": plain("0.02 * linear(2, 8)", lambda t: 0.02 * (1 - clamp((t - 2) / 6))),
    "polynomial": plain("0.02 * polynomial(2, 12)",
                        lambda t: 0.02 * (1 - clamp((t - 2) / 10)) ** 2),
    "inverse_sqrt": plain("0.02 * inverse_sqrt(3)", lambda t: 0.02 * math.sqrt(3 / max(t, 3))),
    "staircase": plain("0.02 * staircase(4, factor = 0.5)",
                       lambda t: 0.02 * 0.5 ** ((t - 1) // 4)),
    "groups": Recipe(
        "optimizer adamw(lr = 0.02, decay = 0) for \"bias\", \"*shared\"\n"
        "  optimizer momentum(lr = 0.01) for \"i/*\"\n  optimizer sgd(lr = 0.1)",
        {"bias": of(adamw, lr=0.02, decay=0), "shared": of(adamw, lr=0.02, decay=0),
         "i/w": of(momentum, lr=0.01)}),
    "frozen": Recipe("freeze \"i/*\"\n  optimizer momentum(lr = 0.01)",
                     {"i/w": None, "": of(momentum, lr=0.01)}),
    "clip_norm": Recipe("optimizer momentum(lr = 0.01)\n  clip norm(0.5)",
                        {"": of(momentum, lr=0.01)}, clip_norm=0.5),
    # What is frozen is in no norm.
    "clip_rest": Recipe("optimizer sgd(lr = 0.02)\n  freeze \"shared\"\n  clip norm(1)",
                        {"shared": None, "": of(sgd, lr=0.02)}, clip_norm=1),
    # What is exported are the means; what is frozen has none.
    "ema": Recipe("optimizer momentum(lr = 0.01)\n  freeze \"bias\"\n  ema 0.75",
                  {"bias": None, "": of(momentum, lr=0.01)}, ema=0.75),
    "clip_value": Recipe("optimizer sgd(lr = 0.02)\n  clip value(0.25)",
                         {"": of(sgd, lr=0.02)}, clip_value=0.25),
}
# In which places, whole aside; all share one mesh or another.
MORE = {
    "grid": ("momentum", "adamw", "lamb", "adafactor", "muon", "muon_wide", "cosine", "groups", "clip_norm", "clip_rest", "ema"),
    "columns": ("adam", "lamb", "adafactor", "muon", "clip_norm", "frozen", "ema"),
    "gpus": ("adamw", "lamb", "adafactor", "muon", "cosine", "clip_norm"),
    "zero": ("adafactor", "muon"),
}


class Model:
    """The computation in f64, parameters lists."""

    def __init__(self, parameters):
        self.parameters = {name: list(values) for name, values in parameters.items()}
        self.means = {name: list(values) for name, values in parameters.items()}
        self.states = {}

    def gradients(self, x, target):
        found = {name: [0] * size for name, size in SIZES.items()}
        for layer, b, to in itertools.product(range(LAYERS), range(BATCH), range(TO)):
            error = self.parameters["bias"][to] - target[b * TO + to] + math.fsum(
                x[b * FROM + f] * (self.parameters["i/w"][(layer * FROM + f) * TO + to]
                                   + self.parameters["shared"][f * TO + to])
                for f in range(FROM))
            slope = 2 * error / BATCH
            found["bias"][to] += slope
            for f in range(FROM):
                found["shared"][f * TO + to] += slope * x[b * FROM + f]
                found["i/w"][(layer * FROM + f) * TO + to] += slope * x[b * FROM + f]
        return found

    def step(self, recipe, t, x, target):
        found = {name: values for name, values in self.gradients(x, target).items()
                 if recipe.get_rule(name)}
        together = norm([value for values in found.values() for value in values])
        factor = min(1, recipe.clip_norm / together)
        for name, values in found.items():
            limit = recipe.clip_value
            values = [min(max(factor * value, -limit), limit) for value in values]
            # Each layer of a stack has an update of its own.
            size = len(values) // (LAYERS if name.startswith("i/") else 1)
            for begin in range(0, len(values), size):
                part = slice(begin, begin + size)
                w = self.parameters[name][part]
                taken = recipe.get_rule(name)(
                    w, values[part], self.states.setdefault((name, begin), {}), t)
                self.parameters[name][part] = [old - less for old, less in zip(w, taken)]
            self.means[name] = [recipe.ema * mean + (1 - recipe.ema) * now for mean, now
                                in zip(self.means[name], self.parameters[name])]


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        numbers = random.Random(7)
        self.metrics = self.folder / "metrics"
        self.data = {}
        for name, shape in (("x", (BATCH, FROM)), ("target", (BATCH, TO))):
            # Exact in 16 bits.
            values = [numbers.randint(-12, 12) / 8 for _ in range(math.prod(shape))]
            npy.write(self.folder / f"{name}.npy", values, list(shape))
            self.data[name] = values

    def run(self, program, *arguments, gpus=0):
        done = subprocess.run(
            [str(word) for word in (program, *arguments)], capture_output=True, text=True,
            check=False, timeout=300, env=processes.environment(
                MESHC_CUDA_LIBRARIES=LIBRARIES, MESHC_EMULATION_DEVICES=str(gpus)))
        assert done.returncode == 0, (program, arguments, done.stdout, done.stderr)
        return done.stdout

    def train(self, recipe, steps, place, precision="f32"):
        """The parameters after so many steps of the recipe."""
        compiled, flags, gpus = PLACES[place]
        spec, program = self.folder / "trained.mesh", self.folder / "program"
        saved = self.folder / "exported.safetensors"
        spec.write_text(f"{SPEC.read_text(encoding='utf-8')}train {{\n  minimize loss\n"
                        f"  {recipe.text}\n  steps {steps} precision {precision}\n}}\n",
                        encoding="utf-8")
        self.meshc.run("compile", str(spec), *compiled, "-o", str(program))
        checkpoint = self.folder / f"saved-{next(self.numbers)}"
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--seed", 3,
                 "--save", checkpoint, "--metrics", self.metrics, *flags, gpus=gpus)
        self.run(program, "export", "--from", checkpoint, "--to", saved)
        return tensors.read(saved)

    numbers = itertools.count()

    def check(self, name, place, start, precision="f32", tolerance=TOLERANCE):
        recipe, model = RECIPES[name], Model(start)
        for t in range(1, STEPS + 1):
            model.step(recipe, t, self.data["x"], self.data["target"])
        found = self.train(recipe, STEPS, place, precision)
        assert set(found) == set(SIZES), sorted(found)
        for line in map(json.loads, self.metrics.read_text(encoding="utf-8").splitlines()):
            rate = recipe.rate(line["step"]) if recipe.rate else None
            assert ("sgd/lr" in line) == (rate is not None), (name, line)
            assert rate is None or math.isclose(line["sgd/lr"], rate, rel_tol=1e-6,
                                                abs_tol=1e-9), (name, line, rate)
        for parameter, wanted in model.means.items():
            for one, other in zip(found[parameter], wanted, strict=True):
                assert math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance), (
                    name, place, precision, parameter, found[parameter], wanted)
        moved = max(abs(one - other) for parameter in SIZES
                    for one, other in zip(start[parameter], model.parameters[parameter]))
        assert moved > 20 * tolerance, (name, moved)


def main():
    test = Test()
    start = test.train(Recipe("optimizer sgd(lr = 0)", {}), 1, "whole")
    for name in RECIPES:
        test.check(name, "whole", start)
    for place, names in MORE.items():
        for name in names:
            test.check(name, place, start)
    # What parameters and gradients lose in 16 bits, over ten steps.
    for precision, tolerance in (("bf16", 4e-3), ("fp16(initial_scale = 64)", 1e-3)):
        for name in ("momentum", "adamw", "clip_norm", "ema"):
            test.check(name, "grid", start, precision, tolerance)


main()

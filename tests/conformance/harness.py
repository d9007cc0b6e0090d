"""What the cases use: runs meshc on small specs, and compares numbers."""

import collections
import itertools
import math
import os
import random
import subprocess

import compiler
import npy

# Sums here have a hundred terms or so, of which each may round by 2^-24; relative to the
# largest number of an array, or to 0.1.
TOLERANCE = 1e-5


class Harness:
    """Runs meshc, and collects what is wrong in the case that runs."""

    def __init__(self, meshc, root):
        self.meshc = compiler.Compiler(meshc, root)
        self.problems = []
        self.count = itertools.count()

    # Specs, arrays, flags.

    def path(self, suffix):
        return f"{self.meshc.folder.name}/{next(self.count)}{suffix}"

    def write(self, text):
        path = self.path(".mesh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    @staticmethod
    def place(mesh, layout):
        return [] if mesh is None else ["--mesh", mesh, "--layout", layout]

    def run(self, text, arrays=(), outputs=(), *, params=(), grads=(), mesh=None, layout="",
            flags=(), integers=()):
        """Values of an evaluation by name; those of gradients as "grad NAME". `arrays` and
        `params` have name: (values, shape). Without a mesh those of the spec hold. Outputs
        of `integers` are i32."""
        arguments = ["run", self.write(text), *self.place(mesh, layout), "--eval", *flags]
        for option, given in (("--in", dict(arrays)), ("--param", dict(params))):
            for name, (values, shape) in given.items():
                file = self.path(".npy")
                whole = all(isinstance(value, int) for value in values)
                npy.write(file, values, shape, "i" if whole else "f")
                arguments += [option, f"{name}={file}"]
        files = {}
        for option, prefix, names in (("--out", "", outputs), ("--grad", "grad ", grads)):
            for name in names:
                files[prefix + name] = self.path(".npy")
                arguments += [option, f"{name}={files[prefix + name]}"]
        self.meshc.run(*arguments)
        return {name: self.read(file, name in integers) for name, file in files.items()}

    @staticmethod
    def read(file, whole=False):
        data = npy.read_bytes(file)
        return list(memoryview(data).cast("i" if whole else "f"))

    def plan(self, text, mesh=None, layout="", *flags):
        return self.meshc.plan(self.write(text), *self.place(mesh, layout), *flags)

    def text(self, command, text, *flags):
        return self.meshc.run(command, self.write(text), *flags)

    def error(self, text, *flags):
        """The code of the first error of `meshc plan`; that, or what happened instead."""
        done = subprocess.run([self.meshc.meshc, "plan", self.write(text), *flags],
                              cwd=self.meshc.root, env=self.meshc.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != 1 or "error[" not in done.stderr:
            return f"exit code {done.returncode}"
        return done.stderr.split("error[")[1].split("]")[0]

    # Expectations.

    def expect(self, found, expected, what):
        if found != expected:
            self.problems.append(f"{what}: {shorten(found)}, expected {shorten(expected)}")

    def expect_at_most(self, found, most, what):
        if not found <= most:
            self.problems.append(f"{what}: {found}, expected {most} at most")

    def expect_close(self, found, expected, what, tolerance=TOLERANCE):
        """Arrays of floats, by the largest magnitude of what is expected."""
        if len(found) != len(expected):
            self.problems.append(f"{what}: {len(found)} numbers, expected {len(expected)}")
            return
        bound = tolerance * max([abs(value) for value in expected] + [0.1])
        for place, (one, other) in enumerate(zip(found, expected)):
            if not (abs(one - other) <= bound or one == other):
                self.problems.append(f"{what}: element {place} is {one:.7g}, expected "
                                     f"{other:.7g} +- {bound:.1g}")
                return

    def expect_values(self, found, expected, what, tolerance=TOLERANCE):
        for name, values in expected.items():
            self.expect_close(found[name], values, f"{what}, {name}", tolerance)

    def expect_same(self, text, layouts, arrays=(), outputs=(), expected=(), **options):
        """Values of `expected` without a mesh and under each of (mesh, layout), and those
        without a mesh of everything else."""
        whole = self.run(text, arrays, outputs, mesh="", layout="", **options)
        self.expect_values(whole, dict(expected), "one device")
        for mesh, layout in layouts:
            found = self.run(text, arrays, outputs, mesh=mesh, layout=layout, **options)
            self.expect_values(found, {**whole, **dict(expected)}, f"{mesh}, {layout}")
        return whole


def shorten(value):
    text = str(value)
    return text if len(text) <= 400 else text[:400] + " ..."


def draw(name, shape, low=-1.0, high=1.0):
    """Random numbers, the same for one name; with their shape."""
    numbers = random.Random(name)
    return [round(numbers.uniform(low, high), 4) for _ in range(math.prod(shape))], list(shape)


def positions(shape):
    """All positions of an array in row-major order."""
    return itertools.product(*(range(size) for size in shape))


class Array:
    """An array of any dims for plain loops."""

    def __init__(self, values, shape):
        self.values, self.shape = list(values), list(shape)

    def __getitem__(self, place):
        at = 0
        for index, size in zip(place, self.shape, strict=True):
            if not 0 <= index < size:
                return 0.0
            at = at * size + index
        return self.values[at]


def make(shape, function):
    """The values of an array, element by element."""
    return [function(*place) for place in positions(shape)]


def sent(plan, *phases):
    """What the plan sends: (kind, axes, payload in elements), in order, of these phases or
    of all."""
    return [(entry["kind"], "+".join(sorted(entry["axes"])),
             entry["repeat"] * entry["payload_elements"])
            for entry in plan["collectives"] if not phases or entry["phase"] in phases]


def added_up(plan, *phases):
    """Payload elements by kind and axes."""
    total = collections.Counter()
    for kind, axes, count in sent(plan, *phases):
        total[kind, axes] += count
    return dict(total)


def wire_bytes(plan):
    return sum(entry["repeat"] * entry["wire_bytes_per_device"] for entry in plan["collectives"])


def tensor(plan, name):
    """The value of this name; of a parameter and its gradient the former."""
    return next(entry for entry in plan["tensors"] if entry["name"] == name)


def held(plan, name):
    """How a value lies: dim: (axes, positions on a device)."""
    return {dim["name"]: (dim["axes"], dim["local_size"])
            for dim in tensor(plan, name)["dims"]}


def folder_of(harness):
    path = harness.path("")
    os.mkdir(path)
    return path

"""Reshapes of 16 elements between all shapes of three dims at most, by all pairs of layouts.

On a mesh of 2x2 each dim lies on one axis at most: 63 shapes with a layout, 3,969 pairs. Every
element is where it belongs, and where the layouts say that each device has what it needs,
nothing is sent. With `--all`; without, those of each seventh pair. Of dims over both axes, in
either order, there are 5,056 pairs more. Dims of one position come and go."""

import itertools
import json
import math
import pathlib
import sys

import compiler
import npy

ELEMENTS, MESH = 16, {"m": 2, "n": 2}
SHAPES = [shape for rank in (1, 2, 3)
          for shape in itertools.product((2, 4, 8, 16), repeat=rank)
          if math.prod(shape) == ELEMENTS]


def get_layouts(rank):
    """The axes of each dim, one at most."""
    for axes in itertools.product(((), *((axis,) for axis in MESH)), repeat=rank):
        used = [axis for split in axes for axis in split]
        if len(set(used)) == len(used):
            yield axes


def get_joint_layouts(rank):
    """One dim over both axes."""
    for dim in range(rank):
        for order in itertools.permutations(MESH):
            yield tuple(order if number == dim else () for number in range(rank))


PLACES = [(shape, axes) for shape in SHAPES for axes in get_layouts(len(shape))]
assert len(PLACES) == 63
JOINT = [(shape, axes) for shape in SHAPES for axes in get_joint_layouts(len(shape))]


def get_names(shape):
    return [f"s{SHAPES.index(shape)}_{dim}" for dim in range(len(shape))]


def get_held(shape, axes, position):
    """The elements, by their place in the whole, that a device holds."""
    ranges = []
    for size, split in zip(shape, axes):
        held, block = range(size), size
        for axis in split:
            block = -(-block // MESH[axis])
            held = held[block * position[axis]:][:block]
        ranges.append(held)
    held = set()
    for point in itertools.product(*ranges):
        place = 0
        for size, at in zip(shape, point):
            place = place * size + at
        held.add(place)
    return held


def lacks_nothing(before, after):
    for numbers in itertools.product(*(range(size) for size in MESH.values())):
        position = dict(zip(MESH, numbers))
        if not get_held(*after, position) <= get_held(*before, position):
            return False
    return True


def get_spec(pairs):
    """Of each pair a value that lies as the first, its reshape that lies as the second, and the
    sum of what is wrong with that."""
    dims, rules, statements, wrong = [], [], [], []
    for shape in SHAPES:
        dims += [f"dim {name} = {size}" for name, size in zip(get_names(shape), shape)]
    for number, (before, after) in enumerate(pairs):
        names, others = get_names(before[0]), [f"{name}'" for name in get_names(after[0])]
        for value, own, axes in ((f"s{number}", names, before[1]),
                                 (f"t{number}", others, after[1])):
            rules += [f'"{value}": {name} -> ({", ".join(split)})'
                      for name, split in zip(own, axes)]
        place = others[0] and f"iota({others[0]})"
        for name in others[1:]:
            place = f"({place} * size({name}) + iota({name}))"
        statements += [
            f"let s{number} = reshape(x, all -> ({', '.join(names)})) + {number}",
            f"let t{number} = reshape(s{number}, ({', '.join(names)}) -> ({', '.join(others)}))",
            f"let e{number} = sum(abs(t{number} - f32({place} + {number})))"]
        wrong.append(f"e{number}")
    lines = [f"mesh {', '.join(f'{axis} = {size}' for axis, size in MESH.items())}",
             f"dim all = {ELEMENTS}", *dims, "layout {", *rules, "}",
             "model reshapes(x: f32[all]) {", *statements, f"output wrong = {' + '.join(wrong)}"]
    lines += [f"output {name} = {name}" for name in wrong]
    return "\n".join([*lines, "}"]) + "\n"


class Checker:
    def __init__(self, meshc):
        self.meshc = meshc
        self.folder = pathlib.Path(meshc.folder.name)
        self.input = self.folder / "x.npy"
        npy.write(self.input, list(map(float, range(ELEMENTS))), [ELEMENTS])
        self.problems = []

    def check(self, pairs):
        spec = self.folder / "reshapes.mesh"
        spec.write_text(get_spec(pairs), encoding="utf-8")
        said = self.meshc.run("run", str(spec), "--eval", "--in", f"x={self.input}")
        found = dict(line.split(maxsplit=1) for line in said.splitlines() if line)
        sent = {}
        for each in self.meshc.plan(str(spec), "--bucket-bytes", "0")["collectives"]:
            sent.setdefault(each["cause"]["operand"], each)
        for number, (before, after) in enumerate(pairs):
            if float(found[f"e{number}"]) != 0:
                self.problems.append(f"{before} to {after}: wrong by {found[f'e{number}']}")
            if f"s{number}" in sent and lacks_nothing(before, after):
                self.problems.append(f"{before} to {after}: {sent[f's{number}']['kind']}")

    def check_ones(self):
        """Of x, 0 to 15 in order, every reshape is so too."""
        spec = self.folder / "ones.mesh"
        shapes = {"a": "x, all -> (one, s0_0)", "b": "a, (one, s0_0) -> (s1_0, s1_1)",
                  "c": "b, (s1_0, s1_1) -> (s1_0', one, s1_1')", "d": "x, () -> one",
                  "e": "d, one -> ()", "f": "d, (one, all) -> (s1_0, s1_1)",
                  "g": "d, (all, one) -> (one', s0_0, one)"}
        lines = ["mesh m = 2", "dim one = 1"]
        lines += [f"dim {name} = {size}" for name, size in
                  (("all", 16), ("s0_0", 16), ("s1_0", 2), ("s1_1", 8))]
        lines += ["layout { all -> m  s1_0 -> m }", "model ones(x: f32[all]) {"]
        lines += [f"output {name} = reshape({of})" for name, of in shapes.items()]
        spec.write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")
        files = {name: self.folder / f"{name}.npy" for name in shapes}
        words = [word for name, file in files.items() for word in ("--out", f"{name}={file}")]
        self.meshc.run("run", str(spec), "--eval", "--in", f"x={self.input}", *words)
        for name, file in files.items():
            if list(npy.read(file)) != list(range(ELEMENTS)):
                self.problems.append(f"reshape({shapes[name]}): {list(npy.read(file))}")


def main():
    checker = Checker(compiler.Compiler(sys.argv[1], sys.argv[2]))
    pairs = list(itertools.product(PLACES, repeat=2))
    assert len(pairs) == 3969
    joint = [pair for pair in itertools.product(PLACES + JOINT, repeat=2)
             if pair[0] in JOINT or pair[1] in JOINT]
    assert len(joint) == 5056
    pairs = pairs + joint if "--all" in sys.argv[3:] else pairs[3::7] + joint[5::31]
    for begin in range(0, len(pairs), 189):
        checker.check(pairs[begin:begin + 189])
    checker.check_ones()
    print(f"{len(pairs)} reshapes")
    if checker.problems:
        sys.exit("\n".join(checker.problems))


main()

"""What reshardings send beside what no plan can save.

    reshards.py [--mean 1.05] [--worst 1.25] [--machine h100]

Of each pair of layouts the bytes that all devices receive in the plan, over the bound: what
they need and do not hold. Beside it what the device sends that sends most, over what the
device needs that lacks most, which no plan falls short of where that is one device alone.
Pairs in which nobody lacks anything count nothing, and a plan that sends in one of these is
an error. All pairs of layouts of two-dimensional tensors on meshes of 4, 2x2 and 2x3, with
sizes that the axes divide and with others; and CASES, one change or several of three dims on
2x2x4. The script fails where more is received than the limits allow.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MESHES = ({"m": 4}, {"m": 2, "n": 2}, {"m": 2, "n": 3})
SIZES = {"even": (1536, 1152), "uneven": (1531, 1021)}
# Before > after: the axes of each dim, major first.
CASES = """
# gathered, of one dim and of several
x|| > ||  y|| > ||  z|| > ||  xy|| > ||  xz|| > ||  zx|| > ||  xyz|| > ||  x|y| > ||
x|y|z > ||  xy|z| > ||  xz||y > ||  z|xy| > ||
# in part
xy|| > x||  xz|| > x||  zx|| > z||  xyz|| > x||  xyz|| > xy||  x|y| > x||  x|y| > |y|
x|y|z > x||z  xy|z| > x|z|  xy|z| > xy||  xy|z| > |z|  z|xy| > z|x|
# the major axis alone
xy|| > y||  xz|| > z||  xyz|| > yz||  xyz|| > z||  xy|z| > y|z|  z|yx| > z|x|
# moved to another dim
x|| > |x|  z|| > ||z  xy|| > x|y|  xy|| > |xy|  xy|| > y|x|  xz|| > x|z|  xz|| > z||x
xyz|| > xy|z|  xyz|| > x|yz|  xyz|| > x|y|z  x|y| > x||y  x|yz| > xz|y|  x|y|z > xy||z
xy|z| > x|z|y  z|xy| > z|x|y  |xyz| > x|y|z  ||xz > z|x|
# dims change places
x|y| > y|x|  x|z| > z|x|  x|y|z > y|x|z  x|y|z > y|z|x  x|y|z > z|y|x  xy|z| > z|xy|
xy||z > z||xy  x|yz| > yz|x|
# other axes
x|| > y||  x|| > z||  z|| > x||  xy|| > zx||  xy|| > z||  z|| > xy||  x|y| > z|y|
x|y| > x|z|  x||y > z||y
# reordered
xy|| > yx||  xz|| > zx||  xyz|| > zyx||  xyz|| > yxz||  xy|z| > yx|z|
# of these several at once
xy|| > z|x|  xyz|| > y|x|  x|yz| > z|x|  xy|z| > x|y|  x|y|z > zx||  xz|y| > y|z|
|xz| > y||x  ||xyz > x|z|  z|x|y > xy|z|
"""
CASE_MESH = {"x": 2, "y": 2, "z": 4}
CASE_SIZES = (96, 80, 112)


def get_layouts(axes, num_dims):
    """Each axis splits one dim or none; of those of one dim, every order."""
    for places in itertools.product(range(-1, num_dims), repeat=len(axes)):
        split = [[axis for axis, place in zip(axes, places) if place == dim]
                 for dim in range(num_dims)]
        yield from itertools.product(*(itertools.permutations(axes) for axes in split))


def read_cases():
    """Pairs of layouts, as get_layouts has them."""
    lines = [line for line in CASES.splitlines() if not line.startswith("#")]
    words = " ".join(lines).replace(" > ", ">").split()
    for word in words:
        yield tuple(tuple(tuple(dim) for dim in side.split("|")) for side in word.split(">"))


def get_block(mesh, size, axes, position):
    """The range of a dim that a device at `position` holds."""
    begin, end = 0, size
    for axis in axes:
        block = -(-size // mesh[axis])
        begin += position[axis] * block
        end, size = min(end, begin + block), block
    return min(begin, end), end


def count_lacking(mesh, sizes, before, after):
    """Elements that each device needs and does not hold."""
    for numbers in itertools.product(*(range(size) for size in mesh.values())):
        position = dict(zip(mesh, numbers))
        blocks = [[get_block(mesh, size, axes, position) for size, axes in zip(sizes, layout)]
                  for layout in (before, after)]
        needed = math.prod(end - begin for begin, end in blocks[1])
        held = math.prod(max(0, min(ends) - max(begins)) for begins, ends in
                         (tuple(zip(*both)) for both in zip(*blocks)))
        yield needed - held


def get_spec(mesh, sizes, pairs):
    """Each pair is a value that lies as the first by a rule for its name, and an output of dims
    of its own that lies as the second."""
    dims = "abc"[:len(sizes)]
    rules, statements = [], []
    lines = [f"mesh {', '.join(f'{axis} = {size}' for axis, size in mesh.items())}"]
    lines += [f"dim {dim} = {size}" for dim, size in zip(dims, sizes)]
    for number, (before, after) in enumerate(pairs):
        for dim, had, wanted in zip(dims, before, after):
            lines.append(f"dim {dim}{number} = {dim}")
            rules.append(f'"s{number}": {dim} -> ({", ".join(had)})')
            if wanted:
                rules.append(f"{dim}{number} -> ({', '.join(wanted)})")
        names = ", ".join(f"{dim} -> {dim}{number}" for dim in dims)
        statements += [f"let s{number} = x + {number}",
                       f"output t{number} = rename(s{number}, {names})"]
    lines += ["layout {", *rules, "}",
              f"model pairs(x: f32[{', '.join(dims)}]) {{", *statements, "}"]
    return "\n".join(lines) + "\n"


def measure(meshc, flags, mesh, sizes, pairs):
    """Of each pair the elements that all devices receive, and the bytes that one sends."""
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder, "pairs.mesh")
        spec.write_text(get_spec(mesh, sizes, pairs), encoding="utf-8")
        environment = {**os.environ, "MESHC_CACHE_DIR": folder}
        command = [meshc, "plan", spec, "--bucket-bytes", "0", "--emit", "json", *flags]
        made = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    found = [[0, 0] for _ in pairs]
    for each in json.loads(made.stdout)["collectives"]:
        layouts = [[dim["axes"] for dim in each[side]["dims"]] for side in ("before", "after")]
        pair = found[int(each["cause"]["operand"][1:])]
        pair[0] += sum(count_lacking(mesh, sizes, *layouts))
        pair[1] += each["wire_bytes_per_device"]
    return found


def describe(pair):
    return " > ".join("|".join("".join(axes) for axes in layout) for layout in pair)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mean", type=float, default=1.05, help="of a table, at most")
    parser.add_argument("--worst", type=float, default=1.25, help="of a pair, at most")
    parser.add_argument("--machine", help="instead of a mesh of CPU devices")
    parser.add_argument("--meshc", default=ROOT / "build" / "bin" / "meshc")
    options = parser.parse_args()
    flags = ["--machine", options.machine] if options.machine else []
    tables = [(f"{'x'.join(map(str, mesh.values()))} {kind}", mesh, sizes,
               list(itertools.product(get_layouts(list(mesh), 2), repeat=2)))
              for mesh in MESHES for kind, sizes in SIZES.items()]
    tables.append(("2x2x4, cases", CASE_MESH, CASE_SIZES, list(read_cases())))
    print("| mesh and sizes | pairs | as few as can be | mean | worst | which "
          "| sent, mean | worst | which |\n|---|---|---|---|---|---|---|---|---|")
    problems = []
    for name, mesh, sizes, pairs in tables:
        received, sent = {}, {}
        for pair, found in zip(pairs, measure(options.meshc, flags, mesh, sizes, pairs)):
            lacking = list(count_lacking(mesh, sizes, *pair))
            if any(lacking):
                received[pair] = found[0] / sum(lacking)
                sent[pair] = found[1] / (4 * max(lacking))
            elif any(found):
                problems.append(f"{name}: {describe(pair)} sends {found[1]} bytes for nothing")
        exact = sum(ratio <= 1 for ratio in received.values())
        row = [name, len(received), exact]
        for ratios in (received, sent):
            worst = max(ratios, key=ratios.get)
            row += [f"{statistics.mean(ratios.values()):.3f}", f"{ratios[worst]:.3f}",
                    f"`{describe(worst)}`" if ratios[worst] > 1 else ""]
        print("|", " | ".join(str(cell).replace("|", "\\|") for cell in row), "|", flush=True)
        if statistics.mean(received.values()) > options.mean or \
                max(received.values()) > options.worst:
            problems.append(f"{name}: devices receive more than they may")
    if problems:
        sys.exit("\n".join(problems))


main()

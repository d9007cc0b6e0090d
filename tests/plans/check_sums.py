"""Long sums of f32, in whole programs: a few units of error under every layout, and the
same bits on any number of threads and in any number of processes.

Sums of equal numbers round in one direction, which is the worst: one accumulator of n
terms is off by about n / 3 units of 2^-24, and 2^24 ones are the most it can count. In
blocks of 64 the bound is 64 units for each of log64 n levels (runtime/SumBlock.h), five
for all sizes here, and in one case two sums follow each other.
"""

import math
import struct
import sys

import compiler

UNIT = 2.0 ** -24
BOUND = 2 * 5 * 64 * UNIT
TENTH = 13421773 * 2.0 ** -27  # 0.1 in f32

# 3 * 10^6 numbers; 1000003 divides by nothing.
EQUAL = """
dim row = 1000003
dim col = 3
layout { row -> data }
model equal() {
  param w: f32[row, col] = constant(0.1)
  output all = mean(w)
  output columns = min(sum(w, over = row))
  output rows = mean(sum(w, over = col))
  output square = mean(w * w)
  output rest = mean((w - mean(w)) * (w - mean(w)))
  output volume = log(sum(exp(w)))
}
"""
EQUAL_VALUES = {
    "all": TENTH, "columns": 1000003 * TENTH, "rows": 3 * TENTH, "square": TENTH * TENTH,
    "volume": math.log(3000009) + TENTH,
}

# One accumulator for each column ends at 2^24. What is computed instead of read is not
# cut into parts for threads.
ONES = """
dim row = 20000000
dim col = 3
model ones() {
  param w: f32[row, col] = ones
  param one: f32[col] = ones
  output stored = min(sum(w, over = row))
  output computed = max(sum(where(iota(row) >= 0, one, 0), over = row))
}
"""

# The gradients of a weight and of a bias are sums over a long batch; a dot product.
BATCH = """
dim batch = 300007
dim in = 5
dim out = 3
layout { batch -> data }
model batch() {
  param x: f32[batch, in] = constant(0.1)
  param y: f32[batch] = ones
  param z: f32[batch] = constant(0.1)
  param w: f32[in, out] = constant(1)
  param b: f32[out] = zeros
  output loss = sum((einsum(x, w -> batch, out) + b) * y)
  output dot = einsum(y, z ->)
}
train { minimize loss optimizer sgd(lr = 0.1) steps 1 }
"""

LAYOUTS = [("", ""), ("data=2", "{}=data"), ("data=3", "{}=data"), ("data=8", "{}=data")]


def write(meshc, name, text):
    path = f"{meshc.folder.name}/{name}.mesh"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read_floats(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def evaluate(meshc, spec, arguments):
    lines = meshc.run("run", spec, "--eval", *arguments).splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


def expect(problems, case, name, found, expected):
    if not abs(found / expected - 1) <= BOUND:
        problems.append(f"{case}: {name} is {found!r}, expected {expected!r}: off by "
                        f"{abs(found / expected - 1) / UNIT:.0f} units")


def check_equal(meshc, problems):
    spec = write(meshc, "equal", EQUAL)
    for mesh, layout in LAYOUTS:
        case = f"equal numbers on '{mesh}'"
        options = ["--mesh", mesh, "--layout", layout.format("row")]
        values = evaluate(meshc, spec, [*options, "--threads", "1"])
        for name, expected in EQUAL_VALUES.items():
            expect(problems, case, name, values[name], expected)
        # The mean's own error, squared.
        if not abs(values["rest"]) <= (TENTH * BOUND) ** 2:
            problems.append(f"{case}: rest is {values['rest']!r}, expected 0")
        for threads in ("2", "3"):
            if evaluate(meshc, spec, [*options, "--threads", threads]) != values:
                problems.append(f"{case}: other bits on {threads} threads")


def check_ones(meshc, problems):
    spec = write(meshc, "ones", ONES)
    values = evaluate(meshc, spec, ["--threads", "2"])
    for name in ("stored", "computed"):
        expect(problems, "ones", name, values[name], 20000000)


def check_batch(meshc, problems):
    spec = write(meshc, "batch", BATCH)
    gradients = {"w": 300007 * TENTH, "b": 300007}
    for mesh, layout in LAYOUTS:
        case = f"gradients on '{mesh}'"
        options = ["--mesh", mesh, "--layout", layout.format("batch")]
        values = evaluate(meshc, spec, options)
        expect(problems, case, "loss", values["loss"], 15 * 300007 * TENTH)
        expect(problems, case, "dot", values["dot"], 300007 * TENTH)
        seen = set()
        for threads in ("1", "3"):
            files = {name: f"{meshc.folder.name}/{name}.npy" for name in gradients}
            meshc.run("run", spec, "--eval", *options, "--threads", threads,
                      *(f"--grad={name}={path}" for name, path in files.items()))
            found = {name: read_floats(path) for name, path in files.items()}
            seen.add(tuple(sorted(found.items())))
            for name, expected in gradients.items():
                worst = max(found[name], key=lambda value: abs(value - expected))
                expect(problems, case, f"gradient of {name}", worst, expected)
        if len(seen) != 1:
            problems.append(f"{case}: other bits on 3 threads")


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    problems = []
    check_equal(meshc, problems)
    check_ones(meshc, problems)
    check_batch(meshc, problems)
    if problems:
        sys.exit("\n".join(problems))


main()

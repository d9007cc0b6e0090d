"""Long sums of f32, in whole programs: a few units of error under every layout, and the
same bits on any number of threads and in any number of processes, which split the devices
evenly or not.

Sums of equal numbers round in one direction, which is the worst: one accumulator of n
terms is off by about n / 3 units of 2^-24, and 2^24 ones are the most it can count. In
blocks of 64 it is 64 / 3 units for each of log64 n levels (runtime/exec/SumBlock.h), five
for all sizes here, and in one case two sums follow each other.
"""

import math
import sys

import compiler
import npy

UNIT = 2.0 ** -24
BOUND = 2 * 5 * 64 / 3 * UNIT
TENTH = 13421773 * 2.0 ** -27  # 0.1 in f32

# 3 * 10^6 numbers in one dimension and in two; 1000003 divides by nothing.
EQUAL = """
dim row = 1000003
dim col = 3
dim flat = 3000000
layout { row -> data  flat -> data }
model equal() {
  param w: f32[row, col] = constant(0.1)
  param x: f32[flat] = constant(0.1)
  output line = mean(x)
  output all = mean(w)
  output columns = min(sum(w, over = row))
  output rows = mean(sum(w, over = col))
  output square = mean(w * w)
  output rest = mean((w - mean(w)) * (w - mean(w)))
  output volume = log(sum(exp(w)))
}
"""
EQUAL_VALUES = {
    "line": TENTH, "all": TENTH, "columns": 1000003 * TENTH, "rows": 3 * TENTH,
    "square": TENTH * TENTH, "volume": math.log(3000009) + TENTH,
}

# One accumulator for each column ends at 2^24; in blocks every partial sum is a number
# that f32 has, and so is the result. What is computed instead of read is not
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

# Mesh, layout of the long dimensions, numbers of processes besides one.
LAYOUTS = [("", "", ()), ("data=2", "data", (2,)), ("data=3", "data", (2, 3)),
           ("data=8", "data", (2, 3, 4)), ("data=2,model=3", "data+model", (4,))]
ONES_LAYOUTS = [("", "", ()), ("data=8", "data", (3,))]


def write(meshc, name, text):
    path = f"{meshc.folder.name}/{name}.mesh"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Program:
    """A spec compiled for one mesh and layout."""

    def __init__(self, meshc, spec, layout, *options):
        self.meshc = meshc
        self.file = f"{meshc.folder.name}/program"
        mesh, axes, self.processes = layout
        text, *dims = spec
        layout = ",".join(f"{dim}={axes}" for dim in dims if axes)
        meshc.run("compile", text, "--mesh", mesh, "--layout", layout, "-o", self.file,
                  *options)

    def evaluate(self, *flags):
        # What the initializers give is what is summed.
        lines = self.meshc.execute(self.file, "predict", "--init", "random",
                                   *flags).splitlines()
        return {name: float(value) for name, value in (line.split() for line in lines)}

    def get_ways(self):
        """Flags under which all bits are the same."""
        return [("--threads", "1"), ("--threads", "2"), ("--threads", "3"),
                *(("--processes", str(count)) for count in self.processes)]


def expect(problems, case, name, found, expected):
    if not abs(found / expected - 1) <= BOUND:
        problems.append(f"{case}: {name} is {found!r}, expected {expected!r}: off by "
                        f"{abs(found / expected - 1) / UNIT:.0f} units")


def check_equal(meshc, problems):
    spec = write(meshc, "equal", EQUAL), "row", "flat"
    for layout in LAYOUTS:
        case = f"equal numbers on '{layout[0]}'"
        program = Program(meshc, spec, layout)
        values = program.evaluate()
        for name, expected in EQUAL_VALUES.items():
            expect(problems, case, name, values[name], expected)
        # The mean's own error, squared.
        if not abs(values["rest"]) <= (TENTH * BOUND) ** 2:
            problems.append(f"{case}: rest is {values['rest']!r}, expected 0")
        for flags in program.get_ways():
            if program.evaluate(*flags) != values:
                problems.append(f"{case}: other bits with {' '.join(flags)}")


def check_ones(meshc, problems):
    spec = write(meshc, "ones", ONES), "row"
    for layout in ONES_LAYOUTS:
        program = Program(meshc, spec, layout)
        for flags in program.get_ways()[1:]:
            values = program.evaluate(*flags)
            for name in ("stored", "computed"):
                if values[name] != 20000000:
                    problems.append(f"ones on '{layout[0]}' with {' '.join(flags)}: {name} "
                                    f"is {values[name]!r}, expected 20000000")


def check_batch(meshc, problems):
    spec = write(meshc, "batch", BATCH), "batch"
    gradients = {"w": 300007 * TENTH, "b": 300007}
    files = {name: f"{meshc.folder.name}/{name}.npy" for name in gradients}
    flags = [f"--grad={name}={path}" for name, path in files.items()]
    for layout in LAYOUTS:
        case = f"gradients on '{layout[0]}'"
        program = Program(meshc, spec, layout, "--grad", "*")
        seen = set()
        for way in program.get_ways():
            values = program.evaluate(*way)
            program.evaluate(*flags, *way)
            found = {name: npy.read(path) for name, path in files.items()}
            seen.add(str((values, found)))
        if len(seen) != 1:
            problems.append(f"{case}: other bits on other threads or in other processes")
        expect(problems, case, "loss", values["loss"], 15 * 300007 * TENTH)
        expect(problems, case, "dot", values["dot"], 300007 * TENTH)
        for name, expected in gradients.items():
            worst = max(found[name], key=lambda value: abs(value - expected))
            expect(problems, case, f"gradient of {name}", worst, expected)


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    problems = []
    check_equal(meshc, problems)
    check_ones(meshc, problems)
    check_batch(meshc, problems)
    if problems:
        sys.exit("\n".join(problems))


main()

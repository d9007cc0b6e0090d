"""Matrix products on GPUs read their factors where they lie: no kernel copies or
transposes one for them, however many batch dims there are and wherever they stand.

A kernel that only moves has loads, stores and no arithmetic on floats. What products
are asked for is read from the record of the emulated libraries.
"""

import re
import sys

import cases
import compiler
import record

ARITHMETIC = re.compile(r"\b(?:arith\.(?:add|sub|mul|div|max\w*|min\w*|neg|cmp|rem)f\b|math\.)")
LOAD = re.compile(r"\b(?:vector\.load|memref\.load|llvm\.load)\b")
STORE = re.compile(r"\b(?:vector\.store|memref\.store|llvm\.store)\b")

# Heads between positions and features, and a group of heads beside them: two and three
# batch dims that are not outermost, in every product of the attention.
GROUPED = """
dim batch = 3
dim pos = 5
dim key = pos
dim group = 2
dim heads = 3
dim depth = 8
dim width = 16
model grouped(x: f32[batch, pos, width], target: f32[batch, pos, width]) {
  param wq, wk, wv: f32[width, group, heads, depth] = normal(stddev = 0.3)
  param wo: f32[group, heads, depth, width] = normal(stddev = 0.3)
  let m = rename(x, pos -> key)
  let q = einsum(x, wq -> batch, pos, group, heads, depth)
  let k = einsum(m, wk -> batch, key, group, heads, depth)
  let v = einsum(m, wv -> batch, key, group, heads, depth)
  let scores = einsum(q, k -> batch, group, heads, pos, key)
  let read = einsum(softmax(scores, over = key), v -> batch, pos, group, heads, depth)
  let y = einsum(read, wo -> batch, pos, width)
  output loss = mean((y - target) * (y - target))
}
train { minimize loss optimizer sgd(lr = 0.1) steps 1 }
"""

# A layer's parameters begin at multiples of 16 bytes; else they would be copied.
ALIGNED_BLOCKS = [f"-D{name}={size}" for name, size in {
    "batch": 6, "pos": 5, "d_model": 12, "heads": 3, "d_head": 4, "d_ff": 8}.items()]


def functions(text):
    """The kernels of the training step: name, text."""
    parts = re.split(r"gpu\.func @", text)
    return [(part.split("(", 1)[0], part) for part in parts[1:] if part.startswith("step")]


def find_movers(text):
    return [name for name, body in functions(text)
            if LOAD.search(body) and STORE.search(body) and not ARITHMETIC.search(body)]


def check(meshc, libraries, name, spec, batches):
    """`batches`: how many products there are of each length of batch beyond 1."""
    arguments = [*spec, "--mesh", "", "--layout", "", "--target", "cuda", "--gpu", "host"]
    kernels = f"{meshc.folder.name}/kernels.mlir"
    meshc.run("compile", *arguments, "--emit", "kernels", "-o", kernels)
    with open(kernels, encoding="utf-8") as file:
        text = file.read()
    if not functions(text):
        yield f"{name}: found no kernel"
    for mover in find_movers(text):
        yield f"{name}: {mover} only moves"
    calls = record.count_calls(meshc, spec, libraries, "batch")
    copies = sum(count for (function, _), count in calls.items()
                 if "DtoD" in function or "Memcpy2D" in function)
    if copies:
        yield f"{name}: {copies} copies in a step"
    found = {batch: count for (function, batch), count in calls.items()
             if function == "cublasLtMatmul" and batch > 1}
    if found != batches:
        yield f"{name}: products by batch {found}, expected {batches}"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    libraries = sys.argv[3]
    grouped = f"{meshc.folder.name}/grouped.mesh"
    with open(grouped, "w", encoding="utf-8") as file:
        file.write(GROUPED)
    # Each of 4 blocks has 6 products of its attention, 2 forward and 4 backward: a call
    # of 3 heads of 6 samples for each. All others are single products.
    problems = list(check(meshc, libraries, "blocks",
                          [cases.BLOCKS, *ALIGNED_BLOCKS], {6 * 3: 4 * 6}))
    # Here of 3 samples, of 2 groups of 3 heads each.
    problems += check(meshc, libraries, "grouped", [grouped], {6 * 3: 6})
    # The test sees a kernel that moves.
    moving = find_movers("gpu.func @step_1(%a) { vector.load vector.store arith.addi }")
    if moving != ["step_1"]:
        problems.append("a kernel that moves is not found")
    if problems:
        sys.exit("\n".join(problems))


main()

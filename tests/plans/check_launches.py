"""Counts the kernels that one training step launches on a GPU, and how many they
would be if the updates of parameters (and the casts of them to 16 bits) were
launched one by one: the group of kernels step_16_of_4 does the work of four.

And the calls of cuBLASLt: one for each product, of all heads and samples too. A
layer of GPT-2 has eight products, two of which are attention's, and two gradients
of each; the logits are one more.
"""

import re
import sys

import cases
import compiler

# Sample and precision: launches in a step, launches without groups.
GOLDEN = {
    (cases.MLP, "f32"): (7, 10),
    (cases.MLP, "bf16"): (7, 12),
    # relu, its gradient, and the sum of that in two launches, which the library's
    # calls do in other precisions.
    (cases.MLP, "fp16"): (16, 20),
    # In 16 bits one kernel for each block adds up, in f32, the three gradients that go
    # in one sum.
    (cases.BLOCKS, "f32"): (49, 60),
    (cases.BLOCKS, "bf16"): (54, 72),
    (cases.BLOCKS, "fp16"): (62, 75),
    (cases.BLOCKS_WRITTEN_OUT, "f32"): (49, 96),
    (cases.BLOCKS_WRITTEN_OUT, "bf16"): (54, 128),
    (cases.BLOCKS_WRITTEN_OUT, "fp16"): (82, 151),
}
# Three for each product of the model, of any layout.
PRODUCTS = {
    ("samples/gpt2.mesh",): 3 * (8 * 12 + 1),
    ("samples/bert.mesh",): 3 * (8 * 12 + 2),
    ("samples/layouts/decoder.mesh",): 3 * 8 * 2,
    (cases.BLOCKS, "--mesh", "data=2,model=4", "--layout", "batch=data"): 3 * 8 * 4,
    (cases.BLOCKS, "--mesh", "data=2,model=4", "--layout", "batch=data,heads=model,d_ff=model"):
        3 * 8 * 4,
}
KERNEL = re.compile(r"[a-z]+_\d+(?:_of_(\d+))?(?:_sum)?")


def count(meshc, sample, precision):
    plan = meshc.plan(sample, "--target", "cuda", "--precision", precision)
    launches = [launch for op in plan["ops"] for launch in op.get("launches", [])]
    members = [int(KERNEL.fullmatch(launch["symbol"])[1] or 1) for launch in launches]
    return len(members), sum(members)


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    failed = False
    for case, expected in PRODUCTS.items():
        plan = meshc.plan(*case, "--target", "cuda")
        found = plan["totals"]["launches"]["products"]
        if found != expected:
            print(f"{case}: {found} products, expected {expected}")
            failed = True
    for case, expected in GOLDEN.items():
        found = count(meshc, *case)
        if found != expected:
            print(f"{case}: {found[0]} launches, {found[1]} without groups; "
                  f"expected {expected[0]} and {expected[1]}")
            failed = True
    if failed:
        sys.exit(__doc__)


main()

"""A loop is what its iterations written out are: samples/transformer_block.mesh and
bench/blocks_written_out.mesh, which has a call in the place of each iteration.

Loss and gradients are the same bits for the same parameters, under every layout, also
where sizes do not divide and parts of a stack begin anywhere. The steps are the same
matmuls with the same ends and the same kernels; where the loop has slices of stacked
parameters and stacks of their gradients, which are no commands, the other program has
an update, and a sum over devices, for each layer.
"""

import collections
import math
import random
import re
import sys

import cases
import compiler
import npy

LAYERS = 4
SIZES = {"batch": 6, "pos": 5, "d_model": 9, "heads": 3, "d_head": 4, "d_ff": 7}
LAYOUTS = [("", ""), ("data=3", "batch=data"), ("model=2", "heads=model,d_ff=model"),
           ("data=2,model=3", "batch=data,heads=model,d_ff=model"), ("a=4", "pos=a"),
           ("a=2,b=2", "d_model=a,batch=b")]
# Each parameter of a block with its shape.
PARAMETERS = {
    "norm1/gain": ["d_model"], "norm1/bias": ["d_model"],
    "attn/wq": ["d_model", "heads", "d_head"], "attn/wk": ["d_model", "heads", "d_head"],
    "attn/wv": ["d_model", "heads", "d_head"], "attn/wo": ["heads", "d_head", "d_model"],
    "norm2/gain": ["d_model"], "norm2/bias": ["d_model"],
    "ff/w1": ["d_model", "d_ff"], "ff/b1": ["d_ff"],
    "ff/w2": ["d_ff", "d_model"], "ff/b2": ["d_model"],
}
INPUTS = ["x", "target"]


def get_shape(dims):
    return [SIZES[dim] for dim in dims]


class Values:
    """Random inputs and parameters, as files for both programs."""

    def __init__(self, folder):
        self.folder = folder
        numbers = random.Random(3)
        for name in INPUTS:
            shape = get_shape(["batch", "pos", "d_model"])
            self.write(name, shape, [numbers.gauss(0, 1) for _ in range(math.prod(shape))])
        for name, dims in PARAMETERS.items():
            shape = get_shape(dims)
            layers = [[numbers.gauss(0, 0.5) for _ in range(math.prod(shape))]
                      for _ in range(LAYERS)]
            for number, layer in enumerate(layers):
                self.write(f"b{number + 1}/{name}", shape, layer)
            self.write(f"layer/block/{name}", [LAYERS, *shape], sum(layers, []))

    def get_path(self, name):
        return f"{self.folder}/{name.replace('/', '_')}.npy"

    def write(self, name, shape, values):
        npy.write(self.get_path(name), values, shape)


def evaluate(meshc, values, spec, layout, precision, names):
    """Loss and gradients by parameter, as bytes."""
    flags = []
    for name in INPUTS:
        flags += ["--in", f"{name}={values.get_path(name)}"]
    for name in names:
        flags += ["--param", f"{name}={values.get_path(name)}",
                  "--grad", f"{name}={values.get_path('grad_' + name)}"]
    loss = values.get_path("loss")
    mesh, rules = layout
    meshc.run("run", spec, *[f"-D{name}={size}" for name, size in SIZES.items()], "--mesh",
              mesh, "--layout", rules, "--precision", precision, "--eval", "--out",
              f"loss={loss}", *flags)
    return npy.read_bytes(loss), {name: npy.read_bytes(values.get_path("grad_" + name)) for name in names}


def check_bits(meshc, values, layout, precision):
    place = f"{precision}, mesh '{layout[0]}', layout '{layout[1]}'"
    loss, grads = evaluate(meshc, values, cases.BLOCKS, layout, precision,
                           [f"layer/block/{name}" for name in PARAMETERS])
    others = [f"b{number}/{name}" for name in PARAMETERS for number in range(1, LAYERS + 1)]
    wanted, parts = evaluate(meshc, values, cases.BLOCKS_WRITTEN_OUT, layout, precision, others)
    if loss != wanted:
        yield f"{place}: another loss"
    for name in PARAMETERS:
        whole = b"".join(parts[f"b{number}/{name}"] for number in range(1, LAYERS + 1))
        if grads[f"layer/block/{name}"] != whole:
            yield f"{place}: another gradient of {name}"
        if not any(whole):
            yield f"{place}: the gradient of {name} is nothing"


STEP = re.compile(r"^    (?:%[\w:, ]+ = )?((?:exec|spmd)\.\w+)(.*)$", re.MULTILINE)
ENDS = re.compile(r" (addend|bias|activation \w+|slope|sums \w+)\b(?= [%{]|$)")
TYPES = re.compile(r"tensor<[^>]*>")


def read_steps(meshc, spec, layout, target):
    """The steps of the training program by kind, matmuls with what they take along."""
    path = f"{meshc.folder.name}/steps.mlir"
    meshc.run("compile", spec, "--mesh", layout[0], "--layout", layout[1], "--target", target,
              "--emit", "exec", "-o", path)
    with open(path, encoding="utf-8") as file:
        program = file.read().split("exec.program @step", 1)[1].split("exec.program @", 1)[0]
    steps = collections.Counter()
    for kind, rest in STEP.findall(program):
        if kind == "exec.matmul":
            operands, types = rest.split(" : ", 1)
            steps[kind, *ENDS.findall(operands), *TYPES.findall(types)] += 1
        else:
            steps[kind] += 1
    return steps


def check_steps(meshc, layout, target):
    place = f"steps for {target}, mesh '{layout[0]}'"
    loop = read_steps(meshc, cases.BLOCKS, layout, target)
    calls = read_steps(meshc, cases.BLOCKS_WRITTEN_OUT, layout, target)
    matmuls = [{kind: number for kind, number in steps.items() if kind[0] == "exec.matmul"}
               for steps in (loop, calls)]
    if matmuls[0] != matmuls[1]:
        yield f"{place}: matmuls {matmuls[0]}, expected {matmuls[1]}"
    if sum(matmuls[0].values()) != 24 * LAYERS:
        yield f"{place}: {sum(matmuls[0].values())} matmuls"
    # A layer has 12 parameters.
    wanted = {"exec.slice": 12 * LAYERS, "exec.stack": 12, "spmd.read": 12, "spmd.write": 12,
              "exec.conv": 0}
    for kind, number in wanted.items():
        if loop[kind] != number:
            yield f"{place}: {loop[kind]} of {kind}, expected {number}"
    updates = 12 * (LAYERS - 1) if target == "cpu" else 0
    if loop["exec.kernel"] != calls["exec.kernel"] - updates:
        yield (f"{place}: {loop['exec.kernel']} kernels, written out {calls['exec.kernel']} "
               f"of which {updates} are updates of further layers")


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    values = Values(meshc.folder.name)
    problems = []
    for layout in LAYOUTS:
        problems += check_bits(meshc, values, layout, "f32")
    problems += check_bits(meshc, values, LAYOUTS[3], "bf16")
    for layout in (("", ""), ("data=4,model=2", "batch=data,heads=model,d_ff=model")):
        for target in ("cpu", "cuda"):
            problems += check_steps(meshc, layout, target)
    if problems:
        sys.exit("\n".join(problems))


main()

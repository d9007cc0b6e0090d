"""What one device communicates, read from the plan's JSON, against closed formulas.

Source of the formulas: Shazeer et al., "Mesh-TensorFlow: Deep Learning for
Supercomputers", NeurIPS 2018, section 8, with the gradients of the bias and of
the input added. All are elements that one device brings into an all_reduce.
"""

import collections
import sys

import compiler

PLAIN = "tests/plans/plain_mlp.mesh"
BLOCKS = "samples/transformer_block.mesh"


def elements(plan, *phases):
    """Payload elements by axis over the collectives of `phases`; anything but an
    all_reduce stands under its own name."""
    total = collections.Counter()
    for entry in plan["collectives"]:
        if entry["phase"] in phases:
            axes = "+".join(entry["axes"])
            key = axes if entry["kind"] == "all_reduce" else f"{entry['kind']} {axes}"
            total[key] += entry["repeat"] * entry["payload_elements"]
    return dict(total)


def mlp_table(b, io, h):
    """Layout: mesh, rules, elements of the forward pass, those the backward pass
    adds. Axes: rows r = 2, cols c = 2, planes p = 2; all n = 4."""
    r = c = p = 2
    return {
        "none": ("all=4", "", {}, {}),
        "batch": ("all=4", "batch=all", {}, {"all": 2 * io * h + h}),
        "hidden": ("all=4", "hidden=all", {"all": b * io}, {"all": b * io}),
        "batch, hidden": ("rows=2,cols=2", "batch=rows,hidden=cols",
                          {"cols": b // r * io},
                          {"cols": b // r * io, "rows": 2 * io * h // c + h // c}),
        "io": ("all=4", "io=all", {"all": b * h}, {"all": b * h}),
        "batch, io": ("rows=2,cols=2", "batch=rows,io=cols",
                      {"cols": b // r * h},
                      {"cols": b // r * h, "rows": 2 * io * h // c + h}),
        "hidden, io": ("rows=2,cols=2", "hidden=rows,io=cols",
                       {"cols": b * h // r, "rows": b * io // c},
                       {"cols": b * h // r, "rows": b * io // c}),
        "batch, hidden, io": ("rows=2,cols=2,planes=2", "batch=rows,hidden=cols,io=planes",
                              {"planes": b * h // (r * c), "cols": b * io // (r * p)},
                              {"planes": b * h // (r * c), "cols": b * io // (r * p),
                               "rows": 2 * io * h // (c * p) + h // c}),
    }


# The same for b = 8, io = 16, h = 32 in numbers: forward, whole step.
NUMBERS = {
    "none": ({}, {}),
    "batch": ({}, {"all": 1024 + 32}),
    "hidden": ({"all": 128}, {"all": 256}),
    "batch, hidden": ({"cols": 64}, {"cols": 128, "rows": 512 + 16}),
    "io": ({"all": 256}, {"all": 512}),
    "batch, io": ({"cols": 128}, {"cols": 256, "rows": 512 + 32}),
    "hidden, io": ({"cols": 128, "rows": 64}, {"cols": 256, "rows": 128}),
    "batch, hidden, io": ({"planes": 64, "cols": 32},
                          {"planes": 128, "cols": 64, "rows": 256 + 16}),
}


RENAMES = """
mesh m = 2
dim b = 4  dim e = 2  dim d = 3
layout {{ b -> m  e -> m }}
model f(x: f32[b, d]) {{
  param r: f32[d, e'] = normal(stddev = 1)
  output inbox = rename(einsum(x, r -> b, e', d), {})
}}"""

# Small programs with what their evaluation may communicate: kind, axes and
# payload of each collective.
SPECS = {
    "two sums over one axis are added before they are completed": ("""
mesh m = 2
dim b = 4  dim c = 6  dim d = 3
layout { b -> m }
model f(x: f32[b, c], y: f32[b, c], u: f32[b, d], v: f32[b, d]) {
  output z = einsum(x, u -> c, d) + einsum(y, v -> c, d)
}""", [("all_reduce", "m", 6 * 3)]),
    "scaled sums too": ("""
mesh m = 2
dim b = 4  dim c = 6  dim d = 3
layout { b -> m }
model f(x: f32[b, c], y: f32[b, c], u: f32[b, d], v: f32[b, d]) {
  output z = 0.5 * einsum(x, u -> c, d) + 0.25 * einsum(y, v -> c, d)
}""", [("all_reduce", "m", 6 * 3)]),
    "a sum that is needed split is not completed everywhere": ("""
mesh m = 2
dim b = 4  dim c = 6  dim d = c
layout { b -> m  d -> m }
model f(x: f32[b, c]) {
  output z = rename(sum(x, over = b), c -> d)
}""", [("reduce_scatter", "m", 6)]),
    "dims that are renamed in one step move in one": (RENAMES.format("b -> b', e' -> e"),
                                                      [("all_to_all", "m", 12)]),
    "in any order": (RENAMES.format("e' -> e, b -> b'"), [("all_to_all", "m", 12)]),
    "a sum over two axes is one": ("""
mesh m = 2, n = 2
dim b = 4  dim c = 8
layout { b -> m  c -> n }
model f(x: f32[b, c]) {
  output z = exp(sum(x))
}""", [("all_reduce", "m+n", 1)]),
}


# Two convolutions, one after the other, their rows split: devices, rows, positions
# of a window, dilation, and how many rows the device that lacks most lacks. Blocks
# have 2 rows each; of 7 rows over 4 devices the last one has 1.
WINDOWS = {
    "3x3": (4, 8, 3, 1, 2),
    "3x3, uneven blocks": (4, 7, 3, 1, 2),
    "7x7, beyond the neighbours": (8, 16, 7, 1, 6),
    "3x3, dilation 2": (4, 8, 3, 2, 4),
}
CONVOLUTIONS = """
mesh m = {devices}
dim batch = 3  dim y = {rows}  dim x = 5  dim dy = {window}  dim dx = 3  dim c = 2
layout {{ y -> m }}
model f(image: f32[batch, y, x, c]) {{
  let a = conv(image, (y, x), (dy, dx), c, c', dilation = {dilation}) as first
  let b = conv(a, (y, x), (dy, dx), c', c, dilation = {dilation}) as second
  output loss = mean(b ^ 2)
}}
train {{ minimize loss  optimizer sgd(lr = 0.1)  steps 1 }}
"""

# A convolution of stride 2 between two of stride 1, and a transposed one: 16 rows
# and 8 half rows over four devices. Forward stride 2 lacks one row from above, its
# gradient one half row from below; growing reads the own rows alone.
STRIDES = """
mesh m = 4
dim batch = 3  dim y = 16  dim half = 8  dim x = 5  dim col = 3  dim c = 2
dim dy = 3  dim dx = 3  dim up = 2  dim across = 2  dim wide = 6
layout { y -> m  half -> m }
model f(image: f32[batch, y, x, c]) {
  let a = conv(image, (y, x), (dy, dx), c, c') as first
  let b = conv(a, (y, x), (dy, dx), c', c, at = (half, col), stride = 2) as second
  let d = grow(b, (half, col), (y, wide), (up, across), c, c') as third
  output loss = mean(d ^ 2)
}
train { minimize loss  optimizer sgd(lr = 0.1)  steps 1 }
"""


class Checker:
    def __init__(self, meshc):
        self.meshc = meshc
        self.problems = []

    def expect(self, found, expected, place):
        if found != expected:
            self.problems.append(f"{place}: {found}, expected {expected}")

    def check_mlp(self, b, io, h):
        for name, (mesh, rules, forward, backward) in mlp_table(b, io, h).items():
            plan = self.meshc.plan(PLAIN, "--mesh", mesh, "--layout", rules,
                                   f"-Dbatch={b}", f"-Dio={io}", f"-Dhidden={h}")
            place = f"plain MLP {b}, {io}, {h}, split {name}"
            step = dict(collections.Counter(forward) + collections.Counter(backward))
            self.expect(elements(plan, "forward"), forward, place + ", forward")
            self.expect(elements(plan, "backward"), backward, place + ", backward")
            self.expect(elements(plan, "forward", "backward", "update"), step, place + ", step")
            if (b, io, h) == (8, 16, 32):
                self.expect((forward, step), NUMBERS[name], place + ": the formula")

    def check_blocks(self, mesh, rules, sizes):
        """heads and d_ff over `model`: two all_reduces of the activations in each
        block and pass. batch over `data`: the gradients of the parameters."""
        plan = self.meshc.plan(BLOCKS, "--mesh", mesh, "--layout", rules,
                               *[f"-D{name}={size}" for name, size in sizes.items()])
        place = f"blocks on {mesh}"
        axes = dict(axis.split("=") for axis in mesh.split(","))
        activation = (-(-sizes["batch"] // int(axes.get("data", 1)))
                      * sizes["pos"] * sizes["d_model"])
        over = collections.defaultdict(list)
        tensors = {tensor["id"]: tensor for tensor in plan["tensors"]}
        for entry in plan["collectives"]:
            over["+".join(entry["axes"]), entry["phase"]].append(entry)
            self.expect(entry["kind"], "all_reduce", f"{place}, {entry['id']}")
        if "model" in axes:
            for phase in ("forward", "backward"):
                found = over.pop(("model", phase), [])
                self.expect([entry["payload_elements"] for entry in found],
                            [activation] * 8, f"{place}, over model, {phase}")
                blocks = collections.Counter(
                    tensors[entry["tensor"]]["name"].removeprefix("gradient of ")
                    .rpartition("/block/")[0]
                    for entry in found)
                self.expect(blocks, {f"layer/{number}": 2 for number in range(4)},
                            f"{place}, over model, {phase}, by block")
        if "data" in axes:
            summed = sorted(tensors[entry["tensor"]]["name"]
                            for entry in over.pop(("data", "backward"), []))
            parameters = sorted("gradient of " + tensor["name"]
                                for tensor in plan["tensors"] if tensor["role"] == "param")
            self.expect(summed, parameters, f"{place}, over data")
        self.expect(dict(over), {}, f"{place}, anything else")

    def check_loops(self, spec, mesh, *arguments):
        """batch over `data`: one sum of each parameter's gradient in a step, whole
        over the iterations of the loops around it, and nothing in between."""
        path = f"{self.meshc.folder.name}/trained.mesh"
        with open(f"{self.meshc.root}/{spec}", encoding="utf-8") as source:
            text = source.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("minimize loss", "minimize loss  optimizer sgd(lr = 0.1)  steps 1"))
        plan = self.meshc.plan(path, "--mesh", mesh, "--layout", "batch=data", *arguments)
        place = f"{spec} on {mesh}"
        tensors = {tensor["id"]: tensor for tensor in plan["tensors"]}
        found = sorted((tensors[entry["tensor"]]["name"], entry["payload_elements"])
                       for entry in plan["collectives"])
        expected = sorted(("gradient of " + tensor["name"], tensor["bytes_global"] // 4)
                          for tensor in plan["tensors"] if tensor["role"] == "param")
        self.expect(found, expected, place)

    def check_windows(self):
        """One exchange of the rows that windows reach beyond the block for each
        convolution forward, one for each that has a gradient of its input
        backward, and sums over all rows."""
        for name, (devices, rows, window, dilation, lacked) in WINDOWS.items():
            text = CONVOLUTIONS.format(devices=devices, rows=rows, window=window,
                                       dilation=dilation)
            wire = lacked * 3 * 5 * 2 * 4
            self.expect(self.find_exchanges(text), {("exchange", "forward"): [wire, wire],
                                                    ("exchange", "backward"): [wire]},
                        f"windows, {name}")
        row, half = 3 * 5 * 2 * 4, 3 * 3 * 2 * 4
        self.expect(self.find_exchanges(STRIDES), {("exchange", "forward"): [row, 2 * row],
                                                   ("exchange", "backward"): [half]}, "strides")

    def find_exchanges(self, text):
        """What a device sends in each collective that is no sum, by kind and phase."""
        path = f"{self.meshc.folder.name}/windows.mesh"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        found = collections.defaultdict(list)
        for entry in self.meshc.plan(path)["collectives"]:
            if entry["kind"] != "all_reduce":
                found[entry["kind"], entry["phase"]].append(entry["wire_bytes_per_device"])
        return {key: sorted(sent) for key, sent in found.items()}

    def check_specs(self):
        for name, (text, expected) in SPECS.items():
            path = f"{self.meshc.folder.name}/small.mesh"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            found = [(entry["kind"], "+".join(sorted(entry["axes"])), entry["payload_elements"])
                     for entry in self.meshc.plan(path)["collectives"]]
            self.expect(found, expected, name)


def main():
    checker = Checker(compiler.Compiler(sys.argv[1], sys.argv[2]))
    checker.check_mlp(8, 16, 32)
    checker.check_mlp(24, 48, 96)
    checker.check_specs()
    checker.check_windows()
    sizes = {"batch": 8, "pos": 5, "d_model": 12, "heads": 6, "d_head": 3, "d_ff": 10}
    rules = "batch=data,heads=model,d_ff=model"
    checker.check_blocks("data=2,model=2", rules, sizes)
    checker.check_blocks("data=4,model=2", rules,
                         {"batch": 16, "pos": 128, "d_model": 512, "heads": 8,
                          "d_head": 64, "d_ff": 2048})
    checker.check_blocks("data=2,model=3", rules, {**sizes, "batch": 7, "d_ff": 11})
    checker.check_blocks("data=4", "batch=data", sizes)
    checker.check_blocks("model=2", "heads=model,d_ff=model", sizes)
    checker.check_loops("tests/end_to_end/gru.mesh", "data=2")
    checker.check_loops("tests/end_to_end/gru.mesh", "data=3", "-Dlayers=9", "-Dtime=2")
    checker.check_loops("tests/end_to_end/loops.mesh", "data=2")
    if checker.problems:
        sys.exit("\n".join(checker.problems))


main()

"""samples/layouts: what its README says of each layout, from the plans, and that a
layout changes no number.

- The table of the README is that of the plans.
- A layout's collectives are those of a formula, and nothing is computed twice: a
  device computes an eighth of what one alone does, but for what REPEATED says.
- GPUs, whose library sends contiguous blocks, send as much as processes do.
- What the README advises against costs what it says.
- Small sizes train alike on one device, on the spec's mesh and on one of three.

To write the table anew: python3 tests/plans/check_layouts.py build/bin/meshc . --update
"""

import collections
import pathlib
import re
import shutil
import sys

import compiler
import curves

FOLDER = "samples/layouts"
HEAD = "| spec | layout | flop | collectives (bytes sent) | sent | memory | of it parameters and optimizer |"
# What devices compute together beyond what one alone does, of that: the update of all
# parameters; of tensor.mesh norms and residuals; of spatial.mesh gradients of what a
# convolution reads, from two border rows too, which lie beside 32 or 16 own ones.
REPEATED = {"data": 0.004, "sequence": 0.004, "ulysses": 0.004, "experts": 0.004,
            "zero1": 0.001, "zero2": 0.001, "zero3": 0.001, "hybrid": 0.002, "fsdp": 0.001,
            "tensor": 0.01, "megatron": 0.002, "spatial": 0.03}
# Sizes with which a table's choice is the one that its technique is called after: few
# enough tokens that activations travel, and not weights.
SIZES = {"megatron": {"batch": 2}}
DECODER = {"batch": 16, "pos": 256, "d": 512, "heads": 8, "d_head": 64, "d_ff": 2048}
EXPERTS, SLOTS, BLOCKS = 8, 64, 2
SMALL = {"batch": 6, "pos": 5, "d": 9, "heads": 3, "d_head": 4, "d_ff": 7, "lr": 0.01}


def parameters_of(block):
    """Elements of the parameters of `block`, by whether they are weights."""
    d, heads, head, ff = (DECODER[name] for name in ("d", "heads", "d_head", "d_ff"))
    weights = [d * heads * head] * 4
    small = [d] * 4
    if block == "feed_forward":
        weights += [d * ff] * 2
        small += [ff, d]
    else:
        small += [d * EXPERTS]
    return weights, small


def collectives():
    """Spec -> (kind, phase) -> payloads in elements of a block, of every layout of the
    decoder."""
    batch, pos, d, ff = (DECODER[name] for name in ("batch", "pos", "d", "d_ff"))
    devices, inner = 8, 4
    weights, small = parameters_of("feed_forward")
    routed_weights, routed_small = parameters_of("mixture")
    every = weights + small
    keys = batch * pos * DECODER["heads"] * DECODER["d_head"]
    places = batch // devices * EXPERTS * SLOTS * d
    few = SIZES["megatron"]["batch"] * pos * d
    of_d = [size for size in every if size != ff]
    scattered = {("all_gather", "update"): [size // devices for size in every],
                 ("reduce_scatter", "backward"): every}
    return {
        "data": {("all_reduce", "backward"): every},
        "zero1": scattered,
        "zero2": scattered,
        "zero3": {("all_gather", "forward"): [size // devices for size in every],
                  ("reduce_scatter", "backward"): every},
        "hybrid": {("all_gather", "forward"): [size // inner for size in every],
                   ("reduce_scatter", "backward"): every},
        "fsdp": {("all_gather", "forward"): [size // devices for size in of_d],
                 ("reduce_scatter", "backward"): of_d,
                 ("all_reduce", "backward"): [ff]},
        "tensor": {("all_reduce", phase): [batch * pos * d] * 2
                   for phase in ("forward", "backward")},
        "megatron": {("all_gather", "forward"): [few // devices] * 2,
                     ("reduce_scatter", "forward"): [few] * 2,
                     ("all_gather", "backward"): [few // devices] * 2,
                     ("reduce_scatter", "backward"): [few] * 2,
                     ("all_reduce", "backward"): [d] * 5},
        "sequence": {("all_gather", "forward"): [keys // devices] * 2,
                     ("reduce_scatter", "backward"): [keys] * 2,
                     ("all_reduce", "backward"): every},
        "ulysses": {("all_to_all", "forward"): [keys // devices] * 4,
                    ("all_to_all", "backward"): [keys // devices] * 4,
                    ("all_reduce", "backward"): every},
        "experts": {("all_to_all", "forward"): [places] * 2,
                    ("all_to_all", "backward"): [places] * 2,
                    ("all_reduce", "backward"): routed_weights + routed_small},
    }


def gathered_again():
    """Spec -> payloads in elements of what the backward phase gathers again of parameters: of
    the first block alone, since it begins with the last; the weights, and the gain of the norm
    whose input has a gradient."""
    weights, _ = parameters_of("feed_forward")
    return {name: [size // parts for size in [*weights, DECODER["d"]]]
            for name, parts in {"zero3": 8, "fsdp": 8, "hybrid": 4}.items()}


def in_units(number, units, step):
    """As the plan's text: three digits."""
    for unit in units:
        if number < step or unit == units[-1]:
            return f"{number:.3g} {unit}"
        number /= step


def in_bytes(number):
    return in_units(number, ["B", "KiB", "MiB", "GiB"], 1024)


def describe_layout(plan):
    return ", ".join(f"`{rule['text']}`" for rule in plan["rules"])


def describe_collectives(plan):
    """How many of each kind, and what all of these send."""
    count, sent = collections.Counter(), collections.Counter()
    for entry in plan["collectives"]:
        count[entry["kind"]] += entry["repeat"]
        sent[entry["kind"]] += entry["repeat"] * entry["wire_bytes_per_device"]
    return ", ".join(f"{count[kind]} {kind} ({in_bytes(sent[kind])})" for kind in sorted(count))


def in_flop(plan):
    return in_units(plan["totals"]["flops_per_device"], ["", "k", "M", "G"], 1000)


def in_sent(plan):
    return in_bytes(plan["totals"]["wire_bytes_per_device"])


def make_row(name, plan):
    memory = plan["memory"]
    cells = [f"`{name}.mesh`", describe_layout(plan),
             in_flop(plan), describe_collectives(plan), in_sent(plan),
             in_bytes(memory["peak_bytes_per_device"]),
             in_bytes(memory["params"] + memory["optimizer"])]
    return f"| {' | '.join(cells)} |"


# The same numbers, written as the README advises against: file, what is replaced by
# what there, spec, and what the README says of its plan and that of the spec as it is.
WORSE = [
    ("transformer", r"rename\(einsum\(x, (.*?), over = d\), pos -> pos'\)",
     r"einsum(rename(x, pos -> pos'), \1, over = d)", "sequence",
     lambda plan: in_flop(plan) + "flop", in_flop),
]


class Checker:
    def __init__(self, meshc, update):
        self.meshc = meshc
        self.update = update
        self.problems = []
        #: Steps of a program without a mesh -> its curve: the decoder is one there, whatever
        #: the layout.
        self.curves = {}

    def expect(self, holds, problem):
        if not holds:
            self.problems.append(problem)

    def check_table(self, plans):
        path = pathlib.Path(self.meshc.root) / FOLDER / "README.md"
        text = path.read_text(encoding="utf-8")
        rows = "\n".join(make_row(name, plan) for name, plan in plans.items())
        found = re.search(rf"^{re.escape(HEAD)}\n(\|[-|]+\|)\n((?:\|.*\n)*)", text, re.MULTILINE)
        if not found:
            self.problems.append(f"{path}: no table begins with {HEAD}")
        elif self.update:
            path.write_text(text[:found.start(2)] + rows + "\n" + text[found.end(2):],
                            encoding="utf-8")
        else:
            self.expect(found[2] == rows + "\n", f"{path}: the table is\n{found[2]}expected\n{rows}")

    def check_collectives(self, name, plan, expected):
        found = collections.defaultdict(list)
        for entry in plan["collectives"]:
            found[entry["kind"], entry["phase"]].append(entry["payload_elements"])
        again = {("all_gather", "backward"): gathered_again().get(name, [])}
        for key in found.keys() | expected.keys():
            there = sorted(found[key])
            wanted = sorted(expected.get(key, []) * BLOCKS + again.get(key, []))
            self.expect(there == wanted, f"{name}: {key} of {there} elements, expected {wanted}")

    def check_spatial(self, plan):
        """Two rows of the own block's width at most by each exchange, and sums of
        gradients and of the mean over all rows."""
        count = collections.Counter((entry["kind"], entry["phase"])
                                    for entry in plan["collectives"])
        convolutions = 6
        self.expect(count == {("exchange", "forward"): convolutions,
                              ("exchange", "backward"): convolutions - 1,
                              ("all_reduce", "forward"): 1,
                              ("all_reduce", "backward"): convolutions},
                    f"spatial: {dict(count)}")
        two_rows = 2 * 4 * 4 * max(256 * 16, 128 * 32)
        for entry in plan["collectives"]:
            if entry["kind"] == "exchange":
                self.expect(entry["wire_bytes_per_device"] <= two_rows,
                            f"spatial: {entry['id']} sends {entry['wire_bytes_per_device']} bytes")

    def plan(self, name, *flags):
        sizes = [f"-D{size}={value}" for size, value in SIZES.get(name, {}).items()]
        return self.meshc.plan(f"{FOLDER}/{name}.mesh", *sizes, *flags)

    def check_computation(self, name, plan):
        alone = self.plan(name, "--mesh", "", "--layout", "")
        whole = alone["totals"]["flops_per_device"]
        part = plan["totals"]["flops_per_device"]
        self.expect(part * plan["devices"] <= whole * (1 + REPEATED[name]),
                    f"{name}: {part} flop on each of {plan['devices']} devices, {whole} on one")

    def check_gpus(self, name, plan):
        """What is sent is the same; hybrid.mesh takes two steps, since NCCL scatters and
        completes nothing at once."""
        if name == "hybrid":
            return
        on_gpus = self.plan(name, "--machine", "h100")
        self.expect(describe_collectives(on_gpus) == describe_collectives(plan),
                    f"{name}: {describe_collectives(on_gpus)} on GPUs")

    def check_worse(self, plans):
        folder = pathlib.Path(self.meshc.root) / FOLDER
        said = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
        for file, found, written, spec, tell, tell_good in WORSE:
            changed = pathlib.Path(self.meshc.folder.name) / spec
            shutil.copytree(folder, changed)
            text = (changed / f"{file}.mesh").read_text(encoding="utf-8")
            text, count = re.subn(found, written, text)
            self.expect(count == 2, f"{file}.mesh: {count} places of {found}")
            (changed / f"{file}.mesh").write_text(text, encoding="utf-8")
            plan = self.meshc.plan(str(changed / f"{spec}.mesh"))
            sentence = f"{tell(plan)} instead of {tell_good(plans[spec]).split()[0]}."
            self.expect(sentence in said, f"README.md does not say '{sentence}'")

    def check_curve(self, name, sizes, reduction):
        spec = f"{FOLDER}/{name}.mesh"
        flags = [f"-D{size}={value}" for size, value in sizes.items()]
        plan = self.meshc.plan(spec, *flags)
        parameters = sum(tensor["bytes_global"] // 4 for tensor in plan["tensors"]
                         if tensor["role"] == "param")
        model = Trained(self.meshc, spec, sizes, reduction, parameters, sizes["lr"])
        *outer, axis = (axis["name"] for axis in plan["mesh"]["axes"])
        other = ",".join([*(f"{name}=1" for name in outer), f"{axis}=3"])
        alone = ["--mesh", "", "--layout", ""]
        steps = self.meshc.run("compile", spec, *flags, *alone, "--emit", "exec", "-o", "-")
        if steps not in self.curves:
            self.curves[steps] = model.train(model.compile_as(alone))
        self.problems += model.check(self.curves[steps], "one device")
        for mesh in ([], ["--mesh", other]):
            self.problems += model.check(model.train(model.compile_as(mesh)), " ".join(mesh))


class Trained(curves.Blocks):
    """A spec of the folder with the layout that it has, but for `flags`."""

    def compile_as(self, flags):
        program = f"{self.meshc.folder.name}/program"
        self.meshc.run("compile", self.spec, *self.sizes, *flags, "-o", program)
        return program


def main():
    checker = Checker(compiler.Compiler(sys.argv[1], sys.argv[2]), "--update" in sys.argv[3:])
    names = [*collectives(), "spatial"]
    plans = {name: checker.plan(name) for name in names}
    checker.check_table(plans)
    for name, plan in plans.items():
        checker.check_computation(name, plan)
        checker.check_gpus(name, plan)
    for name, expected in collectives().items():
        checker.check_collectives(name, plans[name], expected)
    checker.check_worse(plans)
    checker.check_spatial(plans["spatial"])

    b, pos, d, heads, head, ff, _ = SMALL.values()
    block = 4 * d + head + 2 * pos + heads * head + ff
    for name in ("data", "zero1", "zero2", "zero3", "hybrid", "fsdp", "tensor", "megatron",
                 "sequence", "ulysses"):
        checker.check_curve(name, SMALL, BLOCKS * block + b * pos * d)
    experts, slots = 5, 2
    checker.check_curve("experts", {**SMALL, "experts": experts, "slot": slots},
                        BLOCKS * (block + pos * experts + experts * (1 + slots)) + b * pos * d)
    rows, thin, wide = 14, 2, 3
    checker.check_curve("spatial", {"batch": 3, "y": rows, "x": 6, "thin": thin, "wide": wide,
                                    "class": 5, "lr": 0.01},
                        9 * (3 + 3 * thin + 2 * wide) + 7 * 3 + wide + 5 + 3)
    if checker.problems:
        sys.exit("\n".join(checker.problems))


main()

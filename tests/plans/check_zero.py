"""Rules for roles against the formulas of ZeRO, on meshes of 2 to 8 devices, in f32 and bf16:
bytes that parameters, their gradients and the optimizer's state take on a device, and what is
sent, by kind and phase. Checkpoints of each layout go on under each other one. When and
together with what gathers and sums are sent changes no bit of a loss.

Arguments: meshc, the repository.
"""

import collections
import itertools
import json
import pathlib
import subprocess
import sys

import compiler
import npy

DECODER = "samples/layouts/decoder.mesh"
# Bytes that each element of a parameter takes with Adam, f32: whole, and on N devices.
STAGES = {
    "": (16, 0),
    "state: * -> data": (8, 8),
    "gradients: * -> data": (4, 12),
    "params: * -> data": (0, 16),
}
ROLES = ("param", "gradient", "state")
SMALL = """dim batch = 6
dim in = 5
dim wide = 8
dim out = 4
mesh data = 2
layout { batch -> data }
model small(x: f32[batch, in], target: f32[batch, out]) {
  let h = gelu(dense(x, from = in, to = wide) as first)
  let y = dense(h, from = wide, to = out) as second
  output loss = mean((y - target) ^ 2)
}
data over batch { x = npy("x.npy")  target = npy("target.npy") }
train { minimize loss  optimizer adam(lr = 0.05)  steps 8 }
"""
LAYERS = """dim batch = 6
dim wide = 8
dim layers = 5
mesh data = 2
layout { batch -> data  params: * -> data }
model layered(x: f32[batch, wide], target: f32[batch, wide]) {
  let h = x
  for layer in layers { h = h + tanh(dense(h, from = wide, to = wide') as inner)[wide' = wide] }
  output loss = mean((h - target) ^ 2)
}
data over batch { x = npy("x.npy")  target = npy("target.npy") }
train { minimize loss  optimizer adam(lr = 0.05)  steps 6 }
"""


class Test:
    def __init__(self, meshc):
        self.meshc = meshc
        self.folder = pathlib.Path(meshc.folder.name)
        self.problems = []

    def expect(self, holds, problem):
        if not holds:
            self.problems.append(problem)

    def plan(self, stage, devices, *flags):
        layout = "batch -> data" + (f", {stage}" if stage else "")
        return self.meshc.plan(DECODER, "--mesh", f"data={devices}", "--layout", layout, *flags)

    def check_memory(self, stage, devices):
        plan = self.plan(stage, devices)
        parameters = {tensor["name"]: tensor["bytes_global"] // 4 for tensor in plan["tensors"]
                      if tensor["role"] == "param"}
        elements = sum(parameters.values())
        taken = collections.Counter()
        for tensor in plan["tensors"]:
            if tensor["role"] != "gradient" or tensor.get("gradient_of_name") in parameters:
                taken[tensor["role"]] += tensor["bytes_per_device"]
            unruled = [dim["name"] for dim in tensor["dims"] if dim["axes"] and not dim.get("rules")]
            self.expect(tensor["role"] == "gradient" and tensor.get("gradient_of_name") not in parameters
                        or not unruled, f"{tensor['name']}: no rule splits {unruled}")
        whole, split = STAGES[stage]
        found = sum(taken[role] for role in ROLES)
        # Adam's step is one number.
        self.expect(found <= (whole + split / devices) * elements + 64,
                    f"{stage} on {devices}: {found / elements} bytes a parameter, {dict(taken)}")

    def check_traffic(self, stage, devices):
        """An all_reduce sends what a reduce_scatter and an all_gather do, and f32 travels."""
        plan = self.plan(stage, devices)
        bytes_of = sum(tensor["bytes_global"] for tensor in plan["tensors"]
                       if tensor["role"] == "param")
        sent = collections.Counter()
        for entry in plan["collectives"]:
            sent[entry["kind"], entry["phase"]] += entry["wire_bytes_per_device"] * entry["repeat"]
        part = bytes_of * (devices - 1) // devices
        scattered = {("reduce_scatter", "backward"): part}
        wanted = {"": {("all_reduce", "backward"): 2 * part},
                  "params: * -> data": {**scattered, ("all_gather", "forward"): part,
                                        ("all_gather", "backward"): self.get_again(plan, devices)},
                  }.get(stage, {**scattered, ("all_gather", "update"): part})
        self.expect(dict(sent) == wanted, f"{stage} on {devices}: sent {dict(sent)}, not {wanted}")

    def get_again(self, plan, devices):
        """Bytes that a device sends of parameters for the backward phase, of all blocks but the
        last, which is still there: weights, and the gain of the norm whose input has a
        gradient."""
        read = [tensor["bytes_global"] for tensor in plan["tensors"]
                if tensor["role"] == "param" and tensor["name"].startswith("b1/")
                and (len(tensor["dims"]) > 1 or tensor["name"] == "b1/norm2/gain")]
        assert len(read) == 7, read
        return sum(read) * (devices - 1) // devices

    def check_narrow(self):
        """Weights that are used in 16 bits travel so; sums of gradients are f32."""
        plan = self.plan("params: * -> data", 8, "--precision", "bf16")
        weights = sum(tensor["bytes_global"] for tensor in plan["tensors"]
                      if tensor["role"] == "param" and len(tensor["dims"]) > 1)
        sent = collections.Counter()
        for entry in plan["collectives"]:
            if entry["payload_elements"] > 4096:
                sent[entry["kind"]] += entry["wire_bytes_per_device"]
        # One of two blocks twice.
        self.expect(sent == {"all_gather": 3 * weights // 2 * 7 // 16,
                             "reduce_scatter": weights * 7 // 8},
                    f"bf16: {dict(sent)} sent of weights of {weights} bytes")

    def run(self, program, *arguments):
        done = subprocess.run([str(word) for word in (program, *arguments)], capture_output=True,
                              text=True, check=False, timeout=300)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def losses(self, program, *flags):
        lines = self.folder / "metrics"
        lines.unlink(missing_ok=True)
        self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--metrics", lines,
                 *flags)
        return [json.loads(line)["loss"] for line in
                lines.read_text(encoding="utf-8").splitlines()]

    def write_data(self, **widths):
        for name, width in widths.items():
            values = [((7 * i * i + 3 * i) % 41 - 20) / 16 for i in range(12 * width)]
            npy.write(self.folder / f"{name}.npy", values, [12, width])

    def check_checkpoints(self):
        """Half a training under one layout and the rest under another has the losses of all of
        it under one that splits nothing but the batch: to rounding of sums, which each mesh has
        its order of."""
        self.write_data(x=5, target=4)
        spec = self.folder / "small.mesh"
        spec.write_text(SMALL, encoding="utf-8")
        programs = {}
        for number, stage in enumerate(STAGES):
            programs[stage] = self.folder / f"program-{number}"
            layout = "batch -> data" + (f", {stage}" if stage else "")
            self.meshc.run("compile", str(spec), "--layout", layout, "-o", str(programs[stage]))

        wanted = self.losses(programs[""])
        assert wanted[-1] < 0.9 * wanted[0], wanted
        for number, (one, other) in enumerate(itertools.product(STAGES, STAGES)):
            saved = self.folder / f"saved-{number}"
            first = self.losses(programs[one], "--steps", 4, "--save", saved)
            found = first + self.losses(programs[other], "--resume", saved)
            self.expect(len(found) == len(wanted) and
                        all(abs(a - b) <= 2e-6 * abs(b) for a, b in zip(found, wanted)),
                        f"from {one or 'whole'} to {other or 'whole'}: {found}, not {wanted}")

    def check_orders(self):
        """Layers ahead that gathers are sent, and what goes in one transfer."""
        self.write_data(x=8, target=8)
        spec = self.folder / "layers.mesh"
        spec.write_text(LAYERS, encoding="utf-8")
        found = {}
        for flags in ((), ("--prefetch", "1"), ("--prefetch", "2"), ("--bucket-bytes", "0"),
                      ("--prefetch", "1", "--bucket-bytes", "0")):
            program = self.folder / "layers"
            self.meshc.run("compile", str(spec), *flags, "-o", str(program))
            for run in ((), ("--processes", "2")):
                found[flags + run] = self.losses(program, *run)
        wanted = found[()]
        assert len(wanted) == 6 and wanted[-1] < 0.9 * wanted[0], wanted
        for flags, losses in found.items():
            self.expect(losses == wanted, f"{' '.join(flags)}: {losses}, not {wanted}")


def main():
    test = Test(compiler.Compiler(sys.argv[1], sys.argv[2]))
    for stage in STAGES:
        for devices in (2, 4, 8):
            test.check_memory(stage, devices)
            test.check_traffic(stage, devices)
    test.check_narrow()
    test.check_checkpoints()
    test.check_orders()
    if test.problems:
        sys.exit("\n".join(test.problems))


main()

"""Compiles what gpu_run.py measures: gpu_cases.py MESHC FOLDER [options].

Trainings on meshes of 1, 2, 4 and 8 devices and other programs, and their losses on this
machine's CPU, unsplit; small ones for compute-sanitizer; kernels over large tensors; the
decoder blocks and GPT-2 in bf16; the plans whose products are timed. A list of all goes to
FOLDER/cases.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

# axes, layout
MESHES = [({"data": 1}, ""), ({"data": 2}, "batch=data"),
          ({"data": 2, "model": 2}, "batch=data,{model}=model"),
          ({"data": 4, "model": 2}, "batch=data,{model}=model")]

# Of a training that is timed; two before them warm up. The losses after them are compared.
STEPS = 10

# name, spec, the dimension that the second axis splits, small sizes
TRAININGS = [
    ("mlp", "samples/mlp.mesh", "hidden", {"batch": 16, "pixel": 12, "hidden": 8}),
    ("blocks", "samples/transformer_block.mesh", "heads",
     {"batch": 8, "pos": 5, "d_model": 8, "heads": 2, "d_head": 4, "d_ff": 12}),
]

LAYER = {"batch": 2, "pos": 256, "d_model": 256, "heads": 4, "d_ff": 1024, "layers": 3}
SPLIT = ["--mesh", "data=2,model=2"]

# Programs with what the trainings do not have: name, spec, sizes, flags of the program on
# the GPU, and those that the CPU needs, too.
PROGRAMS = [
    ("convolutions", "samples/convnet.mesh", {"batch": 16}, [], []),
    ("lookup", "bench/cliffs/lookup.mesh", {}, [], []),
    ("experts", "samples/layouts/experts.mesh", {"batch": 8, "pos": 64}, [], []),
    ("gpt2, f32", "samples/gpt2.mesh", {**LAYER, "vocab": 5003}, SPLIT, []),
    ("gpt2, bf16", "samples/gpt2.mesh", {**LAYER, "vocab": 5003}, SPLIT,
     ["--precision", "bf16"]),
    ("gpt2, fp16", "samples/gpt2.mesh", {**LAYER, "vocab": 5003}, SPLIT,
     ["--precision", "fp16"]),
    ("gpt2, small tiles", "samples/gpt2.mesh", {**LAYER, "vocab": 5003},
     [*SPLIT, "--tile-bytes", "65536"], []),
    ("bert", "samples/bert.mesh", {**LAYER, "vocab": 3001}, SPLIT, []),
    ("text", "samples/text.mesh", {"batch": 8}, [], []),
    ("positions split", "samples/layouts/sequence.mesh", {"batch": 2}, [], []),
    ("pictures split", "samples/layouts/spatial.mesh", {}, [], []),
    ("parameters split", "samples/layouts/fsdp.mesh", {"batch": 8, "pos": 64}, [], []),
    ("gru", "bench/gru.mesh", {}, [], []),
    ("residual", "bench/residual.mesh", {}, [], []),
    *((name.replace("_", " "), f"bench/cliffs/{name}.mesh", {}, [], []) for name in (
        "tables", "batch_last", "depthwise", "large_scores", "long_attention", "merged",
        "patchify", "relative", "small_images", "windowed")),
]
# In a dry run: a put, collectives of experts.
SMALL_PROGRAMS = [
    ("lookup", "bench/cliffs/lookup.mesh", {"vocab": 40, "tokens": 12, "d": 8}, [], []),
    ("experts", "samples/layouts/experts.mesh",
     {"batch": 8, "pos": 8, "d": 16, "heads": 2, "d_head": 8, "d_ff": 16}, [], []),
]
# Of which data sheets tell what a step should take.
MACHINES = ["a100", "h100", "h200"]

ROWS = [("rows of 1024", {"rows": 65536, "columns": 1024}),
        ("rows of 8192", {"rows": 8192, "columns": 8192}),
        ("rows of 32768", {"rows": 2048, "columns": 32768})]
SMALL_ROWS = [("rows of 136", {"rows": 5, "columns": 136})]

# spec in gpu_kernels/, other sizes, and what its kernels are, by phase
KERNELS = [
    ("elementwise", {"inner": 64}, {"forward": "elementwise"}),
    ("gelu", {"inner": 64}, {"forward": "elementwise", "backward": "elementwise"}),
    ("softmax", {"inner": 64}, {"forward": "forward rows", "backward": "backward rows"}),
    ("layer_norm", {"inner": 64}, {"forward": "forward rows", "backward": "backward rows"}),
    ("adam", {"inner": 64}, {"update": "elementwise"}),
]

# The decoder blocks and GPT-2 beside PyTorch and JAX.
PEER_SIZES = {"batch": 8, "pos": 2048, "d_model": 2048, "heads": 16, "d_head": 128, "d_ff": 8192}
SMALL_PEER_SIZES = {"batch": 2, "pos": 8, "d_model": 16, "heads": 2, "d_head": 8, "d_ff": 24}
GPT2_SIZES = {"batch": 16, "pos": 1024}
SMALL_GPT2_SIZES = {"batch": 2, "pos": 8, "d_model": 16, "heads": 2, "layers": 2, "vocab": 48}


class Cases:
    def __init__(self, arguments):
        self.arguments = arguments
        self.cases = []
        self.files = 0

    def run(self, command, spec, sizes, *flags, **options):
        subprocess.run([self.arguments.meshc, command, ROOT / spec, *flags,
                        *(f"-D{key}={value}" for key, value in sizes.items())],
                       check=True, **options)

    def compile(self, spec, sizes, *flags):
        """The name of an executable."""
        name = f"{self.files:02}-cuda"
        self.files += 1
        self.run("compile", spec, sizes, "--target", "cuda", "--gpu", self.arguments.gpu, *flags,
                 "-o", self.arguments.folder / name)
        return name

    def get_loss(self, spec, sizes, *flags):
        """After a measurement's steps, on the CPU."""
        name = self.arguments.folder / "loss.json"
        with name.open("w+") as output:
            self.run("run", spec, sizes, "--mesh", "data=1", "--layout", "", *flags,
                     "--bench", str(STEPS), stdout=output)
            output.seek(0)
            loss = json.load(output)["loss"]
        name.unlink()
        return loss

    def plan(self, spec, sizes, *flags):
        """The name of a plan, as `meshc explain` would read it."""
        name = f"{self.files:02}-plan"
        self.files += 1
        cache = self.arguments.folder / "plans"
        self.run("plan", spec, sizes, "--target", "cuda", *flags, "-o", os.devnull,
                 env={**os.environ, "MESHC_CACHE_DIR": str(cache)})
        (last,) = cache.glob("last-plan-*")
        last.rename(self.arguments.folder / name)
        cache.rmdir()
        return name

    def read_plan(self, spec, sizes, *flags):
        name = self.arguments.folder / "plan.json"
        self.run("plan", spec, sizes, "--target", "cuda", "--emit", "json", *flags, "-o", name)
        plan = json.loads(name.read_text())
        name.unlink()
        return plan

    def predict(self, spec, sizes, *flags):
        """Of a step of one device, by machine."""
        return {machine: self.read_plan(spec, sizes, *flags, "--machine", machine)
                         ["totals"]["step_us"] / 1000 for machine in MACHINES}

    def add(self, kind, name, **fields):
        self.cases.append({"kind": kind, "name": name, **fields})

    def add_trainings(self):
        for name, spec, split, small in TRAININGS:
            sizes = small if self.arguments.small else {}
            reference = self.get_loss(spec, sizes)
            for axes, rule in MESHES:
                mesh = ",".join(f"{axis}={size}" for axis, size in axes.items())
                layout = rule.format(model=split)
                flags = ["--mesh", mesh, "--layout", layout]
                plan = self.read_plan(spec, sizes, *flags)
                self.add("training", name, mesh=mesh, layout=layout, steps=STEPS,
                         devices=plan["devices"], reference_loss=reference,
                         launches=plan["devices"] * sum(plan["totals"]["launches"].values()),
                         predicted_ms=self.predict(spec, sizes, *flags)
                         if plan["devices"] == 1 else {},
                         cuda=self.compile(spec, sizes, *flags))
            # compute-sanitizer is slow.
            self.add("sanitized", name, devices=4, cuda=self.compile(
                spec, small, "--mesh", "data=2,model=2", "--layout",
                f"batch=data,{split}=model"))
            self.add("products", name,
                     plan=self.plan(spec, sizes, "--mesh", "data=1", "--layout", ""))

    def add_programs(self):
        for name, spec, sizes, flags, common in \
                SMALL_PROGRAMS if self.arguments.small else PROGRAMS:
            plan = self.read_plan(spec, sizes, *flags, *common)
            mesh = ",".join(f"{axis['name']}={axis['size']}" for axis in plan["mesh"]["axes"])
            self.add("program", name, mesh=mesh, steps=STEPS, devices=plan["devices"],
                     reference_loss=self.get_loss(spec, sizes, *common),
                     predicted_ms=self.predict(spec, sizes, *flags, *common)
                     if plan["devices"] == 1 else {},
                     cuda=self.compile(spec, sizes, *flags, *common))

    def add_kernels(self):
        for name, others, families in KERNELS:
            if self.arguments.small:
                others = {key: 2 for key in others}
            for rows, sizes in SMALL_ROWS if self.arguments.small else ROWS:
                self.add("kernels", f"{name}, {rows}", families=families,
                         cuda=self.compile(f"bench/gpu_kernels/{name}.mesh",
                                           {**sizes, **others}))

    def add_peers(self):
        is_small = self.arguments.small
        for name, spec, sizes, mesh, scripts, what in (
                ("blocks in bf16", "samples/transformer_block.mesh",
                 SMALL_PEER_SIZES if is_small else PEER_SIZES, "data=1",
                 {"JAX": "jax_block.py", "PyTorch": "torch_block.py"},
                 "four decoder blocks, unfused attention on all sides, one step of sgd"),
                ("gpt2 in bf16", "samples/gpt2.mesh",
                 SMALL_GPT2_SIZES if is_small else GPT2_SIZES, "data=1,model=1",
                 {"PyTorch": "torch_gpt2.py"},
                 "GPT-2 small, PyTorch with transformers' model, fused attention and fused Adam")):
            flags = ["--mesh", mesh, "--layout", "", "--precision", "bf16"]
            self.add("peers", name, sizes=sizes, scripts=scripts, what=what,
                     predicted_ms=self.predict(spec, sizes, *flags),
                     cuda=self.compile(spec, sizes, *flags))
            self.add("products", name, plan=self.plan(spec, sizes, *flags))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("meshc", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gpu", default="sm_80,sm_90", help="architectures")
    parser.add_argument("--small", action="store_true", help="sizes for a dry run")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cases = Cases(arguments)
    cases.add_trainings()
    cases.add_programs()
    cases.add_kernels()
    cases.add_peers()
    # By which a later run of the measurement knows these executables again.
    made = datetime.datetime.now(datetime.timezone.utc).isoformat()
    (arguments.folder / "cases.json").write_text(
        json.dumps({"made": made, "cases": cases.cases}, indent=1) + "\n")


main()

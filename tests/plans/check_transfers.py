"""Collectives that go in one transfer change nothing but the number of transfers.

Each case is planned and trained with the usual buckets, with small ones and with none.
The collectives are the same in all of them, with their payloads; every device starts
them in one order, the same bits come out on CPUs, and on emulated GPUs in one process
and in one for each. Sizes do not divide, so that blocks have padding.
"""

import os
import sys

import compiler
import curves

SMALL, NONE = ["--bucket-bytes", "256"], ["--bucket-bytes", "0"]

MLP_LAYOUTS = [("a=2,b=2", "batch=a,hidden=b"), ("a=2,b=3", "batch=a,hidden=b"),
               ("a=4", "batch=a"), ("a=2,b=2", "batch=a+b"),
               ("a=2,b=3", "batch=b,pixel=a")]
BLOCK_LAYOUTS = [("a=2,b=2", "batch=a,heads=b,d_ff=b"), ("a=2,b=3", "batch=a,d_model=b"),
                 ("a=4", "batch=a"), ("a=2,b=3", "key_pos=a,heads=b,d_ff=b")]
GPU_LAYOUTS = [("a=2,b=2", "batch=a,heads=b,d_ff=b"), ("a=2,b=3", "batch=a,d_model=b")]


def what_is_sent(plan):
    """Everything but the order, which holding back may change."""
    names = {tensor["id"]: tensor["name"] for tensor in plan["tensors"]}
    return sorted((entry["kind"], entry["axes"], entry["phase"], entry["payload_bytes"],
                   entry["wire_bytes_per_device"], names[entry["tensor"]], entry["cause"]["rule"])
                  for entry in plan["collectives"])


def check_plans(meshc, model, mesh, layout):
    arguments = [model.spec, *model.sizes, "--mesh", mesh, "--layout", layout]
    usual = meshc.plan(*arguments)
    small = meshc.plan(*arguments, *SMALL)
    none = meshc.plan(*arguments, *NONE)
    place = f"{model.spec} on {mesh}, {layout}"
    for plan in (usual, small):
        if what_is_sent(plan) != what_is_sent(none):
            yield f"{place}: buckets change what is sent"
    counts = [plan["totals"]["transfers"] for plan in (usual, small, none)]
    if not counts[0] <= counts[1] <= counts[2] or counts[0] == counts[2]:
        yield f"{place}: {counts} transfers with usual, small and no buckets"
    if counts[2] != len(none["collectives"]):
        yield f"{place}: {counts[2]} transfers without buckets"
    largest = max((transfer["payload_bytes"] for transfer in small["transfers"]
                   if len(transfer["collectives"]) > 1), default=0)
    if largest > 256:
        yield f"{place}: a bucket of 256 bytes has {largest}"
    # What the update reads has computation beside it, or nothing comes any more.
    for plan in (usual, none):
        phase = {op["id"]: op["phase"] for op in plan["ops"]}
        last = max(int(op["id"][1:]) for op in plan["ops"] if op["phase"] == "backward")
        for transfer in plan["transfers"]:
            overlap = transfer["overlap"]
            reader = overlap["first_reader"]
            if (overlap["exposed"] and reader and phase[reader] == "update"
                    and int(reader[1:]) < last):
                yield f"{place}: {transfer['id']} is exposed before the backward pass ends"


def check_curves(model, mesh, layout, libraries=None):
    target = ["--target", "cuda", "--gpu", "host"] if libraries else []
    devices = 1
    for axis in mesh.split(","):
        devices *= int(axis.split("=")[1])
    found = []
    for bucket in ([], SMALL, NONE):
        program = model.compile(mesh, layout, *target, *bucket)
        if not libraries:
            found.append(model.train(program))
            continue
        for gpus, flags in (("1", ["--devices-per-gpu", str(devices)]), (str(devices), [])):
            environment = dict(os.environ, MESHC_CUDA_LIBRARIES=libraries,
                               MESHC_EMULATION_SEED="1", MESHC_EMULATION_DEVICES=gpus)
            found.append(model.train(program, *flags, environment=environment))
    if any(curve != found[0] for curve in found):
        yield f"{model.spec} on {mesh}, {layout}: {'GPUs' if libraries else 'CPUs'}: {found}"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    curves.write_data(meshc.folder.name, side=3, classes=5)
    classifier = curves.make_classifier(
        meshc, {"batch": 10, "pixel": 9, "hidden": 7, "class": 5})
    blocks = curves.make_blocks(meshc)
    blocks.points = (1, 4)
    problems = []
    for model, layouts in ((classifier, MLP_LAYOUTS), (blocks, BLOCK_LAYOUTS)):
        for mesh, layout in layouts:
            problems += check_plans(meshc, model, mesh, layout)
            problems += check_curves(model, mesh, layout)
    for mesh, layout in GPU_LAYOUTS:
        problems += check_curves(blocks, mesh, layout, sys.argv[3])
    if problems:
        sys.exit("\n".join(problems))


main()

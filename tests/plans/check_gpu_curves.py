"""Training on GPUs gives the curve of the CPU mesh.

The executables for target cuda run with the emulated driver, which executes what is
queued out of order as far as streams and events allow, under several seeds: a
missing wait or a wrong offset shows as another curve. All seeds, with graphs of
whole programs and without, give the same bits. The mesh is all on one GPU, and then
on one GPU for each device, in processes that the program starts by itself and that
talk through the emulated NCCL.
"""

import os
import pathlib
import sys

import compiler
import curves

MLP_LAYOUTS = [
    ("a=1", ""), ("a=2", "batch=a"), ("a=2,b=2", "batch=a,hidden=b"), ("a=4", "hidden=a"),
    ("a=2,b=3", "batch=b,pixel=a"), ("a=8", "batch=a"), ("a=2,b=2,c=2", "batch=c+a,hidden=b"),
]

# Sizes with which products take the relu and its gradient along.
EVEN_LAYOUTS = [("a=1", ""), ("a=2,b=2", "batch=a,hidden=b"), ("a=3", "batch=a")]

BLOCK_LAYOUTS = [
    ("a=1", ""), ("a=2", "pos=a"), ("a=2,b=2", "batch=a,heads=b,d_ff=b"),
    ("a=2,b=3", "key_pos=b,d_head=a"), ("a=4,b=2", "batch=a,heads=b,d_ff=b"),
]


def compare(model, mesh, layout, libraries, *options):
    program = model.compile(mesh, layout, "--target", "cuda", "--gpu", "host", *options)
    problems = []
    first = None
    devices = str(curves.get_devices(mesh))
    together = ["--devices-per-gpu", devices]
    for seed, gpus, flags in (("1", "1", together), ("2", "1", together + ["--no-graphs"]),
                              ("3", devices, [])):
        environment = dict(os.environ, MESHC_CUDA_LIBRARIES=libraries,
                           MESHC_EMULATION_SEED=seed, MESHC_EMULATION_DEVICES=gpus)
        curve = model.train(program, *flags, environment=environment)
        what = f"{gpus} GPUs, {mesh}, {layout}, seed {seed} {' '.join(flags)}"
        problems += model.check(curve, what)
        first = first or curve
        if curve != first:
            problems.append(f"{what}: other bits than seed 1: {curve} {first}")
    return problems


def check_wide_layers(meshc, root, libraries):
    """Gradients of layers that are completed one by one, where they are stacked: in the
    stack, if kernels may access them there, else beside it."""
    problems = []
    # Layers of 16 bytes times a number, and of 12 bytes more.
    for group, options in ((40, []), (39, ["--bucket-bytes", "0"])):
        sizes = {"batch": 3, "group": group, "in": 41, "out": 41, "layers": 2}
        layers = curves.Blocks(
            meshc, str(root / "tests/plans/wide_layers.mesh"), sizes,
            # Forward and backward; the mean over all, in three levels of blocks of 64.
            reduction=2 * 2 * (41 + 41) + 3 + 3 * 64, parameters=0, adam_rate=0)
        layers.points = (1, 2)
        problems += layers.compare("", "")
        options += ["--machine", "v100"]
        plan = meshc.plan(layers.spec, *layers.sizes, "--mesh", "a=3", *options)
        sent = [entry["payload_bytes"] for entry in plan["collectives"]]
        if sent != [group * 41 * 41 * 4] * 4:
            problems.append(f"{layers.spec}: collectives of {sent} bytes")
        problems += compare(layers, "a=3", "batch=a", libraries, *options)
    return problems


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    libraries = sys.argv[3]
    curves.write_data(meshc.folder.name, side=3, classes=5)
    problems = []
    classifier = curves.make_classifier(
        meshc, {"batch": 10, "pixel": 9, "hidden": 7, "class": 5})
    even = curves.make_classifier(
        meshc, {"batch": 10, "pixel": 9, "hidden": 16, "class": 5})
    blocks = curves.make_blocks(meshc)
    # Emulation is slow.
    blocks.points = (1, 4)
    for model, layouts in ((classifier, MLP_LAYOUTS), (even, EVEN_LAYOUTS),
                           (blocks, BLOCK_LAYOUTS)):
        problems += model.compare("", "")
        for mesh, layout in layouts:
            problems += compare(model, mesh, layout, libraries)
    problems += check_wide_layers(meshc, pathlib.Path(sys.argv[2]), libraries)
    if problems:
        sys.exit("\n".join(problems))


main()

"""Training in 16 bits on GPUs gives a curve of the CPU mesh's.

Both samples, in bf16 and in fp16 with a loss scale so large that the first steps are
skipped, on 1, 2, 4 and 8 emulated GPUs that several devices share, and with the same
bits on one for each device, in processes. How far layouts of the CPU mesh lie apart in
the same run says how far a curve may lie from theirs (curves.Spread). Trainings of a
wrong gradient lie farther: without the terms of one of two devices, and, where the size
of a gradient matters, twice as large.
"""

import os
import pathlib
import sys

import compiler
import curves


class Sample:
    """A sample with small sizes, and layouts that split its sums."""

    def __init__(self, meshc, make, scale, terms, wrong, cpu, gpus):
        self.meshc = meshc
        self.make = make
        self.scale = scale
        self.terms = terms
        self.wrong = wrong
        self.cpu = cpu
        self.gpus = gpus

    def make_model(self, precision, terms=None):
        """The model in that precision, its loss the mean of `terms` instead."""
        model = self.make(self.meshc)
        # Fewer steps than in f32: emulation is slow.
        model.steps, model.points = 12, (1, 2, 5)
        text = pathlib.Path(self.meshc.root, model.spec).read_text(encoding="utf-8")
        setting = {"bf16": "bf16", "fp16": f"fp16(initial_scale = {self.scale})"}[precision]
        for old, new in ((self.terms, terms or self.terms),
                         ("minimize  loss", f"minimize  loss\n  precision {setting}")):
            assert text.count(old) == 1, (old, text)
            text = text.replace(old, new)
        model.spec = f"{self.meshc.folder.name}/variant.mesh"
        pathlib.Path(model.spec).write_text(text, encoding="utf-8")
        return model


def make_samples(meshc):
    missing = "where(iota(batch) < batch / 2, {0}, stop_gradient({0}))"
    return [
        Sample(meshc, lambda meshc: curves.make_classifier(
            meshc, {"batch": 16, "pixel": 16, "hidden": 24, "class": 5}), "2 ^ 22",
               "cross_entropy(logits, label, over = class)",
               # adam divides by the size of a gradient.
               {"without the terms of one device": missing},
               [("a=1", ""), ("a=4", "hidden=a"), ("a=2,b=2", "batch=a,pixel=b"),
                ("a=2,b=3", "hidden=a,pixel=b"), ("a=2,b=2", "batch=a,hidden=b")],
               [("a=1", ""), ("a=2", "pixel=a"), ("a=2,b=2", "batch=a,hidden=b"),
                ("a=4,b=2", "batch=a,hidden=b")]),
        Sample(meshc, curves.make_blocks, "2 ^ 20", "difference * difference",
               {"without the terms of one device": missing,
                "with a gradient twice as large": "2 * ({0}) - stop_gradient({0})"},
               [("a=1", ""), ("a=2", "pos=a"), ("a=2", "d_model=a"),
                ("a=2,b=2", "batch=a,heads=b,d_ff=b"), ("a=2,b=3", "key_pos=b,d_head=a")],
               [("a=1", ""), ("a=2", "pos=a"), ("a=2,b=2", "batch=a,heads=b,d_ff=b"),
                ("a=4,b=2", "batch=a,heads=b,d_ff=b")])]


def get_skipped(model, curve):
    """How many steps were skipped before each, or whether the second was where the
    program does not tell: the batch is always the same there, so the loss is, too."""
    if model.metrics:
        return [step["fp16/skipped_steps"] for step in model.metrics]
    return [int(curve[0] == curve[1])]


def check_gpus(model, spread, skipped, mesh, layout, libraries):
    program = model.compile(mesh, layout, "--target", "cuda", "--gpu", "host")
    devices = str(curves.get_devices(mesh))
    together = None
    for seed, gpus, flags in (("2", "1", ["--devices-per-gpu", devices]), ("3", devices, [])):
        environment = dict(os.environ, MESHC_CUDA_LIBRARIES=libraries,
                           MESHC_EMULATION_SEED=seed, MESHC_EMULATION_DEVICES=gpus)
        curve = model.train(program, *flags, environment=environment)
        what = f"{gpus} GPUs, {mesh}, {layout}"
        yield spread.find_problem(curve, what)
        if skipped and get_skipped(model, curve) != skipped:
            yield f"{what}: skips {get_skipped(model, curve)}, expected {skipped}"
        together = together or curve
        if curve != together:
            yield f"{what}: {curve}, on one GPU {together}"


def check(sample, precision, libraries):
    model = sample.make_model(precision)
    found, skipped = [], []
    for layout in sample.cpu:
        found.append(model.train(model.compile(*layout)))
        if precision == "fp16":
            skipped.append(get_skipped(model, found[-1]))
    if skipped and (max(skipped[0]) == 0 or skipped != skipped[:1] * len(skipped)):
        yield f"layouts of the CPU mesh skip {skipped}"
    if len(set(map(tuple, found))) < len(found):
        yield f"layouts of the CPU mesh give the same bits, which tells nothing: {found}"
    spread = curves.Spread(found)
    for what, terms in sample.wrong.items():
        wrong = sample.make_model(precision, terms.format(f"({sample.terms})"))
        curve = wrong.train(wrong.compile("a=1", ""))
        if not spread.find_problem(curve, what):
            yield f"a gradient {what} is not noticed: {curve}, {spread.means} {spread.bounds}"
    model = sample.make_model(precision)
    for layout in sample.gpus:
        yield from check_gpus(model, spread, skipped[:1] and skipped[0], *layout, libraries)


def check_overflow(meshc, libraries):
    """Parameters that f16 makes infinite: what relu gets is NaN, since a row of pixels
    has zeros and the infinities have both signs. No loss scale helps."""
    model = make_samples(meshc)[0].make_model("fp16")
    model.steps = 4
    spec = pathlib.Path(model.spec)
    text = spec.read_text(encoding="utf-8")
    for old, new in (("w1: f32[pixel, hidden] = normal(stddev = 0.05)",
                      "w1: f32[pixel, hidden] = normal(stddev = 1000000)"),
                     ("initial_scale = 2 ^ 22", "initial_scale = 1")):
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    spec.write_text(text, encoding="utf-8")
    for flags in (["--target", "cpu"], ["--target", "cuda", "--gpu", "host"]):
        curve = model.train(model.compile("a=1", "", *flags),
                            environment=dict(os.environ, MESHC_CUDA_LIBRARIES=libraries))
        if get_skipped(model, curve) != list(range(1, model.steps + 1)):
            yield f"NaN behind relu: {flags} skip {get_skipped(model, curve)}"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    curves.write_data(meshc.folder.name, side=4, classes=5)
    problems = [f"{sample.terms} in {precision}: {problem}"
                for sample in make_samples(meshc) for precision in ("bf16", "fp16")
                for problem in check(sample, precision, sys.argv[3]) if problem]
    problems += check_overflow(meshc, sys.argv[3])
    if problems:
        sys.exit("\n".join(problems))


main()

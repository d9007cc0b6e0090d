"""Whole trainings: steps of parts, optimizers, checkpoints. Source of the cases: executions of
Mesh-TensorFlow's serialize_training_step and optimizers and checkpoints, and ops_test.py (T10)."""

import functools
import json
import pathlib

import npy
import tensors

from harness import added_up, draw, folder_of

SAMPLES, STEPS = 48, 3


def write_samples(run, **shapes):
    """A folder with a file for each input."""
    folder = folder_of(run)
    for name, shape in shapes.items():
        npy.write(f"{folder}/{name}.npy", *draw("samples " + name, (SAMPLES, *shape)))
    return folder


@functools.cache
def build(run, text, mesh, layout):
    program = run.path("")
    run.meshc.run("compile", run.write(text), "--mesh", mesh, "--layout", layout, "-o", program)
    return program


def train(run, program, folder, *flags, steps=STEPS):
    """What each step says of itself."""
    metrics = run.path(".jsonl")
    run.meshc.execute(program, "train", "--data-dir", folder, "--seed", "3", "--no-eval",
                      "--steps", str(steps), "--metrics", metrics, *flags)
    with open(metrics, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def leave(run, program, folder, *flags, steps=1):
    """The parameters that a training leaves."""
    saved, exported = run.path(""), run.path(".safetensors")
    train(run, program, folder, "--save", saved, *flags, steps=steps)
    run.meshc.execute(program, "export", "--from", saved, "--to", exported)
    return tensors.read(pathlib.Path(exported))


RECOMPUTED = """
mesh m = 2
dim batch = 1
dim d = 2
layout { d -> m }
data over batch { dy = npy("dy.npy") }
fn f(x) {
  let y = x * x + x
  return y
}
model t(dy: f32[batch, d]) {
  param x: f32[d] = zeros
  output y = f(x) as part
  output loss = sum(y * dy)
}
train { minimize loss  optimizer sgd(lr = 1)  recompute "part"  steps 1 }
"""


def check_recomputed(run):
    """T10: x^2 + x of [5, 10] is [30, 110], and its gradient by x, of [2, 3], is [22, 63], when
    a step computes it again: the step leaves [5 - 22, 10 - 63]. Source: ops_test.py,
    recompute_grad."""
    folder, x = folder_of(run), run.path(".npy")
    npy.write(f"{folder}/dy.npy", [2.0, 3.0], [1, 2])
    npy.write(x, [5.0, 10.0])
    given = ([2.0, 3.0], (1, 2))
    run.expect(run.run(RECOMPUTED, {"dy": given}, ("y",), grads=("x",),
                       params={"x": ([5.0, 10.0], (2,))}),
               {"y": [30, 110], "grad x": [22, 63]}, "an evaluation")
    for mesh, layout in (("m=2", "d=m"), ("", "")):
        left = leave(run, build(run, RECOMPUTED, mesh, layout), folder, "--param", f"x={x}")
        run.expect(list(left["x"]), [5 - 22, 10 - 63], f"a step on '{mesh}'")


LAYERS = """
dim batch = 6
dim d = 4
dim wide = 10
dim layers = 3
data over batch { x = npy("x.npy") }
model t(x: f32[batch, d]) {
  let h = x
  for layer in layers {
    h = h + feed_forward(layer_norm(h, over = d) as norm, from = d, wide = wide) as block
  }
  output y = h
  output loss = mean((h - 1) ^ 2)
}
train { minimize loss  optimizer sgd(lr = 0.3)  RECOMPUTE  steps 2 }
"""


def check_recomputed_layers(run):
    """C25: two steps of three layers that the backward pass computes again leave the parameters
    of those that it keeps, under layouts of batch and hidden units. Blocks that compute their
    inputs from their outputs (reversible ones) do not exist in meshc."""
    folder = write_samples(run, x=(4,))
    plain = leave(run, build(run, LAYERS.replace("RECOMPUTE", ""), "", ""), folder, steps=2)
    start = leave(run, build(run, LAYERS.replace("RECOMPUTE", "").replace("0.3", "0"), "", ""),
                  folder)
    run.expect(sum(list(start[name]) != list(plain[name]) for name in plain), 6, "trained")
    text = LAYERS.replace("RECOMPUTE", 'recompute "layer/*"')
    for mesh, layout in (("", ""), ("m=2", "batch=m"), ("m=2", "wide=m"), ("m=4", "batch=m"),
                         ("m=2,n=2", "batch=m,wide=n")):
        left = leave(run, build(run, text, mesh, layout), folder, steps=2)
        run.expect_values(left, plain, f"'{mesh}', {layout}")
        found = run.plan(text, mesh, layout)["totals"]["recomputed"]
        run.expect([entry["units"] for entry in found], [3], f"'{mesh}', {layout}: units")


PARTS = """
dim batch = 16
dim d = 4
dim hidden = 6
data over batch { x = npy("x.npy")  target = npy("target.npy") }
model t(x: f32[batch, d], target: f32[batch, d]) {
  param w: f32[d, hidden] = normal(stddev = 0.5)
  param b: f32[hidden] = zeros
  param v: f32[hidden, d] = normal(stddev = 0.5)
  let h = relu(einsum(x, w -> batch, hidden) + b)
  output loss = mean((einsum(h, v -> batch, d) - target) ^ 2)
}
train { minimize loss  optimizer momentum(lr = 0.2)  steps 3  microbatches PARTS }
"""
WEIGHTS = 4 * 6 + 6 + 6 * 4


def check_parts(run):
    """C24: a batch of 16 by 4 in 1, 2 and 4 parts, over 2 and 4 devices, hidden units over 2
    and both: the losses of one device and one part, and gradients of weights travel once a
    step whatever the number of parts. Only what sums over hidden units goes with each part,
    with the part's share of the samples."""
    folder = write_samples(run, x=(4,), target=(4,))
    expected = None
    # Elements of the weights' gradients over the axis of the batch.
    layouts = {("", ""): {}, ("a=2", "batch=a"): {"a": WEIGHTS},
               ("a=4", "batch=a"): {"a": WEIGHTS}, ("b=2", "hidden=b"): {},
               ("a=2,b=2", "batch=a,hidden=b"): {"a": WEIGHTS // 2}}
    for (mesh, layout), weights in layouts.items():
        for parts in (1, 2, 4):
            what = f"{parts} parts on '{mesh}', {layout}"
            text = PARTS.replace("PARTS", str(parts))
            if parts > 1 or expected is None:
                steps = train(run, build(run, text, mesh, layout), folder)
                losses = [step["loss"] for step in steps]
                if expected is None:
                    expected = losses
                    run.expect(max(losses) - min(losses) > 0.05, True, f"losses move: {losses}")
                run.expect_close(losses, expected, what)
            plan = run.plan(text, mesh, layout)
            over = {axes: count for (_, axes), count in added_up(plan).items() if axes == "a"}
            run.expect(over, weights, f"{what}: elements of gradients")
            if parts == 1:
                continue
            first = plan["totals"]["first_parts"]
            run.expect(first["runs"], parts - 1, f"{what}: parts before the last")
            # y of the part's samples on a device; x has no gradient.
            inside = 16 // parts // 2 ** mesh.count("a=2") * 4 * 4 * mesh.count("b=2")
            run.expect(first["collective_payload_bytes"], inside, f"{what}: bytes of a part")


OPTIMIZERS = """
dim batch = 8
dim io = 128
dim h = 256
data over batch { x = npy("x.npy") }
fn error(x) {
  param w: f32[io, h] = normal(stddev = 0.1)
  param b: f32[h] = zeros
  return mean((einsum(x, w -> batch, h) + b - 1) ^ 2)
}
model t(x: f32[batch, io]) {
  output of_sgd = error(x) as sgd
  output of_momentum = error(x) as momentum
  output of_adam = error(x) as adam
  output of_adafactor = error(x) as adafactor
  output loss = of_sgd + of_momentum + of_adam + of_adafactor
}
train {
  minimize loss
  optimizer sgd(lr = 0.5) for "sgd/*"
  optimizer momentum(lr = 0.5) for "momentum/*"
  optimizer adam(lr = 0.01) for "adam/*"
  optimizer adafactor(lr = 0.05) for "adafactor/*"
  steps 3
}
"""
PLACES = (("", ""), ("a=2", "batch=a"), ("b=2", "h=b"), ("a=2,b=2", "batch=a,h=b"))


def check_optimizers(run):
    """C26: SGD, momentum, Adam and Adafactor of w[128, 256]: three steps have the losses of one
    device on every layout, and what they keep of w is split as w is. An update sends nothing,
    but for Adafactor with h split 128 elements and four numbers. The rules themselves are held
    against loops by the test recipes.optimizers."""
    folder = write_samples(run, x=(128,))
    expected = None
    for mesh, layout in PLACES:
        what = f"'{mesh}', {layout}"
        steps = train(run, build(run, OPTIMIZERS, mesh, layout), folder)
        losses = {name: [step[name] for step in steps] for name in steps[0] if "of_" in name}
        expected = expected or losses
        for name, values in expected.items():
            run.expect_close(losses[name], values, f"{what}, {name}")
            run.expect(abs(values[0] - values[-1]) > 0.01, True, f"{name} moves: {values}")
        run.expect(sorted(losses), ["of_adafactor", "of_adam", "of_momentum", "of_sgd"], "outputs")
        check_states(run, run.plan(OPTIMIZERS, mesh, layout), what, 128 * 256 // (
            2 if "h=b" in layout else 1))


def check_states(run, plan, what, size):
    """Elements of a device: of w, and of the states of each optimizer for it."""
    tensors = {entry["id"]: entry for entry in plan["tensors"]}
    kept = {}
    for entry in plan["tensors"]:
        of = tensors.get(entry.get("state_of"))
        if of and of["name"].endswith("/w"):
            kept.setdefault(of["name"].split("/")[0], []).append(entry["bytes_per_device"] // 4)
    columns = size // 128
    run.expect({name: sorted(sizes) for name, sizes in kept.items()},
               {"momentum": [size], "adam": [size, size], "adafactor": sorted([128, columns])},
               f"{what}: state of a device")
    split = any(dim["name"] == "h" and dim["axes"] for dim in plan["dims"])
    # The mean of each row, and of w and of b how large they and their updates are.
    run.expect(added_up(plan, "update"), {("all_reduce", "b"): 128 + 4} if split else {},
               f"{what}: elements of the update")


def check_checkpoints(run):
    """C31: what is saved under one layout goes on under each other one: the values of the
    checkpoint are the same bits wherever they are saved again, and the next step has the loss
    that it has without a break."""
    folder = write_samples(run, x=(128,))
    programs = {place: build(run, OPTIMIZERS, *place) for place in PLACES}
    whole = train(run, programs[PLACES[0]], folder, steps=3)[-1]
    for place in PLACES[1:]:
        saved = run.path("")
        train(run, programs[place], folder, "--save", saved, steps=2)
        for other, program in programs.items():
            what = f"saved on {place}, goes on on {other}"
            again = run.path("")
            last = train(run, program, folder, "--resume", saved, "--save", again, steps=3)[-1]
            run.expect(last["step"], 3, what)
            run.expect_close([last["loss"]], [whole["loss"]], what)
            if other == PLACES[0]:
                continue
            # Nothing is left to do behind step 2: saved as it is.
            copy = run.path("")
            run.meshc.execute(program, "train", "--data-dir", folder, "--no-eval", "--steps", "2",
                              "--resume", saved, "--save", copy)
            run.meshc.execute(program, "ckpt", "diff", saved, copy)  # exit code 3 where they differ


CASES = {
    "T10": check_recomputed,
    "C25": check_recomputed_layers,
    "C24": check_parts,
    "C26": check_optimizers,
    "C31": check_checkpoints,
}

"""Norms, softmax, mixtures of experts and random numbers. Source of the cases:
Mesh-TensorFlow's layers_test.py (T12), and executions of its layers under layouts."""

import math

from harness import Array, added_up, draw, make, sent

NORMED = """
dim batch = 2
dim c = 3
model t(x: f32[batch, c]) {
  output y = batch_norm(x, over = c) as once
  output z = batch_norm(2 * x + 1, over = c) as twice
}
"""


def check_batch_norm(run):
    """T12: of [[0, 1, 2], [4, 5, 6]] the mean of each channel is taken and its deviation is 2,
    wherever the samples lie; so of twice that and 1. With epsilon 1e-5 beside a variance of 4
    it is 1.2e-6 less than 1. Source: layers_test.py, batch_norm."""
    wanted = [-1.0] * 3 + [1.0] * 3
    params = {name: ([value] * 3, (3,)) for norm in ("once", "twice")
              for name, value in ((f"{norm}/gain", 1.0), (f"{norm}/bias", 0.0),
                                  (f"{norm}/centre", 0.0), (f"{norm}/spread", 1.0))}
    left = ("once/centre", "once/spread")
    run.expect_same(NORMED, [("m=2", "batch=m"), ("m=3", "c=m"), ("m=2,n=3", "batch=m,c=n")],
                    {"x": ([0.0, 1.0, 2.0, 4.0, 5.0, 6.0], (2, 3))}, ("y", "z", *left),
                    {"y": wanted, "z": wanted, "once/centre": [0.2, 0.3, 0.4],
                     "once/spread": [0.9 + 0.1 * 4] * 3},
                    params=params, flags=("--training",))


LAYERS = """
dim batch = 6
dim d = 5
model t(x: f32[batch, d]) {
  output chances = softmax(x, over = d)
  output logs    = log_softmax(x, over = batch)
  output normed  = layer_norm(x, over = d) as layer
  output batched = batch_norm(x, over = d) as batch
  param w: f32[batch, d] = normal()
  output loss = sum((chances + logs + normed + batched) * w)
}
train { minimize loss  optimizer sgd(lr = 0.1)  steps 1 }
"""


def spread_out(values, epsilon=1e-5):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return [(value - mean) / math.sqrt(variance + epsilon) for value in values]


def turn(values, rows, columns):
    return make((columns, rows), lambda j, i: values[i * columns + j])


def check_norms(run):
    """C18: softmax, layer norm and batch norm along split dims and others, by their formulas;
    their gradients are those of one device, which a difference quotient confirms."""
    x, w = draw("C18 x", (6, 5)), draw("C18 w", (6, 5))
    params = {"w": w, "layer/gain": draw("C18 gain", (5,)), "layer/bias": draw("C18 bias", (5,)),
              "batch/gain": ([1.0] * 5, [5]), "batch/bias": ([0.0] * 5, [5]),
              "batch/centre": ([0.0] * 5, [5]), "batch/spread": ([1.0] * 5, [5])}
    rows = [x[0][5 * b:5 * b + 5] for b in range(6)]
    columns = [x[0][d::5] for d in range(5)]
    gain, bias = params["layer/gain"][0], params["layer/bias"][0]
    expected = {
        "chances": [math.exp(value) / sum(map(math.exp, row)) for row in rows for value in row],
        "logs": turn([value - math.log(sum(map(math.exp, column)))
                      for column in columns for value in column], 5, 6),
        "normed": [value * one + other for row in rows
                   for value, one, other in zip(spread_out(row), gain, bias)],
        "batched": turn([value for column in columns for value in spread_out(column)], 5, 6),
    }
    expected["loss"] = [sum(sum(values) * weight for *values, weight in zip(
        *(expected[name] for name in expected), w[0]))]
    grads = ("x", "layer/gain", "batch/bias")
    layouts = [("m=2", "batch=m"), ("m=2", "d=m"), ("m=5", "d=m"), ("m=4", "batch=m"),
               ("m=3,n=2", "batch=m,d=n")]
    outputs = ("chances", "logs", "normed", "batched", "loss")
    options = {"params": params, "flags": ("--training",)}
    whole = run.expect_same(LAYERS, layouts, {"x": x}, outputs, expected, grads=grads, **options)
    # Along one direction: (f(x + e v) - f(x - e v)) / 2e in f32, with e = 1/16.
    way, loss = draw("C18 way", (6, 5))[0], {}
    for side in (-1, 1):
        moved = [value + side / 16 * step for value, step in zip(x[0], way)]
        loss[side] = run.ask(LAYERS, {"x": (moved, (6, 5))}, ("loss",), mesh="", layout="",
                             **options)
    yield
    slope = (loss[1].get()["loss"][0] - loss[-1].get()["loss"][0]) * 8
    found = sum(one * other for one, other in zip(whole.get()["grad x"], way))
    run.expect_close([found], [slope], "gradient by x along a direction", 0.02)


# 64 positions in 8 groups of 8, 4 experts with 4 slots for each group, d = 8.
EXPERTS = """
dim group = 8
dim pos = 8
dim experts = 4
dim slot = 4
dim d = 8
dim d_ff = 6
model t(dy: f32[group, pos, d]) {
  param x: f32[group, pos, d] = normal()
  param router: f32[d, experts'] = normal()
  param w1: f32[experts, d, d_ff] = normal()
  param w2: f32[experts, d_ff, d] = normal()
  let odds   = softmax(einsum(x, router, over = d), over = experts')
  let chosen = argmax(odds, over = experts') == iota(experts')
  let ahead  = rename(chosen, pos -> pos') and iota(pos') < iota(pos)
  let place  = sum(i32(chosen and ahead), over = (pos', experts'))
  let seat   = f32(chosen and place == iota(slot))
  let inbox  = rename(einsum(x, seat, over = pos), experts' -> experts)
  let h      = relu(einsum(inbox, w1, over = d))
  let outbox = rename(einsum(h, w2, over = d_ff), experts -> experts')
  output y   = einsum(seat * max(odds, over = experts'), outbox -> group, pos, d)
  output loss = sum(y * dy)
}
train { minimize loss  optimizer sgd(lr = 0.1)  steps 1 }
"""
ON_ONE_AXIS = "group -> all unless experts, experts -> all"


def mix(x, router, w1, w2):
    """Each position goes to its best expert, as long as that has a slot in the group."""
    y = []
    for g in range(8):
        taken = [0] * 4
        for p in range(8):
            logits = [sum(x[g, p, d] * router[d, e] for d in range(8)) for e in range(4)]
            best = max(range(4), key=logits.__getitem__)
            odds = math.exp(logits[best]) / sum(map(math.exp, logits))
            h = [max(sum(x[g, p, d] * w1[best, d, f] for d in range(8)), 0) for f in range(6)]
            kept = odds if taken[best] < 4 else 0
            taken[best] += 1
            y += [kept * sum(h[f] * w2[best, f, d] for f in range(6)) for d in range(8)]
    return y


def check_experts(run):
    """C27: the gating of one expert (switch), which needs no more than an argmax: values and
    gradients under layouts of batch, experts, hidden units and d. With groups and experts
    over one axis of 4 devices two exchanges of all with all of E G C M / n = 256 elements go
    forward and two back, and no more but the router's gradient."""
    shapes = {"x": (8, 8, 8), "router": (8, 4), "w1": (4, 8, 6), "w2": (4, 6, 8)}
    params = {name: draw("C27 " + name, shape, -0.4) for name, shape in shapes.items()}
    y = mix(*(Array(*array) for array in params.values()))
    dropped = sum(not any(y[at:at + 8]) for at in range(0, len(y), 8))
    run.expect(0 < dropped < 32, True, f"{dropped} of 64 positions find no slot")
    layouts = [("all=4", "group=all"), ("all=4", ON_ONE_AXIS), ("all=2", "d_ff=all"),
               ("r=2,c=2", "group -> r unless experts, experts -> r, d_ff -> c"),
               ("r=2,c=2", "group -> r unless experts, experts -> r, d -> c")]
    run.expect_same(EXPERTS, layouts, {"dy": draw("C27 dy", (8, 8, 8))}, ("y", "loss"),
                    {"y": y}, params=params, grads=tuple(params))
    plan = run.plan(EXPERTS, "all=4", ON_ONE_AXIS)
    run.expect(sent(plan, "forward"), [("all_to_all", "all", 256)] * 2, "forward")
    run.expect(added_up(plan), {("all_to_all", "all"): 1024, ("all_reduce", "all"): 8 * 4},
               "step")


RANDOM = """
dim batch = 6
dim d = 10
model t(x: f32[batch, d]) {
  output uniforms = uniform(dims = (batch, d))
  output normals  = normal(dims = (batch, d))
  output dropped  = dropout(x, rate = 0.4)
  output shared   = dropout(x, rate = 0.4, over = d)
}
"""


def check_random(run):
    """C28: random numbers and dropout are the same bits on every layout, so that devices which
    hold the same positions agree, and nothing is sent for that; Mesh-TensorFlow's depend on
    the layout. A mask over `d` is one for all samples."""
    x = draw("C28 x", (6, 10), 1, 2)
    outputs = ("uniforms", "normals", "dropped", "shared")
    places = (("m=2", "batch=m"), ("m=3", "d=m"), ("m=4", "d=m"), ("m=3", ""),
              ("m=2,n=5", "batch=m,d=n"), ("m=2,n=2", "batch=m+n"))
    whole = run.expect_same(RANDOM, places, {"x": x}, outputs, tolerance=0, random_numbers=True,
                            flags=("--training",))
    plans = [run.ask_plan(RANDOM, *place) for place in places]
    yield
    for place, plan in zip(places, plans):
        run.expect(sent(plan.get()), [], f"{place}: sent")
    whole = whole.get()
    run.expect(len(set(whole["uniforms"])), 60, "different numbers")
    kept = [value != 0 for value in whole["dropped"]]
    run.expect(10 < sum(kept) < 60, True, f"{sum(kept)} of 60 are kept")
    run.expect_close(whole["dropped"], [value / 0.6 * keep for value, keep in zip(x[0], kept)],
                     "dropped")
    masks = {tuple(value != 0 for value in whole["shared"][10 * b:10 * b + 10])
             for b in range(6)}
    run.expect(len(masks), 1, "masks of shared")


CASES = {
    "T12": check_batch_norm,
    "C18": check_norms,
    "C27": check_experts,
    "C28": check_random,
}

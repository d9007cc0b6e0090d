"""Contractions and reductions over dims that are split: their values, and what they send.
Source of the cases: Mesh-TensorFlow's ops_test.py and measurements of its lowering."""

import math

from harness import Array, added_up, draw, make, sent

RANKS = """
mesh all = 2
dim a = 6
dim b = 2
layout { a -> all }
model t(x: i32[a, b]) {
  let greater = sum(i32(rename(x, a -> a') > x), over = a')
  output second = sum(where(greater == 1, x, 0), over = a)
  let less = sum(i32(rename(x, b -> b') < x), over = b')
  output least = sum(where(less == 0, x, 0), over = b)
  output smallest = min(x, over = b)
  output largest = max(x, over = a)
}
"""
COUNTED = [1, 10, 2, 9, 3, 8, 4, 7, 5, 6, 6, 5]


def check_second_largest(run):
    """T7: of [[1, 10], [2, 9], ..., [6, 5]] the second largest along a split dim, by how many
    are greater. Source: ops_test.py, nth_largest_element."""
    names = ("second", "largest")
    run.expect_same(RANKS, [("all=2", "a=all"), ("all=4", "a=all"), ("all=2", "b=all")],
                    {"x": (COUNTED, (6, 2))}, names, {"second": [5, 9], "largest": [6, 10]},
                    integers=names, tolerance=0)


def check_smallest(run):
    """T8: the smallest of each pair, of which the other dim is split. Source: ops_test.py,
    nth_smallest_element."""
    names = ("least", "smallest")
    expected = [1, 2, 3, 4, 5, 5]
    run.expect_same(RANKS, [("all=2", "a=all"), ("all=2", "b=all")],
                    {"x": (COUNTED, (6, 2))}, names, {"least": expected, "smallest": expected},
                    integers=names, tolerance=0)


TOP = """
mesh rows = 2, cols = 2
dim a = 6
dim b = 2
dim k = 2
layout { a -> rows  b -> cols }
model t(x: f32[a, b], up: f32[b, k]) {
  let greater = sum(i32(rename(x, a -> a') > x), over = a')
  let chosen = greater == iota(k)
  output values = sum(where(chosen, x, 0), over = a)
  output places = sum(where(chosen, iota(a), 0), over = a)
  output loss = sum(values * up)
}
"""


def check_top_two(run):
    """T9: the two largest of a split dim of 6, their places, and the gradient, by how many are
    greater, as there is no top_k. Source: ops_test.py, top_k and its gradient."""
    x = list(map(float, COUNTED))
    arrays = {"x": (x, (6, 2)), "up": ([11.0, 12.0, 13.0, 14.0], (2, 2))}
    run.expect_same(TOP, [("rows=2,cols=2", "a=rows,b=cols"), ("a=4,b=2", "a=a")], arrays,
                    ("values", "places"),
                    {"values": [6, 5, 10, 9], "places": [5, 4, 0, 1],
                     "grad x": [0, 13, 0, 14, 0, 0, 0, 0, 12, 0, 11, 0]},
                    grads=("x",), integers=("places",), tolerance=0)


TOPS = """
dim a = 8
dim k1 = 1
dim k2 = 2
dim k5 = 5
dim k8 = 8
model t(x: f32[a]) {
  let greater = sum(i32(rename(x, a -> a') > x), over = a')
OUTPUTS
}
"""


def check_top_of_eight(run):
    """C14: the 1, 2, 5 and 8 largest of 8, split over 2, 4, 8 and 2 by 2 devices, as in T9."""
    x = [3.0, -1.0, 8.0, 2.5, 7.0, 0.0, -4.0, 1.0]
    lines, expected = [], {}
    for k in (1, 2, 5, 8):
        chosen = f"where(greater == iota(k{k}), "
        lines += [f"  output values{k} = sum({chosen}x, 0), over = a)",
                  f"  output places{k} = sum({chosen}iota(a), 0), over = a)"]
        expected[f"values{k}"] = sorted(x, reverse=True)[:k]
        expected[f"places{k}"] = [x.index(value) for value in expected[f"values{k}"]]
    places = [name for name in expected if "places" in name]
    run.expect_same(TOPS.replace("OUTPUTS", "\n".join(lines)),
                    [("m=2", "a=m"), ("m=4", "a=m"), ("m=8", "a=m"), ("m=2,n=2", "a=m+n")],
                    {"x": (x, (8,))}, expected, expected, integers=places, tolerance=0)


RUNNING = """
dim n = 7
dim b = 2
model t(x: f32[n, b]) {
  output before = sum(where(iota(n') < iota(n), rename(x, n -> n'), 0), over = n')
  output loss = sum(before * f32(1 + iota(n)))
}
"""


def check_running_sums(run):
    """C17: for each position the sum of those before, along a split dim, by a mask, as there is
    no cumulative sum."""
    x = draw("C17 x", (7, 2))
    of = Array(*x)
    expected = {"before": make((7, 2), lambda i, b: sum(of[j, b] for j in range(i))),
                "grad x": make((7, 2), lambda i, b: sum(range(i + 2, 8)))}
    run.expect_same(RUNNING, [("m=2", "n=m"), ("m=4", "n=m"), ("m=2", "b=m")], {"x": x},
                    ("before",), expected, grads=("x",))


STRIDES = """
mesh m = 2
dim one   = 2
dim two   = 3
dim four  = 4
dim five  = 5
dim half  = 2
dim w     = 2
dim six   = 6
dim three = 3
dim pair  = 2
layout { four -> m  half -> m  six -> m  three -> m }
model t(x: f32[one, two, four, five], y: f32[one, six]) {
  output average = mean_pool(x, four, half, w)
  output largest = max(x[four = 2 * half + w], over = w)
  output least   = min(x[four = 2 * half + w], over = w)
  output second  = y[six = 2 * three]
  output third   = y[six = 3 * pair]
  output first   = x[four = 0]
}
"""


def check_pools(run):
    """T11: mean, largest and smallest of each pair along a dim of 4, every second and third
    of 6, and the first, of dims that are split. Source: ops_test.py, pool_tensor_1d,
    stride_tensor_1d and reduce_first."""
    x, y = draw("T11 x", (2, 3, 4, 5)), draw("T11 y", (2, 6))
    of, row = Array(*x), Array(*y)
    shape = (2, 3, 2, 5)
    pairs = {"average": lambda pair: sum(pair) / 2, "largest": max, "least": min}
    expected = {name: make(shape, lambda i, j, k, l, f=function: f([of[i, j, 2 * k, l],
                                                                   of[i, j, 2 * k + 1, l]]))
                for name, function in pairs.items()}
    expected |= {"second": make((2, 3), lambda i, j: row[i, 2 * j]),
                 "third": make((2, 2), lambda i, j: row[i, 3 * j]),
                 "first": make((2, 3, 5), lambda i, j, l: of[i, j, 0, l])}
    # The results' dims, in the order of the operand's.
    layouts = [("m=2", "four=m,half=m,six=m,three=m"), ("m=2", "four=m,six=m"),
               ("m=2,n=3", "four=m,six=n,five=n")]
    run.expect_same(STRIDES, layouts, {"x": x, "y": y}, tuple(expected), expected)



MLP = "tests/plans/plain_mlp.mesh"
MLP_LAYOUTS = (("all=4", "batch=all"), ("all=4", "hidden=all"),
               ("rows=2,cols=2", "batch=rows,hidden=cols"), ("all=4", "io=all"),
               ("rows=2,cols=2", "batch=rows,io=cols"), ("rows=2,cols=2", "hidden=rows,io=cols"),
               ("rows=2,cols=2,planes=2", "batch=rows,hidden=cols,io=planes"))


def check_mlp(run):
    """C1: y = relu(x w + bias) v with b = 8, io = 16, h = 32 and all gradients under the eight
    layouts of the paper's table: the values of plain sums. What it sends is shown by the test
    plans.traffic."""
    with open(f"{run.meshc.root}/{MLP}", encoding="utf-8") as source:
        text = source.read()
    shapes = {"x": (8, 16), "w": (16, 32), "bias": (32,), "v": (32, 16), "dy": (8, 16)}
    arrays = {name: draw("C1 " + name, shape) for name, shape in shapes.items()}
    x, w, bias, v, dy = (Array(*array) for array in arrays.values())
    wide = Array(make((8, 32), lambda b, h: bias[h,] + sum(x[b, i] * w[i, h]
                                                           for i in range(16))), (8, 32))
    h = Array([max(value, 0) for value in wide.values], (8, 32))
    y = Array(make((8, 16), lambda b, i: sum(h[b, k] * v[k, i] for k in range(32))), (8, 16))
    back = Array(make((8, 16), lambda b, i: dy[b, i] * (1 - math.tanh(y[b, i]) ** 2)), (8, 16))
    inner = Array(make((8, 32), lambda b, k: (wide[b, k] > 0) * sum(
        back[b, i] * v[k, i] for i in range(16))), (8, 32))
    expected = {
        "y": y.values,
        "loss": [sum(math.tanh(one) * other for one, other in zip(y.values, dy.values))],
        "grad x": make((8, 16), lambda b, i: sum(inner[b, k] * w[i, k] for k in range(32))),
        "grad w": make((16, 32), lambda i, k: sum(x[b, i] * inner[b, k] for b in range(8))),
        "grad bias": make((32,), lambda k: sum(inner[b, k] for b in range(8))),
        "grad v": make((32, 16), lambda k, i: sum(h[b, k] * back[b, i] for b in range(8))),
    }
    params = {name: array for name, array in arrays.items() if name != "dy"}
    run.expect_same(text, MLP_LAYOUTS, {"dy": arrays["dy"]}, ("y", "loss"), expected,
                    params=params, grads=tuple(params))


# Blocks of a transformer: b = 8, length = 4, d_model = 16, 4 heads of 4, d_ff = 32, vocab = 64.
# The gradient of x counts, so it is a parameter, which lies as the batch does.
BLOCK = """
dim batch  = 8
dim length = 4
dim memory = 4
dim d      = 16
dim heads  = 4
dim kv     = 4
dim d_ff   = 32
dim vocab  = 64
model block(dy: f32[batch, length, d], label: i32[batch, length]) {{
  param x: f32[batch, length, d] = normal()
  {body}
  output loss = {loss}
}}
train {{ minimize loss  optimizer sgd(lr = 0.1)  steps 1 }}
"""
ATTENTION = """param wq, wk, wv: f32[d, heads, kv] = normal()
  param wo: f32[heads, kv, d] = normal()
  let q = einsum(x, wq -> batch, length, heads, kv)
  let k = rename(einsum(x, wk -> batch, length, heads, kv), length -> memory)
  let v = rename(einsum(x, wv -> batch, length, heads, kv), length -> memory)
  let weights = softmax(einsum(q, k -> batch, length, heads, memory), over = memory)
  output y = {edge}einsum(einsum(weights, v -> batch, length, heads, kv), wo -> batch, length, d)"""
FFN = """param w1: f32[d, d_ff] = normal()
  param w2: f32[d_ff, d] = normal()
  output y = einsum(relu(einsum(x, w1 -> batch, length, d_ff)), w2 -> batch, length, d)"""
SOFTMAX = """param e: f32[d, vocab] = normal()
  output y = cross_entropy(einsum(x, e -> batch, length, vocab), label, over = vocab)"""
EMBEDDING = """param e: f32[vocab, d] = normal()
  output y = gather(e, label, over = vocab) + 0 * x"""
# So that y is needed, not only its sum.
LOSS = "sum(tanh(y) * dy)"
BLOCKS = {
    "attention": ("heads", ATTENTION.format(edge=""), LOSS),
    "attention with a residual": ("heads", ATTENTION.format(edge="x + "), LOSS),
    "feed-forward": ("d_ff", FFN, LOSS),
    "softmax": ("vocab", SOFTMAX, "mean(y)"),
    "embedding": ("vocab", EMBEDDING, LOSS),
}
SPLITS = {
    "data": ("all=4", "batch=all"),
    "model": ("all=4", "{dim}=all"),
    "both": ("rows=2,cols=2", "batch=rows,{dim}=cols"),
}
# Elements that a device brings into sums over each axis, forward and in the whole step: as
# measured in Mesh-TensorFlow, which has 1536 in the step of attention with a residual, in that
# of softmax 640 over the model, since it sends the sums of the backward pass as well, and 1025
# over the batch, with the loss.
GOLDEN = {
    ("attention", "model"): ({"all": 512}, {"all": 1024}),
    ("attention", "data"): ({}, {"all": 1024}),
    ("attention", "both"): ({"cols": 256}, {"cols": 512, "rows": 512}),
    ("attention with a residual", "model"): ({"all": 512}, {"all": 1024}),
    ("feed-forward", "model"): ({"all": 512}, {"all": 1024}),
    ("feed-forward", "data"): ({}, {"all": 1024}),
    ("feed-forward", "both"): ({"cols": 256}, {"cols": 512, "rows": 512}),
    ("softmax", "model"): ({"all": 3 * 32}, {"all": 3 * 32 + 512}),
    ("softmax", "data"): ({}, {"all": 1024}),
    ("embedding", "model"): ({"all": 512}, {"all": 512}),
    ("embedding", "data"): ({}, {"all": 1024}),
}


def check_blocks(run):
    """C2: attention, feed-forward, softmax and embedding under data, model and both: what a
    step sends is the formulas' and what Mesh-TensorFlow sends, or less, and the values
    under model and both are those of one device."""
    for (name, split), (forward, step) in GOLDEN.items():
        dim, body, loss = BLOCKS[name]
        mesh, layout = SPLITS[split]
        plan = run.plan(BLOCK.format(body=body, loss=loss), mesh, layout.format(dim=dim))
        for phases, expected in ((("forward",), forward), ((), step)):
            run.expect(added_up(plan, *phases),
                       {("all_reduce", axes): count for axes, count in expected.items()},
                       f"{name}, {split}, {' '.join(phases) or 'step'}: elements")
    arrays = {"dy": draw("C2 dy", (8, 4, 16)), "x": draw("C2 x", (8, 4, 16)),
              "label": ([(7 * number) % 64 for number in range(32)], [8, 4])}
    for name, (dim, body, loss) in BLOCKS.items():
        if name == "attention":  # that with a residual has all of it
            continue
        params = {"x": arrays["x"]}
        if "attention" in name:
            params |= {weight: draw("C2 " + weight, (16, 4, 4)) for weight in ("wq", "wk", "wv")}
            params["wo"] = draw("C2 wo", (4, 4, 16))
        elif name == "feed-forward":
            params |= {"w1": draw("C2 w1", (16, 32)), "w2": draw("C2 w2", (32, 16))}
        else:
            params["e"] = draw("C2 e", (16, 64) if name == "softmax" else (64, 16))
        inputs = {key: arrays[key] for key in ("dy", "label")}
        layouts = [(mesh, layout.format(dim=dim))
                   for split, (mesh, layout) in SPLITS.items() if split != "data"]
        run.expect_same(BLOCK.format(body=body, loss=loss), layouts, inputs, ("y", "loss"),
                        params=params, grads=tuple(params))


SCALED = """
mesh m = 2
dim b = 6
dim c = 4
dim d = 3
layout {{ b -> m }}
model t(x: f32[b, c], y: f32[b, c], u: f32[b, d], v: f32[b, d]) {{
  output z = {one}einsum(x, u -> c, d) + {other}einsum(y, v -> c, d)
}}
"""


def check_values(run, text, arrays, expected, collectives, **options):
    """Later, on the mesh of the text: values, and what is sent."""
    found, plan = run.ask(text, arrays, tuple(expected), **options), run.ask_plan(text)

    def check():
        run.expect_values(found.get(), expected, "values")
        run.expect(sent(plan.get()), collectives, "what is sent")

    run.later(check)


def check_sums(run, one, other):
    arrays = {name: draw("C3 " + name, (6, 4 if name in "xy" else 3)) for name in "xyuv"}
    x, y, u, v = (Array(*array) for array in arrays.values())
    z = make((4, 3), lambda c, d: sum(one * x[b, c] * u[b, d] + other * y[b, c] * v[b, d]
                                      for b in range(6)))
    factors = ["" if factor == 1 else f"{factor} * " for factor in (one, other)]
    text = SCALED.format(one=factors[0], other=factors[1])
    check_values(run, text, arrays, {"z": z}, [("all_reduce", "m", 12)])


def check_added_sums(run):
    """C3: two partial sums over one axis are added before they are completed: one sum of 12
    elements."""
    check_sums(run, 1, 1)


def check_scaled_sums(run):
    """C4: also when each is scaled by half first, where Mesh-TensorFlow sends two."""
    check_sums(run, 0.5, 0.5)
    check_sums(run, 0.5, 0.25)


SCATTER = """
mesh m = 2
dim b = 6
dim c = 4
dim d = 4
layout { b -> m  d -> m }
model t(x: f32[b, c]) {
  output y = rename(sum(x, over = b), c -> d)
}
"""


def check_scattered_sum(run):
    """C5: a sum over a split dim whose result is split over the same axis is one
    reduce-scatter of 4 elements, where Mesh-TensorFlow sends all to all and keeps a part."""
    x = draw("C5 x", (6, 4))
    of = Array(*x)
    check_values(run, SCATTER, {"x": x},
                 {"y": [sum(of[b, c] for b in range(6)) for c in range(4)]},
                 [("reduce_scatter", "m", 4)])


TOTAL = """
mesh m = 2, n = 2
dim b = 4
dim c = 8
layout { b -> m  c -> n }
model t(x: f32[b, c]) {
  output z = exp(sum(x))
}
"""


def check_total(run):
    """C6: the sum of all of [4, 8], split over two axes, is one sum of one element over both."""
    x = draw("C6 x", (4, 8))
    check_values(run, TOTAL, {"x": x}, {"z": [math.exp(sum(x[0]))]}, [("all_reduce", "m+n", 1)])


ONE_HOT = """
mesh m = 4
dim p = 5
dim depth = 8
layout { depth -> m }
model t(index: i32[p]) {
  output y = f32(index == iota(depth))
}
"""


def check_one_hot(run):
    """C15: of the indices 0, 7, 3, 9 and -1 those outside of the 8 positions have only zeros,
    on devices that hold 2 of them each."""
    index = [0, 7, 3, 9, -1]
    found, plan = run.ask(ONE_HOT, {"index": (index, (5,))}, ("y",)), run.ask_plan(ONE_HOT)
    yield
    run.expect(found.get()["y"], make((5, 8), lambda p, d: float(index[p] == d)), "y")
    run.expect(sent(plan.get()), [], "what is sent")


GATHER = """
dim vocab = 8
dim feature = 6
dim p = 4
model t(index: i32[p]) {
  param w: f32[vocab, feature] = normal()
  output y = gather(w, index, over = vocab)
  output loss = sum(y ^ 2)
}
"""


def check_gather(run):
    """C16: rows by index, the rows, the indices or the features split: only rows of other
    devices are sent, as one sum of the result. Gradients add up rows that are read twice."""
    index, w = [7, 2, 2, 0], draw("C16 w", (8, 6))
    table = Array(*w)
    y = make((4, 6), lambda p, f: table[index[p], f])
    slope = make((8, 6), lambda r, f: 2 * index.count(r) * table[r, f])
    layouts = {"vocab=m": [("all_reduce", "m", 24)], "p=m": [], "feature=m": []}
    run.expect_same(GATHER, [(mesh, layout) for layout in layouts for mesh in ("m=2", "m=4")],
                    {"index": (index, (4,))}, ("y",), {"y": y, "grad w": slope},
                    params={"w": w}, grads=("w",))
    text = GATHER.replace("  output loss = sum(y ^ 2)\n", "")
    plans = {layout: run.ask_plan(text, "m=2", layout) for layout in layouts}
    yield
    for layout, expected in layouts.items():
        run.expect(sent(plans[layout].get()), expected, layout)


WHOLE = """
mesh m = 3
dim b = 7
dim c = 2
layout { b -> m }
model t(x: i32[b, c]) {
  output total = sum(x, over = b)
  output largest = max(x, over = b)
}
"""


def check_integers(run):
    """C32: sums of integers beyond 2^24, which f32 has not, are exact, across devices too."""
    values = [2 ** 24 + 1, 3, 2 ** 24 + 1, -5, 1, 7, 2 ** 27 + 3, 2, -1, 1, 2 ** 25 + 1, 9, 1, -1]
    names = ("total", "largest")
    found = run.ask(WHOLE, {"x": (values, (7, 2))}, names, integers=names)
    plan = run.ask_plan(WHOLE)
    yield
    run.expect(found.get(), {"total": [sum(values[::2]), sum(values[1::2])],
                             "largest": [2 ** 27 + 3, 9]}, "three devices")
    kinds = {kind for kind, *_ in sent(plan.get())}
    run.expect(kinds, {"all_reduce"}, "what is sent")


CASES = {
    "T7": check_second_largest,
    "T8": check_smallest,
    "T9": check_top_two,
    "T11": check_pools,
    "C1": check_mlp,
    "C2": check_blocks,
    "C3": check_added_sums,
    "C4": check_scaled_sums,
    "C5": check_scattered_sum,
    "C6": check_total,
    "C14": check_top_of_eight,
    "C15": check_one_hot,
    "C16": check_gather,
    "C17": check_running_sums,
    "C32": check_integers,
}

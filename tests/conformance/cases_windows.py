"""Convolutions, pools, and operations along a dim that is split. Source of the cases:
Mesh-TensorFlow's layers_test.py, and the dims that it cannot split."""

import math

from harness import Array, draw, make, positions, sent, wire_bytes

OPERATIONS = """
dim a     = 6
dim b     = 4
dim part  = 4
dim wide  = 9
dim both  = 12
dim pair  = 2
dim half  = 3
dim w     = 2
dim tap   = 3
dim flat  = 24
model t(x: f32[a, b], y: f32[a, b], k: f32[tap, b, b'], index: i32[b]) {
  output product  = einsum(x, rename(y, a -> a') -> a, a')
  output sums     = sum(x, over = a)
  output largest  = max(x, over = a)
  output place    = argmax(x, over = a)
  output repeated = broadcast(sum(x, over = a), a) + x
  output moved    = x[a = (a + 1) % size(a)]
  output merged   = x[a = floor(flat / 4), b = flat % 4]
  output hot      = f32(index == iota(part))
  output drawn    = uniform(dims = (a, b))
  output joined   = x[a = both else 0] + y[a = both - 6 else 0]
  output low      = x[a = part]
  output high     = x[a = part + 2]
  output stacked  = where(iota(pair) == 0, x, y)
  output one      = x[a = 2]
  output strided  = x[a = 2 * half]
  output padded   = x[a = wide - 1 else 0]
  output pooled   = mean_pool(x, a, half, w)
  output seen     = einsum(x[a = a + tap - 1 else 0], k -> a, b')
  output backward = x[a = size(a) - 1 - a]
  output loss     = sum(seen ^ 2) + sum(joined ^ 3) + sum(padded * padded) + sum(pooled ^ 2)
}
"""
FLOATS = ("product", "sums", "largest", "repeated", "moved", "merged", "hot", "drawn", "joined",
          "low", "high", "stacked", "one", "strided", "padded", "pooled", "seen", "backward",
          "loss")
ALONG = "a=m,part=m,wide=m,both=m,pair=n,half=m,flat=m"


def check_operations(run):
    """T6: every operation along a dim that is split: reductions, products, moves, one
    dim of two, one-hot, random numbers, concatenation, split, stack, unstack, slice, stride,
    pad, pool and convolution, and their gradients. Mesh-TensorFlow refuses to split the dim
    of half of them."""
    arrays = {"x": draw("T6 x", (6, 4)), "y": draw("T6 y", (6, 4)), "k": draw("T6 k", (3, 4, 4)),
              "index": ([0, 3, 5, -1], [4])}
    x, y, k = (Array(*arrays[name]) for name in "xyk")
    expected = {
        "joined": make((12, 4), lambda i, j: x[i, j] if i < 6 else y[i - 6, j]),
        "low": make((4, 4), lambda i, j: x[i, j]),
        "high": make((4, 4), lambda i, j: x[i + 2, j]),
        "one": make((4,), lambda j: x[2, j]),
        "strided": make((3, 4), lambda i, j: x[2 * i, j]),
        "padded": make((9, 4), lambda i, j: x[i - 1, j]),
        "pooled": make((3, 4), lambda i, j: (x[2 * i, j] + x[2 * i + 1, j]) / 2),
        "moved": make((6, 4), lambda i, j: x[(i + 1) % 6, j]),
        "backward": make((6, 4), lambda i, j: x[5 - i, j]),
        "merged": x.values,
        "seen": make((6, 4), lambda i, o: sum(x[i + t - 1, j] * k[t, j, o]
                                              for t in range(3) for j in range(4))),
        "place": [max(range(6), key=lambda i, j=j: x[i, j]) for j in range(4)],
    }
    layouts = [("m=2,n=2", ALONG), ("m=3,n=2", ALONG), ("m=5,n=1", ALONG),
               ("m=2,n=2", "b=m,b'=n"),
               ("m=2,n=3", ALONG.replace("pair", "b")), ("m=2,n=3", "a=m,a'=n,tap=n")]
    run.expect_same(OPERATIONS, layouts, arrays, (*FLOATS, "place"), expected,
                    grads=("x", "y", "k"), integers=("place",), random_numbers=True)


ALONE = """
mesh m = {devices}
dim a    = 12
dim b    = 4
dim new  = {size}
layout {{ a -> m  new -> m }}
model t(x: f32[a, b], y: f32[a, b]) {{
  output z = {text}
}}
"""
# Size of the new dim, the operation, and for x and y from which row of it row i of the result
# comes; a row that it lacks is none.
MOVES = {
    "concat": (24, "x[a = new else 0] + y[a = new - 12 else 0]",
               (lambda i: i, lambda i: i - 12)),
    "slice": (6, "x[a = new + 4]", (lambda i: i + 4,)),
    "split, first part": (4, "x[a = new]", (lambda i: i,)),
    "split, second part": (8, "x[a = new + 4]", (lambda i: i + 4,)),
    "pad": (15, "x[a = new - 1 else 0]", (lambda i: i - 1,)),
    "reverse": (12, "x[a = 11 - new]", (lambda i: 11 - i,)),
}
STRIDE = (6, "x[a = 2 * new]", (lambda i: 2 * i,))


def count_lacking(size, source, devices):
    """Rows that the device which sends or takes most sends or takes, each once."""
    block, old = -(-size // devices), 12 // devices
    moves = {(source(i) // old, i // block, source(i)) for i in range(size)
             if 0 <= source(i) < 12 and source(i) // old != i // block}
    return max(sum(move[side] == device for move in moves)
               for side in (0, 1) for device in range(devices))


def check_move(run, name, devices, size, text, sources):
    plan = run.ask_plan(ALONE.format(devices=devices, size=size, text=text))
    rows = sum(count_lacking(size, source, devices) for source in sources)
    run.later(lambda: run.expect_at_most(wire_bytes(plan.get()), rows * 4 * 4,
                                         f"{name} on {devices} devices: bytes sent"))


def check_moves(run):
    """L7: concatenation, slices, parts, pads along a dim that is split, which Mesh-TensorFlow
    refuses, send the rows that a device lacks, once; a stack and what is taken from it where it
    lies send nothing. One row goes to the three other devices."""
    for name, move in MOVES.items():
        for devices in (2, 4):
            check_move(run, name, devices, *move)
    check_move(run, "stride", 2, *STRIDE)
    stacks = {text: run.ask_plan(ALONE.format(devices=2, size=2, text=text).replace(
        "dim new", "dim c").replace("new -> m", ""))
              for text in ("where(iota(c) == 0, x, y)", "where(iota(c) == 0, x, y)[c = 1]")}
    row = run.ask_plan(ALONE.format(devices=4, size=2, text="x[a = 5]").replace("  new -> m", ""))
    yield
    for text, plan in stacks.items():
        run.expect(sent(plan.get()), [], text)
    run.expect_at_most(wire_bytes(row.get()), 3 * 4 * 4, "x[a = 5]: bytes sent")


def check_stride(run):
    """L7-stride: of every second row, 12 on 4 devices, a device lacks one at most."""
    check_move(run, "stride", 4, *STRIDE)


LINE = [1, 0, 0, 1, 1, 1, 2, 1]  # [length 4, channels 2]
CONV1D = """
dim batch = 1
dim length = 4
dim c = 2
dim o = 2
dim tap = 3
model t(x: f32[batch, length, c]) {
  output y = conv(x, length, tap, c, o) as conv
}
"""
LAYOUTS_1D = [("m=2", "length=m"), ("m=4", "length=m"), ("m=3", "length=m"), ("m=2", "c=m"),
              ("m=2", "o=m"), ("m=2", "tap=m")]


def check_conv1d(run):
    """T13: a convolution of 3 taps that keeps the length. Source: layers_test.py, conv1d."""
    kernel = [1, -1, 0, 0, 2, -2, -1, 1, 3, -3, -2, 2]
    run.expect_same(CONV1D, LAYOUTS_1D, {"x": (list(map(float, LINE)), (1, 4, 2))}, ("y",),
                    {"y": [0, 0, 1, -1, 5, -5, 4, -4]},
                    params={"conv/weight": (list(map(float, kernel)), (3, 2, 2))})


SEPARABLE = CONV1D.replace("output y = conv(x, length, tap, c, o) as conv", """
  param depth: f32[tap, c] = zeros
  param point: f32[c, o] = zeros
  let seen = einsum(x[length = length + tap - 1 else 0], depth -> batch, length, c)
  output y = einsum(seen, point -> batch, length, o)""")


def check_separable(run):
    """T14: one filter for each channel, with 1 and 2 at each tap, and a product over channels.
    Source: layers_test.py, separable_conv1d."""
    run.expect_same(SEPARABLE, LAYOUTS_1D, {"x": (list(map(float, LINE)), (1, 4, 2))}, ("y",),
                    {"y": [3, -2, 6, -4, 9, -6, 7, -4]},
                    params={"depth": ([1.0, 2.0] * 3, (3, 2)),
                            "point": ([1.0, 0.0, 1.0, -1.0], (2, 2))})


VALID = """
dim first = 2
dim second = 3
dim length = 4
dim at = 2
dim c = 3
dim o = 5
dim tap = 3
model t(x: f32[first, length, c], z: f32[first, second, length, c]) {
  param w: f32[tap, c, o] = normal()
  output y = einsum(x[length = at + tap], w -> first, at, o)
  output v = einsum(z[length = at + tap], w -> first, second, at, o)
}
"""


def check_valid(run):
    """T15: without a border 3 taps on 4 positions leave 2, with one and two dims of batch.
    Source: layers_test.py, conv1d with VALID."""
    arrays = {"x": draw("T15 x", (2, 4, 3)), "z": draw("T15 z", (2, 3, 4, 3))}
    w = draw("T15 w", (3, 3, 5))
    x, z, of = Array(*arrays["x"]), Array(*arrays["z"]), Array(*w)
    taps = list(positions((3, 3)))
    expected = {
        "y": make((2, 2, 5), lambda b, a, o: sum(x[b, a + t, c] * of[t, c, o] for t, c in taps)),
        "v": make((2, 3, 2, 5), lambda b, s, a, o: sum(z[b, s, a + t, c] * of[t, c, o]
                                                       for t, c in taps)),
    }
    run.expect_same(VALID, [("m=2", "length=m,at=m"), ("m=2", "at=m"), ("m=4", "length=m"),
                            ("m=2,n=3", "first=m,c=n"), ("m=3,n=2", "second=m,length=n,at=n")],
                    arrays, ("y", "v"), expected, params={"w": w})


POOLS = """
dim b = 2
dim e = 3
dim h = 4
dim w = 6
dim c = 3
dim one = 1
dim high = 2
dim broad = 2
dim i = 2
dim j = 3
dim l = 3
model t(x: f32[b, e, h, w, c]) {
  let flat = x[h = 2 * high + i, w = 3 * broad + j]
  let deep = x[e = 3 * one + l, h = 2 * high + i, w = 3 * broad + j]
  output max2 = max(flat, over = (i, j))
  output average2 = mean(flat, over = (i, j))
  output max3 = max(deep, over = (i, j, l))
  output average3 = mean(deep, over = (i, j, l))
  output loss = sum(LOSS)
}
"""


def check_pools(run):
    """T16: largest and mean of windows of 2 by 3 and of 3 by 2 by 3 on [2, 3, 4, 6, 3]; the
    gradient of means is 1 / window everywhere, that of maxima 1 once in each window. Source:
    layers_test.py, max_pool2d to avg_pool3d."""
    x = [(37 * place % 432) / 8 for place in range(432)], (2, 3, 4, 6, 3)  # all different
    of = Array(*x)

    def window2(b, e, h, w, c):
        return [of[b, e, 2 * h + i, 3 * w + j, c] for i, j in positions((2, 3))]

    def window3(b, e, h, w, c):
        return [of[b, 3 * e + k, 2 * h + i, 3 * w + j, c] for k, i, j in positions((3, 2, 3))]

    small, deep = (2, 3, 2, 2, 3), (2, 1, 2, 2, 3)
    expected = {
        "max2": make(small, lambda *at: max(window2(*at))),
        "average2": make(small, lambda *at: sum(window2(*at)) / 6),
        "max3": make(deep, lambda *at: max(window3(*at))),
        "average3": make(deep, lambda *at: sum(window3(*at)) / 18),
    }
    layouts = [("m=2,n=2", "h=m,high=m,w=n,broad=n"), ("m=3", "w=m"), ("m=3,n=2", "e=m,b=n")]
    for name, window in (("average2", 6), ("average3", 18), ("max2", 6), ("max3", 18)):
        slopes = {}
        if "average" in name:
            slopes["grad x"] = [1 / window] * 432
        else:
            largest = set(expected[name])
            slopes["grad x"] = [float(value in largest) for value in x[0]]
            run.expect(sum(slopes["grad x"]), 432 / window, f"maxima of {name}")
        outputs = tuple(expected) if name == "max2" else ()
        wanted = expected | slopes if outputs else slopes
        run.expect_same(POOLS.replace("LOSS", name), layouts, {"x": x}, outputs, wanted,
                        grads=("x",))


CONV2D = """
dim batch = 2
dim y = 8
dim x = 8
dim c = 3
dim o = 5
dim dy = 3
dim dx = 3
model t(image: f32[batch, y, x, c]) {
  output out = conv(image, (y, x), (dy, dx), c, o) as conv
}
"""


def check_conv2d(run):
    """C13: a convolution of 3 by 3 on 8 by 8 pixels of 3 channels, split by rows, by rows and
    columns, samples, input channels and output channels. Split by input channels it sends one
    sum of the output, 2 * 8 * 8 * 5 elements; by samples and output channels nothing; by rows
    what a device lacks, a row of 8 pixels from either side."""
    image, weight = draw("C13 image", (2, 8, 8, 3)), draw("C13 weight", (3, 3, 3, 5))
    of, w = Array(*image), Array(*weight)
    out = make((2, 8, 8, 5), lambda b, i, j, o: sum(
        of[b, i + k - 1, j + l - 1, c] * w[k, l, c, o] for k, l, c in positions((3, 3, 3))))
    layouts = [("hb=2", "y=hb"), ("hb=4", "y=hb"), ("hb=2,wb=2", "y=hb,x=wb"), ("m=2", "batch=m"),
               ("m=3", "c=m"), ("m=2", "c=m"), ("m=5", "o=m"), ("hb=3,m=3", "y=hb,c=m")]
    run.expect_same(CONV2D, layouts, {"image": image}, ("out",), {"out": out},
                    params={"conv/weight": weight})
    size = math.prod((2, 8, 8, 5))
    channels = run.ask_plan(CONV2D, "m=3", "c=m")
    silent = {layout: run.ask_plan(CONV2D, "m=2", layout) for layout in ("batch=m", "o=m")}
    rows = run.ask_plan(CONV2D, "hb=4", "y=hb")
    yield
    run.expect(sent(channels.get()), [("all_reduce", "m", size)], "c=m")
    for layout, plan in silent.items():
        run.expect(sent(plan.get()), [], layout)
    run.expect([kind for kind, *_ in sent(rows.get())], ["exchange"], "y=hb")
    run.expect(wire_bytes(rows.get()), 2 * 2 * 8 * 3 * 4, "y=hb: bytes")


CASES = {
    "T6": check_operations,
    "L7": check_moves,
    "L7-stride": check_stride,
    "T13": check_conv1d,
    "T14": check_separable,
    "T15": check_valid,
    "T16": check_pools,
    "C13": check_conv2d,
}

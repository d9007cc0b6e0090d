"""Gradients, and loops that carry sums, under layouts: what crashed or was wrong in
Mesh-TensorFlow. Source of the cases: executions of its code."""

import math

from harness import Array, draw, make

LOOP = """
dim n = 4
dim steps = 3
model t(x: f32[n]) {
  let s: f32 = 1
  for step in steps { s = sum(0.1 * x * s) }
  output s = s
  output loss = s * s
}
train { minimize loss }
"""


def check_carried_sum(run):
    """C19: s <- sum(0.1 x s) of x = [0, 1, 2, 3], three times from 1, is 0.6^3 = 0.216 on every
    layout; Mesh-TensorFlow carries a sum that is pending, and has 0.126 on two devices. The
    gradient of s^2 by x is 2 s * 3 * 0.6^2 * 0.1."""
    slope = 2 * 0.216 * 3 * 0.36 * 0.1
    run.expect_same(LOOP, [("m=2", "n=m"), ("m=4", "n=m"), ("m=3", "n=m"),
                           ("m=2,k=2", "n=m+k")],
                    {"x": ([0.0, 1.0, 2.0, 3.0], (4,))}, ("s",),
                    {"s": [0.216], "grad x": [slope] * 4}, grads=("x",))


LAZY = """
dim b = 3
dim a = 4
dim c = 5
model t(x: f32[b, a]) {
  param w: f32[a, c] = normal()
  let z = einsum(x, w -> b, c)
  output y = FUNCTION
  output loss = sum(y)
}
"""
FUNCTIONS = {
    "sin(z)": (math.sin, math.cos),
    "log(1 + exp(z))": (lambda z: math.log(1 + math.exp(z)), lambda z: 1 / (1 + math.exp(-z))),
    "where(z > 0, z, exp(z) - 1)": (lambda z: z if z > 0 else math.exp(z) - 1,
                                    lambda z: 1 if z > 0 else math.exp(z)),
}


def check_pending_sums(run):
    """C20: sin, softplus and elu of a contraction over a split dim, whose
    gradients crash in Mesh-TensorFlow."""
    x, w = draw("C20 x", (3, 4)), draw("C20 w", (4, 5))
    left, right = Array(*x), Array(*w)
    z = make((3, 5), lambda b, c: sum(left[b, a] * right[a, c] for a in range(4)))
    for text, (function, derivative) in FUNCTIONS.items():
        slope = Array([derivative(value) for value in z], (3, 5))
        expected = {
            "y": [function(value) for value in z],
            "grad x": make((3, 4), lambda b, a, s=slope: sum(s[b, c] * right[a, c]
                                                             for c in range(5))),
            "grad w": make((4, 5), lambda a, c, s=slope: sum(s[b, c] * left[b, a]
                                                             for b in range(3))),
        }
        run.expect_same(LAZY.replace("FUNCTION", text), [("m=2", "a=m"), ("m=2,n=5", "a=m,c=n")],
                        {"x": x}, ("y",), expected, params={"w": w}, grads=("x", "w"))


EXTREME = """
dim a = 3
dim b = 2
model t(x: f32[a, b], y: f32[b]) {
  output z = maximum(x, y)
  output loss = sum(z * f32(1 + iota(a)))
}
"""


def check_extremes(run):
    """C21: the gradient of maximum(x[a, b], y[b]) by y has the dim b alone, as a sum over a,
    where Mesh-TensorFlow returns [a, b]. The larger one has it; where both are equal each gets
    half (`nd.maximum`)."""
    x, y = [1.0, 5.0, 2.0, -1.0, 3.0, 2.0], [2.0, 2.0]
    shares = [0, 1, 0.5, 0, 1, 0.5]  # of x
    weights = [1, 1, 2, 2, 3, 3]
    slope = [share * weight for share, weight in zip(shares, weights)]
    rest = [weight - one for one, weight in zip(slope, weights)]
    expected = {"z": [2, 5, 2, 2, 3, 2], "grad x": slope,
                "grad y": [sum(rest[::2]), sum(rest[1::2])]}
    layouts = [("m=2", "a=m"), ("m=3", "a=m"), ("m=2", "b=m"), ("m=3,n=2", "a=m,b=n")]
    arrays = {"x": (x, (3, 2)), "y": (y, (2,))}
    run.expect_same(EXTREME, layouts, arrays, ("z",), expected, grads=("x", "y"))
    expected = {"z": [1, 2, 2, -1, 2, 2],
                "grad x": [weight - one for one, weight in zip(slope, weights)],
                "grad y": [sum(slope[::2]), sum(slope[1::2])]}
    run.expect_same(EXTREME.replace("maximum", "minimum"), layouts, arrays, ("z",), expected,
                    grads=("x", "y"))


CHOICE = """
dim n = 6
dim k = 2
model t(x: f32[n]) {
  output y = where(x > 0, log(x), 0)
  output r = where(x > 0, 1 / x, 0)
  param w: f32[n, k] = zeros
  output s = einsum(y, w -> k)
  output loss = sum(y) + sum(r) + sum(s)
}
"""


def check_choices(run):
    """C22: log(x) and 1 / x where x is negative or 0 are NaN or infinite, and neither values
    nor gradients have any of what `where` does not take."""
    x = [1.0, 0.0, -2.0, 3.0, -1.0, 0.5]
    w = draw("C22 w", (6, 2))
    of = Array(*w)
    y = [math.log(value) if value > 0 else 0 for value in x]
    sums = [of[i, 0] + of[i, 1] for i in range(6)]
    expected = {
        "y": y, "r": [1 / value if value > 0 else 0 for value in x],
        "s": [sum(y[i] * of[i, k] for i in range(6)) for k in range(2)],
        "grad x": [(1 / v - 1 / v ** 2 + c / v) if v > 0 else 0 for v, c in zip(x, sums)],
        "grad w": make((6, 2), lambda i, k: y[i]),
    }
    run.expect_same(CHOICE, [("m=2", "n=m"), ("m=4", "n=m"), ("m=2,k=2", "n=m,k=k")],
                    {"x": (x, (6,))}, ("y", "r", "s"), expected, params={"w": w}, grads=("x", "w"))


UNUSED = """
dim a = 3
dim b = 4
model t(x: f32[a, b]) {
  let first  = x[a = 0]
  let second = x[a = 1]
  let third  = x[a = 2]
  output y = second * second
  output loss = sum(y)
}
"""


def check_unused_parts(run):
    """C23: of three slices one is used: the gradient is 0 elsewhere, and no error as in
    Mesh-TensorFlow's unstack."""
    x = draw("C23 x", (3, 4))
    of = Array(*x)
    expected = {"y": [of[1, b] ** 2 for b in range(4)],
                "grad x": make((3, 4), lambda a, b: 2 * of[1, b] if a == 1 else 0)}
    run.expect_same(UNUSED, [("m=2", "a=m"), ("m=3", "a=m"), ("m=2", "b=m")], {"x": x}, ("y",),
                    expected, grads=("x",))


CASES = {
    "C19": check_carried_sum,
    "C20": check_pending_sums,
    "C21": check_extremes,
    "C22": check_choices,
    "C23": check_unused_parts,
}

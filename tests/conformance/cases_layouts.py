"""Meshes, layouts, and which layouts are legal. Source of the cases: Mesh-TensorFlow's
ops_test.py (T), its README and its rules for layouts (L)."""

from harness import draw, held, make, tensor, Array

PAIR = """
dim x = 4
dim y = 8
model t(v: f32[x, y]) { output z = v + 1 }
"""

FEED = """
mesh data = 2, model = 2
dim batch = 6
dim d_ff  = 4
dim heads = 4
layout { LAYOUT }
model t(x: f32[batch, d_ff], y: f32[batch, heads]) { output z = x + 1  output u = y + 1 }
"""


def check_meshes(run):
    """T1: a mesh is names with sizes. ops_test.py takes four separators; here it is a comma,
    with or without blanks, on the command line and in specs, and anything else is an error."""
    expected = [("x", 4), ("y", 8)]
    for text in ("x=4,y=8", "x=4, y=8", "x = 4 , y = 8"):
        axes = run.plan(PAIR, text)["mesh"]["axes"]
        run.expect([(axis["name"], axis["size"]) for axis in axes], expected, f"--mesh '{text}'")
    axes = run.plan("mesh x = 4, y = 8\n" + PAIR)["mesh"]["axes"]
    run.expect([(axis["name"], axis["size"]) for axis in axes], expected, "in the spec")
    empty = run.plan("mesh x = 4\n" + PAIR, "")
    run.expect((empty["devices"], empty["mesh"]["axes"]), (1, []), "the empty mesh")
    for text, code in (("x=4;y=8", "MC0105"), ("x=4.y=8", "MC0106"), ("x=4 y=8", "MC0201"),
                       ("x;4", "MC0105"), ("x:4,y:8", "MC0201"), ("x=4,x=2", "MC0307"),
                       ("x=0", "MC0401"), ("x=2.5", "MC0402")):
        run.expect(run.error(PAIR, "--mesh", text), code, f"--mesh '{text}'")


def check_layout_forms(run):
    """T2: every way to write the rules of ops_test.py gives the same table; an item without
    an arrow or "=" is an error."""
    expected = {"d_ff": ["model"], "heads": ["model"], "batch": []}
    spec = FEED.replace("LAYOUT", "")
    plain = FEED.replace("layout { LAYOUT }", "")
    rules = ("d_ff=model,heads=model", "heads=model,d_ff=model", "d_ff -> model, heads -> model",
             "d_ff -> model heads -> model", "(d_ff, heads) -> model")
    plans = {f"--layout '{text}'": run.plan(spec, "data=2,model=2", text) for text in rules}
    for text, plan in plans.items():
        run.expect({dim["name"]: dim["axes"] for dim in plan["dims"]}, expected, text)
    run.expect(run.plan(plain)["rules"], [], "no layout")
    for text, code in (("d_ff;heads", "MC0105"), ("d_ff,heads", "MC0201"),
                       ("d_ff=model;heads=model", "MC0105"), ("d_ff=model heads=model", "MC0201"),
                       ("d_ff=model,d_ff=model", "MC0605")):
        run.expect(run.error(spec, "--layout", text), code, f"--layout '{text}'")
    plans = {text: run.ask_plan(FEED.replace("LAYOUT", text))
             for text in ("d_ff -> model  heads -> model", "d_ff -> model, heads -> model,",
                          "d_ff -> model\n  heads -> model\n", "(heads, d_ff) -> model")}
    yield
    for text, plan in plans.items():
        run.expect({dim["name"]: dim["axes"] for dim in plan.get().dims}, expected, text)


THREE = """
mesh p = 2, q = 3, r = 5
dim a = 4
dim b = 10
dim c = 6
layout { a -> p  b -> r  c -> q }
model t(x: f32[a, b, c]) { output y = x + 1 }
"""


def check_axis_of_dim(run):
    """T3: each dim of a value lies on its axis, no axis has two dims, and a value is whole
    on all devices if and only if none is split. Source: ops_test.py, TensorLayout [0, 2, 1],
    [None, 0] and three times None."""
    plan = run.plan(THREE)
    run.expect(held(plan, "x"), {"a": (["p"], 2), "b": (["r"], 2), "c": (["q"], 2)}, "[0, 2, 1]")
    run.expect(tensor(plan, "x")["bytes_per_device"] * 30, tensor(plan, "x")["bytes_global"],
               "bytes of [0, 2, 1]")
    plan = run.plan(THREE, "p=2,q=3,r=5", "b=p")
    run.expect(held(plan, "x"), {"a": ([], 4), "b": (["p"], 5), "c": ([], 6)}, "[None, 0, None]")
    plan = run.plan(THREE, "p=2,q=3,r=5", "")
    run.expect(tensor(plan, "x")["bytes_per_device"], tensor(plan, "x")["bytes_global"],
               "bytes of three times None")


FEATURES = """
mesh batch = 4, model = 8
dim batch  = 128
dim length = 500
dim d_ff   = 2048
dim heads  = 16
layout { batch -> batch  d_ff -> model  heads -> model }
model t(x: f32[batch, length, d_ff], y: f32[batch, heads]) {
  output z = x + 1
  output u = y + 1
}
"""


def check_layout_of_tensor(run):
    """T4: axes and dims may have one name, and two dims of different values one axis.
    Source: ops_test.py, layout [0, None, 1] of [batch 128, length 500, d_ff 2048]."""
    plan = run.ask_plan(FEATURES)
    yield
    plan = plan.get()
    run.expect(held(plan, "x"), {"batch": (["batch"], 32), "length": ([], 500),
                                 "d_ff": (["model"], 256)}, "x")
    run.expect(held(plan, "y"), {"batch": (["batch"], 32), "heads": (["model"], 2)}, "y")


OUTER = """
mesh m = 2, n = 3
dim a = 4
dim b = 6
model t(x: f32[a, b], u: f32[a], v: f32[b]) {
  output y = x + 1
  output z = sum(u * v)
}
"""


def check_two_dims_on_an_axis(run):
    """L1: two dims of one value over one axis are an error, MC0607, of inputs, parameters
    and what is computed; on different axes they are none."""
    run.expect(run.error(OUTER, "--layout", "a=m,b=m"), "MC0607", "a=m,b=m on [a, b]")
    vectors = OUTER.replace("x: f32[a, b], ", "").replace("x + 1", "broadcast(u, b)")
    run.expect(run.error(vectors, "--layout", "a=m,b=m"), "MC0607", "a result [a, b]")
    plan = run.ask_plan(OUTER, "m=2,n=3", "a=m,b=n")
    yield
    run.expect(held(plan.get(), "x"), {"a": (["m"], 2), "b": (["n"], 2)}, "a=m,b=n")


def check_two_axes_for_a_dim(run):
    """L2: two rules for one dim are an error, MC0605, whatever the mesh has; an axis that it
    lacks is one as well, MC0601, where Mesh-TensorFlow ignores the rule. A dim over both axes
    is written as such."""
    run.expect(run.error(OUTER, "--layout", "a=m,a=n"), "MC0605", "a=m,a=n on m, n")
    run.expect(run.error(OUTER, "--mesh", "m=2", "--layout", "a=m,b=n"), "MC0601", "b=n on m")
    run.expect(run.error(OUTER, "--mesh", "m=2", "--layout", "a -> m, b -> n"), "MC0601",
               "b -> n on m")
    run.expect(run.error(OUTER, "--mesh", "m=2", "--layout", "a=m,a=n"), "MC0605", "a=m,a=n on m")
    run.expect(held(run.plan(OUTER, "m=2,n=3", "b=m+n"), "x"), {"a": ([], 4),
                                                               "b": (["m", "n"], 1)}, "b=m+n")


UNEVEN = """
dim a = 3
dim b = 7
model t(x: f32[a, b]) {
  param w: f32[b, a'] = normal()
  output y    = einsum(x, w -> a, a')
  output rows = sum(x, over = a)
  output loss = mean(y ^ 2)
}
"""


def check_uneven(run):
    """L3: sizes need not divide. 3 and 7 positions on 2, 4 and 5 devices give the values
    and gradients of plain sums."""
    x, w = draw("L3 x", (3, 7)), draw("L3 w", (7, 3))
    left, right = Array(*x), Array(*w)
    y = make((3, 3), lambda i, j: sum(left[i, k] * right[k, j] for k in range(7)))
    rows = make((7,), lambda k: sum(left[i, k] for i in range(3)))
    product = Array(y, (3, 3))
    slope = make((7, 3), lambda k, j: sum(left[i, k] * 2 / 9 * product[i, j] for i in range(3)))
    run.expect_same(UNEVEN, [("m=2", "a=m"), ("m=4", "a=m"), ("m=4", "b=m"),
                             ("m=2,n=5", "a=m,b=n")],
                    {"x": x}, ("y", "rows", "loss"), {"y": y, "rows": rows, "grad w": slope},
                    params={"w": w}, grads=("w",))
    plan = run.ask_plan(UNEVEN, "m=2", "a=m")
    yield
    run.expect(held(plan.get(), "x"), {"a": (["m"], 2), "b": ([], 7)},
               "3 positions on 2 devices")


CHAIN = """
dim a = 4
dim b = 3
dim c = 6
dim d = 5
model t(x: f32[a, b], y: f32[b, c], z: f32[c, d]) {
  output w = einsum(x, y, z -> a, d)
}
"""
TWO_VECTORS = """
dim a = 4
dim b = 6
model t(x: f32[a], y: f32[b]) {
  output s = einsum(x, y ->)
}
"""


def check_three_operands(run):
    """L4: an einsum of three operands under a layout that no single product of its first
    two could have. Mesh-TensorFlow refuses it since it looks at the union of all dims."""
    x, y, z = draw("L4 x", (4, 3)), draw("L4 y", (3, 6)), draw("L4 z", (6, 5))
    one, two, three = Array(*x), Array(*y), Array(*z)
    w = make((4, 5), lambda i, j: sum(one[i, k] * two[k, l] * three[l, j]
                                      for k in range(3) for l in range(6)))
    run.expect_same(CHAIN, [("m=2", "a=m,c=m"), ("m=3", "a=m,c=m"), ("m=2,n=2", "a=m,c=m,d=n")],
                    {"x": x, "y": y, "z": z}, ("w",), {"w": w})
    x, y = draw("L4 u", (4,)), draw("L4 v", (6,))
    run.expect_same(TWO_VECTORS, [("m=2", "a=m,b=m")], {"x": x, "y": y}, ("s",),
                    {"s": [sum(x[0]) * sum(y[0])]})


def check_unknown_names(run):
    """L5: a rule with a name that matches nothing is an error, where Mesh-TensorFlow leaves
    the value whole and says nothing. An axis of one device may be named."""
    for text, code in (("z -> m", "MC0603"), ("z=m", "MC0603"), ("a=z", "MC0601"),
                       ("a -> m unless z", "MC0603"), ("params: a -> m", "MC0604"),
                       ('"z": a -> m', "MC0609")):
        run.expect(run.error(OUTER, "--mesh", "m=2,n=3", "--layout", text), code, text)
    run.expect(run.plan(OUTER, "m=2,n=1", "a=m,b=n")["devices"], 2, "an axis of one device")


IMAGE = """
mesh processor_rows = 2, processor_cols = 4
dim batch    = 100
dim rows     = 28
dim cols     = 28
dim channels = 3
model t(image: f32[batch, rows, cols, channels]) { output z = image + 1 }
"""


def check_image(run):
    """L6: the layouts of an image in Mesh-TensorFlow's README: how large the slices are and
    which device has which."""
    mesh = "processor_rows=2,processor_cols=4"
    sizes = {"": (100, 28, 28, 3), "batch=processor_cols": (25, 28, 28, 3),
             "rows=processor_rows,cols=processor_cols": (100, 14, 7, 3)}
    who = ["--tensor", "image", "--layout"]
    lines = run.text("plan", IMAGE, *who, "batch=processor_cols").splitlines()
    # Devices (0, 3) and (1, 3), row-major in a mesh of 2 times 4.
    run.expect([line.split() for line in lines if "devices 3" in line],
               [["batch", "75:100,", "rows", "0:28,", "cols", "0:28,", "channels", "0:3",
                 "devices", "3,", "7"]], "batch=processor_cols")
    lines = run.text("plan", IMAGE, *who, "rows=processor_rows,cols=processor_cols").splitlines()
    run.expect([line.split() for line in lines if line.endswith("device 1")],
               [["batch", "0:100,", "rows", "0:14,", "cols", "7:14,", "channels", "0:3",
                 "device", "1"]], "rows=processor_rows,cols=processor_cols")
    run.expect(run.error(IMAGE, "--layout", "batch=processor_rows,rows=processor_rows"),
               "MC0607", "batch=processor_rows,rows=processor_rows")
    plans = {layout: run.ask_plan(IMAGE, mesh, layout)
             for layout in (*sizes, "channels=processor_rows")}
    yield
    for layout, size in sizes.items():
        lies = held(plans[layout].get(), "image")
        run.expect(tuple(count for _, count in lies.values()), size, f"slices of '{layout}'")
    # Three channels on two devices are no error here: the second one has one.
    lies = held(plans["channels=processor_rows"].get(), "image")
    run.expect(lies["channels"], (["processor_rows"], 2), "channels=processor_rows")


ORDER = """
mesh rows = 2, cols = 3
dim a = 2
dim b = 3
layout { a -> rows  b -> cols }
model t(x: f32[a, b]) { output y = x + 1 }
"""


def check_numbers_of_devices(run):
    """C30: the number of a device is row-major in the mesh: of 2 times 3 devices number 4
    has the coordinates (1, 1)."""
    text = run.text("plan", ORDER, "--device", "4")
    run.expect("device 4 is rows=1, cols=1" in text, True, "device 4")
    run.expect("a 1:2@rows, b 1:2@cols" in text, True, "what device 4 holds")
    other = run.text("plan", ORDER, "--mesh", "cols=3,rows=2", "--device", "4")
    run.expect("device 4 is cols=2, rows=0" in other, True, "device 4 of the other order")


CASES = {
    "T1": check_meshes,
    "T2": check_layout_forms,
    "T3": check_axis_of_dim,
    "T4": check_layout_of_tensor,
    "L1": check_two_dims_on_an_axis,
    "L2": check_two_axes_for_a_dim,
    "L3": check_uneven,
    "L4": check_three_operands,
    "L5": check_unknown_names,
    "L6": check_image,
    "C30": check_numbers_of_devices,
}

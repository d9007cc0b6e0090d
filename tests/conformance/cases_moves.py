"""Dims that become other dims, shifts, halos, and collectives alone: each value is a
reordering, so it is exact. Source of the cases: defects and measurements of
Mesh-TensorFlow's reshape, shift and halo_exchange."""

import itertools
import math

from harness import Array, make, sent, wire_bytes

FLOAT = 4  # bytes


def name_dims(prefix, shape):
    return [f"{prefix}_{place}" for place in range(len(shape))]


def reshape(source, old, new):
    """An expression for `source` of the dims `old`, (name, size) pairs, with the dims `new`:
    the same numbers in row-major order."""
    flat, stride = [], 1
    for name, size in reversed(new):
        flat.insert(0, name if stride == 1 else f"{stride} * {name}")
        stride *= size
    flat = " + ".join(flat)
    digits, stride = [], math.prod(size for _, size in old)
    for place, (name, size) in enumerate(old):
        stride //= size
        digit = f"({flat})" if stride == 1 else f"floor(({flat}) / {stride})"
        digits.append(f"{name} = {digit}" + (f" % {size}" if place else ""))
    return f"{source}[{', '.join(digits)}]"


SHAPES = ((16,), (2, 8), (4, 4), (8, 2), (2, 2, 4), (2, 4, 2), (4, 2, 2))


def find_laid_out():
    """All 63 ways in which 16 elements with up to three dims lie on a mesh of two axes: the
    shape, and which dim the one and the other axis split."""
    return [(shape, m, n) for shape in SHAPES
            for m in (None, *range(len(shape))) for n in (None, *range(len(shape)))
            if m is None or m != n]


def write_reshapes(sources, targets):
    """A spec that reshapes each of the sources to each of the targets."""
    dims, rules, pairs = [], [], {}
    for prefix, laid_out in (("s", sources), ("t", targets)):
        for number, (shape, *axes) in laid_out.items():
            names = name_dims(f"{prefix}{number}", shape)
            pairs[prefix, number] = list(zip(names, shape))
            dims += [f"dim {name} = {size}" for name, size in pairs[prefix, number]]
            rules += [f"{names[place]} -> {axis}" for axis, place in zip("mn", axes)
                      if place is not None]
    inputs = [f"x{number}: f32[{', '.join(name for name, _ in pairs['s', number])}]"
              for number in sources]
    outputs = [f"output y{one}_{other} = "
               + reshape(f"x{one}", pairs["s", one], pairs["t", other])
               for one in sources for other in targets]
    return "\n".join(["mesh m = 2, n = 2", *dims, "layout {", *rules, "}",
                      f"model reshapes({', '.join(inputs)}) {{", *outputs, "}"])


def check_all_reshapes(run):
    """C7: 0 to 15 with up to three dims, on every layout over two axes, to every other one:
    63 * 63 = 3969 reshapes. Mesh-TensorFlow computes 264 of them wrongly, such as a: 8 on m
    to b: 8 on n, and refuses more than a thousand."""
    laid_out = find_laid_out()
    run.expect(len(laid_out), 63, "ways to lie")
    targets = dict(enumerate(laid_out))
    wanted = [float(number) for number in range(16)]
    pairs = {f"y{one}_{other}": (laid_out[one], laid_out[other])
             for one in targets for other in targets}
    run.expect(len(pairs), 3969, "reshapes")
    found = run.run(write_reshapes(targets, targets),
                    {f"x{number}": (wanted, shape) for number, (shape, *_) in targets.items()},
                    pairs)
    wrong = [pair for name, pair in pairs.items() if found[name] != wanted]
    run.expect(wrong, [], f"{len(wrong)} of 3969 reshapes are wrong")
    known = run.ask("""
mesh m = 2, n = 2
dim a = 8
dim b = 8
layout { a -> m  b -> n }
model f(x: f32[a]) {
  output y = rename(x, a -> b)
}
""", {"x": (wanted[:8], (8,))}, ("y",))
    yield
    run.expect(known.get()["y"], wanted[:8], "a: 8 on m to b: 8 on n")


def write_reshape(old, new, layout):
    dims = "".join(f"dim {name} = {size}\n" for name, size in (*old, *new))
    return f"""
mesh m = 2
{dims}layout {{ {layout} }}
model f(x: f32[{', '.join(name for name, _ in old)}]) {{
  output y = {reshape('x', old, new)}
}}
"""


SQUARE, LINE = (("a", 4), ("b", 4)), (("c", 16),)


def check_reshape(run, old, new, layout, most):
    """Later the value, and what a device sends: `most` elements. The plan."""
    text = write_reshape(old, new, layout)
    size = math.prod(size for _, size in old)
    wanted = [float(number) for number in range(size)]
    found = run.ask(text, {"x": (wanted, [size for _, size in old])}, ("y",))
    plan = run.ask_plan(text)

    def check():
        run.expect(found.get()["y"], wanted, layout)
        run.expect_at_most(wire_bytes(plan.get()), most * FLOAT, f"{layout}: bytes sent")

    run.later(check)
    return plan


def check_merged_dims(run):
    """C8: [a: 4, b: 4] to [c: 16] over two devices. Slicing sends nothing; of b: m to c: m
    each device has 8 elements and sends half of them; of a: m to c whole it sends all 8."""
    plans = {layout: check_reshape(run, SQUARE, LINE, layout, most)
             for layout, most in (("c -> m", 0), ("b -> m  c -> m", 4), ("a -> m", 8),
                                  ("a -> m  c -> m", 0))}
    yield
    found = {layout: sent(plan.get()) for layout, plan in plans.items()}
    run.expect(found["c -> m"], [], "c -> m")
    run.expect([count for *_, count in found["b -> m  c -> m"]], [8],
               "b -> m, c -> m: elements of a device")
    run.expect(found["a -> m"], [("all_gather", "m", 8)], "a -> m")
    run.expect(found["a -> m  c -> m"], [], "a -> m, c -> m")


ODD = (("a", 3), ("b", 4))
DOZEN = (("c", 12),)


def check_split_dims(run):
    """C9: [c: 16] to [a: 4, b: 4] with c and b over one axis, which Mesh-TensorFlow does not
    implement. That of one device gathers 8 elements of the other one."""
    check_reshape(run, LINE, SQUARE, "c -> m  b -> m", 8)


def check_split_dims_sent(run):
    """C9-sent: each device needs 4 elements of the other one, as in C8 the other way round."""
    check_reshape(run, LINE, SQUARE, "c -> m  b -> m", 4)


def check_odd_dims(run):
    """C10: [a: 3, b: 4] to [c: 12] on two devices, where Mesh-TensorFlow fails: slices of
    what is whole are sent by nobody. Back from [c: 12] the second device lacks 2 elements."""
    check_reshape(run, ODD, DOZEN, "c -> m", 0)
    check_reshape(run, DOZEN, ODD, "a -> m  c -> m", 2)
    check_reshape(run, ODD, DOZEN, "a -> m  c -> m", 12)


def check_odd_dims_sent(run):
    """C10-sent: of blocks of 8 and 4 elements that become blocks of 6 and 6 two are sent."""
    check_reshape(run, ODD, DOZEN, "a -> m  c -> m", 2)


SHIFT = """
mesh m = {devices}
dim n = 8
layout {{ n -> m }}
model f(x: f32[n]) {{
  {outputs}
}}
"""


def count_sent(offset, devices):
    """Elements that Mesh-TensorFlow's shift sends around a ring: all but `rest` of a block
    by `steps` devices, the rest by one more; nothing by none."""
    block = 8 // devices
    steps, rest = divmod(offset, block)
    return sum(count for count, by in ((block - rest, steps), (rest, steps + 1))
               if by % devices)


def check_shifts(run):
    """C11: a dim of 8 moved by -18 to 18 positions, around a ring and with zeros, over 2, 4
    and 8 devices: the values, and of some moves alone at most what Mesh-TensorFlow's pairs of
    permutes send. A move by all positions or more reads nothing, which is an error here."""
    offsets = range(-18, 19)
    outputs = {f"w{offset + 18}": f"x[n = (n - ({offset})) % size(n)]" for offset in offsets}
    outputs |= {f"z{offset + 18}": f"x[n = n - ({offset}) else 0]" for offset in range(-7, 8)}
    lines = "\n  ".join(f"output {name} = {text}" for name, text in outputs.items())
    numbers = [float(number) for number in range(1, 9)]
    wanted = {}
    for offset in offsets:
        wanted[f"w{offset + 18}"] = [numbers[(place - offset) % 8] for place in range(8)]
        wanted[f"z{offset + 18}"] = [Array(numbers, (8,))[place - offset,] for place in range(8)]
    found = {devices: run.ask(SHIFT.format(devices=devices, outputs=lines),
                              {"x": (numbers, (8,))}, outputs) for devices in (1, 2, 4, 8)}
    beyond = "\n  ".join(f"output y{offset + 18} = x[n = n - ({offset}) else 0]"
                         for offset in (-18, -8, 8, 18))
    run.expect(run.errors(SHIFT.format(devices=2, outputs=beyond)), ["MC0509"] * 4, beyond)
    plans = {}
    for devices, offset in itertools.product((2, 4, 8), (-7, -4, -3, 1, 2, 3, 6)):
        for index in (f"(n - ({offset})) % size(n)", f"n - ({offset}) else 0"):
            text = SHIFT.format(devices=devices, outputs=f"output y = x[n = {index}]")
            plans[devices, offset, index] = run.ask_plan(text)
    run.expect([count_sent(3, devices) for devices in (2, 4, 8)], [3, 2, 1], "the formula")
    yield
    for devices, asked in found.items():
        for name, values in asked.get().items():
            run.expect(values, wanted[name], f"{outputs[name]} on {devices} devices")
    for (devices, offset, index), plan in plans.items():
        run.expect_at_most(wire_bytes(plan.get()), FLOAT * count_sent(offset, devices),
                           f"{index} on {devices} devices: bytes sent")


HALO = """
mesh m = {devices}
dim block = 4
dim i     = 4
dim n     = 16
dim j     = 4 + 2 * {width}
layout {{ block -> m  block' -> m  n -> m }}
model f(x: f32[block, i]) {{
  let line = x[block = floor(n / 4), i = n % 4]
  output zeros = line[n = 4 * block' + j - {width} else 0]
}}
"""


def write_ring(devices, width):
    """The same around a ring of 16."""
    text = HALO.format(devices=devices, width=width)
    return text.replace(f"4 * block' + j - {width} else 0",
                        f"(4 * block' + j + {16 - width}) % 16").replace("zeros", "ring")


HALOS = tuple(itertools.product((1, 2, 4, 5), (2, 4)))


def check_halos(run):
    """C12: 1, 2, 4 and 5 elements from either side of each of 4 blocks of 4, the blocks over
    2 and 4 devices; 5 come from two neighbours. With zeros at the ends, and around a ring."""
    numbers = [float(number) for number in range(1, 17)]
    line = Array(numbers, (16,))
    checked = []
    for width, devices in (*HALOS, (4, 1)):
        shape = (4, 4 + 2 * width)
        wanted = {
            "zeros": make(shape, lambda b, j, w=width: line[4 * b + j - w,]),
            "ring": make(shape, lambda b, j, w=width: numbers[(4 * b + j - w) % 16]),
        }
        ring = write_ring(devices, width)
        zeros = HALO.format(devices=devices, width=width)
        both = ring.replace("output ring", zeros.splitlines()[-2] + "\n  output ring")
        checked.append((f"{width} on {devices} devices", wanted,
                        run.ask(both, {"x": (numbers, (4, 4))}, wanted)))
    yield
    for what, wanted, found in checked:
        for name, values in wanted.items():
            run.expect(found.get()[name], values, f"{what}, {name}")


def check_halos_sent(run):
    """C12-sent: on 4 devices, and on 2 with 1 or 2 elements, a device takes what its blocks
    lack, once: in the middle of 4 devices at most 5 and 4."""
    for width, devices in HALOS:
        if devices == 4 or width < 4:
            check_sent(run, width, devices)


def check_wide_halos_sent(run):
    """C12-wide: on 2 devices 4 and 5 elements from one side, the other one has only zeros,
    are what a device takes, not all 8."""
    for width in (4, 5):
        check_sent(run, width, 2)


def check_sent(run, width, devices):
    length = 16 // devices
    lacks = max(sum(1 for at in (*range(start - width, start),
                                 *range(start + length, start + length + width))
                    if 0 <= at < 16) for start in range(0, 16, length))
    check_bytes(run, HALO.format(devices=devices, width=width), FLOAT * lacks,
                f"{width} on {devices} devices: bytes sent")


def check_bytes(run, text, most, what):
    plan = run.ask_plan(text)
    run.later(lambda: run.expect_at_most(wire_bytes(plan.get()), most, what))


def check_rings_sent(run):
    """C12-ring: around a ring a device takes as many elements from either side."""
    for width, devices in HALOS:
        lacks = min(2 * width, 16 - 16 // devices)
        check_bytes(run, write_ring(devices, width), FLOAT * lacks,
                    f"{width} on {devices} devices: bytes sent")


def write_collectives(devices, sizes):
    """A sum that is whole, one that is split, a gather, an exchange of all with all, and a
    move to the next device, of each size."""
    dims, rules, inputs, outputs = [f"dim d = {devices}", f"dim e = {devices}"], ["d -> m"], [], []
    for number, size in enumerate(sizes):
        s, p = f"s{number}", f"p{number}"
        block = -(-size // devices)
        dims += [f"dim {s} = {size}", f"dim {p} = {size}"]
        rules += [f"{p} -> m"]
        inputs += [f"x{number}: f32[d, {s}]", f"q{number}: f32[{p}]"]
        outputs += [f"output reduced{number} = sum(x{number}, over = d)",
                    f"output scattered{number} = rename(sum(x{number}, over = d), {s} -> {p})",
                    f"output gathered{number} = rename(q{number}, {p} -> {s})",
                    f"output turned{number} = rename(x{number}, d -> e, {s} -> {p})",
                    f"output moved{number} = q{number}[{p} = ({p} + {block}) % {size}]"]
    return "\n".join([f"mesh m = {devices}", *dims, "layout {", *rules, "}",
                      f"model f({', '.join(inputs)}) {{", *outputs, "}\n"])


def check_collectives(run):
    """C29: each collective alone on 1 to 7 devices, with 4, 1030 and 1024 elements for each
    device: sums of integers, exact in f32, and reorderings."""
    checked = []
    for devices in range(1, 8):
        sizes = (4, 1030, 1024 * devices)
        arrays, wanted = {}, {}
        for number, size in enumerate(sizes):
            x = [float((7 * place) % 1013 - 500) for place in range(devices * size)]
            q = [float((11 * place) % 997 - 400) for place in range(size)]
            block = -(-size // devices)
            sums = [sum(x[place::size]) for place in range(size)]
            arrays |= {f"x{number}": (x, (devices, size)), f"q{number}": (q, (size,))}
            wanted |= {f"reduced{number}": sums, f"scattered{number}": sums,
                       f"gathered{number}": q, f"turned{number}": x,
                       f"moved{number}": [q[(at + block) % size] for at in range(size)]}
        text = write_collectives(devices, sizes)
        checked.append((devices, wanted, run.ask(text, arrays, wanted), run.ask_plan(text)))
    yield
    for devices, wanted, found, plan in checked:
        for name, values in wanted.items():
            run.expect(found.get()[name], values, f"{name} on {devices} devices")
        if devices > 1:
            kinds = {kind for kind, *_ in sent(plan.get())}
            run.expect(kinds >= {"all_reduce", "all_gather", "all_to_all"}, True,
                       f"kinds on {devices} devices: {sorted(kinds)}")


CASES = {
    "C7": check_all_reshapes,
    "C8": check_merged_dims,
    "C9": check_split_dims,
    "C9-sent": check_split_dims_sent,
    "C10": check_odd_dims,
    "C10-sent": check_odd_dims_sent,
    "C11": check_shifts,
    "C12": check_halos,
    "C12-sent": check_halos_sent,
    "C12-wide": check_wide_halos_sent,
    "C12-ring": check_rings_sent,
    "C29": check_collectives,
}

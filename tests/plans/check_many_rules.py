"""A table of 40 dims on four axes is planned, and a wrong one refused, within 2 s and 512 MB; also
where one parameter has all of the dims."""

import resource
import sys
import time

import compiler

DIMS, AXES = 40, "abcd"
SECONDS, KIB = 2, 512 * 1024


def get_spec(rules):
    """A chain of contractions: each replaces one of the four dims that the value has by one on
    the same axis, which the parameter between them has too."""
    lines = [f"mesh {', '.join(f'{axis} = 2' for axis in AXES)}"]
    lines += [f"dim d{i} = {3 + i % 5}" for i in range(DIMS)]
    lines += ["layout {"]
    lines += [f"  d{i} -> {AXES[i % 4]}" + (f" unless d{i - 4}" if i > 3 else "")
              for i in range(DIMS)]
    lines += [*rules, "}", "model chain(x: f32[d0, d1, d2, d3]) {", "  let h3 = x"]
    for i in range(4, DIMS):
        lines += [f"  param w{i}: f32[d{i - 4}, d{i}] = normal(stddev = 0.1)",
                  f"  let h{i} = tanh(einsum(h{i - 1}, w{i}, over = d{i - 4}))"]
    lines += [f"  output loss = mean(h{DIMS - 1})", "}",
              "train { minimize loss optimizer adam(lr = 0.1) steps 1 }"]
    return "\n".join(lines) + "\n"


def get_wide_spec(rules):
    """One parameter of all dims, most of them of one position."""
    dims = [f"d{i}" for i in range(DIMS)]
    lines = [f"mesh {', '.join(f'{axis} = 2' for axis in AXES)}",
             *(f"dim {dim} = {2 if i < 10 else 1}" for i, dim in enumerate(dims)),
             "dim batch = 4", "layout {", "  batch -> a", *rules, "}",
             f"model wide(x: f32[batch, {', '.join(dims[:4])}]) {{",
             f"  param w: f32[{', '.join(dims)}] = normal(stddev = 0.1)",
             f"  let y = einsum(x, w, over = ({', '.join(dims[:4])}))", "  let z = tanh(y)",
             "  output loss = mean(z * z)", "}",
             "train { minimize loss optimizer adam(lr = 0.1) steps 1 }"]
    return "\n".join(lines) + "\n"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    path = f"{meshc.folder.name}/chain.mesh"
    roles = ["  params: * -> a", "  gradients: * -> (a, b)", "  state: * -> (b, c)"]
    values = [f'  "h{i}": d{i} -> ()' for i in range(4, DIMS, 3)]
    exempt = [f"  params: d{i} -> {AXES[(i + 1) % 4]} unless d{i - 4}" for i in range(4, DIMS, 2)]
    # Each with what it exits with.
    cases = {"dims": ([], 0), "roles": (roles, 0), "values": (values, 0),
             "unless": (exempt, 0), "all": (roles[:1] + values + exempt, 0),
             "fights": ([f"  params: d{DIMS - 1} -> d"] +
                        [f"  params: d{i} -> d" for i in range(3, DIMS - 1)], 1),
             "unknown": ([f'  "g{i}": d{i} -> ()' for i in range(DIMS)], 1)}
    specs = {name: (get_spec(rules), code) for name, (rules, code) in cases.items()}
    specs["one tensor"] = (get_wide_spec(
        ["  state: d0 -> b", "  state: d1 -> c", "  params: * -> (b, c)", "  gradients: * -> d",
         '  "z": d6 -> d']), 0)
    problems = []
    for name, (spec, code) in specs.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(spec)
        start = time.monotonic()
        meshc.run("plan", path, code=code)
        seconds = time.monotonic() - start
        print(f"{name}: {seconds:.2f} s")
        if seconds > SECONDS:
            problems.append(f"{name}: {seconds:.2f} s")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{most // 1024} MiB at most")
    if most > KIB:
        problems.append(f"{most} KiB")
    if problems:
        sys.exit("\n".join(problems))


main()

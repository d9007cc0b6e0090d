"""A measurement as tables for reading and as JSON."""

import json
import re

from cases import LOOP_GOAL

MIB = 1 << 20


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def ratio(case):
    return case["jax"]["step_ms"] / case["meshc"]["step_ms"]


def speed_table(cases):
    rows = []
    for case in cases:
        limit = case["limit"]
        total = limit["matmul_ms"] + limit["memory_ms"]
        reached = "yes" if ratio(case) >= case["goal"] else "no"
        rows.append([case["program"], case["layout"], f"{case['meshc']['step_ms']:.0f}",
                     f"{case['jax']['step_ms']:.0f}", f"{ratio(case):.2f}",
                     f"{case['goal']:.1f}", reached,
                     f"{total:.0f} ({limit['matmul_ms']:.0f} + {limit['memory_ms']:.0f})"])
    return table(["program", "layout", "meshc ms", "JAX ms", "JAX / meshc", "goal", "reached",
                  "limit ms (matmul + memory)"], rows)


def loop_table(cases):
    """Programs with loops beside the same ones written out; empty if there is none."""
    rows = []
    for case in cases:
        if not case["written_out"]:
            continue
        loops, written_out = case["meshc"], case["written_out"]
        fraction = written_out["step_ms"] / loops["step_ms"]
        rows.append([case["program"], case["layout"], f"{loops['step_ms']:.0f}",
                     f"{written_out['step_ms']:.0f}", f"{fraction:.2f}", f"{LOOP_GOAL:.2f}",
                     "yes" if fraction >= LOOP_GOAL else "no",
                     f"{loops['peak_bytes_per_device'] / MIB:.1f}",
                     f"{written_out['peak_bytes_per_device'] / MIB:.1f}"])
    if not rows:
        return ""
    return "\nLoops beside the same programs written out:\n\n" + table(
        ["program", "layout", "loops ms", "written out ms", "written out / loops", "goal",
         "reached", "loops MiB per device", "written out MiB per device"], rows) + "\n"


def time_table(cases):
    """Where the workers' time goes, in percent."""
    names = list(cases[0]["meshc"]["worker_ms"])
    rows = []
    for case in cases:
        spent = case["meshc"]["worker_ms"]
        total = sum(spent.values())
        rows.append([case["program"], case["layout"]]
                    + [f"{100 * spent[name] / total:.0f} %" for name in names])
    return table(["program", "layout", *names], rows)


def cost_table(cases):
    rows = [[case["program"], case["layout"],
             f"{case['meshc']['compile_s']:.2f}", f"{case['jax']['compile_s']:.2f}",
             f"{case['meshc']['peak_bytes_per_device'] / MIB:.1f}",
             f"{case['jax']['peak_bytes_per_device'] / MIB:.1f}",
             f"{case['meshc']['collective_payload_bytes'] / MIB:.1f}"]
            for case in cases]
    return table(["program", "layout", "meshc compile s", "JAX compile s",
                  "meshc MiB per device", "JAX MiB per device",
                  "collectives bring in, MiB per device"], rows)


def render(result):
    cases = result["cases"]
    rates = result["rates"]
    jax = cases[0]["jax"]["version"]
    return f"""# meshc beside JAX {jax}, {result['date']}

{result['processor']}, {result['cores']} cores; oneDNN matmul {rates['flops'] / 1e9:.0f} Gflop/s,
copy {rates['bytes'] / 1e9:.1f} GB/s (read plus written), all threads. Times are of one SGD step,
medians of rounds measured in turns; eight CPU devices but for "one device".

{speed_table(cases)}
{loop_table(cases)}
Where the time of meshc's workers goes:

{time_table(cases)}

Compile time (JAX: trace, lower and compile; meshc: spec to linked executable) and memory (JAX: arguments, outputs and
temporaries of the compiled step, donated ones once; meshc: the arena):

{cost_table(cases)}
"""


def write(result, folder):
    """Writes <date>-<machine>.md and .json; returns the path of the former."""
    machine = re.sub(r"[^a-z0-9]+", "-", result["processor"].lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['date']}-{machine}-{result['cores']}-cores.md"
    path.write_text(render(result), encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path

"""The results of gpu_run.py as text."""

from report import table

# What a GPU's kernels should reach of the copy's rate, by what they are.
GOALS = {"elementwise": 0.92, "forward rows": 0.85, "backward rows": 0.75}

# A loss after twelve steps that differs by more from the CPU mesh's is no matter of
# the order of f32 sums, whose relative error is some 1e-7 each.
LOSS_DIFFERENCE = 1e-3


def mark(is_reached):
    return "yes" if is_reached else "**no**"


def is_missing(entry, step):
    """Whether a step of a part is not measured, or not to its end."""
    return entry["steps"].get(step, {"unfinished": True}).get("unfinished", False)


def find_error(case, *keys):
    """What failed in a step or in its programs; empty: nothing."""
    return next((entry["error"] for entry in (case, *(case.get(key, {}) for key in keys))
                 if "error" in entry), "")


def get_difference(case, key):
    """Of a loss from the CPU's, relative."""
    return abs(case[key]["loss"] - case["reference_loss"]) / abs(case["reference_loss"])


def get_prediction(case, gpu):
    """Of this machine for a step of a case, ms; None where there is none."""
    machines = [machine for machine in case.get("predicted_ms", {})
                if machine in gpu.lower()]
    return case["predicted_ms"][machines[0]] if machines else None


def training_table(trainings, gpu):
    rows = []
    for case in trainings:
        start = [case["name"], case.get("mesh", "")]
        if error := find_error(case, "graphs"):
            rows.append([*start, f"**failed**: {error}"] + [""] * 4)
            continue
        difference = get_difference(case, "graphs")
        predicted = get_prediction(case, gpu)
        rows.append([*start, f"{case['graphs']['step_ms_median']:.3f}",
                     f"{predicted:.3f}" if predicted else "",
                     f"{case['graphs']['loss']:.7g}", f"{difference:.1e}",
                     mark(difference <= LOSS_DIFFERENCE)])
    return table(["program", "mesh, all on one GPU", "step ms", "predicted", "loss after 12 steps",
                  "difference from the CPU", f"at most {LOSS_DIFFERENCE:g}"], rows)


def launch_table(trainings):
    rows = []
    for case in trainings:
        start = [case["name"], case.get("mesh", "")]
        if error := find_error(case, "graphs", "no_graphs"):
            rows.append([*start, f"**failed**: {error}"] + [""] * 4)
            continue
        graphs, single = (case[key]["step_ms_median"] for key in ("graphs", "no_graphs"))
        saved = (single - graphs) * 1000 / case["launches"]
        difference = get_difference(case, "no_graphs")
        rows.append([*start, f"{graphs:.3f}", f"{single:.3f}", str(case["launches"]),
                     f"{saved:.2f}", mark(difference <= LOSS_DIFFERENCE)])
    return table(["program", "mesh, all on one GPU", "step ms, graphs", "step ms, no graphs",
                  "launches", "saved per launch, us", "loss is the CPU's"], rows)


def get_large_kernels(commands):
    """The generated kernels that move a tenth of what the largest moves: not the loss,
    not the update of a small parameter."""
    kernels = [command for command in commands if command["kind"] == "kernel"]
    largest = max((command["bytes"] for command in kernels), default=0)
    return [command for command in kernels if command["bytes"] >= 0.1 * largest]


def kernel_table(kernels):
    rows = []
    for case in kernels:
        if error := find_error(case, "profile"):
            rows.append([case["name"], f"**failed**: {error}"] + [""] * 6)
            continue
        for command in get_large_kernels(case["profile"]["costliest"]):
            family = case["families"].get(command["phase"])
            if not family:
                continue
            part = command["gbytes_per_s_per_thread"] * 1e9 / case["copy_bytes_per_s"]
            rows.append([case["name"], command["name"], command["phase"],
                         f"{command['worker_ms']:.4f}",
                         f"{command['gbytes_per_s_per_thread']:.0f}", f"{part:.2f}",
                         f"{GOALS[family]:.2f}", mark(part >= GOALS[family])])
    return table(["tensors", "kernel", "phase", "ms", "GB/s", "of the copy", "goal", "reached"],
                 rows)


def product_tables(groups):
    """A table per program, and what better choices would save of all its products."""
    parts = []
    for group in groups:
        if "error" in group:
            parts.append(f"{group['name']}: **failed**: {group['error']}")
            continue
        rows = []
        for entry in group["products"]:
            batch = "".join(f"{size} x " for size in entry["batch"])
            rows.append([entry["name"], f"{batch}{entry['m']} x {entry['n']} x {entry['k']}",
                         f"{entry['element']} to {entry['result']}", entry["ending"],
                         str(entry["per_step"]), str(entry["candidates"]),
                         f"{entry['chosen_ms']:.4f}", f"{entry['best_ms']:.4f}",
                         f"{entry['chosen_ms'] / entry['best_ms']:.2f}",
                         f"{entry['separate_ms']:.4f}" if entry["separate_ms"] else "",
                         f"{entry['chosen_gflops'] / 1000:.1f}"])
        chosen, best = (sum(entry["per_step"] * entry[key] for entry in group["products"])
                        for key in ("chosen_ms", "best_ms"))
        parts += [table([group["name"], "m x n x k", "types", "ending", "per step",
                         "algorithms", "chosen ms", "fastest ms", "chosen / fastest",
                         "a call per batch ms", "chosen Tflop/s"], rows),
                  f"\nAll products of a step: chosen {chosen:.3f} ms, fastest {best:.3f} ms, "
                  f"ratio {chosen / best:.3f}.\n"]
    return "\n".join(parts)


def peer_text(steps, gpu):
    rows, missing, programs = [], [], []
    for name, case in steps.items():
        if error := find_error(case, "meshc"):
            missing.append(f"- {name}: **failed**: {error}")
            continue
        sizes = ", ".join(f"{size} {number}" for size, number in case["sizes"].items())
        programs.append(f"- {case['name']}: {case['what']}; {sizes}")
        ours, theirs = case["meshc"]["step_ms"], case["theirs"]
        predicted = get_prediction(case, gpu)
        start = [case["name"], case["peer"], f"{predicted:.2f}" if predicted else "",
                 f"{ours:.2f}"]
        if "error" in theirs:
            missing.append(f"- {case['peer']}: not measured: {theirs['error']}")
            rows.append([*start, "", "", "", ""])
            continue
        ratio = theirs["step_ms"] / ours
        versions = ", ".join(f"{key} {value}" for key, value in theirs["versions"].items())
        rows.append([*start, f"{theirs['step_ms']:.2f}", f"{ratio:.2f}", mark(ratio >= 1),
                     versions])
    return "\n".join([
        *dict.fromkeys(programs), "",
        table(["program", "peer", "meshc, predicted ms", "meshc, step ms", "peer, step ms",
               "peer / meshc", "meshc not slower", "versions"], rows), "", *missing])


def test_text(steps):
    failures, skips, tests = [], {}, 0
    for step in steps:
        failures += [step["error"]] if "error" in step else []
        failures += step.get("failures", [])
        tests += len(step.get("tests", []))
        skips.update(step.get("skips", {}))
    lines = [f"{tests} tests, {len(failures)} failed, {len(skips)} skipped."]
    lines += [f"- **left out**: {step['left_out']}." for step in steps if step.get("left_out")]
    lines += [f"- {step['relu']}." for step in steps if step.get("relu")]
    lines += [f"- **failed**: {name}" for name in failures]
    lines += [f"- skipped: {name}: {reason}" for name, reason in skips.items()]
    return "\n".join(lines)


def sanitizer_text(steps):
    lines = []
    for name, step in steps.items():
        result = step.get("missing") or step.get("error") or \
            f"exit code {step['code']}, {step['said']}"
        lines.append(f"- {name}: {result}")
    return "\n".join(lines)


def run_text(result):
    """When and where what was measured."""
    texts = []
    for number, run in enumerate(result["runs"]):
        counts = {part: sum(step["run"] == number for step in entry["steps"].values())
                  for part, entry in result["parts"].items()}
        parts = ", ".join(f"{part} ({count} of {len(result['parts'][part]['planned'])})"
                          for part, count in counts.items() if count)
        texts.append(f"{run['time']}: {parts or 'nothing'}\n\n```\n{run['system'].strip()}\n```\n")
    return "\n".join(texts)


def missing_text(result):
    """What no run has measured, whatever ended it."""
    lines = []
    for part, entry in result["parts"].items():
        missing = [step for step in entry["planned"] if is_missing(entry, step)]
        if not missing:
            continue
        known = [f"{step} (in part)" if step in entry["steps"] else
                 f"{step} (not in {entry['late'][step]:.1f} s)" if step in entry["late"] else step
                 for step in missing]
        is_all = known == entry["planned"]
        lines.append(f"- {part}: **not measured**" + ("" if is_all else f": {'; '.join(known)}"))
    for name, text in result["runs"][-1]["lacks"].items():
        lines.append(f"- {name} **cannot be used**: {text}")
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def copy_text(kernels):
    rates = sorted({case["copy_bytes_per_s"] for case in kernels if "copy_bytes_per_s" in case})
    return " and ".join(f"{rate / 1e9:.0f} GB/s" for rate in rates)


def render(result):
    notice = ""
    if result["emulated"]:
        notice = ("\n**A dry run with the emulated driver: that it runs means something, "
                  "its times mean nothing.**\n")
    texts = [f"# meshc on {result['gpu']}, {result['date']}\n{notice}\n"
             f"Executables made {result['made']}; measured\n\n{run_text(result)}"
             f"{missing_text(result)}"]
    for part, title, text in (
            ("tests", "Kernel tests", lambda steps: test_text(steps.values())),
            ("trainings", "Trainings on 1, 2, 4 and 8 logical devices",
             lambda steps: training_table(steps.values(), result["gpu"])),
            ("programs", "Other programs",
             lambda steps: training_table(steps.values(), result["gpu"])),
            ("kernels", "Kernels", lambda steps: (
                f"What a kernel reads and writes by its operands, f32, beside a copy on the "
                f"device: {copy_text(steps.values())} (read plus\nwritten), the best of five "
                f"in the same run.\n\n{kernel_table(steps.values())}")),
            ("products", "Matrix products", lambda steps: (
                "cuBLASLt's first algorithm, which executables use, and the fastest of those "
                f"it offers.\n\n{product_tables(steps.values())}")),
            ("peers", "PyTorch and JAX",
             lambda steps: peer_text(steps, result["gpu"])),
            ("sanitizer", "compute-sanitizer", sanitizer_text),
            ("launches", "Launches",
             lambda steps: launch_table(steps.values()))):
        if steps := result["parts"][part]["steps"]:
            texts.append(f"\n## {title}\n\n{text(steps)}\n")
    return "".join(texts)

"""Compares the step that `meshc plan --machine cpu` predicts with the one measured.

    predict.py [--rounds N] [--busy] [--program NAME]... [--output FILE.md]

The host is measured first if it has not been (meshc doctor --measure). The figure of
a measured step is the shortest of all rounds, since a busy host makes steps longer
only. Whatever is wrong stays in the table: nothing is fitted to it.

With --busy it is the processor time of a step divided by the worker threads, from two
runs of different lengths: where others use the processors, too, the wall clock says
nothing. What threads wait for one another is then missing.
"""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from cases import PROGRAMS
from compare import BIN, ROOT, run_json, spec_arguments
from report import table

# Below it what the system does beside weighs too much.
SHORTEST_MS = 10
FEW_STEPS = 1


def measure_host():
    shown = subprocess.run([BIN / "meshc", "doctor"], capture_output=True, text=True,
                           check=True).stdout
    if "not measured" in shown:
        shown = subprocess.run([BIN / "meshc", "doctor", "--measure"], capture_output=True,
                               text=True, check=True).stdout
    return shown[shown.index("host "):]


def predict(program, layout):
    plan = run_json([BIN / "meshc", "plan", *spec_arguments(program.spec, program, layout),
                     "--machine", "cpu", "--emit", "json"])
    return plan["totals"]["step_us"] / 1e3


def measure(program, layout, rounds):
    return [run_json([BIN / "meshc", "run", *spec_arguments(program.spec, program, layout),
                      "--bench", program.steps]) for _ in range(rounds)]


def get_processor_seconds(program, steps):
    """Of a run of so many steps, and the threads it had.

    Without the system's part, which is the pages of the start, zeroed, and varies by a
    second from run to run.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([program, "bench", "--steps", str(steps)], stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"{program} ended with status {status}")
        output.seek(0)
        return usage.ru_utime, json.load(output)["threads"]


def measure_busy(program, layout, rounds):
    """The same of the processor time of steps."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = os.path.join(folder, program.name)
        subprocess.run([BIN / "meshc", "compile",
                        *spec_arguments(program.spec, program, layout), "-o", compiled],
                       check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
        steps = []
        for _ in range(rounds):
            few, threads = get_processor_seconds(compiled, FEW_STEPS)
            many, _ = get_processor_seconds(compiled, FEW_STEPS + program.steps)
            steps.append((many - few) / program.steps / threads * 1e3)
        return [{"step_ms_min": step, "step_ms_median": step} for step in steps]


def get_error(case):
    return case["predicted_ms"] / case["measured_ms"] - 1


def check_order(cases):
    """How many pairs of layouts of one program are predicted in their order."""
    right = total = 0
    for _, group in itertools.groupby(cases, key=lambda case: case["program"]):
        for one, other in itertools.combinations(list(group), 2):
            total += 1
            right += ((one["predicted_ms"] < other["predicted_ms"])
                      == (one["measured_ms"] < other["measured_ms"]))
    return right, total


def render(cases, host, busy):
    rows = [[case["program"], case["layout"], f"{case['predicted_ms']:.1f}",
             f"{case['measured_ms']:.1f}", f"{case['median_ms']:.1f}",
             f"{100 * get_error(case):+.0f} %"] for case in cases]
    errors = [abs(get_error(case)) for case in cases if case["measured_ms"] >= SHORTEST_MS]
    right, total = check_order(cases)
    text = table(["program", "layout", "predicted ms", "shortest ms", "median ms", "error"], rows)
    if busy:
        text = ("Measured steps are processor time divided by threads: the host was "
                "busy.\n\n" + text)
    if errors:
        text += (f"\n\nOf steps over {SHORTEST_MS} ms: mean error "
                 f"{100 * statistics.mean(errors):.0f} %, worst {100 * max(errors):.0f} %.")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (f"# Predicted beside measured, {datetime.date.today()}\n\n{text}\n"
            f"Pairs of layouts in the right order: {right} of {total}.\n"
            f"Load of the host at the end: {load}.\n\n```\n{host}```\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--program", action="append", choices=[p.name for p in PROGRAMS])
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    host = measure_host()
    cases = []
    for program in PROGRAMS:
        if arguments.program and program.name not in arguments.program:
            continue
        for layout in program.layouts:
            rounds = (measure_busy if arguments.busy else measure)(
                program, layout, arguments.rounds)
            cases.append({
                "program": program.name, "layout": layout.name,
                "predicted_ms": predict(program, layout),
                "measured_ms": min(entry["step_ms_min"] for entry in rounds),
                "median_ms": statistics.median(entry["step_ms_median"] for entry in rounds)})
            print(json.dumps(cases[-1]), file=sys.stderr)
    text = render(cases, host, arguments.busy)
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
        arguments.output.with_suffix(".json").write_text(json.dumps(cases, indent=1) + "\n",
                                                         encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measures meshc beside JAX and writes a report.

Both are measured in turns, round by round, so that what else the machine does
falls on both. The figure of a side is the median over the rounds of the median
step. JAX stays in one process per layout and waits while meshc runs.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

import report
from cases import PROGRAMS

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
BIN = ROOT / "build" / "bin"


def run_json(command, root=ROOT, **options):
    """What a command prints, in the folder of a repository; its failure ends this process."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                            cwd=root, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with exit code "
                 f"{result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout)


def spec_arguments(spec, program, layout):
    return [spec, "--mesh", layout.mesh_option,
            "--layout", program.layout_option(layout)]


def run_meshc(spec, program, layout, steps):
    return run_json([BIN / "meshc", "run", *spec_arguments(spec, program, layout),
                     "--bench", steps, "--profile"])


class JaxWorker:
    """The process that holds one program under one layout in JAX."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, BENCH / "jax_worker.py", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.compiled = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"JAX ended with exit code {self.process.wait()}")
        return json.loads(line)

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.read()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def median_of(rounds, field):
    return statistics.median(entry[field] for entry in rounds)


def get_cache_bytes():
    """Of the last cache; 0 where the system does not say."""
    sizes = [subprocess.run(["getconf", f"LEVEL{level}_CACHE_SIZE"], capture_output=True,
                            text=True, check=False).stdout.strip() for level in (2, 3, 4)]
    return max(int(size) if size.isdigit() else 0 for size in sizes)


def get_limit(plan, rates):
    """Milliseconds that no implementation of this plan can beat.

    Matmuls and convolutions at the machine's best rate of matmuls, and at the copy rate what
    has to go through memory: SGD reads each parameter and its gradient and writes the
    parameter; a collective reads what each device brings in and writes as much; an input
    is read, and a stored value written and read, if all devices' parts of it together are
    larger than the last cache. A value with more readers may need more passes.
    """
    cache = get_cache_bytes()
    devices = plan["devices"]
    flops = devices * sum(op["flops_per_device"] * op["repeat"] for op in plan["ops"]
                          if op["kind"] in ("matmul", "convolution"))
    params = devices * sum(tensor["bytes_per_device"] for tensor in plan["tensors"]
                           if tensor["role"] == "param")
    passes = {"input": 1, "activation": 2, "gradient": 2}
    activations = 0
    for tensor in plan["tensors"]:
        size = devices * tensor["bytes_per_device"]
        if tensor["stored"] and size > cache:
            activations += passes.get(tensor["role"], 0) * size
    payload = devices * plan["totals"]["collective_payload_bytes"]
    return {"matmul_ms": flops / rates["flops"] * 1e3,
            "memory_ms": (3 * params + activations + 2 * payload) / rates["bytes"] * 1e3}


def measure(program, layout, steps, rounds, rates):
    plan = run_json([BIN / "meshc", "plan", *spec_arguments(program.spec, program, layout),
                     "--emit", "json"])
    ours, theirs, written_out = [], [], []
    worker = JaxWorker(program.name, layout.mesh_option)
    for number in range(rounds):
        ours.append(run_meshc(program.spec, program, layout, steps))
        if program.written_out:
            written_out.append(run_meshc(program.written_out, program, layout, steps))
        theirs.append(worker.run(steps))
        print(f"{program.name} {layout.name} round {number + 1}: meshc "
              f"{ours[-1]['step_ms_median']:.0f} ms, JAX "
              f"{theirs[-1]['step_ms_median']:.0f} ms", file=sys.stderr)
    worker.stop()
    return {
        "written_out": written_out and {
            "step_ms": median_of(written_out, "step_ms_median"),
            "compile_s": median_of(written_out, "compile_s"),
            "peak_bytes_per_device": written_out[0]["peak_bytes_per_device"],
            "rounds": written_out,
        },
        "program": program.name,
        "layout": layout.name,
        "goal": program.goals[layout.name],
        "meshc": {
            "step_ms": median_of(ours, "step_ms_median"),
            "step_ms_min": min(entry["step_ms_min"] for entry in ours),
            "compile_s": median_of(ours, "compile_s"),
            "peak_bytes_per_device": ours[0]["peak_bytes_per_device"],
            "threads": ours[0]["threads"],
            "worker_ms": {name: statistics.median(entry["worker_ms"][name] for entry in ours)
                          for name in ours[0]["worker_ms"]},
            "collective_payload_bytes": plan["totals"]["collective_payload_bytes"],
            "rounds": ours,
        },
        "jax": {
            "version": worker.compiled["jax"],
            "step_ms": median_of(theirs, "step_ms_median"),
            "step_ms_min": min(entry["step_ms_min"] for entry in theirs),
            "compile_s": worker.compiled["compile_s"],
            "peak_bytes_per_device": worker.compiled["peak_bytes_per_device"],
            "rounds": theirs,
        },
        "limit": get_limit(plan, rates),
    }


def measure_rates():
    """The best matmul and copy rates of the machine, in flop/s and byte/s."""
    results = run_json([BIN / "meshc-rates", "--benchmark_format=json"],
                       env={**os.environ, "OMP_NUM_THREADS": "1"})["benchmarks"]
    return {unit: max(entry[unit] for entry in results if unit in entry)
            for unit in ("flops", "bytes")}


def read_processor():
    """The processor's name and its widest vectors: one name covers several generations."""
    fields = {}
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), " ".join(value.split()))
    if "model name" not in fields:
        sys.exit("/proc/cpuinfo names no processor")
    flags = fields.get("flags", "").split()
    widest = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"))
                   if flag in flags), None)
    return fields["model name"] + (f" {widest}" if widest else "")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of one measurement; by program if not given")
    parser.add_argument("--program", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--layout", choices=sorted({
        layout.name for program in PROGRAMS for layout in program.layouts}))
    parser.add_argument("--output", type=pathlib.Path, default=BENCH / "results",
                        help="folder for the report")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rates = measure_rates()
    cases = [measure(program, layout, arguments.steps or program.steps,
                     arguments.rounds, rates)
             for program in PROGRAMS for layout in program.layouts
             if arguments.program in (None, program.name)
             and arguments.layout in (None, layout.name)]
    result = {"date": datetime.date.today().isoformat(), "processor": read_processor(),
              "cores": os.cpu_count(), "rates": rates, "cases": cases}
    path = report.write(result, arguments.output)
    print(path.read_text(encoding="utf-8"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()

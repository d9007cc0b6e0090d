"""Measures what gpu_cases.py made on a GPU: gpu_run.py FOLDER OUTPUT [options].

Kernel tests, trainings and other programs beside the CPU's losses, kernels beside the copy of the same run, products
beside cuBLASLt's fastest, the decoder blocks and GPT-2 beside PyTorch and JAX, compute-sanitizer,
launches with and without CUDA graphs. Each of these parts consists of steps, and the
report in OUTPUT is written after every one, with whatever failed in it and what is not
measured: a run that is killed leaves a valid report. A later run of the same executables
on the same kind of GPU goes on with it. The exit code is 3 if a test, a program or a
comparison of losses failed, or a part was not finished. Needs nothing but Python 3.11
and the driver's libraries; with an emulated driver OUTPUT may not be bench/results.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import time
import traceback

import gpu_report
from gpu_driver import Driver
from gpu_process import CLOCK, OutOfTime, Worker, get_error, get_library_path, run
from gpu_record import Record

BENCH = pathlib.Path(__file__).resolve().parent

# What their Python needs, without which they are not measured.
PEERS = {"JAX": ["jax"], "PyTorch": ["torch", "transformers"]}
PEER_ROUNDS = 3

# The parts in the order in which they are measured, with the seconds that each may take
# if the command line says nothing else: together less than the ten minutes after which
# borrowed machines are usually taken away. What a part leaves goes to those behind it and
# then to those that were not finished. PyTorch and JAX compile for minutes,
# compute-sanitizer is slow.
PARTS = {"tests": 90, "trainings": 40, "programs": 80, "kernels": 60, "products": 60,
         "peers": 160, "sanitizer": 60, "launches": 30}

# What they do nothing useful without.
LIBRARIES = {part: ["cuBLASLt"]
             for part in ("trainings", "programs", "kernels", "products", "peers", "sanitizer",
                          "launches")}

# To ask the runtime what is on this machine.
SYSTEM_LIMIT_S = 60

# Of a kernel test, which runs a program of a few launches three times: a kernel that does
# not end is told from a machine that is slow.
TEST_LIMIT_S = 20

# Characters of what a test says that failed: each algorithm of a product has its own.
MAX_FAILURE = 400

# Small cases of every family for compute-sanitizer, which is slow. Names end in '-' and a
# number; to GoogleTest '-' means "but not", so '?' stands for it.
SANITIZED_TESTS = ("Kernels.*TailsOfOneRow*:Kernels.*GpuTypes*:Kernels.*GpuColumns*_2?*:"
                   "Kernels.*GpuRows*_0?*:Moves.f32_sum_*:Moves.bf16_none_*")


class Bench:
    def __init__(self, arguments, driver):
        self.folder = arguments.folder
        self.arguments = arguments
        self.driver = driver
        build = json.loads((self.folder / "cases.json").read_text())
        self.made, self.cases = build["made"], build["cases"]
        #: Of the kernel tests, as text; empty: none.
        self.left_out = build.get("left_out", "")
        #: For the programs in the folder alone: those of this machine have newer libraries.
        self.library_path = get_library_path(self.folder / "lib")
        #: Of the copy, measured by the first step that needs it.
        self.copy_rate = None

    def run(self, program, *arguments, **variables):
        return run([self.folder / program, *arguments],
                   env={**os.environ, "LD_LIBRARY_PATH": self.library_path, **variables})

    def get_cases(self, kind):
        return [case for case in self.cases if case["kind"] == kind]

    def get_steps(self, part):
        """The steps of a part: their names, and what measures each, given what an earlier
        run has left of it or None."""
        if part == "tests":
            return {"all": self.run_tests}
        if part == "sanitizer":
            return {f"{tool}, {what}":
                    lambda _, tool=tool, what=what: self.run_sanitizer(tool, what)
                    for tool in ("memcheck", "racecheck") for what in self.get_sanitized()}
        if part == "peers":
            return {f"{case['name']} beside {peer}":
                    lambda _, case=case, peer=peer: self.run_peer(case, peer)
                    for case in self.get_cases(part) for peer in case["scripts"]}
        kind, measure_case = {"trainings": ("training", self.run_training),
                              "programs": ("program", self.run_training),
                              "launches": ("training", self.run_launches),
                              "kernels": ("kernels", self.run_kernels),
                              "products": ("products", self.run_products)}[part]
        return {" on ".join(filter(None, (case["name"], case.get("mesh")))):
                lambda known, case=case: {**case, **measure_case(case, known)}
                for case in self.get_cases(kind)}

    def bench(self, program, *flags, steps=None):
        done = self.run(program, "bench", "--steps", steps or self.arguments.steps, *flags)
        if done.returncode != 0:
            return {"error": get_error(done)}
        return json.loads(done.stdout)

    def get_system(self):
        """What the runtime finds on this machine: driver, libraries, GPUs."""
        try:
            done = self.run(self.get_cases("training")[0]["cuda"], "info")
        except OutOfTime as over:
            return f"info does not end in its time\n{over.output}"
        if done.returncode != 0:
            return get_error(done)
        lines = [line.strip() for line in done.stdout.splitlines()]
        return "\n".join(lines[lines.index("machine") + 1 if "machine" in lines else 0:])

    #===-- Tests -------------------------------------------------------------===#

    def run_tests(self, known):
        """In as many processes as it takes: a test that ends its process has failed, and
        the next process runs those behind it."""
        found = {"left_out": self.left_out,
                 **{key: (known or {}).get(key, empty)
                    for key, empty in (("tests", []), ("failures", []), ("skips", {}),
                                       ("relu", ""))}}
        number = len(found["tests"])
        while True:
            # To GoogleTest '-' in a name would mean "but not".
            ran = "-" + ":".join(name.replace("-", "?") for name in found["tests"])
            try:
                done = self.run("kernel_replay", self.folder / "kernels", "--deadline",
                                TEST_LIMIT_S, GTEST_FILTER=ran if found["tests"] else "*")
            except OutOfTime as over:
                done, output = None, over.output
            else:
                output = done.stdout
            # Said by the process that ran this test.
            for line in output.splitlines():
                if line.startswith("cuBLASLt's relu "):
                    found["relu"] = line
            before = len(found["tests"])
            for name, (end, said) in read_tests(output).items():
                if not end and not done:
                    continue  # the next run's
                found["tests"].append(name)
                if end == "SKIPPED":
                    found["skips"][name] = " ".join(said[1:]).strip()
                elif end != "OK":
                    said = said[1:6] if end else [get_test_end(done), *said[-4:]]
                    found["failures"].append(f"{name}: {' '.join(said)}"[:MAX_FAILURE])
            if not done:
                if len(found["tests"]) == number:
                    raise OutOfTime
                return {**found, "unfinished": True}
            if re.search(r"^\[==========\] .* ran\.", output, re.MULTILINE):
                return found
            if len(found["tests"]) == before:
                return {**found, "error": get_error(done)}

    #===-- Executables -------------------------------------------------------===#

    def run_training(self, case, _):
        return {"graphs": self.bench(case["cuda"], "--devices-per-gpu", case["devices"],
                                     steps=case["steps"])}

    def run_launches(self, case, known):
        return {**self.run_training(case, known),
                "no_graphs": self.bench(case["cuda"], "--devices-per-gpu", case["devices"],
                                        "--no-graphs", steps=case["steps"])}

    def run_kernels(self, case, _):
        """Beside the copy on this machine, in this run."""
        if self.copy_rate is None:
            self.copy_rate = self.driver.copy_rate(self.arguments.copy_bytes,
                                                   self.arguments.copies)
        return {"copy_bytes_per_s": self.copy_rate,
                "profile": self.bench(case["cuda"], "--no-graphs", "--profile")}

    def run_products(self, case, known):
        products = known["products"] if known else []
        # In turns, 16 algorithms three times and once to warm up: 1 s for a product of a ms.
        options = ["--candidates", "16", "--iterations", "2", "--rounds", "1"] \
            if self.arguments.quick else ["--candidates", "16", "--rounds", "3"]
        try:
            done = self.run("gpu_matmuls", *options, "--skip", len(products),
                            self.folder / case["plan"])
        except OutOfTime as over:
            # The last line may be a part of one.
            found = [json.loads(line) for line in over.output.split("\n")[:-1]]
            if not found:
                raise
            return {"products": products + found, "unfinished": True}
        if done.returncode != 0:
            return {"error": get_error(done)}
        return {"products": products + [json.loads(line) for line in done.stdout.splitlines()]}

    #===-- Peers -------------------------------------------------------------===#

    def run_peer(self, case, name):
        """meshc and a peer in turns, meshc alone where that is not installed."""
        python = os.environ.get("MESHC_PEERS_PYTHON", sys.executable)
        found = {**case, "peer": name}
        if problem := next(filter(None, (find_missing(python, package)
                                         for package in PEERS[name])), ""):
            return {**found, "meshc": get_median([self.bench(case["cuda"])]),
                    "theirs": {"error": problem}}
        worker = Worker([python, "-B", BENCH / "gpu_peers" / case["scripts"][name], "--device",
                         "cpu" if self.arguments.peers_on_cpu else "cuda",
                         *(f"--{name}={size}" for name, size in case["sizes"].items())])
        ours, theirs = [], []
        try:
            for _ in range(PEER_ROUNDS):
                mine = self.bench(case["cuda"])
                theirs.append(worker.run(self.arguments.steps))
                ours.append(mine)
        except OutOfTime:
            if not theirs:
                raise
            found["unfinished"] = True
        finally:
            worker.stop()
        return {**found, "meshc": get_median(ours),
                "theirs": get_median(theirs, versions=worker.versions)}

    #===-- compute-sanitizer -------------------------------------------------===#

    def get_sanitized(self):
        """What compute-sanitizer runs, by what it is."""
        commands = {"kernel tests": [self.folder / "kernel_replay", self.folder / "kernels",
                                     f"--gtest_filter={SANITIZED_TESTS}"]}
        for case in self.get_cases("sanitized"):
            commands[f"steps of {case['name']} on {case['devices']} devices"] = [
                self.folder / case["cuda"], "bench", "--steps", "1", "--no-graphs",
                "--devices-per-gpu", case["devices"]]
        return commands

    def run_sanitizer(self, tool, what):
        program = shutil.which("compute-sanitizer") or shutil.which(
            "compute-sanitizer", path="/usr/local/cuda/bin")
        if not program:
            return {"missing": "compute-sanitizer is not on this machine"}
        # It is a program of this machine, and env's child is not.
        done = run([program, "--tool", tool, "--error-exitcode", "9",
                    "--target-processes", "all",
                    shutil.which("env"), f"LD_LIBRARY_PATH={self.library_path}",
                    *self.get_sanitized()[what]])
        said = [line for line in (done.stdout + done.stderr).splitlines()
                if line.startswith("=========")]
        return {"code": done.returncode, "said": " ".join(said[-1:]) or get_error(done)}


def measure_part(bench, record, part, names):
    """Measures steps until CLOCK's end. No step takes more than half of what is left for
    those behind it, so that one that hangs costs only its share."""
    steps = bench.get_steps(part)
    end = CLOCK.end
    for name in names:
        started = time.monotonic()
        left = end - started
        if left <= 0:
            break
        CLOCK.end = end if name == names[-1] else started + left / 2
        try:
            found = steps[name](record.get_beginning(part, name))
        except OutOfTime:
            record.add_late(part, name, time.monotonic() - started)
        except Exception as error:  # pylint: disable=broad-except # the others must not be lost
            traceback.print_exc()
            record.add(part, name, {"name": name, "error": f"{type(error).__name__}: {error}"})
        else:
            record.add(part, name, found)
        print(f"{part}, {name}: {time.monotonic() - started:.1f} s", file=sys.stderr)


def measure(bench, record, parts, budgets, started):
    """Whether all steps of these parts were measured."""
    end = started
    for part in parts:
        end += budgets[part]
        CLOCK.end = end
        # One that is measured already is measured again only as a whole.
        measure_part(bench, record, part, record.get_missing(part) or
                     list(bench.get_steps(part)))
    for part in parts:
        CLOCK.end = end
        measure_part(bench, record, part, record.get_missing(part))
        missing = record.get_missing(part)
        print(f"{part}: " + (f"out of time, {len(missing)} steps are left" if missing
                             else "done"), file=sys.stderr)
    return not any(record.get_missing(part) for part in parts)


def find_lacks(system):
    """Why libraries that the runtime looks for cannot be used, by name."""
    lacks = {}
    for line in system.splitlines():
        name, _, text = line.partition(" ")
        if name in ("driver", "cuBLASLt", "NCCL") and \
                not re.match(r"(CUDA )?\d+(\.\d+)+, ", text.strip()):
            lacks[name] = text.strip()
    return lacks


def read_tests(output):
    """Tests in GoogleTest's output: how each ended (OK, FAILED, SKIPPED; None if it did
    not), and what was printed in between, the place first."""
    tests, name = {}, None
    for line in output.splitlines():
        if start := re.match(r"\[ RUN      \] (\S+)", line):
            name = start[1]
            tests[name] = (None, [])
        elif name and (end := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+)", line)):
            tests[name] = (end[1], tests[name][1])
            name = None
        elif name:
            tests[name][1].append(line)
    return tests


def get_test_end(done):
    """How a test has ended its process."""
    if done.returncode == -signal.SIGALRM:
        return f"did not end in {TEST_LIMIT_S} s;"
    return f"exit code {done.returncode} {' '.join(done.stderr.strip().splitlines()[-3:])};"


def find_missing(python, package):
    """Why `python` does not have `package`; empty if it has. That takes no time, unlike
    an import."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"
    try:
        done = run([python, "-c", code])
    except OSError as error:
        return f"cannot run {python}: {error.strerror}"
    return "" if done.returncode == 0 else f"{python} has no package {package}"


def get_median(rounds, **fields):
    for entry in rounds:
        if "error" in entry:
            return entry
    return {**fields, "rounds": rounds,
            "step_ms": statistics.median(entry["step_ms_median"] for entry in rounds)}


def is_sound(result):
    """Whether nothing failed and all losses are the CPU's. Goals may be missed."""
    return "**failed**" not in gpu_report.render(result) and not any("**" in text for text in (
        *(gpu_report.training_table(result["parts"][part]["steps"].values(), result["gpu"])
          for part in ("trainings", "programs")),
        gpu_report.launch_table(result["parts"]["launches"]["steps"].values())))


def parse_parts(text):
    parts = text.split(",")
    for part in parts:
        if part not in PARTS or parts.count(part) > 1:
            raise argparse.ArgumentTypeError(
                f"'{part}' is " + (f"none of {', '.join(PARTS)}" if part not in PARTS
                                   else "there twice"))
    return [part for part in PARTS if part in parts]


def parse_budgets(text):
    """SECONDS for each part, or PART=SECONDS,..."""
    budgets = dict(PARTS)
    for entry in text.split(","):
        part, _, seconds = entry.rpartition("=")
        try:
            number = float(seconds)
        except ValueError:
            number = 0
        if number <= 0 or (part and part not in PARTS) or (not part and entry != text):
            raise argparse.ArgumentTypeError(
                f"expected SECONDS or PART=SECONDS,..., found '{text}'")
        for name in [part] if part else PARTS:
            budgets[name] = number
    return budgets


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="parts, with the seconds that each may take:\n" + "\n".join(
            f"  {part:10} {seconds:4}" for part, seconds in PARTS.items()))
    parser.add_argument("folder", type=pathlib.Path, help="what bench/gpu.sh build made")
    parser.add_argument("output", type=pathlib.Path, help="where the report is or will be")
    parser.add_argument("--parts", type=parse_parts, metavar="PART,...",
                        help="what to measure: what is missing in these, or all of one that "
                             "is complete; otherwise all that is missing in the report")
    parser.add_argument("--budget", type=parse_budgets, default=PARTS,
                        metavar="SECONDS | PART=SECONDS,...",
                        help="the time that each part, or these, may take; what one "
                             "leaves is for the others")
    parser.add_argument("--steps", type=int, default=10, help="of a measurement")
    parser.add_argument("--copy-bytes", type=int, default=1 << 30)
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="products are timed only once")
    parser.add_argument("--peers-on-cpu", action="store_true", help="for a dry run")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    return arguments


def main():
    started = time.monotonic()
    arguments = parse_arguments()
    # What ends the run ends what it has started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        sys.exit(f"there is no GPU to measure: {error}")
    if driver.is_emulated() and arguments.output.resolve() == BENCH / "results":
        sys.exit("bench/results is for real GPUs; this driver is emulated")
    bench = Bench(arguments, driver)
    record = Record(arguments.output, bench.made, driver,
                    {part: bench.get_steps(part) for part in PARTS})
    parts = arguments.parts or [part for part in PARTS if record.get_missing(part)]
    CLOCK.end = started + min(SYSTEM_LIMIT_S, sum(arguments.budget[part] for part in parts))
    system = bench.get_system()
    lacks = find_lacks(system)
    record.begin(system, lacks)
    for name, text in lacks.items():
        without = [part for part in parts if name in LIBRARIES.get(part, [])]
        print(f"{name}: {text}; not measured without it: {', '.join(without) or 'nothing'}",
              file=sys.stderr)
        parts = [part for part in parts if part not in without]
    is_whole = measure(bench, record, parts, arguments.budget, started) and \
        not any(record.get_missing(part) for part in arguments.parts or PARTS)
    report = record.path.with_suffix(".md")
    print(report.read_text(encoding="utf-8"))
    print(f"written to {report}")
    sys.exit(0 if is_whole and is_sound(record.result) else 3)


main()

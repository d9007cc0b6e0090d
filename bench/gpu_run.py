"""Measures what gpu_cases.py made on a GPU: gpu_run.py FOLDER OUTPUT [options].

Kernel tests, losses beside those of the CPU mesh, kernels beside the copy of the same
run, products beside cuBLASLt's fastest, the decoder blocks beside PyTorch and JAX,
compute-sanitizer. Each of these parts consists of steps, and the report in OUTPUT is
written after every one, with whatever failed in it and what is not measured: a run that
is killed leaves a valid report. A later run of the same executables on the same GPUs
goes on with it. The exit code is 3 if a test or a comparison of losses failed, or a part
was not finished in its time. Needs nothing but Python 3 and the driver's libraries; with
an emulated driver OUTPUT may not be bench/results.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_report
from gpu_driver import Driver

BENCH = pathlib.Path(__file__).resolve().parent

PEERS = {"PyTorch": ("torch", "torch_block.py"), "JAX": ("jax", "jax_block.py")}
PEER_ROUNDS = 3
# How long a worker may take to end when nothing more is asked of it.
PEER_END_S = 10

# The parts in the order in which they are measured, with the seconds that each may take
# if the command line says nothing else: together less than the ten minutes after which
# borrowed machines are usually taken away. PyTorch and JAX compile for minutes,
# compute-sanitizer is slow.
PARTS = {"tests": 90, "trainings": 60, "kernels": 60, "products": 60, "peers": 200,
         "sanitizer": 110}

# To ask the runtime what is on this machine.
SYSTEM_LIMIT_S = 60

# The kernel tests run in as many processes, one after the other.
TEST_SHARDS = 4

# Small cases of every family for compute-sanitizer, which is slow. Names end in '-' and a
# number; to GoogleTest '-' means "but not", so '?' stands for it.
SANITIZED_TESTS = ("Kernels.*TailsOfOneRow*:Kernels.*GpuTypes*:Kernels.*GpuColumns*_2?*:"
                   "Kernels.*GpuRows*_0?*:Moves.f32_sum_*:Moves.bf16_none_*")


class OutOfTime(Exception):
    """The time of the part is over; what was under way is not measured."""


class Clock:
    """The time that the part under way has left."""

    def __init__(self):
        self.end = float("inf")

    def start(self, seconds):
        self.end = time.monotonic() + seconds

    def get_left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left


CLOCK = Clock()


def run(command, **options):
    left = CLOCK.get_left()
    try:
        return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=False, timeout=left if left < float("inf") else None,
                              **options)
    except subprocess.TimeoutExpired:
        raise OutOfTime from None


def get_error(done):
    """The last lines of what a program that failed said."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"exit code {done.returncode}: " + " ".join(lines[-3:])


class Bench:
    def __init__(self, arguments, driver):
        self.folder = arguments.folder
        self.arguments = arguments
        self.driver = driver
        build = json.loads((self.folder / "cases.json").read_text())
        self.made, self.cases = build["made"], build["cases"]
        libraries = self.folder / "lib"
        if libraries.is_dir():
            known = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{known}" if known else str(libraries)
        #: Of the copy, measured by the first step that needs it.
        self.copy_rate = None

    def get_cases(self, kind):
        return [case for case in self.cases if case["kind"] == kind]

    def get_steps(self, part):
        """The steps of a part: their names, and what measures each."""
        if part == "tests":
            return {f"{index + 1} of {TEST_SHARDS}":
                    lambda index=index: self.run_tests(index) for index in range(TEST_SHARDS)}
        if part == "sanitizer":
            return {f"{tool}, {what}": lambda tool=tool, what=what: self.run_sanitizer(tool, what)
                    for tool in ("memcheck", "racecheck") for what in self.get_sanitized()}
        kind, measure = {"trainings": ("training", self.run_training),
                         "kernels": ("kernels", self.run_kernels),
                         "products": ("products", self.run_products),
                         "peers": ("peers", self.run_peers)}[part]
        return {" on ".join(filter(None, (case["name"], case.get("mesh")))):
                lambda case=case: measure(case) for case in self.get_cases(kind)}

    def bench(self, program, *flags, steps=None):
        done = run([self.folder / program, "bench", steps or self.arguments.steps, *flags])
        if done.returncode != 0:
            return {"error": get_error(done)}
        return json.loads(done.stdout)

    def get_system(self):
        """What the runtime finds on this machine: driver, libraries, GPUs."""
        done = run([self.folder / self.get_cases("training")[0]["cuda"], "info"])
        if done.returncode != 0:
            return get_error(done)
        lines = done.stdout.splitlines()
        starts = [number for number, line in enumerate(lines) if line == "machine"]
        return "\n".join(line.strip() for line in lines[starts[0] + 1:])

    #===-- Tests -------------------------------------------------------------===#

    def run_tests(self, shard):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "tests.json"
            done = run([self.folder / "kernel_replay", self.folder / "kernels",
                        f"--gtest_output=json:{output}"],
                       env={**os.environ, "GTEST_TOTAL_SHARDS": str(TEST_SHARDS),
                            "GTEST_SHARD_INDEX": str(shard)})
            if not output.exists():
                return {"error": get_error(done)}
            report = json.loads(output.read_text())
        failures, skips = [], find_skips(done.stdout)
        for suite in report["testsuites"]:
            for test in suite["testsuite"]:
                name = f"{suite['name']}.{test['name']}"
                if "failures" in test:
                    first = test["failures"][0]["failure"].splitlines()
                    failures.append(f"{name}: {' '.join(first[1:4])}")
        return {"tests": report["tests"], "failures": failures, "skips": skips}

    def run_training(self, case):
        devices = 1
        for axis in case["mesh"].split(","):
            devices *= int(axis.split("=")[1])
        together = ["--devices-per-gpu", devices]
        return {**case, "devices": devices, "cpu": self.bench(case["cpu"], steps=10),
                "graphs": self.bench(case["cuda"], *together, steps=10),
                "no_graphs": self.bench(case["cuda"], *together, "--no-graphs", steps=10)}

    def run_kernels(self, case):
        """Beside the copy on this machine, in this run."""
        if self.copy_rate is None:
            self.copy_rate = self.driver.copy_rate(self.arguments.copy_bytes,
                                                   self.arguments.copies)
        return {**case, "copy_bytes_per_s": self.copy_rate,
                "profile": self.bench(case["cuda"], "--no-graphs", "--profile")}

    def run_products(self, case):
        options = ["--iterations", "2", "--rounds", "1"] if self.arguments.quick else []
        done = run([self.folder / "gpu_matmuls", *options, self.folder / case["plan"]])
        if done.returncode != 0:
            return {**case, "error": get_error(done)}
        return {**case, "products": [json.loads(line) for line in done.stdout.splitlines()]}

    #===-- Peers -------------------------------------------------------------===#

    def run_peers(self, case):
        """meshc and those peers that are installed, in turns."""
        python = os.environ.get("MESHC_PEERS_PYTHON", sys.executable)
        sizes = [f"--{name}={size}" for name, size in case["sizes"].items()]
        peers, workers = {}, {}
        ours, theirs = [], {}
        device = "cpu" if self.arguments.peers_on_cpu else "cuda"
        try:
            for name, (package, script) in PEERS.items():
                if problem := find_missing(python, package):
                    peers[name] = {"error": problem}
                    continue
                theirs[name] = []
                workers[name] = Worker([python, "-B", BENCH / "gpu_peers" / script,
                                        "--device", device, *sizes])
            for _ in range(PEER_ROUNDS):
                ours.append(self.bench(case["cuda"]))
                for name, worker in workers.items():
                    theirs[name].append(worker.run(self.arguments.steps))
        finally:
            for worker in workers.values():
                worker.stop()
        for name, worker in workers.items():
            peers[name] = get_median(theirs[name], versions=worker.versions)
        return {**case, "meshc": get_median(ours), "peers": peers}

    #===-- compute-sanitizer -------------------------------------------------===#

    def get_sanitized(self):
        """What compute-sanitizer runs, by what it is."""
        commands = {"kernel tests": [self.folder / "kernel_replay", self.folder / "kernels",
                                     f"--gtest_filter={SANITIZED_TESTS}"]}
        for case in self.get_cases("sanitized"):
            commands[f"steps of {case['name']} on {case['devices']} devices"] = [
                self.folder / case["cuda"], "bench", "1", "--no-graphs",
                "--devices-per-gpu", case["devices"]]
        return commands

    def run_sanitizer(self, tool, what):
        program = shutil.which("compute-sanitizer") or shutil.which(
            "compute-sanitizer", path="/usr/local/cuda/bin")
        if not program:
            return {"missing": "compute-sanitizer is not on this machine"}
        done = run([program, "--tool", tool, "--error-exitcode", "9",
                    *self.get_sanitized()[what]])
        said = [line for line in (done.stdout + done.stderr).splitlines()
                if line.startswith("=========")]
        return {"code": done.returncode, "said": " ".join(said[-1:])}


class Record:
    """What is measured of some executables on some GPUs, in a JSON file and a report
    beside it; both are whole at any time."""

    def __init__(self, folder, bench, driver):
        gpu = driver.name()
        name = "".join(c if c.isalnum() else "-" for c in gpu.lower())
        folder.mkdir(parents=True, exist_ok=True)
        known = [path for path in sorted(folder.glob(f"*-{name}.json"))
                 if json.loads(path.read_text())["made"] == bench.made]
        today = datetime.date.today().isoformat()
        self.path = known[-1] if known else folder / f"{today}-{name}.json"
        if known:
            self.result = json.loads(self.path.read_text())
        elif self.path.exists():
            sys.exit(f"{self.path} is of other executables; it stays, and nothing is measured")
        else:
            self.result = {"gpu": gpu, "emulated": driver.is_emulated(), "made": bench.made,
                           "date": today, "runs": [], "parts": {}}
        # A report names the steps that no run has come to.
        for part in PARTS:
            entry = self.result["parts"].setdefault(part, {"steps": {}})
            entry["planned"] = list(bench.get_steps(part))

    def get_missing(self, part):
        entry = self.result["parts"][part]
        return [step for step in entry["planned"] if step not in entry["steps"]]

    def begin(self, system):
        self.result["runs"].append({
            "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "system": system})
        self.write()

    def add(self, part, step, found):
        self.result["parts"][part]["steps"][step] = {
            "run": len(self.result["runs"]) - 1, **found}
        self.write()

    def write(self):
        for path, text in ((self.path, json.dumps(self.result, indent=1) + "\n"),
                           (self.path.with_suffix(".md"), gpu_report.render(self.result))):
            whole = path.with_name(path.name + ".new")
            whole.write_text(text, encoding="utf-8")
            whole.replace(path)


def measure(bench, record, parts, budgets):
    """Whether all steps of these parts were measured."""
    for part in parts:
        steps = bench.get_steps(part)
        # One that is measured already is measured again only as a whole.
        names = record.get_missing(part) or list(steps)
        CLOCK.start(budgets[part])
        try:
            for name in names:
                CLOCK.get_left()
                record.add(part, name, steps[name]())
        except OutOfTime:
            print(f"{part}: {budgets[part]} s are over", file=sys.stderr)
        else:
            print(f"{part}: done", file=sys.stderr)
    return not any(record.get_missing(part) for part in parts)


class Worker:
    """A process with a peer's model. It stays while others are measured."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+")
        # Otherwise JAX takes most of the memory that there is at once.
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=environment)
        self.versions = self.read()

    def read(self):
        watch = threading.Timer(min(CLOCK.get_left(), threading.TIMEOUT_MAX), self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if line:
            return json.loads(line)
        self.process.wait()
        CLOCK.get_left()
        self.errors.seek(0)
        last = self.errors.read().strip().splitlines()[-3:]
        return {"error": f"exit code {self.process.returncode}: {' '.join(last)}"}

    def run(self, steps):
        if "error" in self.versions:
            return self.versions
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and read() says how
        return self.read()

    def stop(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(PEER_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def find_skips(output):
    """Why tests were skipped, by name: GoogleTest says it behind "FILE:LINE: Skipped"."""
    skips, reason = {}, None
    for line in output.splitlines():
        if line.endswith(": Skipped"):
            reason = []
        elif reason is not None and line.startswith("[  SKIPPED ] "):
            skips[line.split()[3]] = " ".join(reason)
            reason = None
        elif reason is not None:
            reason.append(line)
    return skips


def find_missing(python, package):
    """Why `python` does not have `package`; empty if it has."""
    try:
        done = run([python, "-c", f"import {package}"])
    except OSError as error:
        return f"cannot run {python}: {error.strerror}"
    if done.returncode == 0:
        return ""
    return f"{python} cannot import {package}: {' '.join(done.stderr.strip().splitlines()[-1:])}"


def get_median(rounds, **fields):
    for entry in rounds:
        if "error" in entry:
            return entry
    return {**fields, "rounds": rounds,
            "step_ms": statistics.median(entry["step_ms_median"] for entry in rounds)}


def is_sound(result):
    tests = result["parts"]["tests"]["steps"].values()
    return not any("error" in shard or shard["failures"] for shard in tests) and \
        "**" not in gpu_report.training_table(result["parts"]["trainings"]["steps"].values())


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
                        help="the time that each part, or these, may take")
    parser.add_argument("--steps", type=int, default=10, help="of a measurement")
    parser.add_argument("--copy-bytes", type=int, default=1 << 30)
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="products are timed only once")
    parser.add_argument("--peers-on-cpu", action="store_true", help="for a dry run")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    return arguments


def main():
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
    record = Record(arguments.output, bench, driver)
    parts = arguments.parts or [part for part in PARTS if record.get_missing(part)]
    CLOCK.start(SYSTEM_LIMIT_S)
    record.begin(bench.get_system())
    is_whole = measure(bench, record, parts, arguments.budget)
    report = record.path.with_suffix(".md")
    print(report.read_text(encoding="utf-8"))
    print(f"written to {report}")
    sys.exit(0 if is_whole and is_sound(record.result) else 3)


main()

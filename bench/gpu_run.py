"""Measures what gpu_cases.py made on a GPU: gpu_run.py FOLDER OUTPUT [options].

Kernel tests, losses beside those of the CPU mesh, kernels beside the copy of the same
run, products beside cuBLASLt's fastest, the decoder blocks beside PyTorch and JAX,
compute-sanitizer. Writes a report into OUTPUT, with whatever failed in it; the exit
code is 3 if a test or a comparison of losses did. Needs nothing but Python 3 and the
driver's libraries; with an emulated driver OUTPUT may not be bench/results.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import gpu_report
from gpu_driver import Driver

BENCH = pathlib.Path(__file__).resolve().parent

PEERS = {"PyTorch": ("torch", "torch_block.py"), "JAX": ("jax", "jax_block.py")}
PEER_ROUNDS = 3

# Of any program; the longest takes a minute or two on a GPU, compute-sanitizer ten.
TIME_LIMIT_S = 1200

# Small cases of every family for compute-sanitizer, which is slow. Names end in '-' and a
# number; to GoogleTest '-' means "but not", so '?' stands for it.
SANITIZED_TESTS = ("Kernels.*TailsOfOneRow*:Kernels.*GpuTypes*:Kernels.*GpuColumns*_2?*:"
                   "Kernels.*GpuRows*_0?*:Moves.f32_sum_*:Moves.bf16_none_*")


def run(command, **options):
    command = [str(part) for part in command]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=TIME_LIMIT_S, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {TIME_LIMIT_S} s")


def get_error(done):
    """The last lines of what a program that failed said."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"exit code {done.returncode}: " + " ".join(lines[-3:])


class Bench:
    def __init__(self, arguments):
        self.folder = arguments.folder
        self.arguments = arguments
        self.cases = json.loads((self.folder / "cases.json").read_text())
        libraries = self.folder / "lib"
        if libraries.is_dir():
            known = os.environ.get("LD_LIBRARY_PATH")
            os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{known}" if known else str(libraries)

    def get_cases(self, kind):
        return [case for case in self.cases if case["kind"] == kind]

    def map_cases(self, kind, measure):
        return [measure(case) for case in self.get_cases(kind)]

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

    def run_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "tests.json"
            done = run([self.folder / "kernel_replay", self.folder / "kernels",
                        f"--gtest_output=json:{output}"])
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
        return {"tests": report["tests"], "failed": len(failures), "skipped": len(skips),
                "failures": failures, "skips": skips}

    def run_training(self, case):
        devices = 1
        for axis in case["mesh"].split(","):
            devices *= int(axis.split("=")[1])
        together = ["--devices-per-gpu", devices]
        return {**case, "devices": devices, "cpu": self.bench(case["cpu"], steps=10),
                "graphs": self.bench(case["cuda"], *together, steps=10),
                "no_graphs": self.bench(case["cuda"], *together, "--no-graphs", steps=10)}

    def run_kernels(self, case):
        return {**case, "profile": self.bench(case["cuda"], "--no-graphs", "--profile")}

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
        device = "cpu" if self.arguments.peers_on_cpu else "cuda"
        for name, (package, script) in PEERS.items():
            if problem := find_missing(python, package):
                peers[name] = {"error": problem}
                continue
            workers[name] = Worker([python, "-B", BENCH / "gpu_peers" / script,
                                    "--device", device, *sizes])
        ours, theirs = [], {name: [] for name in workers}
        for _ in range(PEER_ROUNDS):
            ours.append(self.bench(case["cuda"]))
            for name, worker in workers.items():
                theirs[name].append(worker.run(self.arguments.steps))
        for name, worker in workers.items():
            worker.stop()
            peers[name] = get_median(theirs[name], versions=worker.versions)
        return {**case, "meshc": get_median(ours), "peers": peers}

    #===-- compute-sanitizer -------------------------------------------------===#

    def run_sanitizer(self):
        program = shutil.which("compute-sanitizer") or shutil.which(
            "compute-sanitizer", path="/usr/local/cuda/bin")
        if not program:
            return ["compute-sanitizer is not on this machine: nothing was checked"]
        commands = {"kernel tests": [self.folder / "kernel_replay", self.folder / "kernels",
                                     f"--gtest_filter={SANITIZED_TESTS}"]}
        for case in self.get_cases("sanitized"):
            commands[f"steps of {case['name']} on {case['devices']} devices"] = [
                self.folder / case["cuda"], "bench", "1", "--no-graphs",
                "--devices-per-gpu", case["devices"]]
        lines = []
        for tool in ("memcheck", "racecheck"):
            for what, command in commands.items():
                done = run([program, "--tool", tool, "--error-exitcode", "9", *command])
                said = [line for line in (done.stdout + done.stderr).splitlines()
                        if line.startswith("=========")]
                lines.append(f"{tool}, {what}: exit code {done.returncode}, "
                             f"{' '.join(said[-1:])}")
        return lines

    def run(self, driver, path):
        """All parts; what is known so far is in the file `path` after each."""
        arguments = self.arguments
        result = {
            "date": datetime.date.today().isoformat(),
            "gpu": driver.name(),
            "emulated": driver.is_emulated(),
        }
        for name, measure in {
                "system": self.get_system,
                "copy_bytes_per_s":
                    lambda: driver.copy_rate(arguments.copy_bytes, arguments.copies),
                "tests": self.run_tests,
                "trainings": lambda: self.map_cases("training", self.run_training),
                "kernels": lambda: self.map_cases("kernels", self.run_kernels),
                "products": lambda: self.map_cases("products", self.run_products),
                "peers": lambda: self.map_cases("peers", self.run_peers)[0],
                "sanitizer": self.run_sanitizer}.items():
            result[name] = measure()
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: done", file=sys.stderr)
        return result


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
        watch = threading.Timer(TIME_LIMIT_S, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if line:
            return json.loads(line)
        self.process.wait()
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
    tests = result["tests"]
    return "error" not in tests and tests["failed"] == 0 and \
        "**" not in gpu_report.training_table(result["trainings"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
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
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        sys.exit(f"there is no GPU to measure: {error}")
    if driver.is_emulated() and arguments.output.resolve() == BENCH / "results":
        sys.exit("bench/results is for real GPUs; this driver is emulated")
    name = "".join(c if c.isalnum() else "-" for c in driver.name().lower())
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"{datetime.date.today().isoformat()}-{name}.md"
    result = Bench(arguments).run(driver, path.with_suffix(".json"))
    text = gpu_report.render(result)
    path.write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {path}")
    sys.exit(0 if is_sound(result) else 3)


main()

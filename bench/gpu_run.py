"""Measures the executables of gpu_cases.py on a GPU: gpu_run.py FOLDER OUTPUT.

Losses beside those of the CPU mesh, kernels beside the copy of the same run, steps
with graphs and without. Writes a report into OUTPUT; needs nothing but Python 3 and
the driver's libraries.
"""

import ctypes
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

import report

# What the design asks of kernels, as a part of the copy's rate.
GOALS = {"forward": 0.85, "backward": 0.75, "update": 0.92}


class Driver:
    """As much of libcuda as it takes to time a copy."""

    def __init__(self):
        folder = os.environ.get("MESHC_CUDA_LIBRARIES")
        name = "libcuda.so.1"
        self.library = ctypes.CDLL(f"{folder}/{name}" if folder else name)
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returns {code}")

    def name(self):
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def version(self):
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def copy_rate(self, size=1 << 30, copies=20):
        """Bytes read and written per second, best of five."""
        blocks = [ctypes.c_uint64(), ctypes.c_uint64()]
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        stream = ctypes.c_void_p()
        for block in blocks:
            self.call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        best = 0.0
        for _ in range(5):
            self.call("cuEventRecord", events[0], stream)
            for _ in range(copies):
                self.call("cuMemcpyDtoDAsync_v2", blocks[0], blocks[1], ctypes.c_size_t(size),
                          stream)
            self.call("cuEventRecord", events[1], stream)
            self.call("cuStreamSynchronize", stream)
            milliseconds = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
            best = max(best, 2 * size * copies / (milliseconds.value / 1000))
        for block in blocks:
            self.call("cuMemFree_v2", block)
        return best


def bench(program, steps, *flags):
    done = subprocess.run([program, "bench", str(steps), *flags], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip()}
    return json.loads(done.stdout)


def count_devices(mesh):
    devices = 1
    for axis in mesh.split(","):
        devices *= int(axis.split("=")[1])
    return devices


def run_training(folder, case):
    devices = count_devices(case["mesh"])
    gpu = folder / case["cuda"]
    together = ["--devices-per-gpu", str(devices)]
    cpu = bench(folder / case["cpu"], 10)
    graphs = bench(gpu, 10, *together)
    single = bench(gpu, 10, *together, "--no-graphs")
    return {**case, "devices": devices, "cpu": cpu, "graphs": graphs, "no_graphs": single}


def training_table(cases):
    rows = []
    for case in cases:
        if "error" in case["graphs"] or "error" in case["no_graphs"] or "error" in case["cpu"]:
            problem = [case[key]["error"] for key in ("graphs", "no_graphs", "cpu")
                       if "error" in case[key]]
            rows.append([case["name"], case["mesh"], "failed: " + problem[0], "", "", ""])
            continue
        loss, reference = case["graphs"]["loss"], case["cpu"]["loss"]
        rows.append([case["name"], case["mesh"], f"{case['graphs']['step_ms_median']:.3f}",
                     f"{case['no_graphs']['step_ms_median']:.3f}", f"{loss:.7g}",
                     f"{abs(loss - reference) / abs(reference):.1e}"])
    return report.table(["program", "mesh, all on one GPU", "step ms, graphs",
                         "step ms, no graphs", "loss after 12 steps",
                         "difference from the CPU mesh"], rows)


def kernel_table(cases, copy_rate):
    rows = []
    for case in cases:
        if "error" in case["profile"]:
            rows.append([case["name"], "failed: " + case["profile"]["error"], "", ""])
            continue
        for command in case["profile"]["costliest"]:
            if command["kind"] != "kernel":
                continue
            rate = command["gbytes_per_s_per_thread"] * 1e9
            rows.append([case["name"], command["name"], f"{command['worker_ms']:.3f}",
                         f"{rate / 1e9:.0f}", f"{rate / copy_rate:.2f}"])
    return report.table(["tensors", "kernel", "ms", "GB/s", "of the copy"], rows)


def run_sanitizer(folder, case, tool):
    """One line about compute-sanitizer's opinion of a small training."""
    program = shutil.which("compute-sanitizer")
    if not program:
        return f"{tool}: compute-sanitizer is not here"
    done = subprocess.run(
        [program, "--tool", tool, "--error-exitcode", "9", str(folder / case["cuda"]), "bench",
         "1", "--no-graphs", "--devices-per-gpu", str(count_devices(case["mesh"]))],
        capture_output=True, text=True, check=False)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    return f"{tool}: exit code {done.returncode}, {' '.join(last)}"


def main():
    folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    cases = json.loads((folder / "cases.json").read_text())
    driver = Driver()
    copy_rate = driver.copy_rate(*map(int, sys.argv[3:5]))
    trainings = [run_training(folder, case) for case in cases if case["kind"] == "training"]
    kernels = [{**case, "profile": bench(folder / case["cuda"], 10, "--no-graphs", "--profile")}
               for case in cases if case["kind"] == "kernels"]
    sanitizer = [run_sanitizer(folder, case, tool) for tool in ("memcheck", "racecheck")
                 for case in cases if case["name"] == "mlp" and case["mesh"] == "data=2"]
    date = datetime.date.today().isoformat()
    text = "\n".join([
        f"# meshc on {driver.name()}, {date}", "",
        f"Driver {driver.version()}; copy on the device {copy_rate / 1e9:.0f} GB/s (read plus",
        "written). Goals of kernels, as parts of it: " +
        ", ".join(f"{name} {part:.2f}" for name, part in GOALS.items()) + ".", "",
        training_table(trainings), "", kernel_table(kernels, copy_rate), "",
        *(f"- {line}" for line in sanitizer), ""])
    name = "".join(c if c.isalnum() else "-" for c in driver.name().lower())
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{date}-{name}.md").write_text(text)
    (output / f"{date}-{name}.json").write_text(json.dumps(
        {"copy_bytes_per_s": copy_rate, "trainings": trainings, "kernels": kernels}, indent=1)
        + "\n")
    print(text)


main()

"""What a plan for GPUs says about memory is what the executable allocates.

Each case is planned, compiled and run with a process for each emulated GPU. The process
that needs most allocates once, as much as the plan says. With that much memory, and what
NCCL is said to need beside it, the program runs; with a byte less it ends and names the
same uses, where it is the first process that needs most. The samples as they are, which
take long where GPUs are emulated, end behind the allocation.
"""

import json
import os
import re
import subprocess
import sys

import cases
import compiler

CASES = {
    "mlp": [cases.MLP, "-Dbatch=10", "-Dhidden=7"],
    "mlp-uneven": cases.CASES["mlp-uneven"],
    "mlp-alone": [cases.MLP, "-Dbatch=10", "--mesh", "data=1", "--layout", ""],
    "blocks": [cases.BLOCKS, *cases.SMALL_BLOCKS],
    "blocks-d-model": cases.CASES["blocks-d-model"],
    "blocks-key-pos": cases.CASES["blocks-key-pos"],
}
SAMPLES = {"mlp-sample": [cases.MLP], "blocks-sample": [cases.BLOCKS]}
ALIGNMENT = 256  # of what a GPU gives away
ROWS = {"cublaslt": "cuBLASLt", "move_tables": "move tables", "staging": "staging"}


def in_units(count):
    """The spelling of executables, "1.50 MiB"."""
    if count < 1024:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            break
    return f"{count:.2f} {unit}"


class Runs:
    def __init__(self, meshc, libraries):
        self.meshc = meshc
        self.libraries = libraries
        self.largest = 0  # cases of several devices of which the first one needs most

    def bench(self, program, log, memory, devices, **variables):
        environment = dict(
            os.environ, MESHC_CUDA_LIBRARIES=self.libraries, MESHC_EMULATION_LOG=log,
            MESHC_EMULATION_DEVICES=str(devices), MESHC_EMULATION_MEMORY=str(memory),
            NCCL_MAX_CTAS="1", **variables)
        return subprocess.run([program, "bench", "--steps", "1"], capture_output=True, text=True,
                              check=False, env=environment)

    def find_nccl_need(self, program, log, peak, devices):
        """What the communicators of the process that has most of them need, 10 MiB each with one
        channel; None where a message does not say so. The process that ends first is told,
        which is any of them: one with more shows when there is enough for the one before."""
        need = 0
        while devices > 1:
            done = self.bench(program, log, peak - 1 if need == 0 else self.get_enough(peak, need),
                              devices, MESHC_EMULATION_FAIL="cuMemsetD8Async:1:999")
            if need > 0 and "MR0303" not in done.stderr:
                break
            found = re.search(r"NCCL at least (\d+)\.00 MiB more; there are .*\n.*; NCCL has (\d+) "
                              r"communicators? with 1 channels of 10\.00 MiB", done.stderr)
            if not found or int(found[1]) != 10 * int(found[2]) or int(found[1]) << 20 <= need:
                return None
            need = int(found[1]) << 20
        return need

    @staticmethod
    def get_enough(peak, nccl):
        """The smallest memory of a GPU on which a process of that peak runs."""
        return -(-peak // ALIGNMENT) * ALIGNMENT + nccl

    def check(self, name, arguments, is_run):
        """What is wrong with a case."""
        plan = self.meshc.plan(*arguments, "--target", "cuda")
        memory, devices = plan["memory"], plan["devices"]
        peak, uses = memory["peak_bytes_per_device"], memory["allocation"]
        if sum(uses.values()) != peak:
            yield f"the uses {uses} do not add up to {peak}"
        program, log = (f"{self.meshc.folder.name}/{name}{end}" for end in ("", ".log"))
        self.meshc.run("compile", *arguments, "--target", "cuda", "--gpu", "host", "-o", program)

        nccl = self.find_nccl_need(program, f"{log}.need", peak, devices)
        if nccl is None:
            yield "it is not said what NCCL needs"
            return
        enough = self.get_enough(peak, nccl)
        fault = {} if is_run else {"MESHC_EMULATION_FAIL": "cuMemsetD8Async:1:999"}
        done = self.bench(program, log, enough, devices, **fault)
        if done.returncode != 0 if is_run else "cuMemsetD8Async failed" not in done.stderr:
            yield f"exit code {done.returncode} with {enough} bytes: {done.stderr}"
            return
        with open(log, encoding="utf-8") as lines:
            calls = [json.loads(line) for line in lines]
        allocated = [call["bytes"] for call in calls if call.get("call") == "cuMemAlloc_v2"]
        # The first that fails ends the others.
        if len(allocated) not in ([devices] if is_run else range(1, devices + 1)) \
                or max(allocated) != peak:
            yield f"{devices} devices allocate {allocated}, planned {peak} at most"

        if is_run and json.loads(done.stdout)["peak_bytes_per_device"] not in allocated:
            yield f"{devices} devices allocate {allocated}, bench says {done.stdout}"

        done = self.bench(program, log, peak - 1, devices)
        message = f"1 device needs {in_units(peak)} on GPU "
        expected = "".join(f", {ROWS[use]} {in_units(count)}"
                           for use, count in uses.items() if use in ROWS and count > 0)
        is_largest = message in done.stderr and f"{expected}; use a smaller batch" in done.stderr
        self.largest += devices > 1 and is_largest
        if done.returncode != 5 or "1 device needs " not in done.stderr \
                or (nccl > 0) != ("; NCCL has " in done.stderr) \
                or (devices == 1 and not is_largest):
            yield f"exit code {done.returncode}, expected 5, '{message}' and '{expected}': " \
                  f"{done.stderr}"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    runs = Runs(meshc, sys.argv[3])
    problems = [f"{name}: {problem}"
                for some, is_run in ((CASES, True), (SAMPLES, False))
                for name, arguments in some.items()
                for problem in runs.check(name, arguments, is_run)]
    if not runs.largest:
        problems.append("no first process of several is the one that needs most")
    if problems:
        sys.exit("\n".join(problems))


main()

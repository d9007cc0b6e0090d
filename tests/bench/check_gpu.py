"""The measurement on a GPU from end to end, with the emulated driver and small sizes:
check_gpu.py MESHC REPLAY MATMULS CASES LIBRARIES REPOSITORY.

Everything that bench/gpu.sh run does on a real GPU runs but the peers, which the report
must say are missing, as it must of compute-sanitizer; stand-ins for these run in a
second measurement. Losses are those of the CPU mesh, all kernel tests pass, every kernel
family is in the report, and a failed executable is a line of it and exit code 3.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MESHC, REPLAY, MATMULS, CASES, LIBRARIES, ROOT = sys.argv[1:]
BENCH = pathlib.Path(ROOT) / "bench"
sys.path.insert(0, str(BENCH))

import gpu_report  # noqa: E402, found by the path above


def run(command, code=0, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, **options)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}, expected "
                 f"{code}\n{done.stdout}\n{done.stderr}")
    return done


# Runs what it is given after `--tool NAME --error-exitcode 9`.
SANITIZER = """#!/bin/sh
shift 4
"$@" >> "$0.log" || exit 9
echo "========= ERROR SUMMARY: 0 errors"
"""

# Has both packages, answers as PyTorch's worker does, and fails as JAX's.
PYTHON = """#!/bin/sh
case "$*" in
*import*) exit 0 ;;
*torch_block.py*) ;;
*) echo "no memory is left" >&2; exit 1 ;;
esac
echo '{"torch": "0.1"}'
while read -r steps; do
  echo '{"step_ms_median": 0.5, "step_ms_min": 0.5, "loss": 1}'
done
"""


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def measure(folder, output, code=0, path="/usr/bin:/bin", python="no-python"):
    environment = {**os.environ, "MESHC_CUDA_LIBRARIES": LIBRARIES,
                   "MESHC_PEERS_PYTHON": str(folder.parent / "bin" / python), "PATH": path}
    return run([sys.executable, "-B", BENCH / "gpu_run.py", folder, output, "--steps", "2",
                "--copy-bytes", "65536", "--copies", "2", "--quick"], code, env=environment)


def check_result(result):
    def check(condition, text):
        if not condition:
            problems.append(text)

    problems = []
    check(result["emulated"], "it is not marked as emulated")
    for part in ("driver    CUDA", "cuBLASLt", "NCCL", "GPU 0"):
        check(part in result["system"], f"'{part}' is not in {result['system']}")
    tests = result["tests"]
    check(tests.get("failed") == 0 and tests["tests"] > 100, f"kernel tests: {tests}")
    check(all("not built for GPUs yet" in reason for reason in tests["skips"].values()),
          f"skipped: {tests['skips']}")
    check([case["devices"] for case in result["trainings"]] == [1, 2, 4, 8] * 2, "meshes")
    for case in result["trainings"]:
        for other in ("graphs", "no_graphs"):
            found, expected = (case[key].get("loss") for key in (other, "cpu"))
            # Small models in f32: sums of fewer than 200 terms.
            check(found is not None and abs(found - expected) <= 1e-5 * abs(expected),
                  f"{case['name']} on {case['mesh']}: {case[other]}, expected {expected}")
    for case in result["kernels"]:
        phases = {command["phase"]
                  for command in gpu_report.get_large_kernels(case["profile"]["costliest"])}
        check(set(case["families"]) <= phases, f"{case['name']}: kernels of {phases} only")
    for group in result["products"]:
        check(len(group["products"]) > 3, f"products of {group['name']}: {group}")
        check(all(entry["candidates"] > 1 and entry["best_ms"] <= entry["chosen_ms"]
                  for entry in group["products"]), f"algorithms of {group}")
    peers = result["peers"]
    check(peers["meshc"]["step_ms"] > 0, f"blocks in bf16: {peers}")
    check(all("cannot run" in peer["error"] for peer in peers["peers"].values()), str(peers))
    check("not on this machine" in result["sanitizer"][0], str(result["sanitizer"]))
    return problems


def main():
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder, output = pathlib.Path(name) / "gpu", pathlib.Path(name) / "results"
        run([sys.executable, "-B", BENCH / "gpu_cases.py", MESHC, folder, "--small",
             "--gpu", "host"])
        shutil.copy(REPLAY, folder / "kernel_replay")
        shutil.copy(MATMULS, folder / "gpu_matmuls")
        shutil.copytree(CASES, folder / "kernels")
        measure(folder, output)
        (report,), (data,) = output.glob("*.md"), output.glob("*.json")
        problems = check_result(json.loads(data.read_text()))
        text = report.read_text()
        for part in ("A dry run with the emulated driver", "not measured"):
            if part not in text:
                problems.append(f"the report does not say '{part}'")

        sanitizer = pathlib.Path(name) / "bin" / "compute-sanitizer"
        write_program(sanitizer, SANITIZER)
        write_program(sanitizer.parent / "python", PYTHON)

        # An executable that fails is told, and the rest still measured.
        broken = next(case["cuda"] for case in json.loads((folder / "cases.json").read_text())
                      if case["kind"] == "training")
        (folder / broken).write_text("#!/bin/sh\necho it is broken >&2\nexit 70\n")
        done = measure(folder, output, code=3, path=f"{sanitizer.parent}:/usr/bin:/bin",
                       python="python")
        for part in ("| PyTorch | 0.50 |", "torch 0.1 |",
                     "- JAX: not measured: exit code 1: no memory is left"):
            if part not in done.stdout:
                problems.append(f"'{part}' is not in\n{done.stdout}")
        if "**failed**: exit code 70: it is broken" not in done.stdout:
            problems.append(f"a broken executable is not told:\n{done.stdout}")
        if done.stdout.count("exit code 0, ========= ERROR SUMMARY: 0 errors") != 6:
            problems.append(f"compute-sanitizer ran nothing:\n{done.stdout}")
        said = pathlib.Path(f"{sanitizer}.log").read_text()
        passed = re.findall(r"\[  PASSED  \] (\d+) tests", said)
        if len(passed) != 2 or min(map(int, passed)) < 15 or \
                said.count("step_ms_median") != 4:
            problems.append(f"compute-sanitizer ran something else:\n{said}")
        done = measure(folder, BENCH / "results", code=1)
        if "bench/results is for real GPUs" not in done.stderr:
            problems.append(f"an emulated run would be kept: {done.stderr}")
    if problems:
        sys.exit("\n".join(problems))


main()

"""The measurement on a GPU from end to end, with the emulated driver and small sizes:
check_gpu.py MESHC REPLAY MATMULS CASES LIBRARIES REPOSITORY.

Everything that bench/gpu.sh run does on a real GPU runs but the peers, which the report
must say are missing, as it must of compute-sanitizer; stand-ins for these run in a
second measurement. Losses are those of the CPU mesh, all kernel tests pass, every kernel
family is in the report, and a failed executable is a line of it and exit code 3.

The report is made in pieces: of one part, of a run that is killed within a part, of one
whose time is over, and of one that finds what is missing. After each it says what was
not measured, and nothing that was is measured again.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

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


def get_command(folder, output, *options):
    return [sys.executable, "-B", BENCH / "gpu_run.py", folder, output, "--steps", "2",
            "--copy-bytes", "65536", "--copies", "2", "--quick", *options]


def get_environment(folder, path="/usr/bin:/bin", python="no-python"):
    return {**os.environ, "MESHC_CUDA_LIBRARIES": LIBRARIES,
            "MESHC_PEERS_PYTHON": str(folder.parent / "bin" / python), "PATH": path}


def measure(folder, output, *options, code=0, **programs):
    return run(get_command(folder, output, *options), code,
               env=get_environment(folder, **programs))


def read(output):
    """The data and the report, of which there are one each."""
    (report,), (data,) = output.glob("*.md"), output.glob("*.json")
    left = [path for path in output.iterdir() if path not in (report, data)]
    if left:
        sys.exit(f"also there: {left}")
    return json.loads(data.read_text()), report.read_text()


def get_measured(result):
    return {part: list(entry["steps"]) for part, entry in result["parts"].items()}


def has_ended(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit("nothing happens")
        time.sleep(0.01)


def kill_in_trainings(folder, output, number):
    """Ends a run by a signal when the first training is measured and the second is
    under way; what that had started is gone, too."""
    # The second one's executable waits for ever.
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    second = folder / [case["cuda"] for case in cases if case["kind"] == "training"][1]
    kept = second.with_suffix(".kept")
    shutil.move(second, kept)
    pid = output.parent / "pid"
    pid.unlink(missing_ok=True)
    write_program(second, f"#!/bin/sh\necho $$ > {pid}.new\nmv {pid}.new {pid}\nexec sleep 600\n")
    process = subprocess.Popen(
        [str(part) for part in get_command(folder, output, "--parts", "trainings")],
        env=get_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(pid.exists)
    started = int(pid.read_text())
    process.send_signal(number)
    process.wait()
    if number != signal.SIGKILL:
        wait_for(lambda: has_ended(started))
    else:
        # Nobody can tell it; on a borrowed machine it goes with the machine.
        os.kill(started, signal.SIGKILL)
    shutil.move(kept, second)
    return process.returncode


def check_pieces(folder, output):
    """A report in pieces; the last of them is whole."""
    problems = []

    def check(what, expected, parts):
        result, text = read(output)
        found = {part: len(steps) for part, steps in get_measured(result).items() if steps}
        if found != expected:
            problems.append(f"{what}: measured {found}, expected {expected}")
        for part, entry in result["parts"].items():
            lacks = len(entry["planned"]) - expected.get(part, 0)
            line = re.search(rf"^- {part}: \*\*not measured\*\*(.*)$", text, re.MULTILINE)
            named = len(entry["planned"]) if line and not line[1] else \
                len(line[1].split("; ")) if line else 0
            if named != lacks:
                problems.append(f"{what}: of {part} {named} are not measured, expected {lacks}:\n"
                                f"{text}")
        times = {part: list(entry["steps"].values()) for part, entry in result["parts"].items()
                 if part in parts}
        return times

    measure(folder, output, "--parts", "products")
    products = check("one part", {"products": 3}, ["products"])
    if kill_in_trainings(folder, output, signal.SIGKILL) != -signal.SIGKILL:
        problems.append("a killed run did not end so")
    check("killed", {"products": 3, "trainings": 1}, [])
    if kill_in_trainings(folder, output, signal.SIGTERM) != 128 + signal.SIGTERM:
        problems.append("a run that was told to end did not end so")
    result, _ = read(output)
    if get_measured(result)["trainings"] != result["parts"]["trainings"]["planned"][:1]:
        problems.append(f"told to end: {get_measured(result)}")

    # A part whose time is over at once, and one that ends within its first step.
    done = measure(folder, output, "--parts", "kernels,tests", "--budget",
                   "kernels=0.000001,tests=0.01", code=3)
    if "tests: 0.01 s are over" not in done.stderr or "kernels: 1e-06 s" not in done.stderr:
        problems.append(f"out of time: {done.stderr}")
    check("out of time", {"products": 3, "trainings": 1}, [])

    measure(folder, output, "--parts", "trainings")
    check("continued", {"products": 3, "trainings": 8}, [])
    measure(folder, output)
    if check("whole", {part: len(entry["planned"])
                       for part, entry in read(output)[0]["parts"].items()},
             ["products"]) != products:
        problems.append("what was measured before is another one now")
    runs = read(output)[0]["runs"]
    if len(runs) != 6:
        problems.append(f"{len(runs)} runs: {runs}")
    return problems


def check_result(result):
    def check(condition, text):
        if not condition:
            problems.append(text)

    problems = []
    check(result["emulated"], "it is not marked as emulated")
    for part in ("driver    CUDA", "cuBLASLt", "NCCL", "GPU 0"):
        check(part in result["runs"][-1]["system"], f"'{part}' is not in {result['runs']}")
    steps = {part: list(entry["steps"].values()) for part, entry in result["parts"].items()}
    check(all("error" not in shard and not shard["failures"] for shard in steps["tests"]) and
          sum(shard["tests"] for shard in steps["tests"]) > 100, f"kernel tests: {steps['tests']}")
    check(all("not built for GPUs yet" in reason
              for shard in steps["tests"] for reason in shard["skips"].values()),
          f"skipped: {steps['tests']}")
    trainings = [case["devices"] for case in steps["trainings"]]
    check(trainings == [1, 2, 4, 8] * 2, f"meshes: {trainings}")
    for case in steps["trainings"]:
        for other in ("graphs", "no_graphs"):
            found, expected = (case[key].get("loss") for key in (other, "cpu"))
            # Small models in f32: sums of fewer than 200 terms.
            check(found is not None and abs(found - expected) <= 1e-5 * abs(expected),
                  f"{case['name']} on {case['mesh']}: {case[other]}, expected {expected}")
    for case in steps["kernels"]:
        phases = {command["phase"]
                  for command in gpu_report.get_large_kernels(case["profile"]["costliest"])}
        check(set(case["families"]) <= phases, f"{case['name']}: kernels of {phases} only")
        check(case["copy_bytes_per_s"] > 0, f"{case['name']}: no copy to compare with")
    for group in steps["products"]:
        check(len(group["products"]) > 3, f"products of {group['name']}: {group}")
        check(all(entry["candidates"] > 1 and entry["best_ms"] <= entry["chosen_ms"]
                  for entry in group["products"]), f"algorithms of {group}")
    peers, = steps["peers"]
    check(peers["meshc"]["step_ms"] > 0, f"blocks in bf16: {peers}")
    check(all("cannot run" in peer["error"] for peer in peers["peers"].values()), str(peers))
    check(all("not on this machine" in step["missing"] for step in steps["sanitizer"]),
          str(steps["sanitizer"]))
    return problems


def main():
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder, output = pathlib.Path(name) / "gpu", pathlib.Path(name) / "results"
        run([sys.executable, "-B", BENCH / "gpu_cases.py", MESHC, folder, "--small",
             "--gpu", "host"])
        shutil.copy(REPLAY, folder / "kernel_replay")
        shutil.copy(MATMULS, folder / "gpu_matmuls")
        shutil.copytree(CASES, folder / "kernels")
        problems = check_pieces(folder, output)
        result, text = read(output)
        problems += check_result(result)
        for part in ("A dry run with the emulated driver", "not measured"):
            if part not in text:
                problems.append(f"the report does not say '{part}'")

        # Other executables do not come into this report.
        cases = json.loads((folder / "cases.json").read_text())
        (folder / "cases.json").write_text(json.dumps({**cases, "made": "another time"}))
        done = measure(folder, output, code=1)
        if "is of other executables" not in done.stderr or read(output) != (result, text):
            problems.append(f"other executables are not told apart: {done.stderr}")

        sanitizer = pathlib.Path(name) / "bin" / "compute-sanitizer"
        write_program(sanitizer, SANITIZER)
        write_program(sanitizer.parent / "python", PYTHON)

        # An executable that fails is told, and the rest still measured.
        output = pathlib.Path(name) / "others"
        broken = next(case["cuda"] for case in cases["cases"] if case["kind"] == "training")
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
        for option in (["--parts", "tests,nothing"], ["--parts", "tests,tests"],
                       ["--budget", "0"], ["--budget", "nothing=3"]):
            measure(folder, output, *option, code=2)
        done = measure(folder, BENCH / "results", code=1)
        if "bench/results is for real GPUs" not in done.stderr:
            problems.append(f"an emulated run would be kept: {done.stderr}")
    if problems:
        sys.exit("\n".join(problems))


main()

"""The measurement on a GPU from end to end, with the emulated driver and small sizes:
check_gpu.py MESHC REPLAY MATMULS CASES LIBRARIES REPOSITORY.

Everything that bench/gpu.sh run does on a real GPU runs but the peers, which the report
must say are missing, as it must of compute-sanitizer; stand-ins for these run in a
second measurement. Losses are those of the CPU, all kernel tests pass, every kernel
family is in the report, and a failed executable is a line of it and exit code 3.

The report is made in pieces: of one part, of runs that are killed within a part, of some
whose time is over, within a step, too, and of one into another folder that has the data
alone. After each it says what was not measured, and nothing that was is measured again.

Then what other machines lack: a library, CUDA's libraries outside of Python's packages,
xz; tests that hang or leave the GPU unusable.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
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


# Runs what it is given after `--tool NAME --error-exitcode 9 --target-processes all`.
SANITIZER = """#!/bin/sh
case $LD_LIBRARY_PATH in *gpu/lib*) exit 1 ;; esac
shift 6
"$@" >> "$0.log" || exit 9
echo "========= ERROR SUMMARY: 0 errors"
"""

# Has both packages, answers as PyTorch's worker does, and fails as JAX's.
PYTHON = """#!/bin/sh
case $LD_LIBRARY_PATH in *gpu/lib*) exit 1 ;; esac
case "$*" in
*import*) exit 0 ;;
*torch_*.py*) ;;
*) echo "no memory is left" >&2; exit 1 ;;
esac
echo loading
echo '{"torch": "0.1"}'
while read -r steps; do
  echo '{"step_ms_median": 0.5, "step_ms_min": 0.5, "loss": 1}'
done
"""


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


# Runs what it stands for as PIPE says, and then hangs, as does what it has started.
HANGING = """#!/bin/sh
{pipe}
sleep 600 &
echo $! > {pid}.new
mv {pid}.new {pid}
wait
"""


@contextlib.contextmanager
def replace(program, pipe):
    """The program hangs after its first results. Gives the file with the number of what
    hangs with it."""
    kept = program.with_name(program.name + ".kept")
    pid = program.parent.parent / "pid"
    pid.unlink(missing_ok=True)
    shutil.move(program, kept)
    write_program(program, HANGING.format(pipe=pipe.format(program=kept), pid=pid))
    try:
        yield pid
    finally:
        shutil.move(kept, program)


def get_command(folder, output, *options):
    return [sys.executable, "-B", BENCH / "gpu_run.py", folder, output, "--steps", "2",
            "--copy-bytes", "65536", "--copies", "2", "--quick", *options]


def get_environment(folder, path="/usr/bin:/bin", python="no-python", **variables):
    return {**os.environ, "MESHC_CUDA_LIBRARIES": LIBRARIES,
            "MESHC_PEERS_PYTHON": str(folder.parent / "bin" / python), "PATH": path, **variables}


def measure(folder, output, *options, code=0, **variables):
    return run(get_command(folder, output, *options), code,
               env=get_environment(folder, **variables))


def read(output):
    """The data and the report, of which there are one each."""
    (report,), (data,) = output.glob("*.md"), output.glob("*.json")
    left = [path for path in output.iterdir() if path not in (report, data)]
    if left:
        sys.exit(f"also there: {left}")
    return json.loads(data.read_text()), report.read_text()


def get_measured(result):
    return {part: [name for name, step in entry["steps"].items() if not step.get("unfinished")]
            for part, entry in result["parts"].items()}


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
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    second = folder / [case["cuda"] for case in cases if case["kind"] == "training"][1]
    with replace(second, ":") as pid:
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
    return process.returncode


def check_pieces(folder, output, moved):
    """A report in pieces; the last of them, in the folder `moved`, is whole."""
    problems = []

    def check(what, expected, parts=(), beginnings=()):
        """Of each part so many steps are measured, and one more of some has begun."""
        result, text = read(output)
        found = {part: len(steps) for part, steps in get_measured(result).items() if steps}
        if found != expected:
            problems.append(f"{what}: measured {found}, expected {expected}")
        for part, entry in result["parts"].items():
            lacks = len(entry["planned"]) - expected.get(part, 0)
            line = re.search(rf"^- {part}: \*\*not measured\*\*(.*)$", text, re.MULTILINE)
            named = len(entry["planned"]) if line and not line[1] else \
                len(line[1].split("; ")) if line else 0
            if named != lacks or bool(line and "(in part)" in line[1]) != (part in beginnings):
                problems.append(f"{what}: of {part} {named} are not measured, expected {lacks}:\n"
                                f"{text}")
        return {part: list(entry["steps"].values()) for part, entry in result["parts"].items()
                if part in parts}

    # Two products, and then nothing: the other plans are measured all the same.
    with replace(folder / "gpu_matmuls", "{program} $* | head -n 2") as pid:
        measure(folder, output, "--parts", "products", "--budget", "products=12", code=3)
        if not has_ended(int(pid.read_text())):
            problems.append("what a program that ran out of time had started goes on")
    check("products begun", {}, beginnings=["products"])
    result, _ = read(output)
    counts = [len(step["products"]) for step in result["parts"]["products"]["steps"].values()]
    if counts != [2, 2, 2, 2]:
        problems.append(f"products of programs that hang: {counts}")
    measure(folder, output, "--parts", "products")
    check("one part", {"products": 4})

    # Some tests, and then nothing.
    replay = "GTEST_FILTER=Moves.f32_sum_*:Kernels.*TailsOfOneRow* {program} $*"
    with replace(folder / "kernel_replay", replay):
        measure(folder, output, "--parts", "tests", "--budget", "tests=15", code=3)
    check("tests begun", {"products": 4}, beginnings=["tests"])
    tests = read(output)[0]["parts"]["tests"]["steps"]["all"]["tests"]
    if len(tests) != 11 or len(set(tests)) != len(tests):
        problems.append(f"tests that ran before time was over: {tests}")

    if kill_in_trainings(folder, output, signal.SIGKILL) != -signal.SIGKILL:
        problems.append("a killed run did not end so")
    check("killed", {"products": 4, "trainings": 1}, beginnings=["tests"])
    if kill_in_trainings(folder, output, signal.SIGTERM) != 128 + signal.SIGTERM:
        problems.append("a run that was told to end did not end so")
    result, _ = read(output)
    if get_measured(result)["trainings"] != result["parts"]["trainings"]["planned"][:1]:
        problems.append(f"told to end: {get_measured(result)}")

    # One that is over at once, and one that ends within its first step.
    done = measure(folder, output, "--parts", "kernels,tests", "--budget",
                   "kernels=0.000001,tests=0.01", code=3)
    if "tests: out of time, 1 steps" not in done.stderr or \
            "kernels: out of time, 5 steps" not in done.stderr:
        problems.append(f"out of time: {done.stderr}")
    check("out of time", {"products": 4, "trainings": 1}, beginnings=["tests"])
    # `info` hangs, and with it all that there is time for.
    first = json.loads((folder / "cases.json").read_text())["cases"][0]["cuda"]
    with replace(folder / first, ":"):
        measure(folder, output, "--parts", "kernels", "--budget", "kernels=1", code=3)
    if "info does not end in its time" not in read(output)[1]:
        problems.append("it is not told that info does not end")

    measure(folder, output, "--parts", "trainings")
    known = check("continued", {"products": 4, "trainings": 8}, ["products", "trainings"],
                  ["tests"])
    # What comes back of one machine is carried to the next.
    moved.mkdir()
    shutil.copy(next(output.glob("*.json")), moved)
    number = len(read(output)[0]["runs"])
    output = moved
    measure(folder, output)
    if check("whole", {part: len(entry["planned"])
                       for part, entry in read(output)[0]["parts"].items()},
             ["products", "trainings"]) != known:
        problems.append("what was measured before is another one now")
    result, _ = read(output)
    if len(result["runs"]) != number + 1:
        problems.append(f"{len(result['runs'])} runs: {result['runs']}")
    found = result["parts"]["tests"]["steps"]["all"]["tests"]
    if found[:len(tests)] != tests or len(set(found)) != len(found):
        problems.append(f"tests that ran before {tests}, in all {found}")
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
    tests, = steps["tests"]
    check("error" not in tests and not tests["failures"] and len(tests["tests"]) > 100,
          f"kernel tests: {tests}")
    check(all("not built for GPUs yet" in reason for reason in tests["skips"].values()),
          f"skipped: {tests}")
    meshes = [1, 2, 4, 8] * 2
    for part, programs, devices in (("trainings", ["graphs"], meshes),
                                    ("programs", ["graphs"], [1, 8]),
                                    ("launches", ["graphs", "no_graphs"], meshes)):
        found = [case["devices"] for case in steps[part]]
        check(found == devices, f"meshes: {found}")
        for case in steps[part]:
            for program in programs:
                found, expected = case[program].get("loss"), case["reference_loss"]
                # Small models in f32: sums of fewer than 200 terms.
                check(found is not None and abs(found - expected) <= 1e-5 * abs(expected),
                      f"{case['name']} on {case['mesh']}: {case[program]}, expected {expected}")
    for case in steps["kernels"]:
        phases = {command["phase"]
                  for command in gpu_report.get_large_kernels(case["profile"]["costliest"])}
        check(set(case["families"]) <= phases, f"{case['name']}: kernels of {phases} only")
        check(case["copy_bytes_per_s"] > 0, f"{case['name']}: no copy to compare with")
    for group in steps["products"]:
        check(len(group["products"]) > 3, f"products of {group['name']}: {group}")
        check(all(entry["candidates"] > 1 and entry["best_ms"] <= entry["chosen_ms"]
                  for entry in group["products"]), f"algorithms of {group}")
    check(any(entry["separate_ms"] for group in steps["products"]
              for entry in group["products"]), "no product by address beside separate calls")
    check([case["peer"] for case in steps["peers"]] == ["JAX", "PyTorch", "PyTorch"],
          str(steps["peers"]))
    check(all(case["meshc"]["step_ms"] > 0 and "cannot run" in case["theirs"]["error"]
              for case in steps["peers"]), f"blocks in bf16: {steps['peers']}")
    check(all("not on this machine" in step["missing"] for step in steps["sanitizer"]),
          str(steps["sanitizer"]))
    return problems


def check_others(folder, output):
    """Executables made at another time get a report of their own beside the known one."""
    cases = json.loads((folder / "cases.json").read_text())
    (folder / "cases.json").write_text(json.dumps({**cases, "made": "another time"}))
    # Nor do data that were cut off.
    (output / "2026-01-01-meshc-emulated-gpu.json").write_text('{"gpu": ')
    before = {path: path.read_text() for path in output.iterdir()}
    done = measure(folder, output, "--parts", "products")
    after = {path: path.read_text() for path in output.iterdir()}
    new = sorted(path.name for path in after if path not in before)
    if "reports of other executables stay" not in done.stderr or len(new) != 2 or \
            "cannot be read" not in done.stderr or \
            any(not re.search(r"-gpu-2\.(json|md)$", name) for name in new) or \
            any(after[path] != text for path, text in before.items()):
        return [f"other executables are not told apart: {new}\n{done.stderr}"]
    return []


def check_programs(folder, output):
    """A broken executable, compute-sanitizer and peers."""
    problems = []
    sanitizer = folder.parent / "bin" / "compute-sanitizer"
    write_program(sanitizer, SANITIZER)
    write_program(sanitizer.parent / "python", PYTHON)
    # Programs of the machine must not get the libraries that are carried.
    (folder / "lib").mkdir(exist_ok=True)
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    broken = folder / next(case["cuda"] for case in cases if case["kind"] == "training")
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 70\n")
    done = measure(folder, output, code=3, path=f"{sanitizer.parent}:/usr/bin:/bin",
                   python="python")
    for part in ("| 0.50 |", "torch 0.1 |", "- JAX: not measured: exit code 1: no memory is left",
                 "**failed**: exit code 70: it is broken"):
        if part not in done.stdout:
            problems.append(f"'{part}' is not in\n{done.stdout}")
    if done.stdout.count("exit code 0, ========= ERROR SUMMARY: 0 errors") != 6:
        problems.append(f"compute-sanitizer ran nothing:\n{done.stdout}")
    said = pathlib.Path(f"{sanitizer}.log").read_text()
    passed = re.findall(r"\[  PASSED  \] (\d+) tests", said)
    if len(passed) != 2 or min(map(int, passed)) < 15 or \
            said.count("step_ms_median") != 4:
        problems.append(f"compute-sanitizer ran something else:\n{said}")
    return problems


def check_libraries(folder, output):
    """CUDA's libraries where Python's packages have them, beside the program, and nowhere."""
    def link(place, *names):
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).symlink_to(pathlib.Path(LIBRARIES) / name)
        return place

    problems = []
    cublas = "libcublasLt.so.13"
    system = link(folder.parent / "system", *(
        path.name for path in pathlib.Path(LIBRARIES).iterdir() if path.name != cublas))
    site = link(folder.parent / "site" / "nvidia" / "cu13" / "lib", cublas)
    variables = get_environment(folder, LD_LIBRARY_PATH=str(system))
    del variables["MESHC_CUDA_LIBRARIES"]
    options = ["--parts", "products"]
    done = measure(folder, output / "none", "--parts", "products,tests", code=3,
                   MESHC_CUDA_LIBRARIES=str(system))
    result, text = read(output / "none")
    if "not measured without it: products" not in done.stderr or \
            "- cuBLASLt **cannot be used**: cannot find libcublasLt" not in text or \
            [part for part, steps in get_measured(result).items() if steps] != ["tests"]:
        problems.append(f"without cuBLASLt: {done.stderr}\n{text}")
    run(get_command(folder, output / "package", *options), 0,
        env={**variables, "PYTHONPATH": str(site.parents[2])})
    if str(site) not in read(output / "package")[1]:
        problems.append("cuBLASLt is not the one of the packages")
    link(folder / "lib", cublas)
    run(get_command(folder, output / "carried", *options), 0, env=variables)
    if str(folder / "lib") not in read(output / "carried")[1]:
        problems.append("cuBLASLt is not the one that is carried")
    return problems


def check_ends(folder, output):
    """Tests that hang, or leave the GPU's context unusable, cost themselves alone."""
    problems = []
    # The log is a pipe that nobody reads: the process waits when it is full.
    pipe = folder.parent / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    run([folder / "kernel_replay", folder / "kernels", "--deadline", "2"], -signal.SIGALRM,
        env=get_environment(folder, MESHC_EMULATION_LOG=str(pipe)))
    os.close(reader)
    # The driver loses the context in the first test, and only there.
    lost = "MESHC_EMULATION_FAIL=cuStreamSynchronize:2:700,cuStreamSynchronize:3:700"
    script = f'[ "$GTEST_FILTER" = "*" ] && export {lost}; exec {{program}} $*'
    with replace(folder / "kernel_replay", script):
        measure(folder, output, "--parts", "tests", code=3)
    tests = read(output)[0]["parts"]["tests"]["steps"]["all"]
    if len(tests["failures"]) != 1 or "the GPU's context is lost" not in tests["failures"][0] or \
            len(tests["tests"]) < 100 or len(set(tests["tests"])) != len(tests["tests"]):
        problems.append(f"a lost context: {tests}")
    return problems


def check_archive(folder, output):
    """bench/gpu.sh run unpacks the archive, and again if it is another one, without xz."""
    problems = []
    root = folder.parent / "elsewhere"
    tools = root / "bin"
    tools.mkdir(parents=True)
    for name in ("bash", "cat", "dirname", "mv", "python3", "rm", "rmdir", "sha256sum"):
        (tools / name).symlink_to(shutil.which(name))
    shutil.copytree(BENCH, root / "bench", ignore=shutil.ignore_patterns("results"))
    (root / "build").mkdir()
    for number in range(2):
        with tarfile.open(root / "build" / "gpu.tar.xz", "w:xz", preset=0) as archive:
            for path in (*folder.glob("*-plan"), *folder.glob("00-*"), folder / "cases.json",
                         folder / "gpu_matmuls"):
                archive.add(path, f"gpu/{path.name}")
            archive.add(BENCH / "gpu.sh", f"gpu/archive-{number}")
        for mark in ("here", "still here"):
            run([root / "bench" / "gpu.sh", "run", output, *get_command(folder, output)[5:],
                 "--parts", "products"], 0, env=get_environment(folder, path=str(tools)))
            (root / "build" / "gpu" / mark).touch()
        found = {path.name for path in (root / "build" / "gpu").iterdir()}
        if not {f"archive-{number}", "here", "still here"} <= found or \
                f"archive-{1 - number}" in found:
            problems.append(f"unpacked from archive {number}: {found}")
    return problems


def main():
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder, output = pathlib.Path(name) / "gpu", pathlib.Path(name) / "results"
        run([sys.executable, "-B", BENCH / "gpu_cases.py", MESHC, folder, "--small",
             "--gpu", "host"])
        shutil.copy(REPLAY, folder / "kernel_replay")
        shutil.copy(MATMULS, folder / "gpu_matmuls")
        shutil.copytree(CASES, folder / "kernels")
        moved = pathlib.Path(name) / "moved"
        problems = check_pieces(folder, output, moved)
        result, text = read(moved)
        problems += check_result(result)
        for part in ("A dry run with the emulated driver", "not measured",
                     "- cuBLASLt's relu sets the bit of 0, sets the bit of NaN"):
            if part not in text:
                problems.append(f"the report does not say '{part}'")
        problems += check_others(folder, moved)
        problems += check_ends(folder, pathlib.Path(name) / "ends")
        problems += check_libraries(folder, pathlib.Path(name) / "libraries")
        problems += check_programs(folder, pathlib.Path(name) / "programs")
        for option in (["--parts", "tests,nothing"], ["--parts", "tests,tests"],
                       ["--budget", "0"], ["--budget", "nothing=3"]):
            measure(folder, output, *option, code=2)
        done = measure(folder, BENCH / "results", code=1)
        if "bench/results is for real GPUs" not in done.stderr:
            problems.append(f"an emulated run would be kept: {done.stderr}")
        problems += check_archive(folder, pathlib.Path(name) / "archive")
    if problems:
        sys.exit("\n".join(problems))


main()

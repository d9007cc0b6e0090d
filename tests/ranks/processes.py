"""What the checks of runs of several processes share."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

# Only what a test sets tells a process who it is.
LAUNCHER_VARIABLES = ("MESHC_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI",
                      "SLURM_", "TORCHELASTIC")

STOPS = ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP"))


def environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(LAUNCHER_VARIABLES)}
    return {**kept, **variables}


def run(command, timeout=120, env=None):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, env=env or environment(), check=False)


def start(command, env=None, stdout=subprocess.PIPE):
    return subprocess.Popen([str(word) for word in command], stdout=stdout,
                            stderr=subprocess.PIPE, text=True, env=env or environment())


def write_idx(path, sizes, values, code=0x08, letter="B"):
    header = struct.pack(f">4B{len(sizes)}i", 0, 0, code, len(sizes), *sizes)
    pathlib.Path(path).write_bytes(header + struct.pack(f">{len(values)}{letter}", *values))


def write_linear_data(folder, seed=1, test_samples=31):
    """Samples as the linear model reads them."""
    numbers = random.Random(seed)
    for split, count in (("train", 100), ("test", test_samples)):
        x = [numbers.randrange(256) for _ in range(3 * count)]
        y = [round((2 * a + 4 * b + 2 * c) / 255)
             for a, b, c in zip(x[0::3], x[1::3], x[2::3])]
        write_idx(pathlib.Path(folder) / f"{split}-x", [count, 3], [a / 255 for a in x], 0x0d, "f")
        write_idx(pathlib.Path(folder) / f"{split}-y", [count], y)


def read_metrics(path):
    """Every step with its values; speed is nobody's promise."""
    steps = []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        step = json.loads(line)
        del step["samples_per_s"], step["data_wait_s"]
        steps.append(step)
    return steps


def children(process):
    """The processes that one has started, in order."""
    path = pathlib.Path(f"/proc/{process}/task/{process}/children")
    try:
        return [int(word) for word in path.read_text(encoding="utf-8").split()]
    except FileNotFoundError:
        return []


def state(process):
    """The letter of ps: R runs, S sleeps, T is stopped, Z has ended; "" if gone."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat.rsplit(")", 1)[1].split()[0]


def takes(process, number):
    """Whether the process has come so far that the signal does not just end it: its main
    thread catches it, or blocks it for another one that waits for it."""
    status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    masks = re.findall(r"^Sig(?:Cgt|Blk):\s*(\w+)$", status, re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def is_alive(process):
    return state(process) not in ("", "Z")


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def wait_for_end(processes, seconds=5):
    """Whether all of these processes have gone."""
    return wait_for(lambda: not any(is_alive(process) for process in processes), seconds)


def free_port():
    """A port that nobody has, below those that Linux gives to connections by itself (from
    32768, ip_local_port_range): one of these could be given to another test's connection
    before anybody listens on it."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def listens(port):
    """Whether somebody listens on this port of 127.0.0.1, without calling him."""
    wanted = f"0100007F:{port:04X} 00000000:0000 0A"
    return wanted in " ".join(
        pathlib.Path("/proc/net/tcp").read_text(encoding="utf-8").split())


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="meshc-ranks-")
    try:
        yield pathlib.Path(path)
    finally:
        shutil.rmtree(path)


def finish(process, seconds=30):
    """Output, messages and exit code; the test fails where it does not end."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        out, err = process.communicate()
        sys.exit(f"did not end within {seconds} s: {process.args}\n{out}{err}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def errors(text):
    return [line for line in text.splitlines() if "meshc: error" in line]


def run_tests(jobs):
    """The tests of the check that is run, or of them those that its last arguments name.
    They wait for most of their time, so that `jobs` of them run side by side, each in a
    process of its own. Ends the process."""
    if len(sys.argv) > 1:
        unittest.main(verbosity=2)
    names = [f"{type(test).__name__}.{test.id().rpartition('.')[2]}"
             for case in unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
             for test in case]

    def run_test(name):
        done = subprocess.run([sys.executable, *sys.orig_argv[1:], name], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.write(2, done.stdout)
        return done.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        sound = list(pool.map(run_test, names))
    print(f"{sum(sound)} of {len(names)} tests pass")
    sys.exit(not all(sound) or not names)


class LinearModelTest(unittest.TestCase):
    """Trains the linear model, whose executable is `app`, in a folder with its data."""

    app = None

    def setUp(self):
        place = folder()
        self.folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        write_linear_data(self.folder)

    def train(self, *arguments):
        return [self.app, "train", "--data-dir", self.folder, *arguments]

    def start_training(self, ranks, *arguments):
        """A training that does not end by itself; with its ranks' processes."""
        metrics = self.folder / "endless.jsonl"
        metrics.unlink(missing_ok=True)
        process = start(
            self.train("--processes", ranks, "--steps", 10 ** 9, "--metrics", metrics,
                       "--threads", 1, *arguments))
        self.assertTrue(wait_for(
            lambda: metrics.exists() and metrics.stat().st_size > 0))
        found = children(process.pid)
        self.assertEqual(len(found), ranks)
        return process, found

    def expect_stop(self, done, name, when, code):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertIn(f"stopped by {name} {when}", done.stderr)

    def start_rank(self, rank, ranks, port, *arguments, **how):
        return start(self.train(
            "--rank", rank, "--ranks", ranks, "--store", f"127.0.0.1:{port}",
            "--threads", 1, *arguments), **how)

"""Programs under the time that a measurement has left, and the libraries they find."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

# How long what was killed may take to be gone, and a peer that is asked nothing more. A
# process that waits within the driver cannot be killed; it is left behind.
END_S = 5


class OutOfTime(Exception):
    """The time is over; `output` is what the program under way had printed."""

    def __init__(self, output=""):
        super().__init__()
        self.output = output


class Clock:
    """The time that the step under way has left."""

    def __init__(self):
        self.end = float("inf")

    def get_left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left


CLOCK = Clock()


def start(command, **options):
    """A process with a group of its own, so that its end is that of all it has started.

    Not a session: whoever ends the measurement's session ends these, too."""
    return subprocess.Popen([str(part) for part in command], text=True, process_group=0,
                            **options)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(command, **options):
    """A CompletedProcess. Errors: OutOfTime, and all that the program has started is gone."""
    left = CLOCK.get_left()
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        output, errors = process.communicate(timeout=None if left == float("inf") else left)
    except subprocess.TimeoutExpired:
        kill(process)
        try:
            output, _ = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"").decode(errors="replace")
        raise OutOfTime(output) from None
    except BaseException:
        kill(process)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def get_error(done):
    """The last lines of what a program that failed said."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"exit code {done.returncode}: " + " ".join(lines[-3:])


def get_library_path(carried):
    """For programs that bench/gpu.sh brings: their C++ libraries in the folder `carried`,
    what LD_LIBRARY_PATH has, and CUDA's libraries where they are packages of Python,
    nvidia/*/lib in the folders of this interpreter."""
    folders = [carried] if carried.is_dir() else []
    folders += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for known in dict.fromkeys(filter(None, sys.path)):
        folders += sorted(pathlib.Path(known).glob("nvidia/*/lib"))
    return ":".join(map(str, folders))


class Worker:
    """A process with a peer's model. It stays while others are measured."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+")
        # Otherwise JAX takes most of the memory that there is at once.
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=self.errors, env=environment)
        try:
            self.versions = self.read()
        except BaseException:
            self.stop()
            raise

    def read(self):
        watch = threading.Timer(min(CLOCK.get_left(), threading.TIMEOUT_MAX), kill,
                                [self.process])
        watch.start()
        try:
            # Frameworks may print what nobody asked for.
            line = next((line for line in self.process.stdout if line.startswith("{")), "")
        finally:
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
        with contextlib.suppress(BrokenPipeError):  # it has ended, and read() says how
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        return self.read()

    def stop(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        kill(self.process)  # what it has left behind, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)

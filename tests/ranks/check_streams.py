"""Standard streams that cannot be written or are closed, of executables, alone and
as several processes, and of meshc. Arguments: the linear model's executable, meshc,
the repository."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import processes

APP = sys.argv.pop(1)
MESHC = sys.argv.pop(1)
SPEC = pathlib.Path(sys.argv.pop(1)) / "samples" / "mlp.mesh"

CLOSED, FULL, GONE = "closed", "full", "a reader that has gone"


def run(command, **streams):
    """Runs with `stdin`, `stdout`, `stderr` as given; what was printed elsewhere."""
    opened = []

    def prepare():
        for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
            if streams.get(name) == CLOSED:
                os.close(number)

    def open_stream(name):
        how = streams.get(name)
        if how == FULL:
            opened.append(os.open("/dev/full", os.O_WRONLY))
            return opened[-1]
        if how == GONE:
            reader, writer = os.pipe()
            os.close(reader)
            opened.append(writer)
            return writer
        return None if how == CLOSED else subprocess.PIPE

    environment = processes.environment(MESHC_CACHE_DIR=streams["cache"]) \
        if "cache" in streams else processes.environment()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=open_stream("stdout"),
        stderr=open_stream("stderr"), preexec_fn=prepare, text=True, env=environment)
    for descriptor in opened:
        os.close(descriptor)
    return processes.finish(process, 120)


class Streams(unittest.TestCase):
    def setUp(self):
        place = processes.folder()
        self.folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        processes.write_linear_data(self.folder)
        self.metrics = self.folder / "metrics.jsonl"

    def train(self, *arguments):
        return [APP, "train", "--data-dir", self.folder, "--epochs", 2, "--metrics",
                self.metrics, *arguments]

    def test_training_needs_no_standard_error(self):
        expected = run(self.train())
        self.assertEqual(expected.returncode, 0, expected.stderr)
        steps = processes.read_metrics(self.metrics)
        self.assertEqual(len(steps), 16)
        for ranks in (1, 3):
            for streams in ({"stderr": FULL}, {"stderr": CLOSED}, {"stderr": GONE},
                            {"stdin": CLOSED}, {"stdin": CLOSED, "stderr": CLOSED}):
                with self.subTest(ranks=ranks, **streams):
                    done = run(self.train("--processes", ranks), **streams)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout, expected.stdout)
                    # Progress is not written into a file that was opened later.
                    self.assertEqual(processes.read_metrics(self.metrics), steps)

    def test_errors_need_no_standard_error(self):
        (self.folder / "train-x").unlink()
        for how in (FULL, CLOSED, GONE):
            for ranks in (1, 3):
                self.assertEqual(run(self.train("--processes", ranks), stderr=how).returncode, 1)
            self.assertEqual(run([APP, "nothing"], stderr=how).returncode, 2)

    def check_output(self, command, **streams):
        done = run(command, **streams)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout)
        for how, reason in ((FULL, "No space left on device"),
                            (CLOSED, "Bad file descriptor"), (GONE, "Broken pipe")):
            done = run(command, stdout=how, **streams)
            self.assertEqual(done.returncode, 1, (how, done.stderr))
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertRegex(errors[0], f'cannot write (to |")standard output"?: {reason}')
        # Nobody can be told, but the exit code tells.
        self.assertEqual(run(command, stdout=CLOSED, stderr=CLOSED, stdin=CLOSED,
                             **streams).returncode, 1)

    def test_what_an_executable_prints(self):
        for command in (["info"], ["--help"], ["train", "--help"],
                        ["eval", "--data-dir", self.folder, "--init", "random"],
                        ["bench", "--steps", 1]):
            with self.subTest(command):
                self.check_output([APP, *command])
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.check_output(self.train("--processes", ranks))
                self.assertEqual(len(processes.read_metrics(self.metrics)), 16)

    def on_terminal(self, command, columns, seconds=0.0, resized=None, **variables):
        """Exit code and what a terminal of this width gets; `resized` is its width
        after `seconds`."""
        terminal, inside = pty.openpty()

        def resize(width):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))

        resize(columns)
        environment = {**processes.environment(), "TERM": "xterm", **variables}
        process = subprocess.Popen([str(word) for word in command], stdin=inside,
                                   stdout=subprocess.DEVNULL, stderr=inside, env=environment)
        os.close(inside)
        parts, end, shown = [], time.monotonic() + 60, b""
        start = time.monotonic()
        while time.monotonic() < end:
            if resized and time.monotonic() > start + seconds:
                parts.append(shown)
                resize(resized)
                resized, shown = None, b""
                start, seconds = time.monotonic(), 0.5
                process.send_signal(signal.SIGWINCH)
                while time.monotonic() < start + 0.3:
                    os.read(terminal, 1 << 16)  # may still have the width before
            elif len(parts) == 1 and time.monotonic() > start + seconds:
                process.send_signal(signal.SIGINT)
                seconds = 60
            try:
                shown += os.read(terminal, 1 << 16)
            except OSError:  # nobody has it open any longer
                break
        code = process.wait(60)
        os.close(terminal)
        parts.append(shown)
        return code, [part.decode() for part in parts]

    def widths(self, text):
        lines = [line for line in re.split("[\r\n]+", text) if line.startswith("epoch")]
        self.assertTrue(lines, text)
        for line in lines:
            # No field is shown in part.
            self.assertRegex(line, r"^epoch \d+/\d+(  step \d+/\d+(  loss [\d.e+-]+"
                                   r"(  [\d.e+]+ samples/s(  [\d hmins]+ left)?)?)?)? *$")
        return {len(line) for line in lines}

    def test_progress_has_the_width_of_the_terminal(self):
        full = max(self.widths(self.on_terminal(self.train(), 200)[1][0]))
        self.assertGreater(full, 50)
        for columns in (200, 79, 50, 30, 12):
            code, (shown,) = self.on_terminal(self.train(), columns)
            self.assertEqual(code, 0)
            self.assertLess(max(self.widths(shown)), columns)
        # One that does not know its width is taken for one of 80 columns.
        self.assertLess(max(self.widths(self.on_terminal(self.train(), 0)[1][0])), 80)

    def test_progress_follows_the_terminal(self):
        endless = self.train("--steps", 10 ** 9)
        endless.remove("--epochs")
        endless.remove(2)
        code, (before, after) = self.on_terminal(endless, 200, seconds=0.5, resized=30)
        self.assertEqual(code, 130)
        self.assertGreater(max(self.widths(before)), 50)
        self.assertLess(max(self.widths(after)), 30)

    def test_colors(self):
        wrong = [APP, "nothing"]
        _, (shown,) = self.on_terminal(wrong, 80)
        self.assertIn("meshc: \x1b[1;31merror[MR0101]:\x1b[0m unknown", shown)
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            _, (shown,) = self.on_terminal(wrong, 80, **variables)
            self.assertIn("meshc: error[MR0101]: unknown", shown)
        self.assertIn("meshc: error[MR0101]: unknown", run(wrong).stderr)

    def test_ps_says_the_program(self):
        process = processes.start([*self.train("--processes", 3, "--steps", 10 ** 9)[:4],
                                   "--processes", "3", "--steps", str(10 ** 9)])
        def names():
            return [pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip()
                    for child in processes.children(process.pid)]
        expected = [pathlib.Path(APP).name[:15]] * 3
        try:
            self.assertTrue(processes.wait_for(lambda: names() == expected), names())
        finally:
            process.kill()
            process.communicate()

    def test_what_meshc_prints(self):
        cache = str(self.folder / "cache")
        for command in (["--help"], ["--version"], ["plan", "--help"], ["plan", SPEC],
                        ["plan", SPEC, "-o", "-"], ["plan", SPEC, "--emit", "json"],
                        ["plan", SPEC, "--emit", "json", "-o", "-"],
                        ["compile", SPEC, "--emit", "spmd", "-o", "-"],
                        ["compile", SPEC, "--emit", "kernels", "-o", "-"],
                        ["explain", "c1"], ["explain", "c1", SPEC],
                        ["explain", "MC0603"], ["doctor"], ["run", SPEC, "--", "info"],
                        ["run", SPEC, "--bench", 1], ["cache"], ["cache", "--clear"]):
            with self.subTest(command):
                self.check_output([MESHC, *command], cache=cache)
        scalar = self.folder / "scalar.mesh"
        scalar.write_text("model m() { param w: f32 = ones  output y = w * 2 }\n",
                          encoding="utf-8")
        self.check_output([MESHC, "run", scalar, "--eval", "--init", "random"], cache=cache)

    def test_an_executable_to_standard_output(self):
        command = [str(word) for word in (MESHC, "compile", SPEC, "-o", "-")]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False,
                              env=processes.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.folder / "-").exists())
        made = self.folder / "made"
        made.write_bytes(done.stdout)
        made.chmod(0o700)
        self.assertEqual(run([made, "info"]).returncode, 0)
        for how, reason in ((FULL, "No space left on device"),
                            (CLOSED, "Bad file descriptor"), (GONE, "Broken pipe")):
            done = run(command, stdout=how)
            self.assertEqual(done.returncode, 1, (how, done.stderr))
            self.assertIn(f"cannot write 'standard output': {reason}", done.stderr)

    def test_standard_output_by_its_name(self):
        for command in (["plan", SPEC], ["compile", SPEC]):
            for how, reason in ((FULL, "No space left on device"), (CLOSED, "Is a directory")):
                done = run([MESHC, *command, "-o", "/dev/stdout"], stdout=how)
                self.assertEqual(done.returncode, 1, (how, done.stderr))
                self.assertRegex(done.stderr, f"cannot write ./dev/stdout.: {reason}")

    def test_what_goes_to_standard_error_needs_no_standard_output(self):
        wrong = self.folder / "wrong.mesh"
        wrong.write_text("model m(x: f32[nothing]) { output y = x }\n", encoding="utf-8")
        for how in (FULL, CLOSED, GONE):
            for spec, code in ((SPEC, 0), (wrong, 1)):
                done = run([MESHC, "check", spec, "--message-format", "json"], stdout=how)
                self.assertEqual(done.returncode, code, done.stderr)
                lines = done.stderr.splitlines()
                self.assertEqual([json.loads(line)["level"] for line in lines],
                                 ["error"] * code)

    def test_meshc_makes_the_same_whatever_is_closed(self):
        made = [self.folder / name for name in ("open", "closed")]
        self.assertEqual(run([MESHC, "compile", SPEC, "-o", made[0]]).returncode, 0)
        done = run([MESHC, "compile", SPEC, "-o", made[1]], stdin=CLOSED, stdout=CLOSED,
                   stderr=CLOSED)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(made[0].read_bytes(), made[1].read_bytes())
        wrong = self.folder / "wrong.mesh"
        wrong.write_text("model m(x: f32[nothing]) { output y = x }\n", encoding="utf-8")
        for how in (FULL, CLOSED, GONE):
            self.assertEqual(run([MESHC, "check", wrong], stderr=how).returncode, 1)
            self.assertEqual(run([MESHC, "nothing"], stderr=how).returncode, 2)


unittest.main(verbosity=2)

"""`train --save DIR --restarts N`: a training of which a process is killed goes on by
itself, and every step's loss is that of a training nobody interrupted; what the user has
ended, and what would fail again, ends. Argument: the linear model's executable."""

import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "ranks"))
import processes  # pylint: disable=wrong-import-position

APP = sys.argv.pop(1)
# Of a training that is killed four times. Each is saved, which on a busy machine takes 25 ms.
STEPS = 600
RESTART = re.compile(r"^meshc: warning: restart (\d+) of (\d+): (.*); (.*)$", re.MULTILINE)


def errors(text):
    return re.findall(r"^meshc: error\[(MR\d+)\]", text, re.MULTILINE)


class Run:
    """A training that writes its messages into a file."""

    def __init__(self, place, *arguments, devices=3, **variables):
        self.metrics = place / "metrics.jsonl"
        self.path = place / "messages"
        with open(self.path, "wb") as stream:
            self.process = subprocess.Popen(
                [str(word) for word in (
                    APP, "train", "--data-dir", place, "--no-eval", "--metrics", self.metrics,
                    "--threads", 1, *arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
                env=processes.environment(LINEAR_DEVICES=str(devices), **variables))

    def messages(self):
        return self.path.read_text(encoding="utf-8")

    def restarts(self):
        return RESTART.findall(self.messages())

    def ranks(self):
        return processes.children(self.process.pid)

    def steps(self):
        return self.metrics.read_bytes().count(b"\n") if self.metrics.exists() else 0

    def wait_for_steps(self, count, restarts):
        """Until there are so many, of which some are of the run behind that restart."""
        def are_there():
            return self.process.poll() is not None or (
                len(self.restarts()) == restarts and self.ranks() and
                self.messages().rpartition("restart")[2].count("epoch ") > 0 and
                self.steps() >= count)
        return processes.wait_for(are_there, 60) and self.process.poll() is None

    def kill(self, rank, number=signal.SIGKILL):
        os.kill(self.ranks()[rank], number)

    def kill_at_rest(self, rank):
        """Kills one while nobody makes a step. Returns how many steps have been made."""
        ranks = self.ranks()
        for process in ranks:
            os.kill(process, signal.SIGSTOP)
        if not processes.wait_for(lambda: all(processes.state(one) == "T" for one in ranks)):
            sys.exit("the processes do not stop")
        steps = self.steps()
        os.kill(ranks[rank], signal.SIGKILL)
        for process in ranks:
            with contextlib.suppress(ProcessLookupError):  # its launcher has ended it
                os.kill(process, signal.SIGCONT)
        return steps

    def end(self, seconds=240):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its ranks go with it
            self.process.wait()
            sys.exit(f"did not end within {seconds} s\n{self.messages()[-3000:]}")


class Restarts(unittest.TestCase):
    def setUp(self):
        place = processes.folder()
        self.folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        processes.write_linear_data(self.folder)
        self.saved = self.folder / "saved"

    def start(self, ranks, *arguments, **how):
        return Run(self.folder, "--save", self.saved, "--processes", ranks, *arguments, **how)

    def train_through(self, steps, *arguments, devices=3):
        """The metrics of a training nobody interrupts, and what it has saved."""
        place = self.folder / "through"
        shutil.rmtree(place, ignore_errors=True)
        done = processes.run(
            [APP, "train", "--data-dir", self.folder, "--no-eval", "--steps", steps,
             "--metrics", f"{place}.jsonl", "--save", place, *arguments],
            env=processes.environment(LINEAR_DEVICES=str(devices)))
        self.assertEqual(done.returncode, 0, done.stderr)
        return processes.read_metrics(f"{place}.jsonl"), place

    def expect_same(self, run, expected):
        metrics, saved = expected
        self.assertEqual(processes.read_metrics(run.metrics), metrics)
        done = processes.run([APP, "ckpt", "diff", self.saved, saved])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_killed_processes(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.saved, ignore_errors=True)
                chosen = random.Random(ranks)
                expected = self.train_through(STEPS, "--seed", 3)
                run = self.start(ranks, "--restarts", 9, "--steps", STEPS, "--seed", 3,
                                 "--save-every", 1)
                target, killed = 0, []
                for number in range(4):
                    target += chosen.randint(1, STEPS // 8)
                    if not run.wait_for_steps(target, number):
                        break
                    rank = chosen.randrange(ranks)
                    steps = run.kill_at_rest(rank)
                    self.assertTrue(processes.wait_for(
                        lambda: len(run.restarts()) > len(killed), 30), run.messages())
                    killed.append((rank, steps))
                    target = max(target, steps)
                self.assertEqual(run.end(), 0, run.messages())
                # A machine so fast that the training was over first has shown less.
                self.assertGreaterEqual(len(killed), 2)
                for number, (found, (rank, steps)) in enumerate(zip(run.restarts(), killed)):
                    who = "the process" if ranks == 1 else f"rank {rank}"
                    self.assertEqual(found[:3], (str(number + 1), "9",
                                                 f"{who} was killed by signal 9 (Killed)"))
                    step = re.fullmatch(r"goes on from step (\d+)", found[3])
                    self.assertTrue(step, found[3])
                    # A step is made and told while the one before is saved, and waits then.
                    self.assertIn(steps - int(step[1]), range(0, 3), found)
                    self.assertIn(f"goes on from {self.saved}/step-{int(step[1]):08}",
                                  run.messages())
                self.expect_same(run, expected)

    def test_a_start_that_is_given_holds_until_something_is_saved(self):
        start = self.folder / "start"
        done = processes.run([APP, "train", "--data-dir", self.folder, "--no-eval", "--steps", 20,
                              "--seed", 8, "--save", start],
                             env=processes.environment(LINEAR_DEVICES="3"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for given, steps in ((["--from", start], 4000), (["--resume", start], 4020)):
            with self.subTest(given=given[0]):
                shutil.rmtree(self.saved, ignore_errors=True)
                expected = self.train_through(steps, *given)
                run = self.start(3, "--restarts", 2, *given, "--steps", steps, "--save-every",
                                 steps // 2)
                self.assertTrue(run.wait_for_steps(1, 0))
                run.kill(0)
                self.assertTrue(processes.wait_for(run.restarts, 30), run.messages())
                self.assertEqual(run.restarts()[0][3],
                                 f"starts as before, since '{self.saved}' has no checkpoint")
                if run.wait_for_steps(steps // 2 + 300, 1):
                    run.kill(2)
                self.assertEqual(run.end(), 0, run.messages())
                for found in run.restarts()[1:]:
                    self.assertRegex(found[3], r"^goes on from step \d+$")
                self.expect_same(run, expected)

    def test_no_more_restarts_than_allowed(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.saved, ignore_errors=True)
                run = self.start(ranks, "--restarts", 2, "--steps", 10 ** 9, "--save-every", 50)
                for number in range(3):
                    self.assertTrue(run.wait_for_steps(1, number), run.messages())
                    run.kill(ranks - 1)
                self.assertEqual(run.end(), 6)
                self.assertEqual([found[:2] for found in run.restarts()], [("1", "2"), ("2", "2")])
                self.assertEqual(errors(run.messages()), ["MR0504"] * 3, run.messages())
                who = "the process" if ranks == 1 else "rank 1"
                self.assertTrue(run.messages().endswith(
                    f"meshc: note: {who} was killed by signal 9 (Killed)\n"
                    "meshc: note: no restart is left of 2\n"), run.messages())

    def test_what_the_user_ends_is_over(self):
        for ranks, target, number in ((1, None, signal.SIGTERM), (3, None, signal.SIGINT),
                                      (3, 1, signal.SIGTERM), (1, 0, signal.SIGHUP),
                                      (3, None, signal.SIGUSR1), (1, None, signal.SIGQUIT)):
            with self.subTest(ranks=ranks, target=target, number=number):
                shutil.rmtree(self.saved, ignore_errors=True)
                run = self.start(ranks, "--restarts", 3, "--steps", 10 ** 9)
                self.assertTrue(run.wait_for_steps(1, 0))
                if target is None:
                    run.process.send_signal(number)
                else:
                    run.kill(target, number)
                is_default = number in (signal.SIGUSR1, signal.SIGQUIT)
                self.assertEqual(run.end(), -number if is_default else 128 + number,
                                 run.messages())
                self.assertEqual(run.restarts(), [])

    def test_a_signal_between_two_runs(self):
        run = self.start(1, "--restarts", 3, "--steps", 10 ** 9)
        self.assertTrue(run.wait_for_steps(1, 0))
        run.kill(0)
        self.assertTrue(processes.wait_for(run.restarts))
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.end(), 143, run.messages())
        self.assertTrue(run.messages().endswith(
            "error[MR0306]: stopped by SIGTERM before restart 1 of 3\n"), run.messages())

    def test_what_would_fail_again_is_over(self):
        other = self.folder / "other"
        other.mkdir()
        for code, arguments, variables in (
                (1, ["--data-dir", other], {}), (1, ["--from", other / "none"], {}),
                (3, ["--fail-on-nan", "--steps", 99], {"LINEAR_NAN": "20"}),
                (4, ["--processes", 3], {"LINEAR_OTHER": "2"})):
            with self.subTest(code=code, arguments=arguments):
                shutil.rmtree(self.saved, ignore_errors=True)
                words = [APP, "train", "--no-eval", "--save", self.saved, "--restarts", 2]
                if "--data-dir" not in arguments:
                    words += ["--data-dir", self.folder]
                done = processes.run([*words, *arguments], env=processes.environment(**variables))
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertNotIn("restart", done.stderr)
                self.assertEqual(len(errors(done.stderr)), 1, done.stderr)

    def test_a_rank_that_does_not_answer(self):
        expected = self.train_through(STEPS)
        run = self.start(3, "--restarts", 1, "--steps", STEPS, "--save-every", 1)
        self.assertTrue(run.wait_for_steps(5, 0))
        run.kill(1, signal.SIGSTOP)
        self.assertEqual(run.end(), 0, run.messages())
        self.assertRegex(run.restarts()[0][2], r"^rank 1 was stopped by signal 19 \(.*\) \d+ s ago$")
        self.expect_same(run, expected)

    def test_an_internal_error(self):
        """More threads than there are addresses for their stacks."""
        limit = 1 << 32

        def train(*arguments):
            return subprocess.run(
                [str(word) for word in (APP, *arguments)], capture_output=True, text=True,
                check=False, env=processes.environment(), timeout=60,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

        if train("info").returncode != 0:
            self.skipTest("a sanitizer needs more addresses than that")
        done = train("train", "--data-dir", self.folder, "--save", self.saved, "--threads", 4096,
                     "--restarts", 2)
        self.assertIn(done.returncode, (5, 70), done.stderr)
        self.assertEqual([found[:3] for found in RESTART.findall(done.stderr)],
                         [(number, "2", f"the process ended with exit code {done.returncode}")
                          for number in "12"], done.stderr)
        self.assertEqual(len(errors(done.stderr)), 3, done.stderr)

    def test_usage(self):
        train = [APP, "train", "--data-dir", self.folder]
        for arguments, message in (
                (["--restarts", 2], "--restarts requires --save"),
                (["--continue"], "--continue requires --save"),
                (["--save", self.saved, "--restarts", -1], "--restarts: "),
                (["--save", self.saved, "--restarts"], "--restarts: ")):
            done = processes.run([*train, *arguments])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"error[MR0101]: {message}", done.stderr)
        for variables, flags, who, note in (
                ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, [], "torchrun",
                 "torchrun --max-restarts N"),
                ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, [], "Open MPI",
                 "mpirun ends all ranks"),
                ({"PMI_RANK": "0", "PMI_SIZE": "2"}, [], "Hydra", "mpirun ends all ranks"),
                ({"SLURM_STEP_NODELIST": "a", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, [],
                 "Slurm", "sbatch --requeue"),
                ({}, ["--rank", 0, "--ranks", 2, "--store", "127.0.0.1:9"], "flags",
                 "start all ranks again")):
            done = processes.run([*train, "--save", self.saved, "--restarts", 2, *flags],
                                 env=processes.environment(**variables))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("error[MR0101]: --restarts is for processes that this one starts, and "
                          f"it is rank 0 of 2 ({who})\nmeshc: note: {note}", done.stderr)
            self.assertIn("--continue", done.stderr)

    def test_another_launcher_starts_the_same_command_again(self):
        """As torchrun --max-restarts does: the same words, variables and port."""
        port = processes.free_port()

        def start(steps):
            return [processes.start(
                [APP, "train", "--data-dir", self.folder, "--no-eval", "--steps", steps,
                 "--metrics", self.folder / "metrics.jsonl", "--save", self.saved, "--continue",
                 "--threads", 1],
                env=processes.environment(
                    RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3",
                    MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LINEAR_DEVICES="3"))
                    for rank in range(3)]
        for steps in (40, 70):
            done = [processes.finish(process) for process in start(steps)]
            self.assertEqual([one.returncode for one in done], [0, 0, 0], done)
            self.assertEqual(f"goes on from {self.saved}/step-00000040" in done[0].stderr,
                             steps == 70, done[0].stderr)
        expected = self.train_through(70)
        self.assertEqual(processes.read_metrics(self.folder / "metrics.jsonl"), expected[0])


processes.run_tests(3)

"""Trainings that are killed at random moments, most of them while something is saved, go
on from the last checkpoint: each step's loss is that of a training nobody interrupted, no
step is missing or there twice, and no checkpoint is ever lost or damaged.

As a test it takes a dozen moments. On demand, for as many as one likes:

    check_killed.py LINEAR_APP LIBMESHC_MPI --moments 500 --jobs 4

LINEAR_APP is of a model with parameters alone. With --meshc MESHC it is a spec instead, which
is compiled for each mesh; state.mesh has statistics, a count and random numbers.

A training is killed, and another one goes on, until the moments are over or it ends; each
has one, two, three or four processes, of the own launcher or mpirun. Of every second
training all parts have the same mesh, so that losses are equal bit for bit; of the others
each has a mesh of its own, and losses are equal up to rounding. What failed is printed
with what repeats it, as far as times do: --seed S --training I."""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "ranks"))
import processes  # pylint: disable=wrong-import-position

STEPS = 250
MESHES = (1, 2, 3, 4)
# Sums of twelve terms in another order, as TrainingTest compares meshes.
TOLERANCE = 1e-4
# mpirun, and ranks that wait for one that is gone, on a machine that is busy.
LIMIT_SECONDS = 60


class Violation(Exception):
    pass


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


class Training:
    def __init__(self, options, number, place):
        self.options = options
        self.place = place
        self.random = random.Random(f"{options.seed}/{number}")
        self.has_one_mesh = number % 2 == 0
        self.mesh = self.random.choice((2, 3, 4))
        self.saved = place / "saved"
        # Of every second one of each kind the best checkpoint is kept.
        self.keeps_best = number % 4 in (0, 3)
        self.metrics = place / "metrics.jsonl"
        self.log = []
        self.kills = 0
        for name in {app.name for app in options.apps.values()}:
            os.link(options.data / name, place / name)
        if options.plugin:
            os.link(options.plugin, place / "libmeshc_mpi.so")

    def environment(self, mesh):
        return processes.environment(LINEAR_DEVICES=str(mesh), TMPDIR=str(self.place))

    def app(self, mesh):
        return self.place / self.options.apps[mesh].name

    def command(self, mesh):
        chosen = self.random
        ranks = chosen.randint(1, mesh)
        launcher = chosen.choice(("own", "mpirun")) if self.options.plugin else "own"
        words = [self.app(mesh), "train", "--data-dir", self.options.data, "--steps", STEPS,
                 "--metrics", self.metrics, "--threads", 1, "--seed", 3,
                 "--join-timeout", 10, "--save", self.saved, "--save-every", chosen.choice((1, 1, 2, 7)),
                 "--keep", chosen.choice((1, 2, 3))]
        words += ["--eval-every", 3, "--keep-best", "--continue"] if self.keeps_best else ["--no-eval"]
        if not self.keeps_best and self.saved.exists() and any(self.saved.glob("step-*")):
            words += ["--resume", self.saved]
        if ranks > 1 and launcher == "own":
            words += ["--processes", ranks]
        if ranks > 1 and launcher == "mpirun":
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks, *words]
        return [str(word) for word in words]

    def run_part(self):
        """Whether the training has come to its end."""
        mesh = self.mesh if self.has_one_mesh else self.random.choice((1, 2, 3, 4))
        command = self.command(mesh)
        errors = self.place / "errors"
        with open(errors, "wb") as stream:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=stream,
                                       env=self.environment(mesh), start_new_session=True)
        is_killed = self.kills < self.options.per_training
        if is_killed:
            # Joining takes a part of it.
            time.sleep(self.random.uniform(0.02, 1.2))
            found = processes.children(process.pid) or [process.pid]
            target = self.random.choice([*found, process.pid])
            self.kills += process.poll() is None
            send(target, signal.SIGKILL)
        try:
            process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            left = [rank for rank in processes.children(process.pid)
                    if processes.is_alive(rank)]
            process.kill()
            # mpirun may wait for ever when all ranks have ended (check_chaos.py).
            # They would write into the folder while it goes.
            for rank in left:
                send(rank, signal.SIGKILL)
            processes.wait_for_end(left)
            if left or command[0] != "mpirun":
                raise Violation(f"{left or process.pid} did not end: {command}") from None
            process.wait()
        self.wait_for_ranks()
        said = errors.read_text(encoding="utf-8", errors="replace")
        self.log.append(f"{' '.join(command)}\nLINEAR_DEVICES={mesh}, exit code "
                        f"{process.returncode}\n{said}")
        if "internal error" in said or "is damaged" in said or "MR06" in said:
            raise Violation("an error that no kill explains")
        if not is_killed and process.returncode != 0:
            raise Violation("failed though nobody killed it")
        return process.returncode == 0

    def wait_for_ranks(self):
        """Ranks that notice the end of another one: they have the lock until then."""
        token = f"{self.place}/app".encode()

        def are_gone():
            for entry in pathlib.Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        command = (entry / "cmdline").read_bytes()
                    except OSError:
                        continue
                    if token in command and processes.is_alive(int(entry.name)):
                        return False
            return True

        if not processes.wait_for(are_gone, LIMIT_SECONDS):
            raise Violation("ranks are left")

    def check_saved(self, least):
        """The step of the last checkpoint, which is none before `least`."""
        steps = sorted(int(path.name[5:]) for path in self.saved.glob("step-*"))
        last = steps[-1] if steps else 0
        if last < least:
            raise Violation(f"the last checkpoint was of step {least}, and is of {last}")
        if steps:
            best = list((self.saved / "best").glob("step-*"))
            done = processes.run([self.app(self.mesh), "ckpt", "verify", self.saved])
            if done.returncode != 0 or done.stdout.count("sound") != len(steps) + len(best):
                raise Violation(f"damaged:\n{done.stdout}{done.stderr}")
            # Two where it was killed between them.
            if self.keeps_best and last >= 3 and len(best) not in (1, 2):
                raise Violation(f"the best checkpoints are {best}")
        return last

    def check_best(self):
        """It is the one with the lowest test loss of all parts of the training."""
        found = {step["step"]: step["test/loss"]
                 for step in processes.read_metrics(self.metrics) if "test/loss" in step}
        if list(found) != [*range(3, STEPS, 3), STEPS]:
            raise Violation(f"evaluated behind {list(found)}")
        best = [int(path.name[5:]) for path in (self.saved / "best").glob("step-*")]
        # On another mesh a step that comes again may be a little worse.
        slack = 0 if self.has_one_mesh else TOLERANCE
        if len(best) != 1 or found[best[0]] > min(found.values()) + slack:
            raise Violation(f"the best checkpoints are {best}, the lowest loss "
                            f"{min(found.items(), key=lambda item: item[1])}")

    def check_metrics(self, expected):
        found = [{name: value for name, value in step.items() if not name.startswith("test/")}
                 for step in processes.read_metrics(self.metrics)]
        if [step["step"] for step in found] != list(range(1, STEPS + 1)):
            raise Violation("a step is missing or there twice")
        for step, wanted in zip(found, expected):
            if self.has_one_mesh and step != wanted:
                raise Violation(f"{step}, expected {wanted}")
            if not math.isclose(step["loss"], wanted["loss"], rel_tol=0, abs_tol=TOLERANCE):
                raise Violation(f"{step}, expected about {wanted}")

    def run(self, expected):
        least = 0
        while not self.run_part():
            least = self.check_saved(least)
        self.check_saved(STEPS)
        self.check_metrics(expected[self.mesh])
        if self.keeps_best:
            self.check_best()
        if self.has_one_mesh:
            done = processes.run([self.app(self.mesh), "ckpt", "diff", self.saved,
                                  self.options.data / f"saved-{self.mesh}"])
            # An evaluation of the linear model, made by hand, leaves its residual as state.
            others = [line for line in done.stdout.splitlines()
                      if not (self.keeps_best and line.startswith("residual "))]
            if done.returncode != 0 and (done.returncode != 3 or others):
                raise Violation(f"other values:\n{done.stdout}{done.stderr}")


def train_through(options, mesh, place):
    metrics = place / f"through-{mesh}.jsonl"
    done = processes.run([options.apps[mesh], "train", "--data-dir", options.data, "--steps", STEPS,
                          "--no-eval", "--metrics", metrics, "--seed", 3,
                          "--save", place / f"saved-{mesh}"],
                         env=processes.environment(LINEAR_DEVICES=str(mesh)))
    assert done.returncode == 0, done.stderr
    return processes.read_metrics(metrics)


def get_apps(options, place):
    """The executable for each number of devices. They are copies that trainings have links
    to: one that is being written is busy where another thread forks."""
    if not options.meshc:
        return dict.fromkeys(MESHES, pathlib.Path(shutil.copy(options.app, place / "app")))
    apps = {}
    for mesh in MESHES:
        apps[mesh] = place / f"app-{mesh}"
        done = processes.run([options.meshc, "compile", options.app, "--mesh", f"data={mesh}",
                              "--layout", "batch=data", "-o", apps[mesh]])
        assert done.returncode == 0, done.stderr
    return apps


def attempt(options, number, expected):
    """How often the training was killed, and what went wrong."""
    with processes.folder() as place:
        training = Training(options, number, place)
        try:
            training.run(expected)
        except Violation as violation:
            left = json.dumps(sorted(str(path.relative_to(place))
                                     for path in place.rglob("*")), indent=1)
            return training.kills, (f"--seed {options.seed} --training {number}: {violation}\n"
                                    + "\n".join(training.log) + left)
        return training.kills, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("app")
    parser.add_argument("plugin", help="libmeshc_mpi.so; none: without mpirun")
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument("--per-training", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--training", type=int)
    parser.add_argument("--meshc", help="the compiler of the first argument, a spec")
    options = parser.parse_args()
    if options.plugin == "none" or not shutil.which("mpirun"):
        options.plugin = ""
    with processes.folder() as place:
        options.data = place
        options.apps = get_apps(options, place)
        if options.plugin:
            options.plugin = shutil.copy(options.plugin, place / "libmeshc_mpi.so")
        processes.write_linear_data(place)
        expected = {mesh: train_through(options, mesh, place) for mesh in MESHES if mesh > 1}
        kills, failures, number = 0, [], options.training or 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            while kills < options.moments and not failures:
                numbers = [number] if options.training is not None else \
                    range(number, number + options.jobs)
                for killed, failure in pool.map(
                        lambda one: attempt(options, one, expected), numbers):
                    kills += killed
                    failures += [failure] if failure else []
                number += options.jobs
                if options.training is not None:
                    break
        print(f"{kills} kills of {number} trainings")
        sys.exit("\n".join(failures) if failures else 0)


main()

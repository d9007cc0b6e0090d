"""Signals at random moments to runs of several processes: every run ends in bounded
time, with a documented exit code, a message where one is due, and nothing left behind.

As a test it takes a dozen moments. On demand, for hours if need be:

    check_chaos.py LINEAR_APP LIBMESHC_MPI --moments 500 --jobs 6

A violation is printed with what repeats it: --seed S --moment I. The moments are those
of one random choice each of

    KILL, STOP for ever, STOP and CONT, TERM, INT or HUP
    to any rank, to rank 0, or to the launcher
    of the own launcher, of ranks started by hand, of mpirun
    while ranks join, train, evaluate or end."""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import processes

SIGNALS = ("KILL", "STOP", "PAUSE", "TERM", "INT", "HUP")
TARGETS = ("rank", "rank 0", "launcher")
LAUNCHERS = ("own", "hand", "mpirun")
PHASES = ("join", "training", "evaluation", "end")

# More than the grace of the own launcher, which ends first what cannot begin.
JOIN_SECONDS = 12
# A rank that is stopped for ever is lost after 10 s, and killed 8 s later by the own
# launcher, 18 s after that where the others had ended. Machines may be slow.
LIMIT_SECONDS = 120
# How long mpirun may take for one that is stopped, before it goes on.
STOPPED_SECONDS = 40
# What a launcher may answer with when it is not ours.
MPIRUN_CODES = {0, 1, 6, 129, 130, 131, 137, 143, 213, 255}


class Violation(Exception):
    pass


class Run:
    """The processes of one run, and what they leave."""

    def __init__(self, app, plugin, choices, place):
        self.folder = place
        self.choices = choices
        self.metrics = place / "metrics.jsonl"
        self.app = place / "app"
        # Links: a copy would be busy where another thread forks while it is written.
        os.link(app, self.app)
        if plugin:
            os.link(plugin, place / "libmeshc_mpi.so")
        self.started = []
        self.seen = []  # processes of the ranks of a launcher
        self.oddities = []  # what is mpirun's, not ours

    def arguments(self):
        steps = {"join": 30, "training": 10 ** 9, "evaluation": 1, "end": 12}
        return [self.app, "train", "--data-dir", self.choices["data"], "--steps",
                steps[self.choices["phase"]], "--metrics", self.metrics, "--threads", 1,
                "--join-timeout", JOIN_SECONDS]

    def start(self):
        ranks = self.choices["ranks"]
        if self.choices["launcher"] == "own":
            commands = [[*self.arguments(), "--processes", ranks]]
        elif self.choices["launcher"] == "mpirun":
            commands = [["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks,
                         *self.arguments()]]
        else:
            port = processes.free_port()
            commands = [[*self.arguments(), "--rank", rank, "--ranks", ranks, "--store",
                         f"127.0.0.1:{port}"] for rank in range(ranks)]
        for number, command in enumerate(commands):
            # Into files: a pipe that nobody reads would stop them.
            streams = [open(self.folder / f"{name}{number}", "wb") for name in ("out", "err")]
            with streams[0], streams[1]:
                self.started.append(subprocess.Popen(
                    [str(word) for word in command], stdin=subprocess.DEVNULL,
                    stdout=streams[0], stderr=streams[1],
                    # mpirun kills the group of a rank, which at first is its own.
                    start_new_session=True,
                    env=processes.environment(TMPDIR=str(self.folder))))

    def ranks(self):
        """The process of each rank, None where it is gone; fewer before all have begun."""
        if self.choices["launcher"] == "hand":
            found = [process.pid for process in self.started]
        else:
            found = processes.children(self.started[0].pid)
        if len(found) > len(self.seen):
            self.seen = found
        return [process if process in found else None for process in self.seen]

    def lines(self):
        try:
            return self.metrics.read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def wait_for_phase(self):
        phase = self.choices["phase"]
        if phase == "join":
            time.sleep(self.choices["moment"] * 0.4)
            return
        wanted = {"training": 1, "evaluation": 1, "end": 12}[phase]
        processes.wait_for(lambda: self.ranks() and self.lines() >= wanted or
                           self.have_ended(), 60)
        time.sleep(self.choices["moment"] * {"training": 0.3, "evaluation": 0.5,
                                             "end": 0.05}[phase])

    def have_ended(self):
        return all(process.poll() is not None for process in self.started)

    def target(self):
        """Rank, or -1 for a launcher, with its process; None where that is gone."""
        if self.choices["target"] == "launcher" and self.choices["launcher"] != "hand":
            return -1, self.started[0].pid
        rank = 0 if self.choices["target"] == "rank 0" else self.choices["rank"]
        found = self.ranks()
        return rank, found[rank] if rank < len(found) else None

    def leftovers(self):
        """Processes of this run that are there, zombies apart."""
        token = str(self.folder).encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if token in command and processes.is_alive(int(entry.name)):
                found.append(int(entry.name))
        return found

    def output(self, name):
        return "".join(path.read_text(encoding="utf-8", errors="replace")
                       for path in sorted(self.folder.glob(f"{name}[0-9]*")))

    def kill_all(self):
        for process in self.leftovers():
            send(process, signal.SIGKILL)
        for process in self.started:
            process.wait()


def send(process, number):
    if process is None:
        return
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def choose(seed, moment):
    chosen = random.Random(f"{seed}/{moment}")
    ranks = chosen.choice((2, 3, 4))
    return {"launcher": chosen.choice(LAUNCHERS), "phase": chosen.choice(PHASES),
            "target": chosen.choice(TARGETS), "signal": chosen.choice(SIGNALS),
            "ranks": ranks, "rank": chosen.randrange(ranks), "moment": chosen.random(),
            "pause": chosen.uniform(0.05, 4), "stopper": chosen.randrange(ranks)}


def disturb(run):
    """Sends the signal; the rank that got it, -1 for a launcher, None for nobody."""
    kind = run.choices["signal"]
    rank, process = run.target()
    if process is None or not processes.is_alive(process):
        return None
    if kind in ("STOP", "PAUSE"):
        send(process, signal.SIGSTOP)
        # Nobody can end what has stopped him who would; the shell's user goes on.
        if kind == "PAUSE" or rank == -1:
            time.sleep(run.choices["pause"])
            send(process, signal.SIGCONT)
            # An endless training ends by somebody else.
            if run.choices["phase"] == "training":
                time.sleep(0.2)
                found = run.ranks()
                if run.choices["stopper"] < len(found):
                    send(found[run.choices["stopper"]], signal.SIGINT)
    else:
        send(process, getattr(signal, f"SIG{kind}"))
    return rank


def wait_for_end(run, rank):
    """The exit codes. One that is stopped goes on when the others have ended, unless it
    has the own launcher: nobody else would end it."""
    stopped = run.choices["signal"] == "STOP" and run.choices["launcher"] == "hand"
    end = time.monotonic() + LIMIT_SECONDS
    if run.choices["signal"] == "STOP" and run.choices["launcher"] == "mpirun" and rank is not None:
        # mpirun kills it where another rank has ended in error, and else waits for it, as
        # MPI_Finalize of the other ranks does: the run has ended well then.
        if not processes.wait_for(run.have_ended, STOPPED_SECONDS):
            others = [process for process in run.ranks()
                      if process and processes.state(process) not in ("T", "Z")]
            if others and run.output("out").count("\n") != 3:
                raise Violation(f"with a stopped rank, {others} go on")
            run.oddities.append("mpirun waits for a stopped rank")
            for process in run.ranks():
                send(process, signal.SIGCONT)
    for number, process in enumerate(run.started):
        if stopped and number == rank:
            continue
        try:
            process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            left = [one for one in run.leftovers() if one != process.pid]
            if run.choices["launcher"] != "mpirun" or left:
                raise Violation(f"process {number} did not end within {LIMIT_SECONDS} s, with "
                                f"{left}") from None
            run.oddities.append("mpirun hangs when all ranks have ended")
            process.kill()
            process.wait()
    if stopped and rank is not None:
        send(run.started[rank].pid, signal.SIGCONT)
        try:
            run.started[rank].wait(30)
        except subprocess.TimeoutExpired:
            raise Violation(f"rank {rank} did not end when it went on") from None
    return [process.returncode for process in run.started]


def allowed_codes(run, rank):
    """By process: those that their page lists, as far as this signal can lead to them."""
    kind = run.choices["signal"]
    joins = run.choices["phase"] == "join"
    by_signal = set()
    if kind in ("TERM", "INT", "HUP"):
        by_signal.add(128 + getattr(signal, f"SIG{kind}"))
    if kind in ("STOP", "PAUSE") and run.choices["phase"] == "training":
        by_signal.add(130)
    # A rank whose first rank is gone before it has come finds nobody.
    common = {0} | by_signal | ({6} if kind in ("KILL", "STOP") or joins else set()) | \
        ({1} if joins and rank == 0 and run.choices["launcher"] == "hand" else set())
    # Before a program has begun, the system ends it.
    own = {-getattr(signal, f"SIG{kind}")} if kind == "KILL" or (
        joins and kind in ("TERM", "INT", "HUP")) else set()
    # One that goes on when the others have given it up may find nobody either.
    if joins and kind == "STOP" and run.choices["launcher"] == "hand":
        own |= {1}
    if run.choices["launcher"] == "mpirun":
        if run.oddities:  # killed here
            own |= {-signal.SIGKILL}
        # Behind the ranks' end: their messages and files are looked at all the same.
        if "PMIx_server_finalize" in run.output("err"):
            run.oddities.append("mpirun crashes in PMIx_server_finalize")
            own |= {-signal.SIGSEGV, -signal.SIGABRT}
        return [MPIRUN_CODES | own | {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}]
    if run.choices["launcher"] == "own":
        return [common | (own if rank == -1 else set())]
    return [common | (own if number == rank else set()) for number in range(len(run.started))]


def check_agreement(run, rank, codes):
    """All that were there end in the same way, but for one that was killed. (Rank 0 may be
    gone or stop while it tells one after the other that all is well.)"""
    kind = run.choices["signal"]
    if run.choices["phase"] == "join" or (rank == 0 and kind in ("KILL", "STOP")):
        return
    found = {code for number, code in enumerate(codes) if kind != "KILL" or number != rank}
    if len(found) > 1:
        raise Violation(f"ranks ended with {codes}")


def check_messages(run, rank, codes):
    err = run.output("err")
    kind = run.choices["signal"]
    if rank is None or all(code == 0 for code in codes):
        return
    if any(code in (129, 130, 143) for code in codes) and "stopped by SIG" not in err:
        raise Violation("ended by a signal, and nobody says so")
    lost = rank >= 0 and kind in ("KILL", "STOP") and 6 in codes
    if lost and f"rank {rank}" not in err and f"ranks {rank}" not in err and not (
            run.choices["phase"] == "join" and "did not start" in err):
        raise Violation(f"rank {rank} is lost, and nobody names it")
    if 6 in codes and "error[MR05" not in err:
        raise Violation("exit code 6 without an error")
    errors = err.count("error[MR")
    # All ranks of one launcher share a terminal; while they join, each may say what it lacks.
    shared = run.choices["launcher"] == "own" or (
        run.choices["launcher"] == "mpirun" and run.choices["phase"] != "join")
    if shared and errors > 1:
        raise Violation(f"{errors} errors")
    if "error[MR0399]" in err or "internal error" in err:
        raise Violation("an internal error")


def check_files(run):
    if run.metrics.exists():
        text = run.metrics.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            raise Violation("metrics end within a line")
        for line in text.splitlines():
            json.loads(line)
    out = run.output("out")
    if out.count("\n") not in (0, 3) or (out and not out.endswith("\n")):
        raise Violation(f"half an evaluation: {out!r}")


def attempt(app, plugin, data, seed, moment):
    """One moment: what it was and came to, and the violation with all that was said, if
    any."""
    codes = []
    choices = choose(seed, moment)
    choices["data"] = data["evaluation" if choices["phase"] == "evaluation" else "small"]
    with processes.folder() as place:
        run = Run(app, plugin, choices, place)
        try:
            run.start()
            run.wait_for_phase()
            rank = disturb(run)
            codes = wait_for_end(run, rank)
            for number, (code, allowed) in enumerate(zip(codes, allowed_codes(run, rank))):
                if code not in allowed:
                    raise Violation(f"process {number} ended with {code}, expected one of "
                                    f"{sorted(allowed)}")
            if not processes.wait_for(lambda: not run.leftovers(), 15):
                raise Violation(f"left behind: {run.leftovers()}")
            check_agreement(run, rank, codes)
            check_messages(run, rank, codes)
            check_files(run)
            problem = None
        except (Violation, ValueError) as violation:
            problem = f"{violation}\n{run.output('err')[-3000:]}"
        finally:
            run.kill_all()
    facts = [f"{name} {choices[name]}" for name in ("launcher", "phase", "target", "signal")]
    facts += [f"{choices['launcher']} ended with {code}" for code in set(codes)]
    return choices, facts + run.oddities, problem


def main():
    # Below nohup, ranks would ignore it too, as they should.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser()
    parser.add_argument("app")
    parser.add_argument("plugin", help="libmeshc_mpi.so; none: without the moments of mpirun")
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument("--moment", type=int, help="this one alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    flags = parser.parse_args()
    has_mpi = flags.plugin != "none" and shutil.which("mpirun")
    with processes.folder() as place:
        data = {"small": place / "small", "evaluation": place / "large"}
        for name, samples in (("small", 31), ("evaluation", 60000)):
            data[name].mkdir()
            processes.write_linear_data(data[name], test_samples=samples)
        app = shutil.copy(flags.app, place)
        plugin = shutil.copy(flags.plugin, place) if has_mpi else None
        moments = range(flags.moments) if flags.moment is None else [flags.moment]
        counts = collections.Counter()
        if not has_mpi:
            chosen = [moment for moment in moments
                      if choose(flags.seed, moment)["launcher"] != "mpirun"]
            counts["left out: there is no MPI"] = len(moments) - len(chosen)
            moments = chosen
        violations = 0
        with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
            attempts = {pool.submit(attempt, app, plugin, data, flags.seed, moment):
                        moment for moment in moments}
            for done in concurrent.futures.as_completed(attempts):
                choices, facts, problem = done.result()
                counts.update(facts)
                if problem:
                    violations += 1
                    print(f"--seed {flags.seed} --moment {attempts[done]}: "
                          f"{ {name: choices[name] for name in choices if name != 'data'} }\n"
                          f"{problem}", flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:5} {name}")
    print(f"{len(moments)} moments, {violations} violations")
    sys.exit(violations > 0)


main()

"""Runs a command and says how it ended, for tests that start many."""

import os
import resource
import signal
import time

SECONDS = 2  # of processor time, on which the machine's other work has no influence
WAITING = 60  # for who waits and does nothing
MEMORY = 4 << 30


def limit_memory():
    """Of this process and of all that it starts: what a mutant asks for is refused,
    not taken from the machine. Address sanitizers need more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Ends:
    """How commands have ended: counts, and the longest time of the processor."""

    def __init__(self, environment, folder):
        self.environment = environment
        self.output = folder / "output"
        self.longest = 0.0
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def run(self, *command):
        """Its exit code, or what it did instead: "SIGSEGV", "hang", "not a program".
        `output` has what it printed."""
        command = [str(word) for word in command]
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                   (os.POSIX_SPAWN_OPEN, 1, str(self.output),
                    os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                   (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        try:
            process = os.posix_spawn(command[0], command, self.environment,
                                     file_actions=actions)
        except OSError:
            return "not a program"
        used, code = self.wait(process)
        self.longest = max(self.longest, used)
        return code

    def wait(self, process):
        late = []
        start = time.monotonic()

        def look(*_):
            try:
                with open(f"/proc/{process}/stat", encoding="ascii") as file:
                    ticks = file.read().rpartition(")")[2].split()[11:13]
            except FileNotFoundError:  # it has ended
                return
            used = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            if used > SECONDS or time.monotonic() - start > WAITING:
                late.append(True)
                os.kill(process, signal.SIGKILL)

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
        _, status, usage = os.wait4(process, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        used = usage.ru_utime + usage.ru_stime
        if late or used > SECONDS:
            return used, "hang"
        code = os.waitstatus_to_exitcode(status)
        return used, code if code >= 0 else signal.Signals(-code).name


def count(counts, key):
    counts[key] = counts.get(key, 0) + 1

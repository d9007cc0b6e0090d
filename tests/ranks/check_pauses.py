"""Processes of a run that stop for a while, or for good, without ending: who waits for them,
how long, and what is said. Argument: the linear model's executable."""

import fcntl
import os
import signal
import socket
import sys
import time

import processes
from processes import STOPS, errors

processes.LinearModelTest.app = sys.argv.pop(1)


class Pauses(processes.LinearModelTest):
    def test_a_stopped_rank_delays_and_no_more(self):
        process, found = self.start_training(3)
        os.kill(found[1], signal.SIGSTOP)
        time.sleep(1)
        self.assertTrue(all(processes.is_alive(rank) for rank in found))
        os.kill(found[1], signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        done = processes.finish(process)
        self.assertEqual(done.returncode, 130, done.stderr)

    def test_a_suspended_run_goes_on(self):
        """Longer than a silent machine may be: nobody was there to answer."""
        process, found = self.start_training(3)
        process.send_signal(signal.SIGTSTP)
        stopped = [process.pid, *found]
        self.assertTrue(processes.wait_for(
            lambda: all(processes.state(one) == "T" for one in stopped)))
        time.sleep(11.5)
        metrics = self.folder / "endless.jsonl"
        before = metrics.stat().st_size
        process.send_signal(signal.SIGCONT)
        self.assertTrue(processes.wait_for(lambda: metrics.stat().st_size > before + 10000))
        process.send_signal(signal.SIGINT)
        done = processes.finish(process)
        self.assertEqual(done.returncode, 130, done.stderr)
        self.assertTrue(processes.wait_for_end(found))

    def start_blocked_end(self):
        """Two ranks, started by hand: rank 0 cannot print its result, so that rank 1 waits
        for the end. With the end of the pipe to read from."""
        reads, writes = os.pipe()
        fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writes, bytes(4096))
        port = processes.free_port()
        metrics = self.folder / "end.jsonl"
        arguments = ["--steps", 3, "--metrics", metrics]
        started = [self.start_rank(0, 2, port, *arguments, stdout=writes),
                   self.start_rank(1, 2, port, *arguments)]
        os.close(writes)
        self.addCleanup(os.close, reads)
        self.assertTrue(processes.wait_for(
            lambda: metrics.exists() and len(processes.read_metrics(metrics)) == 3))
        time.sleep(1)
        return started, reads

    def test_a_signal_while_ranks_leave(self):
        """As long as not all have come to the end, it ends all; later nobody."""
        for number, name in STOPS:
            # ThreadSanitizer's _exit waits for standard output, which is blocked here.
            if "TSAN_OPTIONS" not in os.environ:
                started, _ = self.start_blocked_end()
                started[1].send_signal(number)
                done = [processes.finish(process) for process in started]
                self.assertEqual([one.returncode for one in done], [128 + number] * 2, done)
                self.expect_stop(done[0], name, "", 128 + number)
                self.assertEqual(done[1].stderr, "")
            started, reads = self.start_blocked_end()
            started[1].send_signal(signal.SIGSTOP)
            self.assertEqual(len(os.read(reads, 4096)), 4096)
            done = [processes.finish(started[0])]
            started[1].send_signal(number)
            started[1].send_signal(signal.SIGCONT)
            done.append(processes.finish(started[1]))
            self.assertEqual([one.returncode for one in done], [0, 0], done)
            self.assertEqual(errors(done[0].stderr + done[1].stderr), [])

    def test_a_first_rank_that_hangs_is_named(self):
        process, found = self.start_training(3)
        os.kill(found[0], signal.SIGSTOP)
        done = processes.finish(process, 60)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertIn("error[MR0504]: rank 0 does not answer", done.stderr)
        self.assertRegex(done.stderr, r"note: rank 0 was stopped by signal 19 \(Stopped "
                                      r"\(signal\)\) (1\d|2\d) s ago")
        self.assertTrue(processes.wait_for_end(found))

    def test_ranks_started_by_hand_each_say_who_hangs(self):
        """They have terminals of their own; who was stopped learns it when it goes on."""
        for stopped in (0, 1):
            port = processes.free_port()
            metrics = self.folder / "hand.jsonl"
            metrics.unlink(missing_ok=True)
            started = [self.start_rank(rank, 3, port, "--steps", 10 ** 9, "--metrics", metrics)
                       for rank in range(3)]
            self.assertTrue(processes.wait_for(
                lambda metrics=metrics: metrics.exists() and metrics.stat().st_size > 0))
            started[stopped].send_signal(signal.SIGSTOP)
            done = {rank: processes.finish(started[rank], 40)
                    for rank in range(3) if rank != stopped}
            started[stopped].send_signal(signal.SIGCONT)
            late = processes.finish(started[stopped])
            lost = f"meshc: error[MR0504]: rank {stopped} has not answered for 10 s"
            # Rank 0 says it for all where it can.
            self.assertEqual([errors(one.stderr) for one in done.values()],
                             [[lost], [lost] if stopped == 0 else []], done)
            self.assertEqual(len(errors(late.stderr)), 1, late.stderr)
            self.assertRegex(late.stderr, f"rank {stopped} was stopped for (9|1\\d) s, and the "
                                          "others did not wait")
            self.assertEqual({one.returncode for one in [*done.values(), late]}, {6})

    def test_a_first_rank_that_hangs_while_ranks_join_is_named(self):
        """Before it has let anybody in."""
        process = processes.start(self.train("--processes", 3, "--join-timeout", 2))
        found = []
        self.assertTrue(processes.wait_for(
            lambda: found.extend(processes.children(process.pid)[len(found):])
            or len(found) > 0))
        os.kill(found[0], signal.SIGSTOP)
        done = processes.finish(process, 60)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(errors(done.stderr), ["meshc: error[MR0504]: rank 0 does not answer"])
        self.assertIn("note: rank 0 was stopped by signal 19", done.stderr)
        port = processes.free_port()
        with socket.create_server(("127.0.0.1", port)):
            done = processes.finish(self.start_rank(1, 2, port, "--join-timeout", 0.5))
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("error[MR0503]: rank 1: cannot join the run at 127.0.0.1:", done.stderr)
        self.assertIn("rank 0, or who else listens there, does not answer", done.stderr)

    def test_a_pause_while_ranks_join(self):
        """Longer than a rank waits for the first answer, which it asks for again."""
        port = processes.free_port()
        first = self.start_rank(0, 2, port, "--steps", 5)
        self.assertTrue(processes.wait_for(lambda: processes.listens(port)))
        first.send_signal(signal.SIGSTOP)
        second = self.start_rank(1, 2, port, "--steps", 5)
        time.sleep(7)
        first.send_signal(signal.SIGCONT)
        done = [processes.finish(process) for process in (first, second)]
        self.assertEqual([one.returncode for one in done], [0, 0], done)
        process = processes.start(self.train("--processes", 4, "--steps", 5))
        self.assertTrue(processes.wait_for(lambda: processes.children(process.pid)))
        os.kill(processes.children(process.pid)[0], signal.SIGSTOP)
        time.sleep(7)
        os.kill(processes.children(process.pid)[0], signal.SIGCONT)
        done = processes.finish(process)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_pause_of_every_rank_while_they_join(self):
        """Longer than a rank may be silent later."""
        for stopped in (0, 1):
            port = processes.free_port()
            started = [self.start_rank(rank, 3, port, "--steps", 5) for rank in (0, 1)]
            time.sleep(1)
            started[stopped].send_signal(signal.SIGSTOP)
            time.sleep(11.5)
            started.append(self.start_rank(2, 3, port, "--steps", 5))
            time.sleep(0.5)
            started[stopped].send_signal(signal.SIGCONT)
            done = [processes.finish(process) for process in started]
            self.assertEqual([one.returncode for one in done], [0, 0, 0], done)


processes.run_tests(8)

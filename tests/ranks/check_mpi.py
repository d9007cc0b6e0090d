"""Runs that mpirun starts: as those of one process. Arguments: the linear model's
executable and libmeshc_mpi.so, or none where it is not built."""

import os
import shutil
import signal
import sys
import time
import unittest

import processes

APP = sys.argv.pop(1)
PLUGIN = sys.argv.pop(1)
SKIPPED = 77  # as tests/ranks/CMakeLists.txt says


def mpirun(ranks, *command):
    # Containers have few processors, and tests may run as root.
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks, *command]


class Mpi(unittest.TestCase):
    def setUp(self):
        place = processes.folder()
        self.folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        processes.write_linear_data(self.folder)
        # The library is looked for beside the executable.
        self.app = self.folder / "app"
        shutil.copy(APP, self.app)
        shutil.copy(PLUGIN, self.folder)

    def train(self, *arguments):
        return [self.app, "train", "--data-dir", self.folder, *arguments]

    def test_results_are_those_of_one_process(self):
        metrics = self.folder / "alone.jsonl"
        alone = processes.run(self.train("--epochs", 3, "--seed", 5, "--metrics", metrics))
        expected = (alone.stdout, processes.read_metrics(metrics))
        for ranks, transport in ((1, "auto"), (2, "auto"), (3, "mpi"), (4, "auto"), (4, "tcp")):
            metrics = self.folder / f"{ranks}.jsonl"
            done = processes.run(mpirun(ranks, *self.train(
                "--epochs", 3, "--seed", 5, "--metrics", metrics, "--transport", transport)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((done.stdout, processes.read_metrics(metrics)), expected)
            self.assertEqual(done.stderr.count("(Open MPI)"), ranks > 1, done.stderr)

    def test_a_missing_library_is_an_error(self):
        (self.folder / "libmeshc_mpi.so").unlink()
        done = processes.run(mpirun(2, *self.train()))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("error[MR0506]"), 1, done.stderr)
        self.assertIn("cannot load libmeshc_mpi.so", done.stderr)
        self.assertIn("--transport tcp", done.stderr)
        # Neither a single process nor TCP needs it.
        for command in (mpirun(1, *self.train()), mpirun(2, *self.train("--transport", "tcp"))):
            self.assertEqual(processes.run(command).returncode, 0)

    def test_an_error_of_all_is_reported_once(self):
        (self.folder / "train-x").unlink()
        done = processes.run(mpirun(3, *self.train()))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("error[MR0201]"), 1, done.stderr)

    def start_training(self):
        metrics = self.folder / "endless.jsonl"
        metrics.unlink(missing_ok=True)
        process = processes.start(mpirun(3, *self.train(
            "--steps", 10 ** 9, "--metrics", metrics, "--threads", 1)))
        self.assertTrue(processes.wait_for(
            lambda: metrics.exists() and metrics.stat().st_size > 0))
        found = processes.children(process.pid)
        self.assertEqual(len(found), 3)
        return process, found

    def test_signals_to_mpirun_stop_all_after_a_step(self):
        """It sends SIGTERM for each of them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            process, found = self.start_training()
            process.send_signal(number)
            done = processes.finish(process)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stderr.count("stopped by SIGTERM after epoch"), 1, done.stderr)
            self.assertEqual(done.stderr.count("error[MR"), 1, done.stderr)
            self.assertTrue(processes.wait_for_end(found))

    def test_any_rank_takes_interrupts(self):
        for rank, number, code in ((0, signal.SIGINT, 130), (2, signal.SIGINT, 130),
                                   (1, signal.SIGTERM, 143)):
            process, found = self.start_training()
            os.kill(found[rank], number)
            done = processes.finish(process)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count("stopped by SIG"), 1, done.stderr)
            self.assertEqual(done.stderr.count(f"rank {rank} got the signal"), rank > 0)
            self.assertTrue(processes.wait_for_end(found))

    def test_a_killed_rank_ends_all(self):
        process, found = self.start_training()
        start = time.monotonic()
        os.kill(found[1], signal.SIGKILL)
        done = processes.finish(process)
        self.assertLess(time.monotonic() - start, 10)
        self.assertNotEqual(done.returncode, 0)
        self.assertTrue(processes.wait_for_end(found))

    def test_a_stopped_rank_is_named_once(self):
        """Though each of the others finds by itself that rank 0 does not answer, and mpirun has
        the stopped one go on before it ends it."""
        for rank in (0, 2):
            process, found = self.start_training()
            os.kill(found[rank], signal.SIGSTOP)
            done = processes.finish(process, 60)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertEqual(
                [line for line in done.stderr.splitlines() if "meshc: error" in line],
                [f"meshc: error[MR0504]: rank {rank} has not answered for 10 s"])
            self.assertTrue(processes.wait_for_end(found))


if not shutil.which("mpirun"):
    print("skipped: mpirun is not installed")
    sys.exit(SKIPPED)
if PLUGIN == "none":
    print("skipped: MPI was not found when meshc was built")
    sys.exit(SKIPPED)
processes.run_tests(4)

"""Executables for GPUs as one process for each, on emulated GPUs: one message and
nobody left whatever ends them. What they compute is compared by tests/plans.
Arguments: meshc, the repository, the folder of the emulated libraries."""

import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

MESHC = sys.argv.pop(1)
ROOT = pathlib.Path(sys.argv.pop(1))
LIBRARIES = sys.argv.pop(1)
sys.path.insert(1, str(ROOT / "tests" / "plans"))

import compiler
import curves
import processes

SIZES = {"batch": 10, "pixel": 9, "hidden": 7, "class": 5}


def errors(text):
    return [line for line in text.splitlines() if "meshc: error" in line]


class Gpus(unittest.TestCase):
    def setUp(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.addCleanup(self.meshc.folder.cleanup)
        self.folder = pathlib.Path(self.meshc.folder.name)
        curves.write_data(self.folder, side=3, classes=5)
        self.model = curves.make_classifier(self.meshc, SIZES)

    def environment(self, gpus, **variables):
        return processes.environment(MESHC_CUDA_LIBRARIES=LIBRARIES,
                                     MESHC_EMULATION_DEVICES=str(gpus), **variables)

    def compile(self, mesh, layout):
        return self.model.compile(mesh, layout, "--target", "cuda", "--gpu", "host")

    def train(self, program, *arguments):
        return [program, "train", "--data-dir", self.folder, "--seed", 3, *arguments]

    def start_training(self, gpus):
        program = self.compile("a=2", "batch=a")
        metrics = self.folder / "endless.jsonl"
        metrics.unlink(missing_ok=True)
        process = processes.start(self.train(program, "--steps", 10 ** 9, "--metrics", metrics),
                                  env=self.environment(gpus))
        self.assertTrue(processes.wait_for(
            lambda: metrics.exists() and metrics.stat().st_size > 0, 60))
        found = processes.children(process.pid)
        self.assertEqual(len(found), gpus)
        return process, found

    def test_a_killed_rank_ends_all(self):
        for killed in (0, 1):
            process, found = self.start_training(2)
            start = time.monotonic()
            os.kill(found[killed], signal.SIGKILL)
            done = processes.finish(process, 60)
            self.assertLess(time.monotonic() - start, 10)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertTrue(processes.wait_for_end(found))
            self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
            self.assertIn(f"rank {killed} ended before the others", done.stderr)

    def test_interrupts_stop_all_after_the_same_step(self):
        process, found = self.start_training(2)
        process.send_signal(signal.SIGINT)
        done = processes.finish(process, 60)
        self.assertEqual(done.returncode, 130, done.stderr)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertTrue(processes.wait_for_end(found))

    def test_all_ranks_take_the_first_ones_matmuls(self):
        log = self.folder / "calls"
        done = processes.run(
            self.train(self.compile("a=2", "batch=a"), "--steps", 1, "--no-graphs",
                       "--tune-matmuls"),
            env=self.environment(2, MESHC_CACHE_DIR=str(self.folder / "kept"),
                                 MESHC_EMULATION_LOG=str(log),
                                 MESHC_EMULATION_MATMUL_TIMES="30000,20000,10000"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("faster than by the library's first"), 1, done.stderr)
        calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        algorithms = {}
        for call in calls:
            if call.get("call") == "cublasLtMatmul":
                algorithms.setdefault(call["pid"], []).append(call["algorithm"])
        # One measures all three, the other one none.
        self.assertEqual(sorted(len(set(found)) for found in algorithms.values()), [1, 3])
        for found in algorithms.values():
            self.assertEqual(set(found[-3:]), {2})

    def test_waiting_for_every_command_changes_no_number(self):
        program = self.compile("a=2", "batch=a")
        losses = []
        for flags in ((), ("--check-commands",)):
            metrics = self.folder / f"metrics{len(losses)}.jsonl"
            done = processes.run(
                self.train(program, "--steps", 3, "--metrics", metrics, *flags),
                env=self.environment(2))
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append([line["loss"] for line in processes.read_metrics(metrics)])
        self.assertEqual(len(losses[0]), 3)
        self.assertEqual(losses[0], losses[1])

    def start_rank(self, program, rank, ranks, port, *arguments, **variables):
        """A rank that another program, such as a shell script, starts: no launcher of
        the executable's own looks after it."""
        return processes.start(
            self.train(program, "--rank", rank, "--ranks", ranks, "--store",
                       f"127.0.0.1:{port}", *arguments),
            env=self.environment(ranks, **variables))

    def finish_all(self, started, seconds):
        """How all of them end, within `seconds` of now and with nobody left."""
        end = time.monotonic() + seconds
        done = [processes.finish(process, max(0.1, end - time.monotonic()))
                for process in started]
        self.assertTrue(processes.wait_for_end([process.pid for process in started]))
        return done

    def test_a_missing_rank_is_named_in_time(self):
        program = self.compile("a=4", "batch=a")
        port = processes.free_port()
        started = [self.start_rank(program, rank, 4, port, "--join-timeout", 1)
                   for rank in (0, 2)]
        done = self.finish_all(started, 15)
        self.assertEqual([one.returncode for one in done], [6, 6], done)
        self.assertEqual(errors(done[0].stderr), [
            "meshc: error[MR0503]: ranks 1 and 3 of 4 did not start within 1 s"])
        self.assertEqual(done[1].stderr, "")
        self.assertEqual(done[0].stdout + done[1].stdout, "")

    def test_a_missing_first_rank_is_an_error_in_time(self):
        program = self.compile("a=2", "batch=a")
        done, = self.finish_all([self.start_rank(program, 1, 2, processes.free_port(),
                                                 "--join-timeout", 0.5)], 15)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertIn("error[MR0502]: rank 1: cannot connect to 127.0.0.1:", done.stderr)

    def test_other_executables_are_noticed(self):
        """One rank runs what was compiled from other sizes or with another layout: nobody
        trains."""
        first = self.folder / "first"
        shutil.move(self.compile("a=2", "batch=a"), first)
        others = {
            "sizes": curves.make_classifier(self.meshc, {**SIZES, "hidden": 8}),
            "layout": self.model}
        for what, model in others.items():
            layout = "hidden=a" if what == "layout" else "batch=a"
            other = model.compile("a=2", layout, "--target", "cuda", "--gpu", "host")
            for programs in ((first, other), (other, first)):
                port = processes.free_port()
                metrics = self.folder / "none.jsonl"
                done = self.finish_all(
                    [self.start_rank(program, rank, 2, port, "--metrics", metrics)
                     for rank, program in enumerate(programs)], 30)
                self.assertEqual([one.returncode for one in done], [4, 4], (what, done))
                self.assertEqual(errors(done[0].stderr), [
                    "meshc: error[MR0505]: rank 1 and rank 0 differ in the program"])
                self.assertEqual(done[1].stderr, "")
                self.assertFalse(metrics.exists() and metrics.stat().st_size > 0)

    def check_end(self, arguments, code, message, **variables):
        """Training on two GPUs that ends with this message alone and nobody left, before
        NCCL, the driver or another rank have waited for one another."""
        program = self.compile("a=2", "batch=a")
        start = time.monotonic()
        process = processes.start(self.train(program, "--steps", 10 ** 9, *arguments),
                                  env=self.environment(2, **variables))
        found = []
        self.assertTrue(processes.wait_for(
            lambda: found.extend(processes.children(process.pid)[len(found):])
            or len(found) == 2))
        done = processes.finish(process, 60)
        self.assertLess(time.monotonic() - start, 30)
        self.assertTrue(processes.wait_for_end(found))
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertIn(message, errors(done.stderr)[0])

    def test_errors_of_nccl_end_all(self):
        """In the first run, command by command, and from a graph, which NCCL waits for at
        the end of a communicator."""
        for run in (2, 60):
            for rank, who in ((0, ""), (1, "rank 1: ")):
                self.check_end((), 6, f"error[MR0407]: {who}a collective of NCCL failed: "
                               "unhandled system error",
                               MESHC_EMULATION_NETWORK_ERROR=f"{rank}:{run}")

    def test_a_gpu_that_hangs_ends_all(self):
        for run in (2, 60):
            self.check_end(("--stall-timeout", 2), 6, "error[MR0407]: ",
                           MESHC_EMULATION_HANG=f"1:{run}")
        self.check_end(("--stall-timeout", 2), 6, "the GPU has not ended its work after 2 s",
                       MESHC_EMULATION_HANG="0:60")

    def test_a_call_that_fails_on_one_rank_ends_all(self):
        program = self.compile("a=2", "batch=a")
        for failing, who in ((0, ""), (1, "rank 1: ")):
            for call in ("cuGraphLaunch:5", "cuLaunchKernel:3", "cuStreamQuery:9",
                         "cuGraphInstantiateWithFlags:1"):
                port = processes.free_port()
                started = [
                    self.start_rank(program, rank, 2, port, "--steps", 10 ** 9,
                                    **({"MESHC_EMULATION_FAIL": f"{call}:719"}
                                       if rank == failing else {}))
                    for rank in range(2)]
                done = self.finish_all(started, 30)
                self.assertEqual([one.returncode for one in done], [70, 70], (call, done))
                found = [errors(one.stderr) for one in done]
                self.assertEqual((len(found[0]), found[1]), (1, []), (call, done))
                self.assertIn(f"error[MR0406]: {who}{call.split(':', maxsplit=1)[0]} failed: ",
                              found[0][0])

    def test_too_few_gpus_start_nothing(self):
        done = processes.run(self.train(self.compile("a=2", "batch=a")),
                             env=self.environment(1))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        self.assertNotIn("own launcher", done.stderr)


processes.run_tests(3)

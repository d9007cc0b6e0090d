"""Runs of several processes on this machine: equal results, one message and no
process left whatever ends them. Arguments: the linear model's executable, a
libmeshc_mpi.so that fails."""

import os
import shutil
import signal
import sys
import time
import unittest

import processes
from processes import STOPS, errors

processes.LinearModelTest.app = sys.argv.pop(1)
FAILING_MPI = sys.argv.pop(1)


class Launcher(processes.LinearModelTest):
    def test_results_are_those_of_one_process(self):
        expected = None
        for ranks in (1, 2, 3, 4):
            metrics = self.folder / f"{ranks}.jsonl"
            done = processes.run(self.train("--processes", ranks, "--epochs", 3, "--seed", 5,
                                            "--metrics", metrics))
            self.assertEqual(done.returncode, 0, done.stderr)
            found = (done.stdout, processes.read_metrics(metrics))
            self.assertEqual(len(found[1]), 24)
            expected = expected or found
            self.assertEqual(found, expected)
            self.assertEqual(done.stderr.count("own launcher"), ranks > 1, done.stderr)
            self.assertEqual(done.stderr.count("epoch 3/3"), 1, done.stderr)

    def test_other_commands_print_once(self):
        for command in (["eval", "--data-dir", self.folder, "--init", "random", "--seed", 1],
                        ["bench", "--steps", 2]):
            alone = processes.run([self.app, *command])
            done = processes.run([self.app, *command, "--processes", 3])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("\n"), alone.stdout.count("\n"))
            if command[0] == "eval":
                self.assertEqual(done.stdout, alone.stdout)
            else:
                loss = [text.stdout.split('"loss": ')[1] for text in (alone, done)]
                self.assertEqual(loss[0], loss[1])

    def test_a_loss_that_is_none(self):
        for ranks in (1, 2, 4):
            for flags, code in (([], 0), (["--fail-on-nan"], 3)):
                metrics = self.folder / "metrics.jsonl"
                done = processes.run(
                    self.train("--processes", ranks, "--epochs", 2, "--metrics", metrics, *flags),
                    env=processes.environment(LINEAR_NAN="10"))
                self.assertEqual(done.returncode, code, done.stderr)
                said = [line for line in done.stderr.splitlines() if "loss 'loss' is nan" in line]
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn("in epoch 2, step 3 of 8 (step 11 of 16 in all)", said[0])
                self.assertEqual(len(processes.read_metrics(metrics)), 11 if code else 16)
        # Each of them, whoever has started it.
        port = processes.free_port()
        started = [self.start_rank(rank, 2, port, "--fail-on-nan",
                                   env=processes.environment(LINEAR_NAN="3"))
                   for rank in range(2)]
        self.assertEqual([processes.finish(rank).returncode for rank in started], [3, 3])

    def test_an_error_of_all_is_reported_once(self):
        (self.folder / "train-x").unlink()
        done = processes.run(self.train("--processes", 4))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
        # Rank 0 says so for itself, or for one that was faster by far.
        self.assertRegex(done.stderr, r"error\[MR0201\]: (rank \d: )?cannot read")

    def test_more_processes_than_devices(self):
        done = processes.run(self.train("--processes", 5))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(errors(done.stderr), [
            "meshc: error[MR0501]: 5 processes for a mesh of 4 devices"])

    def test_usage_errors_start_nothing(self):
        for flags in (["--processes", "0"], ["--processes", "2", "--rank", "1"],
                      ["--transport", "mail"]):
            done = processes.run(self.train(*flags))
            self.assertEqual(done.returncode, 2, flags)
            self.assertEqual(len(errors(done.stderr)), 1, done.stderr)

    def test_another_program_is_noticed(self):
        done = processes.run(self.train("--processes", 4),
                             env=processes.environment(LINEAR_OTHER="2"))
        self.assertEqual(done.returncode, 4)
        self.assertEqual(errors(done.stderr), [
            "meshc: error[MR0505]: rank 2 and rank 0 differ in the program"])

    def test_a_killed_rank_ends_all(self):
        for ranks, killed in ((2, 0), (2, 1), (4, 0), (4, 2)):
            process, found = self.start_training(ranks)
            start = time.monotonic()
            os.kill(found[killed], signal.SIGKILL)
            done = processes.finish(process)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertTrue(processes.wait_for_end(found))
            self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
            self.assertIn(f"error[MR0504]: rank {killed} ended before the others", done.stderr)
            self.assertIn(f"note: rank {killed} was killed by signal 9", done.stderr)

    def test_a_rank_that_is_killed_before_it_has_joined(self):
        """At its birth, when no connection tells of its end."""
        for ranks, killed in ((2, 1), (4, 2), (2, 0), (3, 0)):
            process = processes.start(self.train("--processes", ranks, "--epochs", 100000))
            while len(found := processes.children(process.pid)) <= killed:
                pass
            start = time.monotonic()
            os.kill(found[killed], signal.SIGKILL)
            done = processes.finish(process)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertEqual(errors(done.stderr), [
                f"meshc: error[MR0504]: rank {killed} ended before the others"])
            self.assertIn(f"note: rank {killed} was killed by signal 9 (Killed)", done.stderr)

    def test_interrupts_stop_all_after_the_same_step(self):
        for ranks, (number, name) in ((2, STOPS[0]), (4, STOPS[1]), (3, STOPS[2])):
            process, found = self.start_training(ranks)
            process.send_signal(number)
            done = processes.finish(process)
            self.expect_stop(done, name, "after epoch", 128 + number)
            self.assertTrue(processes.wait_for_end(found))

    def test_any_rank_takes_interrupts(self):
        for rank, (number, name) in ((1, STOPS[0]), (2, STOPS[1]), (0, STOPS[0])):
            process, found = self.start_training(3)
            os.kill(found[rank], number)
            done = processes.finish(process)
            self.expect_stop(done, name, "after epoch", 128 + number)
            self.assertEqual(done.stderr.count(f"rank {rank} got the signal"), rank > 0)
            self.assertTrue(processes.wait_for_end(found))

    def wait_until_taken(self, started, number):
        self.assertTrue(processes.wait_for(
            lambda: all(processes.takes(process.pid, number) for process in started)))

    def test_interrupts_before_the_first_step(self):
        """Rank 1 waits to be let in, and so does rank 0."""
        for rank in (0, 1):
            port = processes.free_port()
            started = [self.start_rank(one, 3, port) for one in (0, 1)]
            time.sleep(0.7)
            self.wait_until_taken(started, signal.SIGINT)
            started[rank].send_signal(signal.SIGINT)
            done = [processes.finish(process) for process in started]
            self.assertEqual([one.returncode for one in done], [130, 130], done)
            self.expect_stop(done[0], "SIGINT", "before the first step", 130)
            self.assertEqual(done[1].stderr, "")
        alone = self.start_rank(1, 2, processes.free_port())
        time.sleep(0.5)
        self.wait_until_taken([alone], signal.SIGTERM)
        alone.send_signal(signal.SIGTERM)
        self.expect_stop(processes.finish(alone), "SIGTERM", "before the first step", 143)

    def test_one_message_where_all_get_the_signal(self):
        """In an evaluation, so that all want to end the run at once; and while they join."""
        processes.write_linear_data(self.folder, test_samples=60000)
        metrics = self.folder / "one.jsonl"
        for pause, when in ((0, "during the evaluation"), (0, "during the evaluation"),
                            (0.1, "during the evaluation"), (0, ""), (0.05, "")):
            metrics.unlink(missing_ok=True)
            process = processes.start(
                self.train("--processes", 4, "--steps", 1, "--metrics", metrics))
            evaluates = bool(when)
            self.assertTrue(processes.wait_for(
                lambda evaluates=evaluates, process=process:
                metrics.exists() and metrics.stat().st_size > 0 if evaluates
                else len(processes.children(process.pid)) == 4))
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
            self.expect_stop(processes.finish(process), "SIGINT", when, 130)

    def test_a_rank_stopped_before_it_joined(self):
        """The others do not wait for it; rank 0 says what it cannot."""
        process = processes.start(self.train("--processes", 3))
        found = []
        self.assertTrue(processes.wait_for(
            lambda: found.extend(processes.children(process.pid)[len(found):])
            or len(found) == 3))
        os.kill(found[2], signal.SIGTERM)
        start = time.monotonic()
        self.expect_stop(processes.finish(process), "SIGTERM", "before the first step", 143)
        self.assertLess(time.monotonic() - start, 6)

    def test_a_second_interrupt_ends_all_at_once(self):
        """Rank 1 is stopped, so that no step ends."""
        for rank in (0, 2):
            process, found = self.start_training(3)
            os.kill(found[1], signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(found[rank], signal.SIGINT)
            time.sleep(1)
            self.assertTrue(all(processes.is_alive(one) for one in found))
            os.kill(found[rank], signal.SIGINT)
            done = processes.finish(process)
            self.expect_stop(done, "SIGINT", "for the second time, within a step", 130)
            self.assertTrue(processes.wait_for_end(found))

    def test_the_end_of_the_launcher_ends_all(self):
        process, found = self.start_training(3)
        process.send_signal(signal.SIGKILL)
        done = processes.finish(process)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertTrue(processes.wait_for_end(found))

    def test_who_is_turned_away_and_why(self):
        """As it happens, not when the time for all is over."""
        port = processes.free_port()
        first = self.start_rank(0, 2, port, "--join-timeout", 20)
        self.assertTrue(processes.wait_for(lambda: processes.listens(port)))
        wrong = processes.finish(self.start_rank(1, 3, port), 10)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("rank 1 was told of 3 ranks, rank 0 of 2", wrong.stderr)
        self.assertRegex(first.stderr.readline(),
                         r"^meshc: note: turned away process \d+ on .* from 127.0.0.1: "
                         r"rank 1 was told of 3 ranks, rank 0 of 2$")
        self.assertIsNone(first.poll())
        second = self.start_rank(1, 2, port)
        done = [processes.finish(process, 60) for process in (first, second)]
        self.assertEqual([one.returncode for one in done], [0, 0], done)

    def test_keys(self):
        keys = [self.folder / name for name in ("key", "other")]
        for number, key in enumerate(keys):
            key.write_text(f"{number}123456789abcdef\n", encoding="utf-8")
            key.chmod(0o600)
        for flags, variable, code in (
                (["--store-key", keys[0]], None, 0), (["--store-key", keys[1]], None, 1),
                ([], "0123456789abcdef", 0), ([], "0123456789abcdeF", 1), ([], None, 1)):
            port = processes.free_port()
            first = self.start_rank(0, 2, port, "--steps", 3, "--join-timeout", 4,
                                    "--store-key", keys[0])
            self.assertTrue(processes.wait_for(lambda port=port: processes.listens(port)))
            variables = {"MESHC_STORE_KEY": variable} if variable else {}
            second = processes.finish(processes.start(
                self.train("--rank", 1, "--ranks", 2, "--store", f"127.0.0.1:{port}",
                           "--steps", 3, *flags), env=processes.environment(**variables)))
            self.assertEqual(second.returncode, code, second.stderr)
            done = processes.finish(first)
            self.assertEqual(done.returncode, 6 if code else 0, done.stderr)
            self.assertEqual(done.stderr.count("turned away a process from 127.0.0.1: it does "
                                               "not have the key of this run"), code)
            self.assertEqual(second.stderr.count("error[MR0507]"), code)
        keys[0].chmod(0o644)
        done = processes.run(self.train("--rank", 0, "--ranks", 2, "--store", "127.0.0.1:9",
                                        "--store-key", keys[0]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("error[MR0507]: --store-key '", done.stderr)
        self.assertIn("others may read or change the file", done.stderr)

    def test_every_network_needs_a_key_and_a_warning(self):
        port = processes.free_port()
        for host in ("0.0.0.0", "[::]"):
            command = self.train("--rank", 0, "--ranks", 2, "--store", f"{host}:{port}",
                                 "--join-timeout", 0.3)
            done = processes.run(command)
            self.assertEqual(done.returncode, 1)
            self.assertIn("this run needs a key", done.stderr)
            done = processes.run(
                command, env=processes.environment(MESHC_STORE_KEY="0123456789abcdef"))
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertIn(f"warning: {host}:{port} stands for every network", done.stderr)

    def test_ranks_told_by_flags(self):
        port = processes.free_port()
        metrics = [self.folder / name for name in ("one.jsonl", "two.jsonl")]
        # The later rank comes first, and waits.
        second = self.start_rank(1, 2, port, "--steps", 9, "--metrics", metrics[1])
        time.sleep(0.3)
        first = self.start_rank(0, 2, port, "--steps", 9, "--metrics", metrics[1])
        for process in (first, second):
            self.assertEqual(processes.finish(process).returncode, 0)
        processes.run(self.train("--steps", 9, "--metrics", metrics[0]))
        self.assertEqual(processes.read_metrics(metrics[0]), processes.read_metrics(metrics[1]))

    def test_ranks_told_by_launchers(self):
        """Each launcher's variables, with what else its processes may find."""
        def torchrun(rank, port):
            return {"RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 3,
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

        def open_mpi(rank, port):
            return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 3,
                    "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": 3,
                    "PMIX_NAMESPACE": f"{os.getpid()}{port}"}

        def hydra(rank, port):
            return {"PMI_RANK": rank, "PMI_SIZE": 3, "MPI_LOCALRANKID": rank,
                    "MPI_LOCALNRANKS": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

        def slurm(rank, port):
            return {"SLURM_PROCID": rank, "SLURM_NTASKS": 3, "SLURM_LOCALID": rank,
                    "SLURM_NODEID": 0, "SLURM_TASKS_PER_NODE": "3", "SLURM_STEP_ID": 0,
                    "SLURM_JOB_ID": f"{os.getpid()}{port}", "SLURM_STEP_NODELIST": "127.0.0.1"}

        tcp = ["--transport", "tcp"]
        metrics = self.folder / "alone.jsonl"
        alone = processes.run(self.train("--steps", 5, "--metrics", metrics))
        expected = (alone.stdout, processes.read_metrics(metrics))
        for name, launchers, flags in (
                ("torchrun", [torchrun], []), ("Open MPI", [open_mpi], tcp),
                ("Hydra", [hydra], tcp), ("Slurm", [slurm], []),
                # Below srun, MPI's own variables are there too.
                ("torchrun", [torchrun, slurm], []), ("Hydra", [hydra, slurm], tcp)):
            with self.subTest(name):
                port = processes.free_port()
                started = []
                for rank in range(3):
                    variables = {key: str(value) for launcher in reversed(launchers)
                                 for key, value in launcher(rank, port).items()}
                    started.append(processes.start(
                        self.train("--steps", 5, "--metrics", metrics, *flags),
                        env=processes.environment(**variables)))
                done = [processes.finish(process) for process in started]
                self.assertEqual([one.returncode for one in done], [0, 0, 0], done)
                # Said once, by the first.
                self.assertEqual("".join(one.stderr for one in done).count("processes ("), 1)
                self.assertIn(f"meshc: 3 processes ({name})", done[0].stderr)
                self.assertEqual([one.stdout for one in done[1:]], ["", ""])
                self.assertEqual((done[0].stdout, processes.read_metrics(metrics)), expected)

    def run_below_open_mpi(self, app, **variables):
        """Two ranks with the variables of mpirun."""
        job = f"{os.getpid()}{processes.free_port()}"
        started = [processes.start(
            [app, *self.train("--steps", 5)[1:]],
            env=processes.environment(
                OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2",
                OMPI_COMM_WORLD_LOCAL_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_SIZE="2",
                PMIX_NAMESPACE=job, **variables)) for rank in range(2)]
        return [processes.finish(process) for process in started]

    def test_ranks_that_mpi_loses(self):
        # The library is looked for beside the executable.
        app = self.folder / "app"
        shutil.copy(self.app, app)
        shutil.copy(FAILING_MPI, self.folder / "libmeshc_mpi.so")
        for function, why in (("send", "the send has nowhere to go"),
                              ("test", "the other end is gone")):
            done = self.run_below_open_mpi(app, FAILING_MPI=function)
            self.assertEqual([one.returncode for one in done], [6, 6], done)
            self.assertEqual(len(errors(done[0].stderr + done[1].stderr)), 1, done)
            self.assertRegex(done[0].stderr,
                             r"error\[MR0504\]: (rank 1: )?lost the connection to rank \d: MPI: "
                             + why)

    @unittest.skipIf(os.geteuid() != 0, "only root makes files of other users")
    def test_an_mpi_of_another_user_is_not_loaded(self):
        app, library = self.folder / "app", self.folder / "libmeshc_mpi.so"
        shutil.copy(self.app, app)
        for plant, user, why in (
                (lambda: shutil.copy(FAILING_MPI, library), 12345, "it belongs to another user"),
                (lambda: os.mkfifo(library), 12345, "it belongs to another user"),
                (lambda: os.mkfifo(library), 0, "it is no file")):
            plant()
            os.chown(library, user, user)
            done = self.run_below_open_mpi(app)
            library.unlink()
            self.assertEqual([one.returncode for one in done], [1, 1], done)
            self.assertRegex(
                "".join(errors(done[0].stderr + done[1].stderr)),
                rf"^meshc: error\[MR0506\]: (rank 1: )?cannot load {library}, which a run by an "
                f"MPI launcher needs: {why}$")

    def test_different_arguments_are_noticed(self):
        other = self.folder / "other"
        other.mkdir()
        processes.write_linear_data(other, seed=2)
        for what, flags in (("--seed", ["--seed", 3]), ("--steps", ["--steps", 7]),
                            ("the training data", ["--data-dir", other])):
            port = processes.free_port()
            first = self.start_rank(0, 2, port)
            command = [flags[1] if word == self.folder and what == "the training data" else word
                       for word in self.train("--rank", 1, "--ranks", 2, "--store",
                                              f"127.0.0.1:{port}")]
            second = processes.start(command if what == "the training data"
                                     else [*command, *flags])
            done = [processes.finish(process) for process in (first, second)]
            self.assertEqual([one.returncode for one in done], [4, 4], done)
            self.assertEqual(errors(done[0].stderr), [
                f"meshc: error[MR0505]: rank 1 and rank 0 differ in {what}"])
            self.assertEqual(done[1].stderr, "")

    def test_a_missing_rank_is_named_in_time(self):
        port = processes.free_port()
        start = time.monotonic()
        started = [self.start_rank(rank, 4, port, "--join-timeout", 1) for rank in (0, 2)]
        done = [processes.finish(process) for process in started]
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual([one.returncode for one in done], [6, 6], done)
        self.assertEqual(errors(done[0].stderr), [
            "meshc: error[MR0503]: ranks 1 and 3 of 4 did not start within 1 s"])
        self.assertEqual(done[1].stderr, "")

    def test_a_missing_first_rank_is_an_error_in_time(self):
        done = processes.finish(
            self.start_rank(1, 2, processes.free_port(), "--join-timeout", 0.5))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(errors(done.stderr)), 1)
        self.assertIn("error[MR0502]: rank 1: cannot connect to 127.0.0.1:", done.stderr)

    def test_a_port_in_use(self):
        port = processes.free_port()
        first = self.start_rank(0, 2, port, "--join-timeout", 3)
        time.sleep(0.5)
        done = processes.finish(self.start_rank(0, 2, port))
        self.assertEqual(done.returncode, 1)
        self.assertIn("error[MR0502]: cannot listen on 127.0.0.1:", done.stderr)
        self.assertEqual(processes.finish(first).returncode, 6)

    def test_contradictions(self):
        for variables, flags, message in (
                ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "x"}, [],
                 "torchrun: there is no rank 2 of 2"),
                ({"OMPI_COMM_WORLD_RANK": "0"}, [],
                 "OMPI_COMM_WORLD_SIZE is not set, although OMPI_COMM_WORLD_RANK is"),
                ({"PMI_SIZE": "2"}, [], "PMI_RANK is not set, although PMI_SIZE is"),
                ({"SLURM_STEP_NODELIST": "a", "SLURM_PROCID": "0"}, [],
                 "SLURM_NTASKS is not set, although SLURM_STEP_NODELIST is"),
                ({"MESHC_RANK": "0", "MESHC_STORE": "a:1"}, [],
                 "MESHC_RANKS is not set, although MESHC_RANK is"),
                ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2",
                  "MASTER_ADDR": "x"}, [], "torchrun: local rank 2 of 2 contradicts rank 1 of 4"),
                ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
                 ["--processes", 2], "--processes 2, but this process is rank 0 of 2 (torchrun)"),
                ({}, ["--rank", 0, "--ranks", 2], "--store is missing")):
            done = processes.run(self.train(*flags), env=processes.environment(**variables))
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(errors(done.stderr)), 1, done.stderr)
            self.assertIn("error[MR0501]: " + message, done.stderr)


processes.run_tests(4)

"""Cases that Mesh-TensorFlow's own tests and its public defects suggest, on meshc.

Arguments: meshc, the repository, and ids of cases (all). Prints a line for each case, with the
time of what it has not asked to be computed with others."""

import importlib
import inspect
import os
import sys
import time
import traceback

MODULES = ("cases_layouts", "cases_moves", "cases_sums", "cases_windows", "cases_gradients",
           "cases_layers", "cases_training")

# Problems of a case that are printed.
MOST = 8


def find_cases():
    """Functions by id, in the order of the modules."""
    cases = {}
    for name in MODULES:
        for case, function in importlib.import_module(name).CASES.items():
            assert case not in cases, case
            cases[case] = function
    return cases


class Run:
    """How a case goes: what is wrong, and whether that is that it could not be run."""

    def __init__(self, case):
        self.case = case
        self.problems = []
        self.broken = False
        self.seconds = 0.0

    def go_on(self, runner, step):
        """A part of the case."""
        runner.case, runner.problems = self.case, self.problems
        start = time.monotonic()
        try:
            step()
        except SystemExit as problem:  # meshc has failed
            self.broken = True
            if str(problem) not in self.problems:  # one for all that is behind it
                self.problems.append(str(problem))
        except Exception:  # a plan lacks what is looked for  # pylint: disable=broad-except
            self.broken = True
            self.problems.append(traceback.format_exc())
        self.seconds += time.monotonic() - start

    def tell(self, known):
        """Prints how it went; whether that is a failure."""
        seconds = f"  ({self.seconds:.1f} s)"
        if not self.problems:
            print(f"{self.case} ok" + seconds)
            if self.case in known:
                print(f"{self.case} is listed as known, but holds")
            return self.case in known
        if self.case in known and not self.broken:
            print(f"{self.case} known: {known[self.case]}" + seconds)
            return False
        print(f"{self.case} FAILED" + seconds)
        for problem in self.problems[:MOST]:
            print("  " + problem.replace("\n", "\n  "))
        if len(self.problems) > MOST:
            print(f"  and {len(self.problems) - MOST} more")
        return True


def begin(runner, function):
    """A case, up to its `yield` if it has one: what is behind that looks at what it has asked."""
    if inspect.isgeneratorfunction(function):
        parts = function(runner)
        next(parts)
        runner.later(lambda: next(parts, None))
    else:
        function(runner)


def main():
    meshc, root, *wanted = sys.argv[1:]
    sys.path[1:1] = [os.path.join(os.path.abspath(root), "tests", folder)
                     for folder in ("plans", "state")]
    import harness  # behind the path  # pylint: disable=import-outside-toplevel
    import known  # pylint: disable=import-outside-toplevel
    cases = find_cases()
    unknown = set(wanted) - set(cases)
    if unknown:
        sys.exit(f"no cases of these ids: {', '.join(sorted(unknown))}")
    runner = harness.Harness(meshc, root)
    runs = {case: Run(case) for case in wanted or cases}
    for case, run in runs.items():
        run.go_on(runner, lambda case=case: begin(runner, cases[case]))
    start = time.monotonic()
    runner.compute()
    print(f"what the cases ask for  ({time.monotonic() - start:.1f} s)")
    for case, check in runner.checks:
        runs[case].go_on(runner, check)
    failed = [run.tell(known.KNOWN) for run in runs.values()]
    sys.exit(1 if any(failed) else 0)


main()

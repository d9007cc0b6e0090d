"""Cases that Mesh-TensorFlow's own tests and its public defects suggest, on meshc.

Arguments: meshc, the repository, and ids of cases (all). Prints a line for each case."""

import importlib
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
    failed = 0
    for case in wanted or cases:
        runner.problems = []
        broken = False
        start = time.monotonic()
        try:
            cases[case](runner)
        except SystemExit as problem:  # meshc has failed
            broken = True
            runner.problems.append(str(problem))
        except Exception:  # a plan lacks what is looked for  # pylint: disable=broad-except
            broken = True
            runner.problems.append(traceback.format_exc())
        seconds = f"  ({time.monotonic() - start:.1f} s)"
        if not runner.problems:
            print(f"{case} ok" + seconds)
            if case in known.KNOWN:
                print(f"{case} is listed as known, but holds")
                failed += 1
        elif case in known.KNOWN and not broken:
            print(f"{case} known: {known.KNOWN[case]}" + seconds)
        else:
            failed += 1
            print(f"{case} FAILED" + seconds)
            for problem in runner.problems[:MOST]:
                print("  " + problem.replace("\n", "\n  "))
            if len(runner.problems) > MOST:
                print(f"  and {len(runner.problems) - MOST} more")
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


main()

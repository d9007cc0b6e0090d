"""Compares the text plan of every case with golden/<case>.txt.

A change of communication, memory or names shows as a difference to review. To
accept it: python3 tests/plans/check_golden.py build/bin/meshc . --update
"""

import difflib
import pathlib
import sys

import cases
import compiler


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    update = "--update" in sys.argv[3:]
    folder = pathlib.Path(__file__).parent / "golden"
    failed = False
    for name, arguments in cases.CASES.items():
        path = folder / f"{name}.txt"
        plan = meshc.run("plan", *arguments)
        if update:
            path.write_text(plan, encoding="utf-8")
            continue
        golden = path.read_text(encoding="utf-8") if path.exists() else ""
        if plan != golden:
            failed = True
            sys.stdout.writelines(difflib.unified_diff(
                golden.splitlines(True), plan.splitlines(True), str(path), "meshc plan"))
    unknown = {path.stem for path in folder.iterdir()} - set(cases.CASES)
    if unknown:
        print(f"no case makes golden/{sorted(unknown)}")
        failed = True
    if failed:
        sys.exit(__doc__)


main()

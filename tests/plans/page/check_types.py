"""The scripts of the page have the types that their comments say, and are of readable size."""

import pathlib
import shutil
import subprocess
import sys

LINES, WIDTH = 400, 120
# Types stand in one line each.
WIDE = {"types.js"}


def main():
    folder = pathlib.Path(sys.argv[2]) / "frontend/plan/page"
    problems = []
    for path in sorted((folder / "js").glob("*.js")):
        lines = path.read_text(encoding="utf-8").split("\n")
        if len(lines) > LINES:
            problems.append(f"{path.name}: {len(lines)} lines, expected at most {LINES}")
        problems += [f"{path.name}:{number}: {len(line)} columns" for number, line in enumerate(lines, 1)
                     if len(line) > WIDTH and path.name not in WIDE]
        formatted = subprocess.run(["clang-format-14", str(path)], capture_output=True, text=True, check=True).stdout
        if formatted != "\n".join(lines):
            problems.append(f"{path.name}: not as clang-format-14 has it")
    if not shutil.which("tsc"):
        sys.exit("no tsc: run '.ci/install-packages test'")
    done = subprocess.run(["tsc", "-p", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        problems.append(done.stdout + done.stderr)
    if problems:
        sys.exit("\n".join(problems))


main()

"""The scripts of the page have the types that their comments say, and are of readable size."""

import pathlib
import shutil
import subprocess
import sys

LINES, WIDTH = 400, 120


def main():
    folder = pathlib.Path(sys.argv[2]) / "frontend/plan/page"
    problems = []
    for path in sorted((folder / "js").glob("*.js")):
        lines = path.read_text(encoding="utf-8").split("\n")
        if len(lines) > LINES:
            problems.append(f"{path.name}: {len(lines)} lines, expected at most {LINES}")
        problems += [f"{path.name}:{number}: {len(line)} columns" for number, line in enumerate(lines, 1) if len(line) > WIDTH]
    if not shutil.which("tsc"):
        sys.exit("no tsc: run '.ci/install-packages test'")
    done = subprocess.run(["tsc", "-p", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        problems.append(done.stdout + done.stderr)
    if problems:
        sys.exit("\n".join(problems))


main()

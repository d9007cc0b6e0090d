"""An executable needs the libraries of the Debian packages that the page of
`compile` names for its target, besides those of every C++ program, and no others."""

import pathlib
import re
import subprocess
import sys
import tempfile

# What every program in C++ needs.
USUAL = {"libc6", "libgcc-s1", "libstdc++6"}
SPEC = "samples/mlp.mesh"
PAGE = "frontend/commands/compile.md"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def find_package(path):
    """The package of a file; packages may know it by where it was before /lib was a
    link to /usr/lib."""
    path = str(path)
    for known in (path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise SystemExit(f"no package has '{path}'")


def find_packages(program):
    """Packages of the libraries that a program itself asks for."""
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", program))
    places = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", program), re.MULTILINE))
    return {find_package(pathlib.Path(places[library]).resolve())
            for library in needed if library in places} - USUAL


def main():
    meshc, root = sys.argv[1], pathlib.Path(sys.argv[2])
    rows = [line for line in (root / PAGE).read_text(encoding="utf-8").split("\n")
            if line.startswith("|") and "`zlib1g`" in line]
    problems = []
    for target in ("cpu", "cuda"):
        row, = [row for row in rows if ("--target cuda" in row) == (target == "cuda")]
        promised = set(re.findall(r"`(lib[a-z0-9-]+|zlib1g)`", row))
        with tempfile.TemporaryDirectory(prefix="meshc-") as folder:
            program = f"{folder}/program"
            run(meshc, "compile", str(root / SPEC), "--target", target, "-o", program)
            found = find_packages(program)
        if found != promised or not found:
            problems.append(f"--target {target} needs {sorted(found)}, {PAGE} says "
                            f"{sorted(promised)}")
    if problems:
        sys.exit("\n".join(problems))


main()

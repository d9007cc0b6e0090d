"""What the house tests share: the files of the repository and how they report."""

import os
import pathlib
import sys

SKIPPED_FOLDERS = {".git", "build", ".cache", ".ccache", "__pycache__"}
BINARY_SUFFIXES = {".npy", ".gz", ".png", ".bin", ".fb"}


def root():
    """The repository, given as the first argument."""
    return pathlib.Path(sys.argv[1]).resolve()


def files(*suffixes):
    """Every file of the repository, as paths relative to it, sorted."""
    found = []
    for folder, subfolders, names in os.walk(root()):
        subfolders[:] = [s for s in subfolders if s not in SKIPPED_FOLDERS]
        for name in names:
            path = (pathlib.Path(folder) / name).relative_to(root())
            # In a worktree .git is a file.
            if name != ".git" and (not suffixes or path.suffix in suffixes):
                found.append(path)
    return sorted(found)


def lines(path):
    """The lines of a text file, numbered from 1, without their ends."""
    text = (root() / path).read_text(encoding="utf-8")
    return enumerate(text.split("\n")[:-1] if text.endswith("\n")
                     else text.split("\n"), 1)


def is_text(path):
    return path.suffix not in BINARY_SUFFIXES


def finish(problems):
    """Prints what was found and ends the test."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)

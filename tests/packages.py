"""Packages of PyPI for tests, tests/requirements.txt."""

import importlib.util
import pathlib
import sys

SKIPPED = 77


def find(root, *names):
    """Whether they can be imported, from build/python of the repository too."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = str(pathlib.Path(root) / "build/python/lib" / version / "site-packages")
    if place not in sys.path:
        sys.path.append(place)
    return all(importlib.util.find_spec(name) for name in names)


def need(root, *names):
    """Ends the test as one that is skipped, if they cannot be."""
    if not find(root, *names):
        print(f"skipped: {' or '.join(names)} is not installed, see tests/install-python")
        sys.exit(SKIPPED)

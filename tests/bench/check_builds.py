"""bench/builds.py with a build beside itself: check_builds.py MESHC REPOSITORY.

A row that both have has two times and their ratio; one that is above the limit is named and
ends with exit code 1; one that a repository lacks is named and is no failure.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

MESHC, ROOT = sys.argv[1:]


def make_repository(folder, *parts):
    """A repository of this build with some of its folders."""
    (folder / "build" / "bin").mkdir(parents=True)
    (folder / "build" / "bin" / "meshc").symlink_to(MESHC)
    for part in parts:
        (folder / part).symlink_to(pathlib.Path(ROOT) / part)
    return folder


def compare(other, this, code, *options):
    done = subprocess.run(
        [sys.executable, "-B", f"{ROOT}/bench/builds.py", other, "--this", this, "--rounds", "1",
         "--row", "depthwise_twin", *options], capture_output=True, text=True, check=False,
        env={**os.environ, "MESHC_CACHE_DIR": f"{name}/cache"})
    assert done.returncode == code, done
    return done


with tempfile.TemporaryDirectory(prefix="meshc-builds-") as name:
    whole = make_repository(pathlib.Path(name) / "whole", "bench")
    bare = make_repository(pathlib.Path(name) / "bare")
    rows = r"^\| depthwise_twin \| [0-9.]+ \| [0-9.]+ \| %s \|$"
    done = compare(whole, whole, 0, "--limit", "1000")
    assert re.search(rows % r"\d+\.\d{3}", done.stdout, re.M), done.stdout
    done = compare(whole, whole, 1, "--limit", "0.001")
    assert re.search(rows % r"\*\*\d+\.\d{3}\*\*", done.stdout, re.M), done.stdout
    assert done.stderr == "slower than 0.001: depthwise_twin\n", done.stderr
    for other, this in ((bare, whole), (whole, bare)):
        done = compare(other, this, 0)
        assert "| depthwise_twin | one of them lacks it | | |" in done.stdout, done.stdout

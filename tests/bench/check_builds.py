"""bench/builds.py with a build beside itself: check_builds.py MESHC REPOSITORY.

A row that both have has two times and their ratio; one that is above the limit is named and
ends with exit code 1; a spec that a repository lacks is named and is no failure, one that it
does not compile is, and so is a name that no row has.
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


def compare(other, this, code, *options, row="depthwise_twin"):
    done = subprocess.run(
        [sys.executable, "-B", f"{ROOT}/bench/builds.py", other, "--this", this, "--rounds", "1",
         "--row", row, *options], capture_output=True, text=True, check=False,
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
        assert f"| depthwise_twin | not in {bare} | | |" in done.stdout, done.stdout
    wrong = make_repository(pathlib.Path(name) / "wrong")
    (wrong / "bench" / "cliffs").mkdir(parents=True)
    (wrong / "bench" / "cliffs" / "depthwise_twin.mesh").write_text("dim\n", encoding="utf-8")
    done = compare(whole, wrong, 1)
    assert "error[MC" in done.stderr and "failed with exit code 1" in done.stderr, done.stderr
    assert "no name begins with nothing" in compare(whole, whole, 2, row="nothing").stderr

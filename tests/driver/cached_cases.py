"""Damages a cache in every way that cached.py knows, and runs a command after each:
`cached_cases.py CACHED.PY CACHE COMMAND...`.

Every time the command must print what it prints with a whole cache, within a minute and
without a word on standard error; the first run puts the program there anew, the second
finds it.
"""

import os
import pathlib
import subprocess
import sys

cached, cache, command = sys.argv[1], sys.argv[2], sys.argv[3:]
PROGRAM = ("cut", "empty", "flip", "longer", "script", "link", "pipe", "folder", "mode")
FOLDER = ("folder-mode", "folder-link", "folder-file")
# What only root can make.
FOREIGN = ("owner", "folder-owner") if os.geteuid() == 0 else ()


def look(what):
    subprocess.run([sys.executable, "-B", cached, cache, what], check=True)


def run():
    done = subprocess.run(command, env=dict(os.environ, MESHC_CACHE_DIR=cache), timeout=60,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


expected = run()
for what in (*PROGRAM, *FOLDER, *FOREIGN):
    print(what, flush=True)
    look("note")
    look(what)
    assert run() == expected, what
    # Others' rights to the folder are taken: what is in it is whole.
    look("same" if what == "folder-mode" else "other")
    look("note")
    assert run() == expected, what
    look("same")
    # A folder that was in the way is left to whom it belongs.
    for moved in pathlib.Path(cache).glob("programs-*.*"):
        assert what == "folder-owner", moved

"""How many programs a cache keeps: `cached_bounds.py CACHE meshc run SPEC`."""

import os
import pathlib
import subprocess
import sys
import time

cache, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
folder = cache / f"programs-{os.geteuid()}"


def run(batch, *options):
    """The program's name and size."""
    before = set(os.listdir(folder))
    subprocess.run([*command, "-D", f"batch={batch}", *options, "--", "info"], check=True,
                   env=dict(os.environ, MESHC_CACHE_DIR=str(cache)),
                   stdout=subprocess.DEVNULL)
    # Time stamps tell what was used last.
    time.sleep(0.05)
    return set(os.listdir(folder)) - before


(first,) = run(5)
(second,) = run(6)
size = max((folder / name).stat().st_size for name in (first, second))
# Room for two and a half: the first is used again, the second goes.
assert not run(5)
(third,) = run(7, "--cache-bytes", str(size * 5 // 2))
assert set(os.listdir(folder)) == {first, third}, os.listdir(folder)
# What runs stays, whatever its size.
assert not run(5, "--cache-bytes", "0")
assert set(os.listdir(folder)) == {first}, os.listdir(folder)
# What a compiler that was killed has left goes a day later, what one writes stays.
old, fresh = folder / f"{'0' * 64}.1234", folder / f"{'1' * 64}.1234.abcdef"
for path in (old, fresh):
    path.write_text("", encoding="utf-8")
os.utime(old, (time.time() - 2 * 86400,) * 2)
(fourth,) = run(8)
assert set(os.listdir(folder)) == {first, fourth, fresh.name}, os.listdir(folder)
fresh.unlink()
done = subprocess.run([command[0], "cache", "--cache-bytes", str(size * 3 // 2)], check=True,
                      env=dict(os.environ, MESHC_CACHE_DIR=str(cache)), capture_output=True,
                      text=True)
assert set(os.listdir(folder)) == {fourth}, os.listdir(folder)
assert "programs  1\n" in done.stdout and "removed   1 program of" in done.stdout, done.stdout

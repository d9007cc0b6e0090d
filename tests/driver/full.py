"""What meshc writes where there is no room: `full.py FOLDER SPEC`.

A limit to the size of files stands for a full disk everywhere; where a file system may
be mounted, one that is full does too. Whatever fails says so in one message, leaves the
file that was there, and no other.
"""

import os
import pathlib
import resource
import subprocess
import sys

folder, spec = pathlib.Path(sys.argv[1]), sys.argv[2]
TOO_LARGE, NO_SPACE = "File too large", "No space left on device"
OLD = "what was there"


def meshc(output, temporary, limit=None):
    """Ends with 1 and one message, or makes the output."""
    def prepare():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    command = ["meshc", "plan" if output.suffix == ".txt" else "compile", spec, "-o", output]
    return subprocess.run(command, env=dict(os.environ, TMPDIR=str(temporary)),
                          capture_output=True, text=True, timeout=300, check=False,
                          preexec_fn=prepare)


def check(done, output, temporary, why):
    assert done.returncode in (0, 1), done
    # Not a word of the linker's about itself.
    assert "PLEASE" not in done.stderr and "Stack dump" not in done.stderr, done.stderr
    assert list(temporary.iterdir()) == [], list(temporary.iterdir())
    assert list(output.parent.iterdir()) == [output], list(output.parent.iterdir())
    if done.returncode == 0:
        assert output.read_bytes() != OLD.encode()
        return "done"
    assert output.read_text(encoding="utf-8") == OLD
    assert done.stderr.count("error[") == 1 and why in done.stderr, done.stderr
    return "failed"


def make_folders(root):
    for name in ("out", "tmp"):
        (root / name).mkdir(parents=True)
    return root / "out", root / "tmp"


outputs, temporary = make_folders(folder / "limited")
results = []
for name, limits in (("app", (0, 1000, 20_000, 1_000_000, 4_000_000)), ("plan.txt", (0, 500))):
    for limit in (*limits, None):
        (outputs / name).write_text(OLD, encoding="utf-8")
        results.append(check(meshc(outputs / name, temporary, limit), outputs / name,
                             temporary, TOO_LARGE))
        assert results[-1] == ("done" if limit is None else "failed"), (name, limit, results)
    (outputs / name).unlink()

disk = folder / "disk"
disk.mkdir()
size = 4 << 20
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk],
                         capture_output=True, text=True, check=False)
if mounted.returncode != 0:
    print("no full disk: " + mounted.stderr)
    sys.exit()
try:
    full_outputs, full_temporary = make_folders(disk)
    # Room for nothing, for the object alone, for a part of what is linked.
    for name, where in (("app", temporary), ("app", full_temporary), ("plan.txt", temporary)):
        results = []
        for room in (0, 4096, 64 << 10, 2 << 20):
            (full_outputs / name).write_text(OLD, encoding="utf-8")
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            (disk / "filler").write_bytes(b"x" * (free - room))
            results.append(check(meshc(full_outputs / name, where), full_outputs / name,
                                 where, NO_SPACE))
            (disk / "filler").unlink()
        assert results[0] == "failed", (name, results)
        assert name != "app" or set(results) == {"failed"}, (name, results)
        (full_outputs / name).unlink()
finally:
    subprocess.run(["umount", disk], check=True)

"""Looks at or damages the one program in a cache: `cached.py CACHE WHAT`.

`note` remembers which file it is; `same` and `other` check that it is still that one,
or another, and that nothing else is there. The other words put something in its place, or
in the place of the folder.
"""

import os
import pathlib
import shutil
import stat
import sys

cache, what = pathlib.Path(sys.argv[1]), sys.argv[2]
# Another name of the program that was noted: its number goes to no other file.
kept = cache.with_suffix(".kept")
folder = cache / f"programs-{os.geteuid()}"
ANOTHER_USER = 12345
SCRIPT = "#!/bin/sh\necho planted\n"


def find_program():
    (program,) = folder.iterdir()
    return program


def damage(change):
    content = bytearray(program.read_bytes())
    program.write_bytes(change(content))


def flip(content):
    # Of the program: the executable itself would find it damaged on every run.
    content[content.index(b"MSHX")] ^= 1
    return content


def foreign(path):
    if os.geteuid() == 0:
        os.chown(path, ANOTHER_USER, ANOTHER_USER)


def plant(path):
    path.write_text(SCRIPT, encoding="utf-8")
    path.chmod(0o700)
    return path


def replace(make):
    if program.is_dir():
        shutil.rmtree(program)
    else:
        program.unlink()
    make(program)


if what == "swap":
    # The second program by the name of the first.
    first, second = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    second.rename(folder / f"{first.name.split('-')[0]}-{second.name.split('-')[1]}")
    first.unlink()
    sys.exit()
program = find_program()
if what == "note":
    kept.unlink(missing_ok=True)
    os.link(program, kept)
elif what in ("same", "other"):
    assert os.path.samefile(program, kept) == (what == "same"), program
    status = os.lstat(program)
    assert stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid == os.geteuid() and stat.S_IMODE(os.lstat(folder).st_mode) == 0o700
elif what == "cut":
    damage(lambda content: content[:len(content) * 9 // 10])
elif what == "empty":
    damage(lambda content: b"")
elif what == "flip":
    damage(flip)
elif what == "longer":
    damage(lambda content: content + b"\0")
elif what == "script":
    replace(plant)
elif what == "link":
    replace(lambda path: path.symlink_to(plant(cache / "planted")))
elif what == "pipe":
    replace(os.mkfifo)
elif what == "folder":
    replace(lambda path: (path / "x").mkdir(parents=True))
elif what == "mode":
    program.chmod(0o777)
elif what == "owner":
    foreign(program)
elif what == "folder-mode":
    folder.chmod(0o777)
elif what == "folder-link":
    folder.rename(cache / "elsewhere")
    folder.symlink_to("elsewhere")
elif what == "folder-file":
    shutil.rmtree(folder)
    folder.write_text("", encoding="utf-8")
elif what == "folder-owner":
    foreign(folder)
else:
    sys.exit(f"unknown word {what}")

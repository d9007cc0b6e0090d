"""Damages the one program in a cache folder: `damage.py FOLDER HOW`."""

import os
import pathlib
import sys

folder, how = sys.argv[1:]
(program,) = [file for file in pathlib.Path(folder).iterdir() if file.name != "last-plan"]
content = bytearray(program.read_bytes())
# Padding of the ELF identification: changes nothing but tells the file from
# another.
mark = slice(9, 16)
if how == "marked":
    assert content[mark] == b"meshc!!", content[:16]
    sys.exit()
if how == "mark":
    content[mark] = b"meshc!!"
elif how == "cut":
    content = content[:len(content) * 9 // 10]
elif how == "empty":
    content = b""
elif how == "magic":
    content[:4] = b"none"
elif how == "machine":
    content[18:20] = b"\xff\xfe"
else:
    sys.exit(f"unknown damage {how}")
mode = os.stat(program).st_mode
program.write_bytes(content)
os.chmod(program, mode)

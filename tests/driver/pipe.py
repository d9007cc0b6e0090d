"""Runs a command that writes to a pipe with a name: `pipe.py PIPE COMMAND...`.

Checks that an executable comes out of the pipe and that it is still a pipe.
"""

import os
import stat
import subprocess
import sys

path, command = sys.argv[1], sys.argv[2:]
os.mkfifo(path)
# Opened for both, so that opening does not wait for the writer.
reader = os.open(path, os.O_RDWR)
process = subprocess.Popen(command)
content = os.read(reader, 4)
while process.poll() is None:
    os.set_blocking(reader, False)
    try:
        os.read(reader, 1 << 16)
    except BlockingIOError:
        pass
assert process.returncode == 0, process.returncode
assert content == b"\x7fELF", content
assert stat.S_ISFIFO(os.lstat(path).st_mode), f"{path} was replaced"

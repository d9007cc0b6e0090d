"""A plan on terminals and elsewhere: `terminal.py SPEC`. Its columns are those of the
terminal, or of COLUMNS; its colours are for terminals alone."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def run(columns=None, **variables):
    """What `meshc plan` prints, on a terminal of so many columns or into a pipe."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("NO_COLOR", "COLUMNS")}
    command = ["meshc", "plan", sys.argv[1]]
    environment = {**kept, "TERM": "xterm-256color", **variables}
    if columns is None:
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(command, env=environment, stdout=slave,
                               stderr=subprocess.DEVNULL)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 1 << 16):
            text += piece
    except OSError:
        pass  # its other end is closed
    assert process.wait(timeout=60) == 0
    os.close(master)
    return text.replace(b"\r\n", b"\n")


def get_width(text):
    return max(len(line) for line in ESCAPE.sub(b"", text).splitlines())


piped = run()
assert not ESCAPE.search(piped)
for columns in (70, 100, 140):
    shown = run(columns)
    assert ESCAPE.search(shown)
    assert get_width(shown) <= columns, (columns, get_width(shown))
    plain = run(columns, NO_COLOR="1")
    assert not ESCAPE.search(plain)
    assert ESCAPE.sub(b"", shown) == plain
assert get_width(run(140)) > 105
assert get_width(run(200, COLUMNS="80")) <= 80
assert run(COLUMNS="140") != piped

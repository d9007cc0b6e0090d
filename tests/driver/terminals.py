"""Commands whose output is a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios


def run_on_terminal(command, environment, stream, columns=80):
    """What a command prints on "stdout" or "stderr", a terminal of so many columns, and its
    exit code; the other one goes nowhere."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: slave}
    process = subprocess.Popen(command, env=environment, **streams)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 1 << 16):
            text += piece
    except OSError:
        pass  # its other end is closed
    code = process.wait(timeout=60)
    os.close(master)
    return text.replace(b"\r\n", b"\n"), code

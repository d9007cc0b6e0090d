"""A plan on terminals and elsewhere: `terminal.py SPEC`. Its columns are those of the
terminal, or of COLUMNS; its colours are for terminals alone."""

import os
import re
import subprocess
import sys

from terminals import run_on_terminal

ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def run(columns=None, **variables):
    """What `meshc plan` prints, on a terminal of so many columns or into a pipe."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("NO_COLOR", "COLUMNS")}
    command = ["meshc", "plan", sys.argv[1]]
    environment = {**kept, "TERM": "xterm-256color", **variables}
    if columns is None:
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    text, code = run_on_terminal(command, environment, "stdout", columns)
    assert code == 0
    return text


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

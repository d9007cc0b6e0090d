"""Colour on terminals, and nowhere else: `colour.py SPEC`, a spec with an error."""

import os
import subprocess
import sys

from terminals import run_on_terminal

ESCAPE = b"\x1b["


def run(command, terminal=True, **variables):
    """What is printed on standard error, a terminal or a pipe."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**kept, "TERM": "xterm", **variables}
    if not terminal:
        return subprocess.run(command, env=environment, capture_output=True,
                              check=False).stderr
    text, _ = run_on_terminal(command, environment, "stderr")
    assert text
    return text


for command in (["meshc", "check", sys.argv[1]], ["meshc", "chek"]):
    coloured = run(command)
    assert b"\x1b[1;31m" in coloured and coloured.rstrip().count(b"\x1b[0m") > 0, coloured
    plain = run(command, terminal=False)
    assert ESCAPE not in plain and b"error" in plain, plain
    for refused in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert run(command, **refused) == plain, refused
    # Set to nothing it is not set.
    assert run(command, NO_COLOR="") == coloured
    # The same words.
    for code in (b"1;31", b"1;33", b"1;32", b"1", b"36", b"0"):
        coloured = coloured.replace(ESCAPE + code + b"m", b"")
    assert coloured == plain, (coloured, plain)
assert ESCAPE not in run(["meshc", "check", "--message-format", "json", sys.argv[1]])

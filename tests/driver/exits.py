"""Runs a command and checks its exit code exactly: `exits.py 1 meshc check x.mesh`.

What the command prints goes where it would have gone; with --full before it to a
disk that is full, with --closed nowhere: standard output is closed. Exits with 0 if the code is the expected one; lit's `not` would
take any other than 0.
"""

import os
import subprocess
import sys

expected, command = int(sys.argv[1]), sys.argv[2:]
output, prepare = None, None
if command[0] == "--full":
    output, command = open("/dev/full", "wb"), command[1:]
elif command[0] == "--closed":
    prepare, command = lambda: os.close(1), command[1:]
code = subprocess.run(command, stdout=output, preexec_fn=prepare).returncode
if code != expected:
    print(f"exit code {code}, expected {expected}: {' '.join(command)[:500]}",
          file=sys.stderr)
sys.exit(0 if code == expected else 1)

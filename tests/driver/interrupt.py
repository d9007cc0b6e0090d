"""Stops a command by SIGINT while it links: `interrupt.py FOLDER COMMAND...`.

FOLDER must be empty; it becomes the folder for temporary files too, and must be
empty afterwards. Where the command was faster, it is run again.
"""

import os
import signal
import subprocess
import sys
import time


def take_signals():
    # A shell's background jobs ignore it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


folder, command = sys.argv[1], sys.argv[2:]
for _ in range(10):
    process = subprocess.Popen(command, env=dict(os.environ, TMPDIR=folder),
                               start_new_session=True,
                               preexec_fn=take_signals)
    # The object, the linker's messages and the executable.
    while len(os.listdir(folder)) < 3 and process.poll() is None:
        time.sleep(0.0005)
    try:
        os.killpg(process.pid, signal.SIGINT)
    except ProcessLookupError:
        pass
    code = process.wait(timeout=60)
    if code == -signal.SIGINT:
        break
    assert code == 0, code
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
else:
    sys.exit("never interrupted")
# The linker gets the signal too and may end a little later.
deadline = time.monotonic() + 10
while os.listdir(folder) and time.monotonic() < deadline:
    time.sleep(0.05)
assert not os.listdir(folder), os.listdir(folder)

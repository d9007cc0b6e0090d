"""Damages an executable in its program, its kernels and at its end: it says so before
it does anything, with exit code 4. `sealed.py EXECUTABLE`."""

import pathlib
import random
import subprocess
import sys

path = pathlib.Path(sys.argv[1])
sound = path.read_bytes()
# The mark of a program stands behind the first four bytes of it.
program = sound.index(b"MSHX") - 4
numbers = random.Random(7)


def run(content, code, message):
    damaged = path.with_name("damaged")
    damaged.write_bytes(content)
    damaged.chmod(0o700)
    for command in (["info"], ["--help"]):
        done = subprocess.run([damaged, *command], capture_output=True, text=True, check=False)
        assert done.returncode == code, (done, message)
        assert message in done.stderr, done
        assert code == 0 or not done.stdout, done


run(sound, 0, "")
for _ in range(40):
    content = bytearray(sound)
    content[program + numbers.randrange(3000)] ^= 1 << numbers.randrange(8)
    run(bytes(content), 4, "error[MR0301]: damaged executable: /proc/self/exe has other bytes")
for size in (1, 47, 48, 49, 1000):
    run(sound[:-size], 4, "error[MR0301]: damaged executable")
run(sound + b"x", 4, "error[MR0301]: damaged executable: /proc/self/exe does not end")

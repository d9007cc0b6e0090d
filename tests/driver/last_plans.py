"""Which plan `explain` speaks of: `last_plans.py FOLDER MESHC`, FOLDER with m.mesh.

That of its folder, and there that of its own session, whatever others have shown since;
a session that has shown none takes what was shown last.
"""

import glob
import os
import pathlib
import subprocess
import sys

given, meshc = pathlib.Path(sys.argv[1]), sys.argv[2]
here, there, cache = given / "here", given / "there", given / "plans"
MAX_PLANS = 32

for folder in (here, there):
    folder.mkdir()
    (folder / "m.mesh").write_text((given / "m.mesh").read_text())


class Session:
    """A shell that leads a session of its own, as one in a terminal does."""

    def __init__(self):
        self.shell = subprocess.Popen(
            ["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "MESHC_CACHE_DIR": str(cache)})

    def run(self, folder, *words):
        """What it prints, up to a line that says so."""
        self.shell.stdin.write(f"cd '{folder}' && {meshc} {' '.join(words)} 2>&1; echo END $?\n")
        self.shell.stdin.flush()
        lines = []
        while not (line := self.shell.stdout.readline()).startswith("END "):
            assert line, "the shell has ended"
            lines.append(line)
        return "".join(lines), int(line.split()[1])

    def plan(self, folder, layout):
        text, code = self.run(folder, "plan", "m.mesh", "--layout", f"'{layout}'")
        assert code == 0, text

    def expect(self, folder, layout):
        text, code = self.run(folder, "explain", "loss")
        assert code == 0 and text.startswith(f"m.mesh on d=2: 2 devices; layout: {layout}\n"), text

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()


one, two = Session(), Session()
one.plan(here, "batch=d")
two.expect(here, "batch -> d")  # it has shown none
two.plan(here, "")
one.expect(here, "batch -> d")
two.expect(here, "nothing is split")
text, code = one.run(there, "explain", "loss")
assert code == 1 and "MC0805" in text, text
two.plan(there, "batch=d")
two.expect(here, "nothing is split")
one.expect(there, "batch -> d")
# Its number may be taken by another; what it has shown is not then the other's.
one.end()
Session().expect(here, "nothing is split")

# Sessions come and go; what they have shown goes with time.
plans = glob.glob(str(cache / "last-plan-*"))
assert len(plans) == 3, plans
for number in range(2 * MAX_PLANS):
    name = f"{plans[0][:-4]}{number:04x}"
    pathlib.Path(name).write_bytes(b"")
    os.utime(name, ns=(number, number))
two.plan(here, "batch=d")
assert len(glob.glob(str(cache / "*"))) == MAX_PLANS
two.expect(here, "batch -> d")

"""install-packages installs what is missing, asks for nothing else, and names the
missing packages where it may not install them."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile

DPKG_QUERY = """#!/bin/sh
for package; do :; done
case " $MISSING " in *" $package "*) exit 1 ;; esac
printf installed
"""
APT_GET = """#!/bin/sh
echo "$@" >> "$LOG"
"""
ID = """#!/bin/sh
echo "$USER_ID"
"""


def listed(root, *groups):
    lines = (root / ".ci/packages.txt").read_text(encoding="utf-8").split("\n")
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [package for group, package in entries if group in groups]


class Machine:
    """A PATH on which dpkg-query, apt-get and id are ours."""

    def __init__(self, root):
        self.root = root
        self.folder = tempfile.TemporaryDirectory(prefix="meshc-")
        self.log = pathlib.Path(self.folder.name) / "log"
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("id", ID)):
            self.write(name, text)
        # Nothing but what the script needs, so that there is no sudo.
        for tool in ("awk", "bash", "dirname", "env", "sh"):
            found = subprocess.run(["bash", "-c", f"command -v {tool}"], capture_output=True,
                                   text=True, check=True).stdout.strip()
            os.symlink(found, f"{self.folder.name}/{tool}")

    def write(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def install(self, missing, *groups, user=0):
        self.log.unlink(missing_ok=True)
        environment = {"PATH": self.folder.name, "MISSING": " ".join(missing),
                       "LOG": str(self.log), "USER_ID": str(user)}
        done = subprocess.run([str(self.root / ".ci/install-packages"), *groups],
                              env=environment, capture_output=True, text=True, check=False)
        commands = self.log.read_text(encoding="utf-8").split("\n") if self.log.exists() else []
        return done, [command for command in commands if command]


def main():
    root = pathlib.Path(sys.argv[2]).absolute()
    machine = Machine(root)

    done, commands = machine.install([], "build", "run")
    assert (done.returncode, commands) == (0, []), (done, commands)

    for missing in ([package] for package in listed(root, "build", "run")):
        done, commands = machine.install(missing, "build", "run")
        assert done.returncode == 0, done
        assert commands[0].startswith("update"), commands
        assert commands[1].split()[0] == "install", commands
        assert commands[1].split()[-1] == missing[0], commands
    everything = listed(root, "build", "run", "more", "test", "bench")
    done, commands = machine.install(everything)
    assert set(everything) <= set(commands[1].split()), commands

    done, commands = machine.install(["cmake"], "test", "run")
    assert (done.returncode, commands) == (0, []), "cmake is of the group build"

    done, commands = machine.install(["cmake", "ninja-build"], "build", user=1000)
    assert done.returncode == 1 and not commands, (done, commands)
    assert "apt-get install cmake ninja-build" in done.stderr, done.stderr

    done, commands = machine.install([], "bulid")
    assert done.returncode == 2 and "no group \"bulid\"" in done.stderr, done

    # The scripts that promise to install ask for the groups they need.
    for script, groups in (("samples/build-meshc.sh", " build run\n"), ("tests/run.sh", "\n")):
        text = (root / script).read_text(encoding="utf-8")
        assert f'.ci/install-packages"{groups}' in text, script


main()

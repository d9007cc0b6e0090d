"""Runs meshc in a folder of its own, so that no cache is shared."""

import json
import os
import subprocess
import sys
import tempfile


class Compiler:
    def __init__(self, meshc, root):
        self.meshc = os.path.abspath(meshc)
        self.root = os.path.abspath(root)
        self.folder = tempfile.TemporaryDirectory(prefix="meshc-")
        self.environment = dict(os.environ, MESHC_CACHE_DIR=self.folder.name)

    def run(self, *arguments, code=0):
        """Standard output; ends the test if meshc does not exit with `code`."""
        return self.execute(self.meshc, *arguments, code=code)

    def execute(self, program, *arguments, code=0):
        """As run(), of another program, such as one that meshc has compiled."""
        done = subprocess.run([program, *arguments], cwd=self.root, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != code:
            name = os.path.basename(program)
            sys.exit(f"{name} {' '.join(arguments)}: exit code {done.returncode}, "
                     f"expected {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def plan(self, *arguments):
        return json.loads(self.run("plan", *arguments, "--emit", "json"))

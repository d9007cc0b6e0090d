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
        done = subprocess.run([self.meshc, *arguments], cwd=self.root, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != code:
            sys.exit(f"meshc {' '.join(arguments)}: exit code {done.returncode}, "
                     f"expected {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def plan(self, *arguments):
        return json.loads(self.run("plan", *arguments, "--emit", "json"))

"""An installed meshc finds its runtime, also after its folder was moved, and needs nothing
of the tree that it was built in. Installing builds nothing."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SPEC = "samples/mlp.mesh"


def run(*command, env=None):
    done = subprocess.run([str(word) for word in command], env=env, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, (command, done)
    return done.stdout


def get_run_path(program):
    return [line for line in run("readelf", "-d", program).splitlines() if "PATH)" in line]


def main():
    build = pathlib.Path(sys.argv[1]).absolute().parent.parent
    spec = pathlib.Path(sys.argv[2]).absolute() / SPEC
    log = build / ".ninja_log"
    before = log.stat().st_mtime_ns if log.exists() else None
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder = pathlib.Path(name)
        run("cmake", "--install", build, "--prefix", folder / "first")
        assert before is None or log.stat().st_mtime_ns == before, "installing has built"
        place = folder / "moved"
        (folder / "first").rename(place)
        (folder / "home").mkdir()
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")}
        meshc, app = place / "bin/meshc", folder / "app"
        run(meshc, "compile", spec, "-o", app, env=clean)
        for program in (meshc, app, *place.glob("lib/*.so")):
            for line in get_run_path(program):
                assert str(build) not in line and "ORIGIN" not in line, (program, line)
        assert f"[{place}/lib]" in get_run_path(app)[0], get_run_path(app)
        assert run(app, "info", env=clean).startswith("model     mlp\n")
        # Without the compiler.
        place.rename(folder / "away")
        loss = json.loads(run(app, "bench", "--steps", "2", env=clean))["loss"]
        (folder / "away").rename(place)
        again = json.loads(run(meshc, "run", spec, "--bench", "2", env=clean))["loss"]
        assert loss == again, (loss, again)
        assert (folder / f"home/.cache/meshc/programs-{os.geteuid()}").is_dir()


main()

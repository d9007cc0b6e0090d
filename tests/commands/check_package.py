"""A C++ program in a folder of its own is built against an installed meshc, which was moved:
samples/cpp builds a model, prints its plan, writes an executable, which trains; and
tests/commands/package asks for all else, wrong things too."""

import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile


def run(*command, code=0, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == code, (command, done)
    return done


def write_npy(path, shape):
    """Random floats."""
    count = shape[0] * shape[1]
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    numbers = struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + numbers)


class Package:
    def __init__(self, build, root, folder):
        self.root, self.folder = root, folder
        # Another compiler than meshc's, if there is one.
        cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
        own = re.search(r"^CMAKE_CXX_COMPILER:.*=(.*)$", cache, re.MULTILINE)[1]
        self.compiler = shutil.which("g++") or own
        run("cmake", "--install", build, "--prefix", folder / "first")
        self.place = folder / "moved"
        (folder / "first").rename(self.place)

    def build(self, source):
        copy = self.folder / source.name
        shutil.copytree(source, copy)
        run("cmake", "-S", copy, "-B", copy / "build", f"-DCMAKE_PREFIX_PATH={self.place}",
            f"-DCMAKE_CXX_COMPILER={self.compiler}")
        done = run("cmake", "--build", copy / "build")
        assert "warning" not in done.stdout + done.stderr, done
        return copy / "build"

    def check_sample(self):
        program = self.build(self.root / "samples/cpp") / "mlp"
        app, data = self.folder / "app", self.folder / "data"
        data.mkdir()
        write_npy(data / "image.npy", (64, 784))
        write_npy(data / "target.npy", (64, 10))
        said = run(program, app).stdout
        assert said.startswith("mlp on data=2 x model=2: 4 devices\na training step, "), said
        assert "c1 all_reduce over model" in said, said
        assert run(app, "info").stdout.startswith("model     mlp\n")
        metrics = self.folder / "metrics"
        run(app, "train", "--data-dir", data, "--no-eval", "--metrics", metrics)
        losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
        assert len(losses) == 20 and losses[-1] < 0.5 * losses[0], losses

    def check_uses(self):
        uses = self.build(self.root / "tests/commands/package") / "uses"
        spec, meshc = self.root / "samples/mlp.mesh", self.place / "bin/meshc"
        changed = ["plan", spec, "-D", "hidden=64", "--layout", "batch=data"]
        for target, more in (("cpu", []), ("cuda", ["--machine", "a100"])):
            expected = run("env", "COLUMNS=100", meshc, *changed, *more).stdout
            assert run(uses, "plan", spec, target).stdout == expected
        said = run(uses, "show", spec).stdout
        assert said.startswith("c1: all_reduce over model") and "\nnone\n{" in said, said[:2000]
        assert '"schema": "meshc.plan/' in said and said.rstrip().endswith("</html>"), said[-200:]

        errors = run(uses, "fail", code=1).stderr
        place = f"{self.folder}/package/uses.cpp"
        assert f"{place}:47: error[MC05" in errors, errors
        said = run(uses, "plan", self.folder / "none.mesh", "cpu", code=1).stderr
        assert "error[MC0101]: cannot read" in said, said
        for arguments, what in (
                (("tpu",), "the target 'tpu' is neither cpu nor cuda"),
                (("cuda", "b200"), "there is no machine 'b200'; those of GPUs are v100, a100"),
                (("cpu", "h100"), "the machine 'h100' has GPUs, the target is cpu"),
                (("cuda", "h100", "native", "sm_1x"), "sm_1x"),
                (("cpu", "", "native"), "/dev/null/none"),
                (("cpu", "", "z80"), "unknown processor 'z80'")):
            said = run(uses, "choose", *arguments, code=1).stderr
            assert "error: " in said and what in said, said

        small = self.folder / "small"
        run(uses, "write", small)
        assert run(small, "info").stdout.startswith("model     small\n")


def main():
    build = pathlib.Path(sys.argv[1]).absolute().parent.parent
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        package = Package(build, pathlib.Path(sys.argv[2]).absolute(), pathlib.Path(name))
        package.check_sample()
        package.check_uses()


main()

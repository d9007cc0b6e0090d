"""Weights leave a training and come back, by a map and without one, on other meshes.

- Parameters of a checkpoint that are exported, and that a training of no steps starts
  from, are those of its checkpoint, bit for bit, whatever the names in between.
- Without a rule for each parameter a training starts with `--init random` alone.
- A training with --from and --resume, and files that are written over, are errors.

Arguments: meshc, the repository."""

import pathlib
import shutil
import subprocess
import sys

MESHC = sys.argv.pop(1)
ROOT = pathlib.Path(sys.argv.pop(1))
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "driver", "ranks")]

# pylint: disable=wrong-import-position
import compiler
import curves
import processes

SIZES = {"batch": 10, "pixel": 9, "hidden": 7, "class": 5}

class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        curves.write_data(self.folder, side=3, classes=5)
        self.model = curves.make_classifier(self.meshc, SIZES)
        self.square = self.compile("square", "a=2,b=2", "batch=a,hidden=b")
        self.three = self.compile("three", "a=3", "pixel=a")

    def compile(self, name, mesh, layout):
        program = self.folder / f"program-{name}"
        shutil.move(self.model.compile(mesh, layout), program)
        return program

    def run(self, program, *arguments, code=0):
        done = subprocess.run([str(word) for word in (program, *arguments)], check=False,
                              capture_output=True, text=True, timeout=300,
                              env=processes.environment())
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done

    def train(self, program, steps, *arguments, code=0):
        return self.run(program, "train", "--data-dir", self.folder, "--no-eval",
                        "--steps", steps, *arguments, code=code)

    def get_parameters(self):
        """Names and dims, as a message about an empty folder says them."""
        empty = self.folder / "empty"
        empty.mkdir()
        message = self.train(self.square, 0, "--from", empty, code=1).stderr
        listed = message.split("missing: ")[1]
        parameters = {}
        for text in listed.replace(" and ", ", ").split("), "):
            name, layout = text.strip().split(" (")
            dims = layout.split("[")[1].split("]")[0]
            parameters[name.strip("'")] = [dim.split("=")[0] for dim in dims.split(", ")]
        return parameters

    def check(self):
        parameters = self.get_parameters()
        assert len(parameters) >= 4, parameters
        names = self.folder / "transposed.map"
        names.write_text("".join(
            f"{name} = layer.{name}.weight [{', '.join(reversed(dims))}]\n"
            for name, dims in parameters.items()), encoding="utf-8")
        saved = self.folder / "saved"
        self.train(self.square, 7, "--seed", 3, "--save", saved)
        for number, flags in enumerate(([], ["--names", names])):
            weights = self.folder / f"weights{number}.safetensors"
            # A folder with checkpoints, or one of them, whose files are safetensors, too.
            for source in (next(saved.glob("step-*")), saved):
                done = self.run(self.three, "export", "--from", source, "--to", weights, *flags)
                assert f"exported {len(parameters)} parameters" in done.stderr, done.stderr
            for program, processes_ in ((self.three, 1), (self.three, 3), (self.square, 2)):
                again = self.folder / "again"
                self.train(program, 0, "--from", weights, *flags, "--save", again, "--seed", 5,
                           "--processes", processes_)
                different = self.run(program, "ckpt", "diff", saved, again, code=3).stdout
                lines = [line.split("  ")[0] for line in different.splitlines()]
                assert not set(lines) & set(parameters), different
                # The optimizer has made steps in the one and none in the other.
                assert any("/" in line for line in lines), different
                shutil.rmtree(again)
        # Parameters differ where nothing is given: the test would see it.
        self.train(self.square, 0, "--save", self.folder / "other", "--seed", 5)
        different = self.run(self.square, "ckpt", "diff", saved, self.folder / "other", code=3)
        assert any(line.split("  ")[0] in parameters
                   for line in different.stdout.splitlines()), different.stdout

    def check_missing(self):
        names = self.folder / "one.map"
        first = sorted(self.parameters_of_map())[0]
        text = (self.folder / "transposed.map").read_text(encoding="utf-8")
        names.write_text("ignore *\n" + "".join(
            line + "\n" for line in text.splitlines() if line.split(" = ")[0] == first),
            encoding="utf-8")
        start = ["--from", self.folder / "weights1.safetensors", "--names", names]
        done = self.train(self.square, 0, *start, code=1)
        assert "missing" in done.stderr and f"'{first}'" not in done.stderr, done.stderr
        self.train(self.square, 0, *start, "--init", "random")

    def parameters_of_map(self):
        text = (self.folder / "transposed.map").read_text(encoding="utf-8")
        return [line.split(" = ")[0] for line in text.splitlines()]

    def check_errors(self):
        weights = self.folder / "weights0.safetensors"
        before = weights.read_bytes()
        done = self.train(self.square, 1, "--from", weights, "--resume", self.folder / "saved",
                          code=2)
        assert "--resume" in done.stderr, done.stderr
        for target in (weights, self.folder / "." / "weights0.safetensors"):
            done = self.run(self.square, "export", "--from", weights, "--to", target, code=1)
            assert "written over" in done.stderr, done.stderr
        names = self.folder / "transposed.map"
        shard = next((self.folder / "saved").glob("step-*/*.safetensors"))
        for target in (shard, shard.parent / "manifest.json", names):
            content = target.read_bytes()
            done = self.run(self.square, "export", "--from", self.folder / "saved", "--to",
                            target, "--names", names, code=1)
            assert "written over" in done.stderr and target.read_bytes() == content, done.stderr
        shard_before = shard.read_bytes()
        for source, target in ((self.folder / "saved", shard), (weights, weights),
                               (self.folder / "saved", shard.parent / "manifest.json")):
            done = self.run(self.square, "predict", "--data-dir", self.folder, "--from", source,
                            "--out", f"loss={target}", code=1)
            assert "MR0105" in done.stderr and str(target) in done.stderr, done.stderr
        assert weights.read_bytes() == before and shard.read_bytes() == shard_before
        done = self.run(self.square, "export", "--from", self.folder / "saved",
                        "--to", "/dev/full", code=1)
        assert "MR0202" in done.stderr, done.stderr
        done = self.train(self.square, 1, "--from", self.folder / "saved", "--names",
                          self.folder / "transposed.map", code=2)
        assert "which has the spec's names" in done.stderr, done.stderr
        weights.write_bytes(before[:-1])
        done = self.train(self.square, 1, "--from", weights, code=4)
        assert "damaged" in done.stderr, done.stderr


def main():
    test = Test()
    test.check()
    test.check_missing()
    test.check_errors()


if __name__ == "__main__":
    main()

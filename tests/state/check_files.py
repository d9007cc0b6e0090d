"""State in files: it is saved, exported under other names and read again, given by --param,
and shown where two checkpoints differ. A checkpoint that lacks it, or has more than the
model, is refused by name, with what can be done. predict --training has the numbers of a
step, its draws too.

Arguments: meshc, the repository."""

import pathlib
import shutil
import subprocess
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes
import tensors

SPEC = """dim batch = 3
dim from = 2
dim layers = 2
model m(x: f32[batch, from]) {{
  let h = dense(x, from = from, to = from') as up
  for layer in layers {{ {norm} }}
  output y = h
  output loss = mean(h * h)
}}
data over batch {{ x = npy("x.npy", test = "x.npy") }}
train {{ minimize loss optimizer sgd(lr = 0.1) steps 2 }}
"""
NAMES = """prefix net.
up/weight = fc.weight
up/bias = fc.bias
layer/norm/gain = bn.{layers}.weight
layer/norm/bias = bn.{layers}.bias
layer/norm/centre = bn.{layers}.running_mean
layer/norm/spread = bn.{layers}.running_var
"""


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        npy.write(self.folder / "x.npy", [0.5, 2, -1, 0.25, 3, 1], [3, 2])
        self.normed = self.compile("normed", "h = batch_norm(h, over = from') as norm")
        self.plain = self.compile("plain", "h = 2 * h")

    def compile(self, name, norm):
        spec, program = self.folder / f"{name}.mesh", self.folder / name
        spec.write_text(SPEC.format(norm=norm), encoding="utf-8")
        self.meshc.run("compile", str(spec), "-o", str(program))
        return program

    def run(self, *words, code=0):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False, timeout=100, env=processes.environment())
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def train(self, program, steps, *arguments, code=0):
        saved = self.folder / f"saved-{program.name}"
        return self.run(program, "train", "--data-dir", self.folder, "--no-eval", "--steps", steps,
                        "--seed", 1, "--save", saved, "--keep", 9, "--save-every", 1, *arguments,
                        code=code)

    def predict(self, *arguments):
        result = self.folder / "y.npy"
        self.run(self.normed, "predict", "--in", f"x={self.folder / 'x.npy'}", "--out",
                 f"y={result}", *arguments)
        return npy.read(result)

    def refuse(self, words, *parts, code):
        said = self.run(*words, code=code)
        for part in parts:
            assert part in said, (part, said)

    def check_names(self):
        saved = self.folder / "saved-normed"
        names, exported = self.folder / "names.map", self.folder / "torch.safetensors"
        names.write_text(NAMES, encoding="utf-8")
        said = self.run(self.normed, "export", "--from", saved, "--to", exported, "--names", names)
        assert "exported 4 parameters and 2 of state as 10 tensors" in said, said
        assert b"bn.1.running_mean" in exported.read_bytes()
        expected = self.predict("--from", saved)
        assert self.predict("--from", exported, "--names", names) == expected
        # By default it starts as 0 and 1.
        other = self.folder / "centre.npy"
        npy.write(other, [5, 6, 7, 8], [2, 2])
        assert self.predict("--from", saved, "--param", f"layer/norm/centre={other}") != expected

    def check_shown(self):
        saved = self.folder / "saved-normed"
        assert "6 values" in self.run(self.normed, "ckpt", "ls", saved)
        steps = sorted(saved.glob("step-*"))
        said = self.run(self.normed, "ckpt", "diff", steps[0], steps[1], code=3)
        assert "layer/norm/centre" in said and "layer/norm/spread" in said, said

    def check_steps(self):
        """All samples are one, so that their order makes no difference."""
        npy.write(self.folder / "x.npy", [0.5, 2] * 3, [3, 2])
        drawn = self.compile("drawn", "h = dropout(batch_norm(h + f32(layer), over = batch) as norm, 0.5)")
        metrics, saved = self.folder / "drawn.jsonl", self.folder / "saved-drawn"
        self.train(drawn, 3, "--metrics", metrics)
        losses = [step["loss"] for step in processes.read_metrics(metrics)]
        assert len(set(losses)) == 3, losses
        said = [self.run(drawn, "predict", "--training", "--step", step, "--from",
                         saved / f"step-{step - 1:08}", "--seed", 1, "--in",
                         f"x={self.folder / 'x.npy'}") for step in (2, 3)]
        assert said == [f"loss {loss:.9g}\n" for loss in losses[1:]], (said, losses)
        # The same of a spec, from its start; the step leaves what a training has then.
        centre, other = self.folder / "centre.npy", self.folder / "other.npy"
        words = ["--init", "random", "--seed", 1, "--in", f"x={self.folder / 'x.npy'}", "--out"]
        spec = self.folder / "drawn.mesh"
        self.run(MESHC, "run", spec, "--eval", "--training", *words, f"layer/norm/centre={centre}")
        self.run(drawn, "predict", "--training", *words, f"layer/norm/centre={other}")
        assert npy.read(centre) == npy.read(other)
        assert any(npy.read(centre))
        said = self.run(MESHC, "run", spec, "--eval", "--step", 2, *words, f"y={other}", code=2)
        assert "--training" in said, said

    def check_exchanged(self):
        """State becomes what other state, a part of it or an input was."""
        program = self.folder / "exchanged"
        spec = self.folder / "exchanged.mesh"
        spec.write_text("""mesh a = 2
dim batch = 3
dim from = 2
dim n = 3
layout { from -> a  "added": from -> () }
model exchanged(x: f32[batch, from]) {
  param w: f32[from] = ones
  state one: f32[from] = 1
  state two: f32[from] = 2
  state table: f32[n, from] = f32(10 * iota(n) + iota(from))
  state row: f32[from] = 0
  state last: f32[batch, from] = 0
  state split: f32[from] = 0
  state larger: bool[from, n] = false
  let t = one
  one = two
  two = t
  row = table[n = 1]
  table = table[n = (n + 1) % size(n)]
  last = x
  let added = split + 1
  split = added
  larger = iota(n) > iota(from)
  output loss = mean(x * w) + mean(one)
}
data over batch { x = npy("x.npy", test = "x.npy") }
train { minimize loss optimizer sgd(lr = 0.1) steps 2 }
""", encoding="utf-8")
        self.meshc.run("compile", str(spec), "-o", str(program))
        found = {}
        for steps in (1, 2):
            shutil.rmtree(self.folder / "saved-exchanged", ignore_errors=True)
            self.train(program, steps)
            exported = self.folder / "exchanged.safetensors"
            self.run(program, "export", "--from", self.folder / "saved-exchanged", "--to", exported)
            found[steps] = tensors.read(exported)
        assert found[1]["one"] == [2, 2] and found[1]["two"] == [1, 1], found
        assert found[2]["one"] == [1, 1] and found[2]["two"] == [2, 2], found
        assert found[1]["table"] == [10, 11, 20, 21, 0, 1], found
        assert found[1]["row"] == [10, 11] and found[2]["row"] == [20, 21], found
        assert found[2]["split"] == [2, 2], found
        assert found[1]["larger"] == [False, True, True, False, False, True], found
        # In the order of samples that the step has.
        assert sorted(found[1]["last"]) == sorted(npy.read(self.folder / "x.npy")), found

    def check_refused(self):
        saved = {program: self.folder / f"saved-{program.name}"
                 for program in (self.normed, self.plain)}
        x = f"x={self.folder / 'x.npy'}"
        said = self.train(self.normed, 3, "--resume", saved[self.plain], code=1)
        for part in ("the checkpoint has no 'layer/norm/centre', f32[layers=2, from'=2]",
                     "--from ", "--init random"):
            assert part in said, said
        said = self.train(self.plain, 3, "--resume", saved[self.normed], code=1)
        assert "the model has no 'layer/norm/spread'" in said, said
        assert "--init random" not in said, said
        self.refuse([self.normed, "predict", "--in", x, "--from", saved[self.plain]],
                    "2 parameters are missing", "2 states are missing: 'layer/norm/centre' (f32[",
                    "--init random starts it as a training does", code=1)
        self.refuse([self.plain, "predict", "--in", x, "--from", saved[self.normed]],
                    "4 values are for no parameter", "--names", code=1)
        self.refuse([self.normed, "predict", "--in", x, "layer/norm/centre=x.npy", "--from",
                     saved[self.normed]],
                    "it is a state: give it as --param layer/norm/centre=FILE.npy", code=1)
        self.refuse([self.normed, "predict", "--in", x, "--from", saved[self.normed], "--out",
                     f"layer/norm/centre={self.folder / 'y.npy'}"],
                    "there is no output 'layer/norm/centre'", "--training", code=1)
        self.refuse([self.normed, "predict", "--in", x, "--from", saved[self.normed], "--step", 3],
                    "--training", code=2)


def main():
    test = Test()
    test.train(test.plain, 2)
    test.train(test.normed, 2)
    test.check_names()
    test.check_shown()
    test.check_refused()
    test.check_steps()
    test.check_exchanged()


main()

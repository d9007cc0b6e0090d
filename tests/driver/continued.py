"""What a training says before its first step: of the data that it checks, of a model that has
changed since its checkpoint was saved, of steps that are over."""

import pathlib
import subprocess
import sys

import arrays
import data_files

SPEC = """mesh data = 2
layout { batch -> data }
dim batch = 2
dim rows = 3
dim columns = 5
dim class = 7
model m(image: u8[batch, rows, columns], kind: i32[batch]) {
  param w: f32[rows, columns, class] = normal(stddev = 0.1)
  output logits = einsum(f32(image), w -> batch, class)
  output loss = mean(cross_entropy(logits, kind, over = class))
}
data over batch {
  image = images("train", test = "test")
  kind = npy("kind.npy", test = "kind-test.npy")
}
train { minimize loss  optimizer sgd(lr = 0.001)  steps 4 }
"""


class Trainings:
    def __init__(self, folder):
        self.folder = folder
        for name, count in (("train", 9), ("test", 5)):
            (folder / name / "all").mkdir(parents=True)
            for number in range(count):
                image = data_files.make_png()
                (folder / name / "all" / f"{number}.png").write_bytes(image)
        self.write_kinds()
        self.app = self.compile(SPEC, "m")

    def write_kinds(self, last=3):
        (self.folder / "kind.npy").write_bytes(arrays.npy("<i4", [9], [*range(7), 0, last]))
        (self.folder / "kind-test.npy").write_bytes(arrays.npy("<i4", [5], range(5)))

    def compile(self, text, name):
        spec = self.folder / f"{name}.mesh"
        spec.write_text(text)
        subprocess.run(["meshc", "compile", spec, "-o", self.folder / name], check=True)
        return self.folder / name

    def train(self, *arguments, app=None, code=0):
        done = subprocess.run(
            [app or self.app, "train", "--data-dir", self.folder, *arguments],
            capture_output=True, text=True, check=False)
        assert done.returncode == code, (arguments, done)
        return done.stderr

    def check_data(self):
        said = self.train("--check-data")
        assert "checked 9 samples and 5 of the test files\n" in said, said
        assert "checked" not in self.train()
        said = self.train("--check-data", "--no-eval", "--processes", "2")
        assert "checked 9 samples\n" in said, said
        # A damaged image of either split, at its place; no step is made, and nothing saved.
        for name, number in (("train", 8), ("test", 4), ("train", 0)):
            path = self.folder / name / "all" / f"{number}.png"
            whole = path.read_bytes()
            path.write_bytes(whole[:-20])
            saved = self.folder / "none"
            for more in ([], ["--processes", "2"]):
                said = self.train("--check-data", "--save", saved, *more, code=4)
                assert f"'{path}' is damaged" in said and "step" not in said, said
                assert not saved.exists() or not list(saved.glob("step-*")), list(saved.iterdir())
            path.write_bytes(whole)
        assert "checked 9" in self.train("--check-data")

    def check_resumed(self):
        saved = self.folder / "saved"
        self.train("--save", saved, "--no-eval")
        # As many steps as there are, and fewer.
        for steps in ([], ["--steps", "4"], ["--steps", "3"]):
            said = self.train("--resume", saved, *steps)
            end = steps[1] if steps else "4"
            assert f"nothing is left to train: it ends with step {end}; --steps and --epochs " \
                "count from the beginning\n" in said, said
            assert "another" not in said, said
        said = self.train("--resume", saved, "--steps", "5")
        assert "nothing is left" not in said and "step 5/5" in said, said
        # Another model whose parameters are called alike.
        other = self.compile(SPEC.replace("f32(image)", "f32(image) / 255"), "other")
        said = self.train("--resume", saved, "--steps", "5", app=other)
        assert f"note: '{saved}/step-00000004' was saved by another text of the spec, whose " \
            "values have the same names and sizes\n" in said, said


def main():
    trainings = Trainings(pathlib.Path(sys.argv[1]))
    trainings.check_data()
    trainings.check_resumed()


main()

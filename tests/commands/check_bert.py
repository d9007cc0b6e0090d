"""samples/bert/bert.mesh learns to find what is masked, and does so alike on one device and on twelve,
in one part and in two. Its loss is of what is to be found and of nothing else: as many positions of
each sample, of which a training sees new ones in every step.

Arguments: meshc, the repository."""

import collections
import math
import pathlib
import random
import re
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "ranks", ".")]

# pylint: disable=wrong-import-position
import compiler
import npy
import processes
import repeated

SPEC = "samples/bert/bert.mesh"
SIZES = {"batch": 24, "pos": 23, "d_model": 24, "heads": 2, "layers": 2,
         "char": repeated.CHARACTERS + 1, "steps": 600, "rising": 20, "lr": 0.01}
BATCH, POS, CHAR = (SIZES[name] for name in ("batch", "pos", "char"))
MASK, SOUGHT = CHAR - 1, 3  # 15 % of 23
# Positions lie unevenly.
MESH = "data=3,model=2,seq=2"
LAYOUT = "batch=data,heads=model,d_ff=model,char=model,pos=seq"
FEW = 5
ROUNDING = 1e-5
# In nats, as the loss is. Of a masked character its frequency leaves 1.77, and its place in the
# line, without the other word, 1.04; whoever has read the other word needs little more than 0.
LEARNT = 0.8


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        repeated.write(self.folder)
        self.plain = self.compile("plain")

    def compile(self, name, mesh="", layout="", spec=SPEC):
        program = str(self.folder / name)
        self.meshc.run("compile", spec, "-o", program, "--mesh", mesh, "--layout", layout,
                       *(f"-D{name}={size}" for name, size in SIZES.items()))
        return program

    def get_losses(self, program, steps, *arguments):
        metrics = self.folder / "metrics.jsonl"
        self.meshc.execute(program, "train", "--data-dir", str(self.folder), "--no-eval", "--steps",
                           str(steps), "--metrics", str(metrics), *arguments)
        return [step["loss"] for step in processes.read_metrics(metrics)]

    def check_learning(self):
        saved = str(self.folder / "saved")
        first = self.get_losses(self.plain, SIZES["steps"], "--save", saved)[0]
        printed = self.meshc.execute(self.plain, "eval", "--from", saved, "--data-dir",
                                     str(self.folder))
        learnt = float(re.search(r"^test loss ([\d.]+)$", printed, re.MULTILINE)[1])
        print(f"loss {first:.3f} at first, {learnt} of the test after {SIZES['steps']} steps")
        assert learnt < LEARNT < first, (first, learnt)

    def check_places(self):
        """On other meshes, and without parts."""
        losses = self.get_losses(self.plain, FEW)
        whole, count = re.subn(r"^ *microbatches .*\n", "", (ROOT / SPEC).read_text(encoding="utf-8"),
                               flags=re.MULTILINE)
        assert count == 1
        spec = self.folder / "whole.mesh"
        spec.write_text(whole, encoding="utf-8")
        for name, program in (("split", self.compile("split", MESH, LAYOUT)),
                              ("whole", self.compile("whole", spec=str(spec)))):
            found = self.get_losses(program, FEW)
            apart = max(abs(one - other) for one, other in zip(losses, found))
            print(f"{name}: losses of {FEW} steps differ by {apart:.1g}")
            assert apart <= ROUNDING, (name, losses, found)

    def predict(self, *arguments):
        """The loss of random parameters, what was to be found, what stood there, and the logits."""
        files = {name: self.folder / f"{name}.npy" for name in ("loss", "lost", "given", "logits")}
        self.meshc.execute(self.plain, "predict", "--init", "random", *arguments, "--in",
                           f"text={self.folder / 'text.npy'}", "--out",
                           *(f"{name}={path}" for name, path in files.items()))
        lost = [byte != 0 for byte in npy.read_bytes(files["lost"])]
        given = memoryview(npy.read_bytes(files["given"])).cast("i").tolist()
        return npy.read(files["loss"])[0], lost, given, npy.read(files["logits"])

    def check_loss(self):
        draw = random.Random(5)
        text = [draw.randrange(MASK) for _ in range(BATCH * POS)]
        npy.write(self.folder / "text.npy", text, [BATCH, POS], "i")
        fates = collections.Counter()
        seen = []
        for arguments in ((), *(("--training", "--step", str(step)) for step in range(1, 11))):
            loss, lost, given, logits = self.predict(*arguments)
            seen.append(lost)
            for sample in range(BATCH):
                assert sum(lost[sample * POS:][:POS]) == SOUGHT, (arguments, sample)
            wrong = []
            for at, label in enumerate(text):
                if not lost[at]:
                    assert given[at] == label, (arguments, at)
                    continue
                fates["mask" if given[at] == MASK else
                      "kept" if given[at] == label else "other"] += 1
                here = logits[at * CHAR:][:CHAR]
                wrong.append(math.log(math.fsum(map(math.exp, here))) - here[label])
            expected = math.fsum(wrong) / len(wrong)
            assert math.isclose(loss, expected, rel_tol=1e-5), (arguments, loss, expected)
        assert all(one != other for one, other in zip(seen[1:], seen[2:]))
        count = sum(fates.values())
        print(f"of {count} positions {dict(fates)}")
        # Some of the others are by chance what stood there.
        for fate, share in (("mask", 0.8), ("other", 0.1 * (1 - 1 / MASK)),
                            ("kept", 0.1 * (1 + 1 / MASK))):
            deviation = (share * (1 - share) / count) ** 0.5
            assert abs(fates[fate] / count - share) < 4 * deviation, (fate, fates)


def main():
    test = Test()
    test.check_learning()
    test.check_places()
    test.check_loss()


main()

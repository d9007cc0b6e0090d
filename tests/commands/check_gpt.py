"""samples/gpt/gpt.mesh learns what only attention can tell, and does so alike on one device and
on twelve, dropout included. Decay takes from the weights of linear layers and from nothing else.

Arguments: meshc, the repository."""

import pathlib
import re
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", "state", ".")]

# pylint: disable=wrong-import-position
import compiler
import npy
import repeated
import tensors

SIZES = {"batch": 16, "pos": 31, "d_model": 32, "heads": 2, "layers": 2,
         "char": repeated.CHARACTERS, "steps": 150, "rising": 20, "lr": 0.015}
# Every dim that the README splits at once, samples and positions unevenly.
MESH = "data=3,model=2,seq=2"
LAYOUT = "batch=data,heads=model,d_ff=model,char=model,pos=seq"
FEW = 5
DECAYED = re.compile(r".*/(query|key|value|out|expand|project)/weight")


class Test:
    def __init__(self):
        self.meshc = compiler.Compiler(MESHC, str(ROOT))
        self.folder = pathlib.Path(self.meshc.folder.name)
        repeated.write(self.folder)
        self.plain = self.compile("plain")

    def compile(self, name, mesh="", layout="", **others):
        program = str(self.folder / name)
        self.meshc.run("compile", "samples/gpt/gpt.mesh", "-o", program, "--mesh", mesh,
                       "--layout", layout,
                       *(f"-D{name}={size}" for name, size in (SIZES | others).items()))
        return program

    def train(self, program, steps, *arguments):
        return self.meshc.execute(program, "train", "--data-dir", str(self.folder),
                                  "--steps", str(steps), *arguments)

    def get_bits(self, program, steps):
        printed = self.train(program, steps)
        return float(re.search(r"^test bits ([\d.]+)$", printed, re.MULTILINE)[1])

    def check_learning(self):
        few, learnt = (self.get_bits(self.plain, steps) for steps in (FEW, SIZES["steps"]))
        print(f"{few} bits after {FEW} steps, {learnt} after {SIZES['steps']}")
        assert 0.75 < learnt < repeated.LEARNT < few, (few, learnt)
        found = self.get_bits(self.compile("split", MESH, LAYOUT), FEW)
        # Of four digits the last one may be rounded otherwise.
        assert abs(found - few) <= 0.0011, (found, few)

    def check_decay(self):
        """A step with decay and one without, from biases that are not 0."""
        width = SIZES["d_model"]
        bias = self.folder / "bias.npy"
        npy.write(bias, [0.5] * SIZES["layers"] * width, (SIZES["layers"], width))
        after = []
        for program in (self.plain, self.compile("without", decay=0)):
            saved = f"{program}-saved"
            exported = self.folder / "exported.safetensors"
            self.train(program, 1, "--no-eval", "--init", "random", "--save", saved,
                       "--param", f"decoder/layer/block/ff/project/bias={bias}")
            self.meshc.execute(program, "export", "--from", saved, "--to", str(exported))
            after.append(tensors.read(exported))
            exported.unlink()
        decayed, without = after
        differ = {name for name in without if without[name] != decayed[name]}
        expected = {name for name in without if DECAYED.fullmatch(name)}
        assert len(expected) == 6 and differ == expected, differ ^ expected
        # What has no decay is far from 0, or a step would not show it.
        assert min(map(abs, without["decoder/layer/block/ff/project/bias"])) > 0.4


def main():
    test = Test()
    test.check_learning()
    test.check_decay()


main()

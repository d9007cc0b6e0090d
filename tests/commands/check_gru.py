"""samples/gru/gru.mesh learns what only a memory can tell, and does so alike on every mesh: with
samples split, with units split, and with both.

Arguments: meshc, the repository."""

import pathlib
import re
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("plans", ".")]

# pylint: disable=wrong-import-position
import compiler
import repeated

SIZES = {"batch": 16, "pos": 31, "d_char": 8, "unit": 32, "char": repeated.CHARACTERS,
         "steps": 200, "rising": 10, "lr": 0.02}
# Mesh, layout, and steps of a training whose loss is compared.
SPLIT = (("data=3", "batch=data"), ("model=2", "unit=model"),
         ("data=2,model=2", "batch=data,unit=model"))
FEW = 5


def main():
    meshc = compiler.Compiler(MESHC, str(ROOT))
    folder = pathlib.Path(meshc.folder.name)
    repeated.write(folder)

    def train(mesh, layout, steps):
        program = str(folder / "program")
        meshc.run("compile", "samples/gru/gru.mesh", "-o", program, "--mesh", mesh, "--layout",
                  layout, *(f"-D{name}={size}" for name, size in SIZES.items()))
        return [get_bits(meshc.execute(program, "train", "--data-dir", str(folder), "--steps",
                                       str(count))) for count in steps]

    few, learnt = train("", "", (FEW, SIZES["steps"]))
    print(f"{few} bits after {FEW} steps, {learnt} after {SIZES['steps']}")
    assert 0.75 < learnt < repeated.LEARNT < few, (few, learnt)
    for mesh, layout in SPLIT:
        found, = train(mesh, layout, (FEW,))
        # Of four digits the last one may be rounded otherwise.
        assert abs(found - few) <= 0.0011, (mesh, found, few)


def get_bits(printed):
    return float(re.search(r"^test bits ([\d.]+)$", printed, re.MULTILINE)[1])


main()

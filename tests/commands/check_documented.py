"""What runtime/samples/README.md and the pages of commands show is so: files written by
the lines in Python are read as they are meant, each command of an executable prints the
lines below it, with other numbers, and the pages say what each option is (options.py)."""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import options

SIZES = {"batch": 32, "pixel": 6, "hidden": 5, "class": 7}
CLOTHES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt"]
SAMPLES = {"train": 98, "t10k": 41}
# Of a number that a run may give: all but counts and sizes, which stand alone or as 3/5.
MEASURED = r"\d+\.\d+(?:e[+-]\d+)?|\d+(?= samples/s)|\d+(?= s left)"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
ANY_LINES = "..."
# Folders and files that pages call so, and that commands print.
PRINTED = ("SAVED", "TESTED", "EXPORTED")


class Array:
    """What the lines use of an array of NumPy."""

    def __init__(self, shape, elements):
        self.shape, self.ndim, self.elements = shape, len(shape), elements
        self.kind = None

    def astype(self, kind):
        array = Array(self.shape, self.elements)
        array.kind = kind
        return array

    def tobytes(self):
        order, letter = re.fullmatch(r"(>?)(\w\d)", self.kind).groups()
        form = {"u1": "B", "i1": "b", "i2": "h", "i4": "i", "f4": "f", "f8": "d"}[letter]
        return struct.pack(f"{order or '<'}{len(self.elements)}{form}", *self.elements)


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)


def read_blocks(path, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", path.read_text(encoding="utf-8"),
                      flags=re.M | re.S)


def write_data(folder, write_idx, kinds):
    """Images of bytes, or of another kind of elements with the same values."""
    code, kind = kinds
    for split, count in SAMPLES.items():
        images = [(i * i * 7 + 3 * i) % 101 for i in range(count * SIZES["pixel"])]
        labels = [sum(images[i * 6:i * 6 + 6]) % SIZES["class"] for i in range(count)]
        # Sizes of their own, of as many elements.
        write_idx(folder / f"{split}-images-idx3-ubyte.gz", Array((count, 2, 3), images),
                  code, kind)
        write_idx(folder / f"{split}-labels-idx1-ubyte.gz", Array((count,), labels))


def write_npy(path, shape, elements):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
                     + bytes(elements))


def write_arrays(folder):
    """The test samples for `predict`; what the files are called in the README."""
    count, pixels = SAMPLES["t10k"], SIZES["pixel"]
    images = [(i * i * 7 + 3 * i) % 101 for i in range(count * pixels)]
    write_npy(folder / "images.npy", (count, pixels), images)
    write_npy(folder / "labels.npy", (count,), [i % SIZES["class"] for i in range(count)])
    write_npy(folder / "few.npy", (2, pixels), images[:2 * pixels])
    write_npy(folder / "names.npy", (2,), [0, 1])
    (folder / "clothes.txt").write_text("".join(f"{name}\n" for name in CLOTHES),
                                        encoding="utf-8")
    files = {"IMAGES": "images.npy", "LABELS": "labels.npy", "LOGITS": "logits.npy",
             "FEW": "few.npy", "NAMES": "names.npy", "CLOTHES": "clothes.txt"}
    return {word: folder / name for word, name in files.items()}


def to_pattern(line):
    """Of a line with its end, or of any lines."""
    if line == ANY_LINES:
        return r"(?:.*\n)*"
    pieces = re.split(f"({TIME}|{MEASURED})", line)
    measured = {number: TIME if re.fullmatch(TIME, piece) else r"[\d.]+(?:e[+-]\d+)?"
                for number, piece in enumerate(pieces) if number % 2}
    return "".join(measured.get(number, re.escape(piece))
                   for number, piece in enumerate(pieces)) + r"\n"


def replace(word, replaced):
    """The word, or what is behind its =, as the test has it, with what is below a folder."""
    name, equals, value = word.rpartition("=")
    start, slash, rest = value.partition("/")
    return f"{name}{equals}{replaced.get(start, start)}{slash}{rest}"


def check_console(block, replaced):
    """Runs each command of an executable; the lines it prints, standard error first."""
    at, lines = 0, block.rstrip("\n").split("\n")
    while at < len(lines):
        assert lines[at].startswith("$ "), lines[at]
        command = lines[at][2:].split()
        end = at + 1
        while end < len(lines) and not lines[end].startswith("$ "):
            end += 1
        shown = lines[at + 1:end]
        at = end
        if command[0] not in ("FILE", "head"):
            continue
        done = run(*(replace(word, replaced) for word in command))
        text = done.stderr + done.stdout
        for name in PRINTED:
            text = text.replace(str(replaced[name]), name)
        pattern = "".join(to_pattern(line) for line in shown)
        assert re.fullmatch(pattern, text), (command, shown, text)
        assert (done.returncode != 0) == any("error[" in line for line in shown), done


def check_options(root, meshc, folder):
    """Executables list what their target and gradients bring along."""
    programs = []
    for name, target in (("cpu", ["cpu"]), ("cuda", ["cuda", "--gpu", "sm_90"])):
        programs.append(folder / name)
        done = run(meshc, "compile", root / "samples/mlp.mesh", "-o", programs[-1],
                   "--grad", "w1", "--target", *target)
        assert done.returncode == 0, done.stderr
    problems = list(options.check(root, meshc, programs))
    if problems:
        sys.exit("\n".join(problems))


def main():
    meshc, root = sys.argv[1], pathlib.Path(sys.argv[2])
    readme = root / "runtime/samples/README.md"
    lines, = read_blocks(readme, "python")
    scope = {}
    exec(lines, scope)  # pylint: disable=exec-used
    kinds = re.findall(r'`(0x\w\w), "(>?\w+)"`', readme.read_text(encoding="utf-8"))
    assert len(kinds) == 6, kinds
    with tempfile.TemporaryDirectory(prefix="meshc-") as name:
        folder = pathlib.Path(name)
        app = folder / "app"
        results = set()
        # An input of floats takes all of them, one of bytes those that are integers.
        spec = (root / "samples/mlp.mesh").read_text(encoding="utf-8")
        for element in ("f32", "u8"):
            (folder / "mlp.mesh").write_text(spec.replace("image: u8[", f"image: {element}["),
                                             encoding="utf-8")
            done = run(meshc, "compile", folder / "mlp.mesh", "-o", app,
                       *(f"-D{dim}={size}" for dim, size in SIZES.items()))
            assert done.returncode == 0, done.stderr
            for code, kind in kinds:
                write_data(folder, scope["write_idx"], (int(code, 16), kind))
                done = run(app, "train", "--data-dir", folder, "--epochs", "3")
                if element == "u8" and "f" in kind:
                    assert done.returncode == 1 and "floating-point" in done.stderr, done.stderr
                    continue
                assert done.returncode == 0, done.stderr
                results.add(done.stdout)
        assert len(results) == 1, results
        write_data(folder, scope["write_idx"], (0x08, "u1"))
        files = write_arrays(folder)
        replaced = {"FILE": app, "DIR": folder, "METRICS": folder / "metrics",
                    "TRACE": folder / "trace", "SAVED": folder / "saved",
                    "TESTED": folder / "tested", "EXPORTED": folder / "exported", **files}
        # Others show what is done with the checkpoints of a training.
        pages = sorted((root / options.FOLDER).glob("*.md"), key=lambda page: page.stem != "train")
        for page in pages:
            for block in read_blocks(page, "console"):
                check_console(block, replaced)
        check_options(root, meshc, folder)


main()

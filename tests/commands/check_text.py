"""samples/text.sh makes the files, trains, evaluates and continues a prompt; what it
continues with is, character by character, what the logits of `predict --out` say, on any
mesh."""

import pathlib
import re
import struct
import subprocess
import sys

PROMPT = "And God said"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout, done.stderr


def write_npy(path, rows):
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header = header.ljust(117) + "\n"
    body = b"".join(struct.pack(f"<{len(row)}i", *row) for row in rows)
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", 118) + header.encode() + body)


def read_floats(path):
    data = path.read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def best_behind(writer, saved, folder, text, alphabet, positions):
    """The character with the largest logit behind a text, by `predict --out`."""
    ids = [alphabet.index(character) for character in text[-positions:]]
    window = ids + [0] * (positions + 1 - len(ids))
    write_npy(folder / "text.npy", [window])
    run(writer, "predict", "--from", saved, "--in", f"text={folder / 'text.npy'}",
        "--out", f"logits={folder / 'logits.npy'}")
    logits = read_floats(folder / "logits.npy")
    width = len(logits) // positions
    row = logits[(len(ids) - 1) * width:(len(ids) - 1) * width + len(alphabet)]
    return alphabet[row.index(max(row))]


def main():
    meshc, root = sys.argv[1], pathlib.Path(sys.argv[2])
    out, err = run(root / "samples/text.sh", "--steps", "60", cwd="/")
    # A training that learns nothing is at 6 bits, one that knows how often characters
    # are at 4.34.
    bits, = map(float, re.findall(r"^test bits (\d+\.\d+)$", out, re.M))
    assert 2 < bits < 4.3, (bits, out)
    assert "evaluated" in out and re.search(r"step 60/60", out + err), out + err
    written = out.rstrip("\n")[out.rindex(PROMPT):]
    assert len(written) == len(PROMPT) + 200, written

    folder = root / "build/text"
    saved = root / "build/text.saved"
    alphabet = sorted(set((folder / "train.txt").read_text(encoding="utf-8")))
    writer = root / "build/writer-of-one"
    positions = 128
    # In the window, at its end, and behind it.
    for place in (len(PROMPT), positions - 1, positions, positions + 1, len(written) - 1):
        best = best_behind(writer, saved, folder, written[:place], alphabet, positions)
        assert best == written[place], (place, best, written[place])
    flags = ("--prompt", PROMPT, "--count", "40", "--from", saved, "--data-dir", folder)
    for mesh, layout in (("a=3", "batch=a"), ("a=2,b=2", "heads=a,d_ff=b,char=b")):
        run(meshc, "compile", root / "samples/text.mesh", "-D", "batch=2", "--mesh", mesh,
            "--layout", layout, "-o", folder / "split")
        out, _ = run(folder / "split", "predict", *flags)
        assert out == written[:len(PROMPT) + 40] + "\n", (mesh, out, written)

    # What is refused.
    def refuse(code, *words):
        done = subprocess.run([str(writer), "predict", "--from", str(saved), *map(str, words)],
                              capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr

    assert "character 3 is U+00E9" in refuse(1, "--prompt", "caf\u00e9", "--data-dir", folder)
    assert "--count" in refuse(2, "--count", "3", "--data-dir", folder)
    assert "the text is empty" in refuse(2, "--prompt", "", "--data-dir", folder)
    assert "'bits' is no output" in refuse(1, "--prompt", "A", "--of", "bits", "--data-dir", folder)
    assert "cannot read" in refuse(1, "--prompt", "A", "--data-dir", "/nowhere")


main()

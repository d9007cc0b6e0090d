"""samples/quickstart.sh shows the plan, trains, evaluates and predicts from what it has
saved, and writes the plan."""

import base64
import gzip
import json
import pathlib
import re
import subprocess
import sys
import zlib

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")


def check_predictions(text, root):
    """Of each of ten test images the label of the data and two classes, the better one first."""
    names = (root / "samples/clothes.txt").read_text(encoding="utf-8").splitlines()
    with gzip.open(IMAGES / "t10k-labels-idx1-ubyte.gz") as file:
        labels = [names[label] for label in file.read()[8:18]]
    name = "|".join(map(re.escape, names))
    rows = re.findall(rf"^ +(\d)  ({name}) +([12])  ({name}) +(-?[\d.e+-]+)$", text, re.M)
    assert len(rows) == 20, rows
    for number, (best, second) in enumerate(zip(rows[::2], rows[1::2])):
        assert best[:3] == (str(number), labels[number], "1"), best
        assert second[:3] == (str(number), labels[number], "2"), second
        assert best[3] != second[3] and float(best[4]) >= float(second[4]), (best, second)
    # Nothing learned would be right once in ten.
    assert sum(best[1] == best[3] for best in rows[::2]) >= 5, rows


def main():
    root = pathlib.Path(sys.argv[2])
    # From another folder, as a user may call it.
    done = subprocess.run([root / "samples/quickstart.sh", "--steps", "40"], cwd="/",
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    assert "mlp on data=2 x model=2: 4 devices" in text, text
    assert re.search(r"epoch 1/1 +step 40/40 +loss \d", text + done.stderr), text + done.stderr
    assert re.search(r"^saved \S+/step-00000040$", text + done.stderr, re.M), text + done.stderr
    # Ten classes: a network that learns nothing gets 10 %.
    accuracy, = re.findall(r"^test accuracy (\d+\.\d) %$", text, re.M)
    assert float(accuracy) > 50, accuracy
    check_predictions(text, root)
    written = re.fullmatch(r"the plan as a page: (.*)", text.rstrip("\n").split("\n")[-1])
    assert written, text
    page = pathlib.Path(written[1]).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>"), page[:80]
    packed = re.search(r'id="plan">([^<]*)<', page)[1]
    plans = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert [plan["model"] for plan in plans] == ["mlp"], plans


main()

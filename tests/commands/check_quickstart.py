"""samples/quickstart.sh shows the plan, trains, evaluates and writes the plan."""

import base64
import json
import pathlib
import re
import subprocess
import sys
import zlib


def main():
    root = pathlib.Path(sys.argv[2])
    # From another folder, as a user may call it.
    done = subprocess.run([root / "samples/quickstart.sh", "--steps", "40"], cwd="/",
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    assert "mlp on data=2 x model=2: 4 devices" in text, text
    assert re.search(r"epoch 1/1 +step 40/40 +loss \d", text + done.stderr), text + done.stderr
    last = text.rstrip("\n").split("\n")[-4:]
    accuracy = [re.fullmatch(r"test accuracy (\d+\.\d) %", line) for line in last]
    assert any(accuracy), last
    # Ten classes: a network that learns nothing gets 10 %.
    assert float(next(found for found in accuracy if found)[1]) > 50, last
    written = re.fullmatch(r"the plan as a page: (.*)", last[-1])
    assert written, last
    page = pathlib.Path(written[1]).read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>"), page[:80]
    packed = re.search(r'id="plan">([^<]*)<', page)[1]
    plans = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert [plan["model"] for plan in plans] == ["mlp"], plans


main()

"""samples/quickstart.sh shows the plan, trains, evaluates and writes the plan."""

import json
import pathlib
import re
import subprocess
import sys


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
    written = re.fullmatch(r"plan written to (.*)", last[-1])
    assert written, last
    with open(written[1], encoding="utf-8") as file:
        assert json.load(file)["schema"] == "meshc.plan/2"


main()

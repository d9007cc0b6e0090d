"""What bench/cliffs.py measures: check_cliffs.py MESHC REPOSITORY.

Every program of bench/cliffs/ is one of a pair and compiles; a pair that is measured has
figures that fit each other. How long they take says nothing here.
"""

import pathlib
import subprocess
import sys

MESHC, ROOT = sys.argv[1:]
BENCH = pathlib.Path(ROOT) / "bench"
sys.path.insert(0, str(BENCH))

import cliffs  # noqa: E402, found by the path above

used = {spec for pair in cliffs.PAIRS for spec in (pair.spec, pair.twin)}
there = set(cliffs.FOLDER.glob("*.mesh"))
assert used == there, used ^ there
for pair in cliffs.PAIRS:
    for spec, defines in ((pair.spec, ()), (pair.twin, pair.defines)):
        options = [part for define in defines for part in ("-D", define)]
        subprocess.run([MESHC, "check", spec, *options], check=True, capture_output=True)

figures = cliffs.compare(MESHC, next(pair for pair in cliffs.PAIRS if pair.name == "relative"),
                         rounds=1, steps=1)
assert figures["ms"] > 0 and figures["twin_ms"] > 0, figures
assert abs(figures["ratio"] * figures["twin_ms"] / figures["ms"] - 1) < 1e-9, figures
# A bias of 8 x 511 elements and one of 8 x 256 x 256.
assert figures["mib"] > 0 and figures["twin_mib"] > 8 * 256 * 256 * 4 / 2 ** 20, figures

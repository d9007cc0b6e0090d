"""Predictions beside published steps, one row of each source:
check_published.py MESHC REPOSITORY.

Every source has a row whose predicted step is a positive number, and the errors that
are printed are those of the numbers beside them.
"""

import math
import pathlib
import re
import subprocess
import sys

MESHC, ROOT = sys.argv[1:]
BENCH = pathlib.Path(ROOT) / "bench"
sys.path.insert(0, str(BENCH))

import published_rows  # noqa: E402, found by the path above

COLUMNS = ["GPUs", "published ms", "predicted ms", "error"]


def read_rows(section):
    """The cells behind the first one of a section's table."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")][1:]
             for line in section.splitlines() if line.startswith("|")]
    header, rule, *rows = lines or [[], []]
    assert header[:len(COLUMNS)] == COLUMNS, header
    assert set("".join(rule)) == {"-"}, rule
    return rows


def get_rounding(shown):
    """By how much a shown number may differ from what it was."""
    return 0.5 * 10 ** -len(shown.partition(".")[2])


def check_row(source, row):
    devices, published, predicted, error = row[:len(COLUMNS)]
    ratio = float(predicted) / float(published)
    assert int(devices) >= 1, (source, row)
    assert math.isfinite(ratio) and ratio > 0, (source, row)
    shown = float(re.fullmatch(r"([+-]\d+\.\d) %", error)[1])
    allowed = get_rounding("0.1") + 100 * ratio * (
        get_rounding(predicted) / float(predicted) + get_rounding(published) / float(published))
    difference = abs(shown - 100 * (ratio - 1))
    assert difference <= allowed, f"{source}: {row} says {error}, but {100 * (ratio - 1):+.2f} %"


def main():
    done = subprocess.run([sys.executable, "-B", BENCH / "published.py", "--quick",
                           "--meshc", MESHC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _, *sections = re.split(r"^## ", done.stdout, flags=re.M)
    found = {section.partition("\n")[0]: section for section in sections}
    for source in published_rows.SOURCES:
        rows = read_rows(found[source.name])
        assert len(rows) == 1, f"{source.name}: {rows}"
        check_row(source.name, rows[0])
    for what, _ in published_rows.LEFT_OUT:
        assert what in found["Left out"], what


main()

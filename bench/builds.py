"""Two builds of meshc: the rows of cases.py and of cliffs.py with each, in turns.

`builds.py OTHER` compares with the repository OTHER, for example a clone of an older commit,
which has its build in OTHER/build: a change makes no row slower than `--limit` allows. Each
compiles the spec of its own repository, as the language was; a spec that one of them lacks
is named, and any other failure ends the measurement. The figure is the median of the ratios
of the rounds. Rows of one device take one thread, those of several --threads in all.
"""

import argparse
import pathlib
import statistics
import sys

from cases import PROGRAMS
from cliffs import PAIRS
from compare import ROOT, read_processor, run_json, spec_arguments


def get_rows():
    """Name, spec and its options, whether it is of one device, steps of a round."""
    for program in PROGRAMS:
        for layout in program.layouts:
            is_one = layout.name == "one device"
            yield (f"{program.name} {layout.name}",
                   spec_arguments(program.spec, program, layout), is_one, program.steps)
    for pair in PAIRS:
        yield pair.name, [pair.spec.relative_to(ROOT)], True, 10
        defines = [part for define in pair.defines for part in ("-D", define)]
        yield (" ".join((pair.twin.stem, *pair.defines)),
               [pair.twin.relative_to(ROOT), *defines], True, 10)


def measure(root, arguments, steps, threads):
    """Milliseconds of a step."""
    return run_json([root / "build" / "bin" / "meshc", "run", *arguments, "--bench", steps,
                     "--threads", threads], root)["step_ms_median"]


def compare(roots, arguments, steps, threads, rounds):
    """Median milliseconds of a step with each, and the median ratio."""
    for root in roots:
        measure(root, arguments, 1, threads)  # compiles it
    times = [[], []]
    for turn in range(rounds):
        for i in (0, 1) if turn % 2 else (1, 0):
            times[i].append(measure(roots[i], arguments, steps, threads))
    return (*map(statistics.median, times),
            statistics.median(new / old for old, new in zip(*times)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=pathlib.Path, help="the other repository")
    parser.add_argument("--this", type=pathlib.Path, default=ROOT, help="instead of this one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="of several devices")
    parser.add_argument("--limit", type=float, default=1.03,
                        help="times as long as the other's that a row may take")
    parser.add_argument("--row", action="append", help="rows whose name begins so, alone")
    options = parser.parse_args()
    rows = [row for row in get_rows()
            if not options.row or row[0].startswith(tuple(options.row))]
    if not rows:
        parser.error(f"--row: no name begins with {' or '.join(options.row)}")
    roots = [options.other.resolve(), options.this.resolve()]
    print(f"{read_processor()}, medians of {options.rounds} rounds\n\n"
          "| row | other ms | this ms | this / other |\n|---|---|---|---|")
    slower = []
    for name, arguments, is_one, steps in rows:
        lacking = [str(root) for root in roots if not (root / arguments[0]).is_file()]
        if lacking:
            print(f"| {name} | not in {', '.join(lacking)} | | |", flush=True)
            continue
        old, new, ratio = compare(roots, arguments, steps, 1 if is_one else options.threads,
                                  options.rounds)
        slower += [name] * (ratio > options.limit)
        mark = "**" if ratio > options.limit else ""
        print(f"| {name} | {old:.2f} | {new:.2f} | {mark}{ratio:.3f}{mark} |", flush=True)
    sys.exit(f"slower than {options.limit}: {', '.join(slower)}" if slower else 0)


if __name__ == "__main__":
    main()

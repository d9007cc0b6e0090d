"""Short forms beside the same mathematics written out: bench/cliffs/.

Each program is measured in turns with its twin, on one thread; the figure is how
many times as long its step takes, and the goal how many it may.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "cliffs"
MESHC = FOLDER.parent.parent / "build" / "bin" / "meshc"


@dataclasses.dataclass(frozen=True)
class Pair:
    name: str  # of the spec; NAME_twin is the twin unless `defines` make one
    goal: float  # the program's time divided by the twin's, at most
    what: str
    defines: tuple = ()  # of the twin, which is the same spec then

    @property
    def spec(self):
        return FOLDER / f"{self.name}.mesh"

    @property
    def twin(self):
        return self.spec if self.defines else FOLDER / f"{self.name}_twin.mesh"


PAIRS = [
    Pair("lookup", 2, "gradient of a lookup; the whole table used once"),
    Pair("tables", 2, "gradients of lookups in 26 tables; the whole tables used once"),
    Pair("merged", 1.05, "heads split and merged by position; named dims"),
    Pair("windowed", 1, "attention over 32 positions; over all 256"),
    Pair("batch_last", 1.5, "a batch dimension last; in front of what is contracted"),
    Pair("large_scores", 1.2, "softmax of scores of +-200; of +-4", ("scale=1",)),
    Pair("relative", 1.2, "a bias by distance; a bias for each pair"),
    Pair("patchify", 1.2, "patches as a convolution; as a matmul"),
    Pair("depthwise", 3, "depthwise convolution of 3 x 3; a product for each element"),
    Pair("small_images", 1.2, "convolution of 4 x 4 images; a matmul of as many operations"),
    Pair("long_attention", 1.15, "4,096 positions; as many operations at 256",
         ("batch=256", "pos=256")),
]


def compile_spec(meshc, spec, defines, output):
    options = [part for define in defines for part in ("-D", define)]
    subprocess.run([meshc, "compile", spec, *options, "-o", output], check=True,
                   capture_output=True, text=True)
    return output


def measure(executable, steps):
    """Milliseconds of a step and bytes of a device."""
    ran = subprocess.run([executable, "bench", "--steps", str(steps), "--threads", "1"],
                         check=True, capture_output=True, text=True)
    figures = json.loads(ran.stdout)
    return figures["step_ms_median"], figures["peak_bytes_per_device"]


def compare(meshc, pair, rounds, steps):
    """The pair's figures: milliseconds of both, their ratio, MiB of both."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [compile_spec(meshc, pair.spec, (), f"{folder}/program"),
                 compile_spec(meshc, pair.twin, pair.defines, f"{folder}/twin")]
        times = [[], []]
        for _ in range(rounds):
            for side, executable in enumerate(sides):
                ms, peak = measure(executable, steps)
                times[side].append((ms, peak))
    own, twin = (statistics.median(ms for ms, _ in side) for side in times)
    ratios = [mine[0] / other[0] for mine, other in zip(*times)]
    return {"name": pair.name, "ms": own, "twin_ms": twin,
            "ratio": statistics.median(ratios), "goal": pair.goal,
            "mib": times[0][0][1] / 2 ** 20, "twin_mib": times[1][0][1] / 2 ** 20,
            "what": pair.what}


def print_row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", action="append", choices=[pair.name for pair in PAIRS],
                        help="these alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--meshc", default=MESHC, type=pathlib.Path)
    options = parser.parse_args()
    print_row("program; its twin", "ms", "twin ms", "times as long", "goal", "MiB", "twin MiB")
    print_row(*["---"] * 7)
    for pair in PAIRS:
        if options.pair and pair.name not in options.pair:
            continue
        try:
            figures = compare(options.meshc, pair, options.rounds, options.steps)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{pair.name}: {' '.join(map(str, error.cmd))}\n{error.stderr}")
        missed = figures["ratio"] > figures["goal"]
        ratio = f"{figures['ratio']:.2f}"
        print_row(figures["what"], f"{figures['ms']:.2f}", f"{figures['twin_ms']:.2f}",
                  f"**{ratio}**" if missed else ratio, figures["goal"],
                  f"{figures['mib']:.0f}", f"{figures['twin_mib']:.0f}")


if __name__ == "__main__":
    main()

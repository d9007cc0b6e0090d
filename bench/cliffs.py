"""Short forms beside the same mathematics written out: bench/cliffs/.

Each program is measured in turns with its twin, on one thread; the figure is how
many times as long its step takes, and the goal how many it may.
"""

import argparse
import dataclasses
import datetime
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare import JaxWorker, read_processor

FOLDER = pathlib.Path(__file__).resolve().parent / "cliffs"
JAX_CLIFFS = FOLDER.parent / "jax_cliffs.py"
MESHC = FOLDER.parent.parent / "build" / "bin" / "meshc"


@dataclasses.dataclass(frozen=True)
class Pair:
    name: str  # of the spec; NAME_twin is the twin unless `defines` make one
    goal: float  # the program's time divided by the twin's, at most
    what: str
    defines: tuple = ()  # of the twin, which is the same spec then
    jax: tuple = ()  # forms in jax_cliffs.py

    @property
    def spec(self):
        return FOLDER / f"{self.name}.mesh"

    @property
    def twin(self):
        return self.spec if self.defines else FOLDER / f"{self.name}_twin.mesh"


PAIRS = [
    Pair("lookup", 2, "gradient of a lookup; the whole table used once",
         jax=("index", "take")),
    Pair("tables", 2, "gradients of lookups in 26 tables; the whole tables used once"),
    Pair("merged", 1.05, "heads split and merged by position; named dims"),
    Pair("windowed", 1, "attention over 32 positions; over all 256",
         jax=("masked", "library", "gathered")),
    Pair("batch_last", 1.5, "a batch dimension last; in front of what is contracted"),
    Pair("large_scores", 1.2, "softmax of scores of +-200; of +-4", ("scale=1",)),
    Pair("relative", 1.2, "a bias by distance; a bias for each pair"),
    Pair("patchify", 1.2, "patches as a convolution; as a matmul",
         jax=("convolution", "matmul")),
    Pair("depthwise", 3, "depthwise convolution of 3 x 3; a product for each element",
         jax=("convolution", "shifts")),
    Pair("small_images", 1.2, "convolution of 4 x 4 images; a matmul of as many operations"),
    Pair("long_attention", 1.15, "4,096 positions; as many operations at 256",
         ("batch=256", "pos=256"), ("masked", "library")),
    Pair("dropout", 1.15, "dropout behind a feed-forward; the same without", ("rate=0",)),
]


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What kernels and oneDNN use of the processor."""
    options: tuple = ()  # of the compiler
    variables: tuple = ()  # of the program's environment


WIDEST = Vectors()
AVX2 = Vectors(("--cpu", "x86-64-v3"), (("ONEDNN_MAX_CPU_ISA", "AVX2"),))


def compile_spec(meshc, spec, defines, vectors, output):
    options = [part for define in defines for part in ("-D", define)]
    subprocess.run([meshc, "compile", spec, *options, *vectors.options, "-o", output],
                   check=True, capture_output=True, text=True)
    return output


def measure(executable, steps, vectors):
    """Milliseconds of a step and bytes of a device."""
    ran = subprocess.run([executable, "bench", "--steps", str(steps), "--threads", "1"],
                         env=os.environ | dict(vectors.variables), check=True,
                         capture_output=True, text=True)
    figures = json.loads(ran.stdout)
    return figures["step_ms_median"], figures["peak_bytes_per_device"]


def start_jax(meshc, pair):
    """A process for each of the pair's forms, which ends if it is other mathematics."""
    subprocess.run([sys.executable, "-B", JAX_CLIFFS, meshc, pair.name], check=True,
                   capture_output=True, text=True)
    plan = subprocess.run([meshc, "plan", pair.spec, "--emit", "json"], check=True,
                          capture_output=True, text=True).stdout
    dims = json.dumps({dim["name"]: dim["size"] for dim in json.loads(plan)["dims"]})
    return {form: JaxWorker(pair.name, form, dims) for form in pair.jax}


def compare(meshc, pair, rounds, steps, with_jax=False, vectors=WIDEST):
    """The pair's figures: milliseconds of both, their ratio, MiB of both; JAX's."""
    workers = start_jax(meshc, pair) if with_jax else {}
    with tempfile.TemporaryDirectory() as folder:
        sides = [compile_spec(meshc, pair.spec, (), vectors, f"{folder}/program"),
                 compile_spec(meshc, pair.twin, pair.defines, vectors, f"{folder}/twin")]
        times = [[], []]
        forms = {form: [] for form in workers}
        for _ in range(rounds):
            for side, executable in enumerate(sides):
                ms, peak = measure(executable, steps, vectors)
                times[side].append((ms, peak))
            for form, worker in workers.items():
                forms[form].append(worker.run(steps)["step_ms_median"])
    for worker in workers.values():
        worker.stop()
    own, twin = (statistics.median(ms for ms, _ in side) for side in times)
    ratios = [mine[0] / other[0] for mine, other in zip(*times)]
    figures = {"name": pair.name, "ms": own, "twin_ms": twin,
               "ratio": statistics.median(ratios), "goal": pair.goal,
               "mib": times[0][0][1] / 2 ** 20, "twin_mib": times[1][0][1] / 2 ** 20,
               "what": pair.what}
    if workers:
        figures["jax_forms_ms"] = {form: statistics.median(ms) for form, ms in forms.items()}
        fastest = min(figures["jax_forms_ms"], key=figures["jax_forms_ms"].get)
        figures["jax_ms"] = figures["jax_forms_ms"][fastest]
        figures["jax_ratio"] = statistics.median(
            ms / mine[0] for ms, mine in zip(forms[fastest], times[0]))
    return figures


HEADER = ["program; its twin", "ms", "twin ms", "times as long", "goal", "MiB", "twin MiB"]
JAX_HEADER = ["JAX ms", "JAX / meshc", "forms in JAX, ms"]


def get_cells(figures):
    ratio = f"{figures['ratio']:.2f}"
    missed = figures["ratio"] > figures["goal"]
    cells = [figures["what"], f"{figures['ms']:.2f}", f"{figures['twin_ms']:.2f}",
             f"**{ratio}**" if missed else ratio, figures["goal"],
             f"{figures['mib']:.0f}", f"{figures['twin_mib']:.0f}"]
    if "jax_ms" in figures:
        cells += [f"{figures['jax_ms']:.2f}", f"{figures['jax_ratio']:.2f}",
                  ", ".join(f"{form} {ms:.2f}" for form, ms in figures["jax_forms_ms"].items())]
    return cells


def print_row(lines, *cells):
    lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    print(lines[-1], flush=True)


def write_report(path, lines, options):
    beside = ""
    if options.jax:
        import jax  # of this Python, as in the processes that were measured
        beside = f" and JAX {jax.__version__}"
    vectors = ", AVX2 alone" if options.avx2 else ""
    path.write_text(f"""# Short forms beside their twins{beside}, {datetime.date.today().isoformat()}

{read_processor()}{vectors}, {os.cpu_count()} cores, one thread. Times are of one SGD step, medians of
{options.rounds} rounds measured in turns, of {options.steps} steps each; ratios are medians of those of the
rounds. Load of the host at the end: {', '.join(f'{load:.1f}' for load in os.getloadavg())}.

""" + "\n".join(lines) + "\n", encoding="utf-8")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", action="append", choices=[pair.name for pair in PAIRS],
                        help="these alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--avx2", action="store_true",
                        help="as on a processor that has no wider vectors")
    parser.add_argument("--jax", action="store_true",
                        help="those that JAX has, beside it: bench/cpu.sh --cliffs")
    parser.add_argument("--output", type=pathlib.Path, help="file for the report")
    parser.add_argument("--meshc", default=MESHC, type=pathlib.Path)
    options = parser.parse_args()
    if options.jax and options.avx2:
        parser.error("--avx2: JAX would take wider vectors")
    if options.jax and not importlib.util.find_spec("jax"):
        parser.error("--jax: this Python has no JAX; bench/cpu.sh --cliffs installs it")
    return options


def main():
    options = parse_arguments()
    header = HEADER + (JAX_HEADER if options.jax else [])
    lines = []
    print_row(lines, *header)
    print_row(lines, *["---"] * len(header))
    for pair in PAIRS:
        if options.pair and pair.name not in options.pair or options.jax and not pair.jax:
            continue
        try:
            figures = compare(options.meshc, pair, options.rounds, options.steps, options.jax,
                              AVX2 if options.avx2 else WIDEST)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{pair.name}: {' '.join(map(str, error.cmd))}\n{error.stderr}")
        print_row(lines, *get_cells(figures))
    if options.output:
        write_report(options.output, lines, options)


if __name__ == "__main__":
    main()

"""What bench/cliffs.py measures: check_cliffs.py MESHC REPOSITORY.

Every program of bench/cliffs/ is one of a pair and compiles; a pair that is measured has
figures that fit each other. How long they take says nothing here.

check_cliffs.py MESHC REPOSITORY jax: those that are measured beside JAX compute the same
loss and gradients there, in small sizes; skipped without JAX.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

MESHC, ROOT, *PART = sys.argv[1:]
BENCH = pathlib.Path(ROOT) / "bench"
sys.path.insert(0, str(BENCH))

import cliffs  # noqa: E402, found by the path above

SKIPPED = 77  # as CMakeLists.txt says

# Distinct and small, but for what the stride of 16 needs.
SMALL = {
    "lookup": ("tokens=11", "vocab=7", "d=5"),
    "windowed": ("batch=2", "pos=11", "heads=3", "d_head=5", "window=4"),
    "patchify": ("batch=2", "y=48", "x=32", "row=3", "col=2", "d_model=5"),
    "depthwise": ("batch=2", "y=5", "x=7", "channel=6"),
    "long_attention": ("batch=2", "pos=11", "heads=3", "d_head=5"),
}

QUICK = "--xla_backend_optimization_level=0"  # compiling is most of the time

# A window of one position more is another loss and another gradient, in every form.
CHECK = """
import sys, jax_cliffs
meshc, right = sys.argv[1], jax_cliffs.make_windowed
jax_cliffs.PROGRAMS["windowed"] = lambda dims: right({**dims, "window": dims["window"] + 1})
wrong = list(jax_cliffs.find_differences(meshc, "windowed", sys.argv[2].split(",")))
assert len(wrong) == 6, wrong
jax_cliffs.PROGRAMS["windowed"] = right
del sys.argv[2]
jax_cliffs.main()
"""


def check_pairs():
    used = {spec for pair in cliffs.PAIRS for spec in (pair.spec, pair.twin)}
    there = set(cliffs.FOLDER.glob("*.mesh"))
    assert used == there, used ^ there
    for pair in cliffs.PAIRS:
        for spec, defines in ((pair.spec, ()), (pair.twin, pair.defines)):
            options = [part for define in defines for part in ("-D", define)]
            subprocess.run([MESHC, "check", spec, *options], check=True, capture_output=True)

    relative = next(pair for pair in cliffs.PAIRS if pair.name == "relative")
    for vectors in (cliffs.WIDEST, cliffs.AVX2):
        figures = cliffs.compare(MESHC, relative, rounds=1, steps=1, vectors=vectors)
        assert figures["ms"] > 0 and figures["twin_ms"] > 0, figures
        assert abs(figures["ratio"] * figures["twin_ms"] / figures["ms"] - 1) < 1e-9, figures
    # A bias of 8 x 511 elements and one of 8 x 256 x 256.
    assert figures["mib"] > 0 and figures["twin_mib"] > 8 * 256 * 256 * 4 / 2 ** 20, figures


def find_python():
    """One that has JAX: this one, or that of bench/cpu.sh."""
    if importlib.util.find_spec("jax"):
        return sys.executable
    environment = BENCH.parent / "build" / "bench-environment"
    if (environment / "installed.txt").exists():
        return environment / "bin" / "python"
    print("skipped: JAX is not installed, see bench/cpu.sh")
    sys.exit(SKIPPED)


def check_jax():
    forms = {f"{pair.name}, {form}" for pair in cliffs.PAIRS for form in pair.jax}
    command = [find_python(), "-B", "-c", CHECK, MESHC, ",".join(SMALL["windowed"])]
    for name, defines in SMALL.items():
        command += [name, *(part for define in defines for part in ("-D", define))]
    environment = {**os.environ, "PYTHONPATH": str(BENCH), "XLA_FLAGS": QUICK}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    compared = {line.split(":")[0] for line in ran.stdout.splitlines()}
    assert compared == forms, compared ^ forms


if PART == ["jax"]:
    check_jax()
else:
    check_pairs()

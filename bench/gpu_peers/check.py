"""Compares the peers' decoder blocks with meshc on the CPU: check.py MESHC [PEER...].

Loss and all gradients at small sizes, with the same random parameters and inputs
(biases and gains too), in f32 and in bf16. A gradient may differ by TOLERANCE times its
norm. Numbers pass through about ten roundings in each of four blocks, forward and
backward, on either side: 160 independent errors of at most u (2^-8 in bf16, whose
roundings dominate; in f32 sums of up to 140 terms in any order) are sqrt(160) u.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SPEC = HERE.parent / "blocks_written_out.mesh"
SIZES = {"batch": 3, "pos": 7, "d_model": 20, "heads": 2, "d_head": 6, "d_ff": 28}
LAYERS = 4
PEERS = ["torch_block.py", "jax_block.py"]
TOLERANCE = {"f32": 160 ** 0.5 * 140 ** 0.5 * 2.0 ** -24, "bf16": 160 ** 0.5 * 2.0 ** -8}


def make_arrays():
    random = np.random.default_rng(1)
    size = SIZES
    shapes = {"attn/wo": (size["heads"], size["d_head"], size["d_model"]),
              "ff/w1": (size["d_model"], size["d_ff"]), "ff/w2": (size["d_ff"], size["d_model"]),
              "ff/b1": (size["d_ff"],), "ff/b2": (size["d_model"],)}
    for name in ("wq", "wk", "wv"):
        shapes[f"attn/{name}"] = (size["d_model"], size["heads"], size["d_head"])
    for name in ("norm1", "norm2"):
        shapes[f"{name}/gain"] = shapes[f"{name}/bias"] = (size["d_model"],)
    parameters = {}
    for layer in range(1, LAYERS + 1):
        for name, shape in shapes.items():
            parameters[f"b{layer}/{name}"] = \
                (random.standard_normal(shape) * 0.3).astype(np.float32)
    shape = (size["batch"], size["pos"], size["d_model"])
    inputs = {name: random.standard_normal(shape).astype(np.float32)
              for name in ("x", "target")}
    return parameters, inputs


def get_path(folder, name):
    return folder / f"{name.replace('/', '.')}.npy"


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def run_meshc(meshc, folder, precision, parameters, inputs):
    command = [meshc, "run", SPEC, "--eval", "--precision", precision, "--mesh", "data=1",
               "--layout", "", *(f"-D{name}={size}" for name, size in SIZES.items())]
    for name in inputs:
        command += ["--in", f"{name}={get_path(folder / 'in', name)}"]
    for name in parameters:
        command += ["--param", f"{name}={get_path(folder / 'in', name)}",
                    "--grad", f"{name}={get_path(folder / 'meshc', 'gradient.' + name)}"]
    run([*command, "--out", f"loss={folder / 'meshc' / 'loss.npy'}"])


def compare(folder, precision, peer, names):
    """What differs by more than it may."""
    ours, theirs = (np.load(folder / side / "loss.npy") for side in ("meshc", "out"))
    difference = abs(float(ours) - float(theirs)) / abs(float(ours))
    problems = []
    if not difference <= TOLERANCE[precision]:
        problems.append(f"{peer}, {precision}: loss {theirs}, meshc's {ours}")
    worst = 0
    for name in names:
        ours, theirs = (np.load(get_path(folder / side, "gradient." + name))
                        for side in ("meshc", "out"))
        if ours.shape != theirs.shape:
            problems.append(f"{peer}: {name} is {theirs.shape}, meshc's {ours.shape}")
            continue
        part = np.linalg.norm(ours - theirs) / np.linalg.norm(ours)
        worst = max(worst, part)
        if not part <= TOLERANCE[precision]:
            problems.append(f"{peer}, {precision}: gradient of {name} differs by {part:.2e}")
    print(f"{peer}, {precision}: loss differs by {difference:.1e}, gradients by at most "
          f"{worst:.1e} of their norm (allowed {TOLERANCE[precision]:.1e})")
    return problems


def main():
    meshc = pathlib.Path(sys.argv[1]).resolve()
    peers = sys.argv[2:] or PEERS
    parameters, inputs = make_arrays()
    problems = []
    for precision in ("f32", "bf16"):
        with tempfile.TemporaryDirectory(prefix="meshc-") as name:
            folder = pathlib.Path(name)
            for part in ("in", "meshc"):
                (folder / part).mkdir()
            for array, value in {**parameters, **inputs}.items():
                np.save(get_path(folder / "in", array), value)
            run_meshc(meshc, folder, precision, parameters, inputs)
            for peer in peers:
                run([sys.executable, "-B", HERE / peer, "--precision", precision,
                     "--device", "cpu", "--check", folder,
                     *(f"--{size}={value}" for size, value in SIZES.items())],
                    env={**os.environ, "OMP_NUM_THREADS": "2"})
                problems += compare(folder, precision, peer, parameters)
    if problems:
        sys.exit("\n".join(problems))


main()

"""Programs of bench/cliffs/ in JAX, and a check that they are the same mathematics.

    jax_cliffs.py MESHC NAME [-D DIM=SIZE]... [NAME [-D DIM=SIZE]...]...

Each has the forms that a user of JAX would write: which is the fastest on a CPU is
measured, not guessed. The check gives every form and the .mesh file the same arrays, and
compares losses and gradients of parameters.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from jax_models import Model, normal

FOLDER = pathlib.Path(__file__).resolve().parent / "cliffs"

# Of the loss, and of the gradient's difference by the gradient's norm. Sums of f32 in
# another order differ by some 1e-7 of their largest terms; a mask that is off by one
# position, or a stride, by more than 1e-2 in these sizes.
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4


def make_lookup(dims):
    """Values about 1: a mean about 0 would be all rounding."""
    rng = np.random.default_rng(0)
    params = {"table": 1 + normal(rng, (dims["vocab"], dims["d"]), 0.1)}
    inputs = {"token": rng.integers(0, dims["vocab"], dims["tokens"]).astype(np.int32),
              "weight": 1 + normal(rng, (dims["tokens"], dims["d"]))}

    def index(params, token, weight):
        return jnp.mean(params["table"][token] * weight)

    def take(params, token, weight):
        return jnp.mean(jnp.take(params["table"], token, axis=0) * weight)

    return params, inputs, {"index": index, "take": take}


def attend(params, q, k, v, seen):
    keys = k * params["gain"]
    scores = jnp.einsum("bhpe,bhke->bhpk", q, keys) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    read = jnp.einsum("bhpk,bhke->bhpe", weights, v)
    return jnp.mean(read * read)


def attend_by_library(params, q, k, v, **options):
    """JAX's own function, which wants heads behind positions."""
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k * params["gain"], v))
    read = jax.nn.dot_product_attention(q, k, v, is_causal=True, **options)
    return jnp.mean(read * read)


def make_attention_arrays(dims):
    rng = np.random.default_rng(0)
    shape = tuple(dims[name] for name in ("batch", "heads", "pos", "d_head"))
    return ({"gain": 1 + normal(rng, shape[-1:], 0.1)},
            {name: normal(rng, shape) for name in ("q", "k", "v")})


def make_windowed(dims):
    params, inputs = make_attention_arrays(dims)
    positions, window = np.arange(dims["pos"]), dims["window"]

    def masked(params, q, k, v):
        back = positions[:, None] - positions
        return attend(params, q, k, v, (back >= 0) & (back < window))

    def library(params, q, k, v):
        return attend_by_library(params, q, k, v, local_window_size=(window - 1, 0))

    def gathered(params, q, k, v):
        places = positions[:, None] - np.arange(window)
        keys, values = (x[:, :, np.maximum(places, 0)] for x in (k * params["gain"], v))
        scores = jnp.einsum("bhpe,bhpwe->bhpw", q, keys) * q.shape[-1] ** -0.5
        weights = jax.nn.softmax(jnp.where(places >= 0, scores, -jnp.inf), axis=-1)
        read = jnp.einsum("bhpw,bhpwe->bhpe", weights, values)
        return jnp.mean(read * read)

    return params, inputs, {"masked": masked, "library": library, "gathered": gathered}


def make_long_attention(dims):
    params, inputs = make_attention_arrays(dims)

    def masked(params, q, k, v):
        return attend(params, q, k, v, jnp.tril(jnp.ones((q.shape[2],) * 2, bool)))

    return params, inputs, {"masked": masked, "library": attend_by_library}


def convolve(x, weight, **options):
    return jax.lax.conv_general_dilated(
        x, weight, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


def make_depthwise(dims):
    rng = np.random.default_rng(0)
    dy, dx, channels = (dims[name] for name in ("dy", "dx", "channel"))
    params = {"weight": normal(rng, (dy, dx, channels), 0.3)}
    inputs = {"image": normal(rng, (dims["batch"], dims["y"], dims["x"], channels))}

    def convolution(params, image):
        h = convolve(image, params["weight"][:, :, None], window_strides=(1, 1),
                     padding=((1, dy - 2), (1, dx - 2)), feature_group_count=channels)
        return jnp.mean(h * h)

    def shifts(params, image):
        height, width = image.shape[1:3]
        wide = jnp.pad(image, ((0, 0), (1, dy - 2), (1, dx - 2), (0, 0)))
        h = sum(wide[:, row:row + height, col:col + width] * params["weight"][row, col]
                for row in range(dy) for col in range(dx))
        return jnp.mean(h * h)

    return params, inputs, {"convolution": convolution, "shifts": shifts}


def make_patchify(dims):
    rng = np.random.default_rng(0)
    dy, dx, colors = (dims[name] for name in ("dy", "dx", "color"))
    params = {"weight": normal(rng, (dy, dx, colors, dims["d_model"]), 0.03)}
    inputs = {"image": normal(rng, (dims["batch"], dims["y"], dims["x"], colors))}

    def convolution(params, image):
        # The spec's stride is written in its index, where no dim can stand.
        h = convolve(image, params["weight"], window_strides=(16, 16), padding="VALID")
        return jnp.mean(h * h)

    def matmul(params, image):
        patches = image.reshape(image.shape[0], dims["row"], dy, dims["col"], dx, colors)
        h = jnp.einsum("brycxo,yxom->brcm", patches, params["weight"])
        return jnp.mean(h * h)

    return params, inputs, {"convolution": convolution, "matmul": matmul}


PROGRAMS = {"lookup": make_lookup, "windowed": make_windowed,
            "long_attention": make_long_attention, "depthwise": make_depthwise,
            "patchify": make_patchify}


def make(name, form, dims):
    """A form of a program as bench/jax_worker.py runs it, whole on one device."""
    params, inputs, losses = PROGRAMS[name](dims)
    return Model({key: (array, P()) for key, array in params.items()},
                 {key: (array, P()) for key, array in inputs.items()}, losses[form], 0.1)


def run_meshc(meshc, options, params, inputs, folder):
    """The loss and the gradients of the parameters that a .mesh file gives."""
    def path(kind, name):
        return f"{folder}/{kind}-{name}.npy"

    command = [meshc, "run", *options, "--eval", "--threads", "1",
               "--out", f"loss={path('out', 'loss')}"]
    for flag, arrays in (("--param", params), ("--in", inputs)):
        for name, array in arrays.items():
            np.save(path("given", name), array)
            command += [flag, f"{name}={path('given', name)}"]
    for name in params:
        command += ["--grad", f"{name}={path('grad', name)}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return np.load(path("out", "loss")), {name: np.load(path("grad", name)) for name in params}


def find_differences(meshc, name, defines):
    """What JAX computes otherwise than meshc, as text; prints what it compares."""
    options = [FOLDER / f"{name}.mesh", *(part for define in defines for part in ("-D", define))]
    plan = subprocess.run([meshc, "plan", *options, "--emit", "json"], check=True,
                          capture_output=True, text=True).stdout
    dims = {dim["name"]: dim["size"] for dim in json.loads(plan)["dims"]}
    params, inputs, losses = PROGRAMS[name](dims)
    with tempfile.TemporaryDirectory() as folder:
        loss, gradients = run_meshc(meshc, options, params, inputs, folder)
    for form, function in losses.items():
        found, slopes = jax.jit(jax.value_and_grad(function))(params, **inputs)
        print(f"{name}, {form}: a loss of {found}, meshc {loss}")
        if not abs(float(found) / float(loss) - 1) <= LOSS_TOLERANCE:
            yield f"{name}, {form}: a loss of {found}, meshc {loss}"
        for param, gradient in gradients.items():
            error = np.linalg.norm(slopes[param] - gradient) / np.linalg.norm(gradient)
            if not error <= GRADIENT_TOLERANCE:
                yield f"{name}, {form}: the gradient of {param} is off by {error:.1e} of its norm"


def main():
    meshc, *words = sys.argv[1:]
    jax.config.update("jax_platforms", "cpu")
    cases = []
    for flag, word in zip(["", *words], words):
        if flag == "-D":
            cases[-1][1].append(word)
        elif word != "-D":
            cases.append((word, []))
    try:
        problems = [line for name, defines in cases
                    for line in find_differences(meshc, name, defines)]
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd))}\n{error.stderr}")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()

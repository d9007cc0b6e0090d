"""The measured programs in JAX: the same mathematics as their .mesh files.

Each gives its parameters, its inputs, how both lie on the mesh and the loss.
The sizes are those of the .mesh files, unless others are given.
"""

import dataclasses
import functools
import math
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass
class Model:
    params: dict  # name -> (array, PartitionSpec)
    inputs: dict
    loss: Callable
    learning_rate: float


def normal(rng, shape, stddev=1.0):
    return (rng.standard_normal(shape) * stddev).astype(np.float32)


def make_mlp():
    batch, pixel, hidden1, hidden2, classes = 512, 784, 4096, 4096, 10
    rng = np.random.default_rng(0)
    params = {
        "w1": (normal(rng, (pixel, hidden1), 0.02), P(None, "model")),
        "b1": (np.zeros(hidden1, np.float32), P("model")),
        "w2": (normal(rng, (hidden1, hidden2), 0.02), P("model", None)),
        "b2": (np.zeros(hidden2, np.float32), P()),
        "w3": (normal(rng, (hidden2, classes), 0.02), P()),
        "b3": (np.zeros(classes, np.float32), P()),
    }
    inputs = {
        "image": (normal(rng, (batch, pixel)), P("data", None)),
        "label": (rng.integers(0, classes, batch).astype(np.int32), P("data")),
    }

    def loss(params, image, label):
        h1 = jax.nn.relu(image @ params["w1"] + params["b1"])
        h2 = jax.nn.relu(h1 @ params["w2"] + params["b2"])
        logits = h2 @ params["w3"] + params["b3"]
        total = jax.nn.logsumexp(logits, axis=-1)
        picked = jnp.take_along_axis(logits, label[:, None], axis=-1)[:, 0]
        return jnp.mean(total - picked)

    return Model(params, inputs, loss, 0.01)


def layer_norm(x, gain, bias):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + 1e-5)).astype(x.dtype) * gain + bias


def attention(p, x, d_head):
    q = jnp.einsum("bpm,mhe->bhpe", x, p["wq"])
    k = jnp.einsum("bkm,mhe->bhke", x, p["wk"])
    v = jnp.einsum("bkm,mhe->bhke", x, p["wv"])
    scores = jnp.einsum("bhpe,bhke->bhpk", q, k) * d_head ** -0.5
    pos = x.shape[1]
    seen = jnp.where(jnp.tril(jnp.ones((pos, pos), bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(seen.astype(jnp.float32), axis=-1).astype(x.dtype)
    read = jnp.einsum("bhpk,bhke->bhpe", weights, v)
    return jnp.einsum("bhpe,hem->bpm", read, p["wo"])


def feed_forward(p, x):
    h = jax.nn.gelu(x @ p["w1"] + p["b1"], approximate=False)
    return h @ p["w2"] + p["b2"]


def make_blocks(batch=16, pos=128, d_model=512, heads=8, d_head=64, d_ff=2048,
                dtype=jnp.float32):
    """The decoder blocks; parameters are f32, `dtype` is what they compute in."""
    layers = 4
    rng = np.random.default_rng(0)
    params = {}
    for layer in range(layers):
        scope = f"b{layer + 1}/"
        stddev = 1 / math.sqrt(d_model)
        for name in ("wq", "wk", "wv"):
            params[scope + name] = (normal(rng, (d_model, heads, d_head), stddev),
                                    P(None, "model", None))
        params[scope + "wo"] = (normal(rng, (heads, d_head, d_model), stddev),
                                P("model", None, None))
        for norm in ("norm1", "norm2"):
            params[f"{scope}{norm}/gain"] = (np.ones(d_model, np.float32), P())
            params[f"{scope}{norm}/bias"] = (np.zeros(d_model, np.float32), P())
        params[scope + "w1"] = (normal(rng, (d_model, d_ff), stddev), P(None, "model"))
        params[scope + "b1"] = (np.zeros(d_ff, np.float32), P("model"))
        params[scope + "w2"] = (normal(rng, (d_ff, d_model), 1 / math.sqrt(d_ff)),
                                P("model", None))
        params[scope + "b2"] = (np.zeros(d_model, np.float32), P())
    inputs = {name: (normal(rng, (batch, pos, d_model)), P("data", None, None))
              for name in ("x", "target")}

    def block(p, x):
        x = x + attention(p, layer_norm(x, p["norm1/gain"], p["norm1/bias"]), d_head)
        return x + feed_forward(p, layer_norm(x, p["norm2/gain"], p["norm2/bias"]))

    def loss(params, x, target):
        params = {name: value.astype(dtype) for name, value in params.items()}
        x, target = x.astype(dtype), target.astype(dtype)
        for layer in range(layers):
            scope = f"b{layer + 1}/"
            x = block({name.removeprefix(scope): value for name, value in params.items()
                       if name.startswith(scope)}, x)
        difference = (x - target).astype(jnp.float32)
        return jnp.mean(difference * difference)

    return Model(params, inputs, loss, 0.01)


def batch_norm(x, gain, bias):
    """By the statistics of the batch; JAX is spared the running means of them."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def make_residual(has_norms=False):
    batch, size, window, channels = 32, 32, 3, 64
    rng = np.random.default_rng(0)
    stddev = math.sqrt(2 / (window * window * channels))
    params = {f"{name}/weight": (normal(rng, (window, window, channels, channels), stddev), P())
              for name in ("first", "second")}
    for name in ("first_norm", "second_norm") if has_norms else ():
        params[f"{name}/gain"] = (np.ones(channels, np.float32), P())
        params[f"{name}/bias"] = (np.zeros(channels, np.float32), P())
    inputs = {name: (normal(rng, (batch, size, size, channels)), P("data", "rows", "cols"))
              for name in ("image", "target")}

    def norm(params, name, x):
        return (batch_norm(x, params[f"{name}/gain"], params[f"{name}/bias"])
                if has_norms else x)

    def conv(x, weight):
        return jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME",
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(params, image, target):
        h = jax.nn.relu(norm(params, "first_norm", conv(image, params["first/weight"])))
        g = norm(params, "second_norm", conv(h, params["second/weight"]))
        y = jax.nn.relu(image + g)
        return jnp.mean((y - target) ** 2)

    return Model(params, inputs, loss, 0.01)


def make_gru():
    batch, steps, wide = 64, 32, 512
    rng = np.random.default_rng(0)
    params = {name: (normal(rng, (wide, 3, wide), wide ** -0.5), P(None, None, "model"))
              for name in ("w", "u")}
    inputs = {name: (normal(rng, (steps, batch, wide)), P(None, "data", "model"))
              for name in ("x", "target")}

    def loss(params, x, target):
        def unit(h, s):
            g = jnp.einsum("bi,igo->bgo", h, params["u"])
            r = jax.nn.sigmoid(s[:, 0] + g[:, 0])
            z = jax.nn.sigmoid(s[:, 1] + g[:, 1])
            n = jnp.tanh(s[:, 2] + r * g[:, 2])
            h = (1 - z) * n + z * h
            return h, h

        all_steps = jnp.einsum("tbi,igo->tbgo", x, params["w"])
        _, y = jax.lax.scan(unit, jnp.zeros((batch, wide), jnp.float32), all_steps)
        return jnp.mean((y - target) ** 2)

    return Model(params, inputs, loss, 0.01)


MODELS = {"mlp": make_mlp, "blocks": make_blocks, "residual": make_residual,
          "residual_norm": functools.partial(make_residual, has_norms=True), "gru": make_gru}

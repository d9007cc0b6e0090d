"""recipe.mesh in JAX: the same mathematics, dropout and clip or neither, on one device or on
several that share the batch.

Prints a line of JSON with the first loss, runs twice to warm up, and then as many steps as
each line of standard input says, printing their times in ms.

Arguments: devices, rate of dropout, limit of the gradients' norm or 0, batch, pos."""

import functools
import json
import os
import sys
import time

DEVICES, RATE, LIMIT, BATCH, POS = (kind(word) for kind, word in zip(
    (int, float, float, int, int), sys.argv[1:], strict=True))
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402, after the flags it reads
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P  # noqa: E402

WIDTH, HEADS, VOCAB, LR = 768, 12, 50257, 0.0003


def make_params():
    rng = np.random.default_rng(0)

    def normal(*shape, stddev=0.02):
        return (rng.standard_normal(shape) * stddev).astype(np.float32)

    params = {"words": normal(VOCAB, WIDTH), "positions": normal(POS, WIDTH)}
    for name in ("norm1", "norm2", "norm"):
        params |= {f"{name}/gain": np.ones(WIDTH, np.float32), f"{name}/bias": np.zeros(WIDTH, np.float32)}
    each = WIDTH // HEADS
    for name in ("query", "key", "value"):
        params |= {f"{name}/w": normal(WIDTH, HEADS, each), f"{name}/bias": np.zeros((HEADS, each), np.float32)}
    for name, *shape in (("out", HEADS, each, WIDTH), ("expand", WIDTH, 4 * WIDTH), ("project", 4 * WIDTH, WIDTH)):
        params |= {f"{name}/w": normal(*shape), f"{name}/bias": np.zeros(shape[-1], np.float32)}
    return params


def drop(key, name, x):
    if RATE == 0:
        return x
    kept = jax.random.bernoulli(jax.random.fold_in(key, name), 1 - RATE, x.shape)
    return jnp.where(kept, x / (1 - RATE), 0)


def norm(p, name, x):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}/gain"] + p[f"{name}/bias"]


def get_loss(p, key, token, target):
    h = drop(key, 0, p["words"][token] + p["positions"])
    a = norm(p, "norm1", h)
    q, k, v = (jnp.einsum("bpm,mhe->bhpe", a, p[f"{name}/w"]) + p[f"{name}/bias"][:, None]
               for name in ("query", "key", "value"))
    scores = jnp.einsum("bhpe,bhke->bhpk", q, k) * (WIDTH // HEADS) ** -0.5
    seen = jnp.where(jnp.tril(jnp.ones((POS, POS), bool)), scores, -jnp.inf)
    read = jnp.einsum("bhpk,bhke->bhpe", drop(key, 1, jax.nn.softmax(seen, axis=-1)), v)
    h += drop(key, 2, jnp.einsum("bhpe,hem->bpm", read, p["out/w"]) + p["out/bias"])
    wide = jax.nn.gelu(norm(p, "norm2", h) @ p["expand/w"] + p["expand/bias"], approximate=True)
    h += drop(key, 3, wide @ p["project/w"] + p["project/bias"])
    logits = norm(p, "norm", h) @ p["words"].T
    picked = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def step(state, number, token, target):
    """AdamW as frontend/library/optimizers.mesh has it."""
    params, m, v = state
    key = jax.random.fold_in(jax.random.key(0), number)
    loss, g = jax.value_and_grad(get_loss)(params, key, token, target)
    if LIMIT > 0:
        length = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: x * jnp.minimum(1, LIMIT / length), g)
    t = number.astype(jnp.float32)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    rise, spread = 1 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
    params = jax.tree.map(
        lambda w, m, v: w - LR * (rise * m / (jnp.sqrt(spread * v) + 1e-8) + 0.01 * w), params, m, v)
    return (params, m, v), loss


def main():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",), axis_types=(AxisType.Auto,))
    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    params = jax.device_put(make_params(), whole)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (params, zeros, jax.tree.map(jnp.zeros_like, params))
    rng = np.random.default_rng(1)
    token, target = (jax.device_put(rng.integers(0, VOCAB, (BATCH, POS)).astype(np.int32), split)
                     for _ in range(2))
    run = jax.jit(functools.partial(step), donate_argnums=0, out_shardings=((whole, whole, whole), whole))
    number = 0

    def time_steps(count):
        nonlocal state, number
        times, loss = [], None
        for _ in range(count):
            number += 1
            started = time.perf_counter()
            state, loss = jax.block_until_ready(run(state, jnp.int32(number), token, target))
            times.append((time.perf_counter() - started) * 1e3)
        return times, float(loss)

    first = time_steps(1)[1]
    time_steps(1)
    print(json.dumps({"loss": first}), flush=True)
    for line in sys.stdin:
        print(json.dumps(time_steps(int(line))[0]), flush=True)


main()

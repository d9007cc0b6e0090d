"""The decoder blocks in JAX; see worker.py for arguments and answers."""

import os
import pathlib
import sys

import worker

arguments = worker.parse_arguments(__doc__)
os.environ["JAX_PLATFORMS"] = arguments.device
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import jax  # noqa: E402, after the variable it reads
import jax.numpy as jnp  # noqa: E402

import jax_models  # noqa: E402


def get_spec_name(name):
    """Of a parameter of jax_models in the .mesh file: b1/wq is b1/attn/wq there."""
    layer, inner = name.split("/", 1)
    if inner.startswith("norm"):
        return name
    return f"{layer}/{'attn' if inner in ('wq', 'wk', 'wv', 'wo') else 'ff'}/{inner}"


def main():
    dtype = jnp.bfloat16 if arguments.precision == "bf16" else jnp.float32
    model = jax_models.make_blocks(**worker.get_sizes(arguments), dtype=dtype)
    params = {name: array for name, (array, _) in model.params.items()}
    inputs = {name: array for name, (array, _) in model.inputs.items()}
    if arguments.check:
        arrays = worker.read_arrays(arguments.check, ["x", "target", *map(get_spec_name, params)])
        params = {name: arrays[get_spec_name(name)] for name in params}
        loss, gradients = jax.jit(jax.value_and_grad(model.loss))(
            params, arrays["x"], arrays["target"])
        return worker.write_arrays(arguments.check, {
            "loss": loss,
            **{f"gradient.{get_spec_name(name)}": value for name, value in gradients.items()}})
    params = jax.device_put(params)
    inputs = jax.device_put(inputs)

    def update(params, inputs):
        loss, gradients = jax.value_and_grad(model.loss)(params, **inputs)
        return {name: value - worker.LEARNING_RATE * gradients[name]
                for name, value in params.items()}, loss

    compiled = jax.jit(update, donate_argnums=0)

    def step():
        nonlocal params
        params, loss = jax.block_until_ready(compiled(params, inputs))
        return float(loss)

    worker.serve({"jax": jax.__version__, "gpu": jax.devices()[0].device_kind}, step)


main()

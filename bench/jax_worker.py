"""One program under one layout in JAX, in a process of its own.

Compiles, runs twice to warm up, prints a line of JSON, and then runs as many
steps as each line of standard input says, printing a line of JSON each time.

Arguments: program, mesh ("data=4,model=2"); or, on one device and one thread, program
of jax_cliffs.py, form, its dims as JSON.
"""

import json
import math
import os
import statistics
import sys
import time

from cases import DEVICES

IS_CLIFF = len(sys.argv) == 4
if IS_CLIFF:
    os.environ["NPROC"] = "1"  # XLA's threads
else:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402, after the flags it reads
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402

import jax_cliffs  # noqa: E402
from jax_models import MODELS  # noqa: E402


def put(mesh, arrays):
    return {name: jax.device_put(array, NamedSharding(mesh, spec))
            for name, (array, spec) in arrays.items()}


def main():
    if IS_CLIFF:
        program, form, dims = sys.argv[1:]
        described, axes = jax_cliffs.make(program, form, json.loads(dims)), {"whole": 1}
    else:
        program, option = sys.argv[1:]
        described = MODELS[program]()
        axes = {axis: int(size) for axis, size in (part.split("=") for part in option.split(","))}
    devices = np.array(jax.devices()[:math.prod(axes.values())]).reshape(*axes.values())
    mesh = jax.sharding.Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    params = put(mesh, described.params)
    inputs = put(mesh, described.inputs)

    def step(params, inputs):
        loss, gradients = jax.value_and_grad(described.loss)(params, **inputs)
        updated = {name: value - described.learning_rate * gradients[name]
                   for name, value in params.items()}
        return updated, loss

    shardings = ({name: value.sharding for name, value in params.items()},
                 NamedSharding(mesh, PartitionSpec()))
    started = time.perf_counter()
    compiled = jax.jit(step, donate_argnums=0, out_shardings=shardings).lower(
        params, inputs).compile()
    compile_s = time.perf_counter() - started

    memory = compiled.memory_analysis()
    peak = (memory.argument_size_in_bytes + memory.output_size_in_bytes
            + memory.temp_size_in_bytes - memory.alias_size_in_bytes)

    def run(steps):
        nonlocal params
        times = []
        for _ in range(steps):
            started = time.perf_counter()
            params, loss = jax.block_until_ready(compiled(params, inputs))
            times.append((time.perf_counter() - started) * 1e3)
        return times, float(loss)

    run(2)
    print(json.dumps({"jax": jax.__version__, "compile_s": compile_s,
                      "peak_bytes_per_device": peak}), flush=True)
    for line in sys.stdin:
        times, loss = run(int(line))
        print(json.dumps({"step_ms_median": statistics.median(times),
                          "step_ms_min": min(times), "loss": loss}), flush=True)


main()

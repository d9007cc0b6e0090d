"""Compares predicted steps of GPTs on A100s with those that Megatron-LM's authors published.

    published.py [--output FILE.md]

Source: Narayanan et al., SC 2021, table 1, the rows without a pipeline; the time of an
iteration follows from the throughput and the paper's count of operations. They compute
the forward pass twice to save memory, so the predicted forward pass counts twice, too.
They divide a batch into micro-batches, which is not modelled: whether the step fits is
not asked. No constant is fitted to these rows.
"""

import argparse
import datetime
import pathlib
import statistics

from compare import BIN, run_json
from report import table

# Parameters in 10^9, heads, d_model, layers, model-parallel devices, devices, batch,
# seconds of an iteration.
ROWS = [
    (1.7, 24, 2304, 24, 1, 32, 512, 3.53),
    (3.6, 32, 3072, 30, 2, 64, 512, 3.70),
    (7.5, 32, 4096, 36, 4, 128, 512, 3.70),
    (18.4, 48, 6144, 40, 8, 256, 1024, 9.40),
]


def predict(heads, width, layers, model, devices, batch):
    defines = {"heads": heads, "d_model": width, "layers": layers, "batch": batch}
    plan = run_json([BIN / "meshc", "plan", "bench/gpt.mesh", "--precision", "bf16",
                     "--machine", "a100", "--mesh", f"data={devices // model},model={model}",
                     *[part for name, value in defines.items()
                       for part in ("-D", f"{name}={value}")], "--emit", "json"])
    again = sum(op["time_us"] * op.get("repeat", 1) for op in plan["ops"]
                if op["phase"] == "forward")
    return plan["totals"]["step_us"] / 1e6, again / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    rows, errors = [], []
    for billions, *sizes, published in ROWS:
        step, again = predict(*sizes)
        ratio = (step + again) / published
        errors.append(abs(ratio - 1))
        rows.append([f"{billions}", f"{sizes[4]}", f"{sizes[3]}", f"{step:.2f}", f"{again:.2f}",
                     f"{published:.2f}", f"{ratio:.2f}"])
    text = (f"# Predicted beside published, {datetime.date.today()}\n\n"
            + table(["10^9 parameters", "A100s", "model", "predicted step s",
                     "forward again s", "published s", "predicted / published"], rows)
            + f"\n\nMean error {100 * statistics.mean(errors):.0f} %, worst "
              f"{100 * max(errors):.0f} %.\n")
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

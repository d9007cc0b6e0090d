"""Compares predicted steps with those that others measured on GPUs and published.

    published.py [--quick] [--meshc FILE] [--output FILE.md]

`published_rows.py` has the rows. What is predicted is the step of meshc's own program,
on a machine that is made of data sheets and microbenchmarks: no constant of it is
fitted to these rows. Two things are taken from the published programs, since they change
what is computed or sent: layers whose forward pass is computed twice count twice, with
what that pass waits for, and gradients that are summed in one piece behind the backward
pass are so here (`published/gradients.mesh`).

--quick takes one row of each source.
"""

import argparse
import dataclasses
import datetime
import functools
import itertools
import pathlib
import statistics

from compare import BIN, run_json
from published_rows import LEFT_OUT, SOURCES, ExtraRow, Step
from report import table


@dataclasses.dataclass(frozen=True)
class Parts:
    """Of a predicted step, in milliseconds; the last of what computes are kernels that
    arithmetic bounds."""
    products: float
    kernels: float
    waiting: float
    arithmetic: float = 0

    @property
    def total(self):
        return self.products + self.kernels + self.waiting


class Predictor:
    """Asks one meshc, once for each plan."""

    def __init__(self, meshc):
        self.meshc = meshc

    @functools.cache
    def plan(self, step):
        options = [part for name, value in step.sizes for part in ("-D", f"{name}={value}")]
        if step.precision:
            options += ["--precision", step.precision]
        mesh = ",".join(f"{axis}={size}" for axis, size in step.mesh)
        return run_json([self.meshc, "plan", step.spec, "--machine", step.machine,
                         "--mesh", mesh, *options, "--emit", "json"])

    def get_sum_ms(self, step, devices):
        """Of summing all gradients over so many devices, in 16 bits and one piece: an
        all_reduce, or the two collectives that the planner takes in its place."""
        elements = self.plan(step)["memory"]["params"] // 4     # parameters are f32
        plan = self.plan(Step("bench/published/gradients.mesh", step.machine, "",
                              (("data", devices),),
                              (("device", devices), ("element", elements // 2))))
        return plan["totals"]["exposed_us"] / 1e3

    def predict(self, row):
        if isinstance(row, ExtraRow):
            return Parts(0, 0, self.get_sum_ms(row.step, row.devices)
                         - self.get_sum_ms(row.step, row.fewer))
        plan = self.plan(row.step)
        products = kernels = arithmetic = 0
        for op in plan["ops"]:
            ms = op["time_us"] / 1e3
            if row.repeats_layers and is_repeated(op, op["name"]):
                ms *= 2
            if op["kind"] in ("matmul", "convolution"):
                products += ms
            else:
                kernels += ms
                arithmetic += ms if op["bound"] == "flops" else 0
        waiting = plan["totals"]["exposed_us"] / 1e3
        if row.sums_at_end:
            waiting = self.get_sum_ms(row.step, row.devices)
        if row.repeats_layers:
            waiting += get_layers_wait_ms(plan)
        return Parts(products, kernels, waiting, arithmetic)


def is_repeated(entry, name):
    return entry["phase"] == "forward" and name.startswith("layer/")


def get_layers_wait_ms(plan):
    """What the forward pass of the layers waits for."""
    names = {tensor["id"]: tensor["name"] for tensor in plan["tensors"]}
    layers = {entry["id"] for entry in plan["collectives"]
              if is_repeated(entry, names[entry["tensor"]])}
    return sum(transfer["exposed_us"] for transfer in plan["transfers"]
               if layers.issuperset(transfer["collectives"])) / 1e3


#===-- The report ---------------------------------------------------------===#

def get_error(predicted, published):
    return predicted / published - 1


def show_order(results):
    """How many pairs of rows are predicted in their order."""
    right = alike = total = 0
    for (row, one), (later, other) in itertools.combinations(results, 2):
        total += 1
        alike += one.total == other.total
        right += (one.total - other.total) * (row.published_ms - later.published_ms) > 0
    return f"{right} of {total}" + (f", {alike} predicted alike" if alike else "")


def show_ms(ms):
    return f"{ms:.0f}" if ms >= 1000 else f"{ms:.1f}"


def show_goal(row, predicted):
    goal, distance = row.goal
    return f"{goal} +- {distance}: {'yes' if abs(predicted - goal) <= distance else 'no'}"


def render_source(source, results):
    rows = []
    for row, parts in results:
        last = (show_goal(row, parts.total) if isinstance(row, ExtraRow) else
                f"{show_ms(parts.products)} + {show_ms(parts.kernels)} + "
                f"{show_ms(parts.waiting)}")
        rows.append([row.sizes, f"{row.devices}", show_ms(row.published_ms),
                     show_ms(parts.total),
                     f"{100 * get_error(parts.total, row.published_ms):+.1f} %", last])
    last = "goal ms" if isinstance(results[0][0], ExtraRow) else "products + kernels + waiting"
    errors = [abs(get_error(parts.total, row.published_ms)) for row, parts in results]
    text = (f"## {source.name}\n\n{source.where}. {source.note}\n\n"
            + table(["", "GPUs", "published ms", "predicted ms", "error", last], rows)
            + f"\n\nMean error {100 * statistics.mean(errors):.0f} %, worst "
              f"{100 * max(errors):.0f} %. Pairs in the right order: {show_order(results)}.")
    shares = [parts.arithmetic / parts.total for _, parts in results]
    if max(shares) > 0.02:
        text += (f" Kernels that arithmetic bounds, which are gradients of gathers, are "
                 f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of the predicted "
                 f"steps.")
    return text + "\n"


def render(results_of):
    rows = []
    for source, results in results_of:
        errors = [get_error(parts.total, row.published_ms) for row, parts in results]
        rows.append([source.name, f"{len(errors)}",
                     f"{100 * statistics.mean(map(abs, errors)):.0f} %",
                     f"{100 * max(errors, key=abs):+.0f} %", show_order(results)])
    left_out = "\n".join(f"- {what}: {why}." for what, why in LEFT_OUT)
    return (f"# Predicted beside published steps, {datetime.date.today()}\n\n"
            "A step of meshc's own program as it is predicted, beside the published one of "
            "another program. Nothing is fitted to these rows.\n\n"
            + table(["source", "rows", "mean error", "worst", "pairs in order"], rows)
            + "\n\n" + "\n".join(render_source(*entry) for entry in results_of)
            + f"\n## Left out\n\n{left_out}\n")


def pick_rows(source, quick):
    """All, or the one with the fewest devices."""
    return [min(source.rows, key=lambda row: row.devices)] if quick else source.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one row of each source")
    parser.add_argument("--meshc", type=pathlib.Path, default=BIN / "meshc")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    predictor = Predictor(arguments.meshc.resolve())
    text = render([(source, [(row, predictor.predict(row))
                             for row in pick_rows(source, arguments.quick)])
                   for source in SOURCES])
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

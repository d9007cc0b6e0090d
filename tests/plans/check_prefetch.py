"""Full sharding on H100s, as predicted: what it moves is behind computation, and at most two
layers are whole at once.

- A step of sharded_layers.mesh takes no longer than the longer one of computing and sending,
  and what nothing can be behind: the first gather and the last scatter.
- Where computing takes longer, and in the 7B model of samples/llama, devices wait for a few
  percent of the step; without prefetch they wait for several times as long.
- What is gathered of the 7B model's layers is at no time more than two of them take.

Arguments: meshc, the repository.
"""

import collections
import sys

import compiler

LAYERS = "tests/plans/sharded_layers.mesh"
LLAMA = "samples/llama/llama.mesh"
SIZES = {"batch": 16, "pos": 4096, "d_model": 4096, "heads": 32, "each": 1, "d_head": 128,
         "d_ff": 11008, "layers": 32}
LLAMA_FLAGS = ["--mesh", "data=8", "--layout", "batch -> data, params: * -> data",
               "--precision", "bf16", *[f"-D{name}={size}" for name, size in SIZES.items()]]
# Of a step: of many samples a layer, and of the 7B model.
MOST_OF_LAYERS, MOST_OF_LLAMA = 0.05, 0.03
# How much longer devices wait, at least, where everything is sent where it is read.
LEAST_GAIN = 3


class Plan:
    def __init__(self, meshc, *arguments):
        self.plan = meshc.plan(*arguments, "--machine", "h100")
        (whole,) = (part for part in self.plan["parts"] if part["parent"] is None)
        self.computing, self.waiting = whole["compute_us"], whole["exposed_us"]

    def get_step(self):
        return self.computing + self.waiting

    def get_share(self):
        return self.waiting / self.get_step()

    def get_transfers(self, kind):
        """Microseconds of each transfer of a kind, in order."""
        kinds = {entry["id"]: entry["kind"] for entry in self.plan["collectives"]}
        return [transfer["time_us"] for transfer in self.plan["transfers"]
                if kinds[transfer["collectives"][0]] == kind]

    def get_most_gathered(self, scope):
        """The most bytes that gathered values of a scope take at once."""
        changes = collections.Counter()
        for buffer in self.plan["memory"]["buffers"]:
            if buffer["form"] == "gathered" and f" {scope}/" in buffer["name"]:
                changes[buffer["first"]] += buffer["bytes"]
                changes[buffer["last"] + 1] -= buffer["bytes"]
        taken = most = 0
        for time in sorted(changes):
            taken += changes[time]
            most = max(most, taken)
        return most


def check_layers(meshc):
    small = Plan(meshc, LAYERS)
    gathers, scatters = small.get_transfers("all_gather"), small.get_transfers("reduce_scatter")
    bound = max(small.computing, sum(gathers) + sum(scatters)) + gathers[0] + scatters[-1]
    assert small.get_step() <= bound, (small.get_step(), bound)
    large = Plan(meshc, LAYERS, "-Dbatch=65536")
    apart = Plan(meshc, LAYERS, "-Dbatch=65536", "--prefetch", "0")
    print(f"{LAYERS}: {small.get_step():.0f} us of at most {bound:.0f}; of 65536 samples "
          f"{large.get_share():.1%} waiting, {apart.get_share():.1%} without prefetch")
    assert large.get_share() <= MOST_OF_LAYERS, large.get_share()
    assert apart.waiting > LEAST_GAIN * large.waiting, (apart.waiting, large.waiting)


def check_llama(meshc):
    plan, apart = Plan(meshc, LLAMA, *LLAMA_FLAGS), Plan(meshc, LLAMA, *LLAMA_FLAGS,
                                                         "--prefetch", "0")
    d, ff = SIZES["d_model"], SIZES["d_ff"]
    layer = 2 * (4 * d * d + 3 * d * ff) + 4 * 2 * d  # norms are f32
    gathered = plan.get_most_gathered("layer")
    print(f"7B: {plan.get_share():.1%} waiting, {apart.get_share():.1%} without prefetch; "
          f"{gathered / layer:.2f} layers gathered")
    assert plan.get_share() <= MOST_OF_LLAMA, plan.get_share()
    assert apart.waiting > LEAST_GAIN * plan.waiting, (apart.waiting, plan.waiting)
    # The kernel at the end of a layer has the norm that the next one begins with.
    assert layer < gathered <= 2 * layer + 4 * d, (gathered, layer)
    # Each layer but the last once in each phase.
    count = collections.Counter(entry["phase"] for entry in plan.plan["collectives"]
                                if entry["kind"] == "all_gather")
    assert count["backward"] > 0.9 * count["forward"], count


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    check_layers(meshc)
    check_llama(meshc)


main()

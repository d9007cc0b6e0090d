"""What the backward phase computes again has the same bits: losses and parameters of
trainings with dropout, a loop and calls are what they are without, on meshes that split
unevenly, in several processes, on emulated GPUs, in 16 bits and in parts. Layers keep
their inputs alone, and the plan says what that saves.

Arguments: meshc, the repository, the folder of the emulated libraries."""

import json

import trainings
from trainings import GPU, STEPS

PLACES = {
    "whole": ((), (), 0),
    "grid": (("--mesh", "a=2,b=3", "--layout", "batch=a,wide=b"), (), 0),
    "processes": (("--mesh", "a=3", "--layout", "batch=a"), ("--processes", "3"), 0),
    "gpus": (("--mesh", "a=3", "--layout", "batch=a", *GPU), ("--devices-per-gpu", "3"), 1),
}
RECIPES = ("optimizer adam(lr = 0.02)", "optimizer adam(lr = 0.02)\n  microbatches 2",
           "optimizer momentum(lr = 0.01)\n  precision bf16")
# A stack whose layers have values that are larger than their inputs.
STACK = """
dim batch = 8
dim pos   = 48
dim d     = 8
dim heads = 2
dim e     = 4
dim wide  = 64
dim layer = 5

model stack(x: f32[batch, pos, d], target: f32[batch, pos, d]) {
  let y = decoder(x, pos, d, layer, heads, e, wide) as net
  output loss = mean((y - target) ^ 2)
}
data over batch { x = npy("x.npy") target = npy("target.npy") }
"""


class Test(trainings.Trainings):
    def check_bits(self):
        for recipe in RECIPES:
            plain = self.write(recipe)
            again = self.write(f"{recipe}\n  recompute \"i/*\"\n  recompute \"dropout\"")
            for name, place in PLACES.items():
                wanted, found = self.train(plain, place), self.train(again, place)
                assert len(wanted[0]) == STEPS
                for one, other in zip(found[0], wanted[0], strict=True):
                    assert one["loss"] == other["loss"], (recipe, name, one, other)
                assert found[1] == wanted[1], (recipe, name)

    def plan(self, *arguments):
        return json.loads(self.meshc.run("plan", *map(str, arguments), "--emit", "json"))

    def check_memory(self):
        spec = self.write("optimizer sgd(lr = 0.1)", STACK)
        plain = self.plan(spec)
        for pattern in ("net/layer", "net/layer/*"):
            again = self.plan(spec, "--recompute", pattern)
            (said,) = again["totals"]["recomputed"]
            assert said["scope"] == "net/layer" and said["units"] == 5, said
            saved = (plain["memory"]["peak_bytes_per_device"]
                     - again["memory"]["peak_bytes_per_device"])
            # At the peak there is what one layer of the five needs.
            assert 0.78 * said["bytes"] < saved <= said["bytes"], (said, saved)
            # Plans do not count what the epilogues of matmuls do.
            more = again["totals"]["flops_per_device"] - plain["totals"]["flops_per_device"]
            assert 0.7 * said["flops"] < more <= said["flops"], (more, said)
        attn = self.plan(spec, "--recompute", "net/layer/block/attn")["totals"]["recomputed"]
        assert [scope["scope"] for scope in attn] == ["net/layer/block/attn"], attn
        assert 0 < attn[0]["bytes"] < said["bytes"], (attn, said)


def main():
    test = Test()
    test.check_bits()
    test.check_memory()


main()

"""Dropout adds no byte per element to what is kept for the backward phase: a program with
it has the activations of the one without, but for seeds.

Arguments: meshc, the repository."""

import pathlib
import sys

MESHC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path[1:1] = [str(ROOT / "tests" / "plans")]

# pylint: disable=wrong-import-position
import compiler

# The seed of the run and those of three iterations, each at a multiple of 64; the
# smallest mask has 1 KiB.
SEED_BYTES = 4 * 64


def main():
    meshc = compiler.Compiler(MESHC, str(ROOT))
    spec = (ROOT / "tests/plans/dropout.mesh").read_text(encoding="utf-8")
    plain = pathlib.Path(meshc.folder.name) / "plain.mesh"
    # The same scopes and as many values: a function of a spec is taken for the library's.
    plain.write_text(spec + "fn dropout(x, rate) { x = x / (1 - rate)  return x }\n",
                     encoding="utf-8")
    for flags in ([], ["--precision", "bf16"], ["--mesh", "a=2,b=2", "--layout",
                                               "batch=a,wide=b"], ["--target", "cuda"]):
        plans = [meshc.plan(path, *flags) for path in ("tests/plans/dropout.mesh", str(plain))]
        # Where values lie may leave other gaps.
        kept = [sum(plan["memory"][role] for role in ("activations", "gradients"))
                for plan in plans]
        assert kept[0] <= kept[1] + SEED_BYTES, (flags, kept)
        for tensor in plans[0]["tensors"]:
            is_mask = tensor["stored"] and tensor["dtype"] == "bool"
            assert not is_mask, (flags, tensor)


main()

"""What is computed in tiles takes the memory of a tile.

Memory of attention grows with its positions, not with their square; GPT-2 needs less
of it; no collective changes, and matmuls grow by no more than what the backward phase
computes again. The plan counts every tile.
"""

import sys

import compiler

ATTENTION = "bench/cliffs/long_attention.mesh"
GPT2 = "samples/gpt2.mesh"


def matmul_flops(plan):
    return sum(op["flops_per_device"] * op["repeat"] for op in plan["ops"]
               if op["kind"] == "matmul")


def peak(plan):
    return plan["memory"]["peak_bytes_per_device"]


def check_attention(meshc):
    plans = {positions: meshc.plan(ATTENTION, "-D", f"pos={positions}")
             for positions in (1024, 2048, 4096, 8192)}
    for positions in (2048, 4096, 8192):
        grown = peak(plans[positions]) / peak(plans[positions // 2])
        if grown > 2.4:
            yield f"{positions} positions take {grown:.2f} times the memory of half as many"
    whole = meshc.plan(ATTENTION, "--tile-bytes", "0")
    if peak(whole) < 15 * peak(plans[4096]):
        yield f"tiles take {peak(plans[4096])} bytes, whole values {peak(whole)}"
    # Forward and backward are one loop: nothing is computed twice.
    if matmul_flops(whole) != matmul_flops(plans[4096]):
        yield f"matmuls: {matmul_flops(plans[4096])} flop in tiles, {matmul_flops(whole)}"
    total = sum(op["flops_per_device"] * op["repeat"] for op in plans[4096]["ops"])
    if total != plans[4096]["totals"]["flops_per_device"]:
        yield f"the total says {plans[4096]['totals']['flops_per_device']} flop, ops {total}"
    for tensor in plans[4096]["tensors"]:
        if not tensor["name"].endswith(("scores", "seen", "softmax")):
            continue
        if tensor["stored"]:
            yield f"{tensor['name']} is there as a whole"
    tiles = [tensor["tile_bytes"] for tensor in plans[4096]["tensors"]
             if tensor["tile_bytes"]]
    if not tiles or max(tiles) > 2 ** 22:
        yield f"tiles of {tiles} bytes, expected some of 4 MiB at most"
    if any(tensor["tile_bytes"] for tensor in whole["tensors"]):
        yield "--tile-bytes 0 leaves tiles"


def check_gpt2(meshc):
    tiled, whole = meshc.plan(GPT2), meshc.plan(GPT2, "--tile-bytes", "0")
    if peak(tiled) > 0.8 * peak(whole):
        yield f"GPT-2 takes {peak(tiled)} bytes in tiles, {peak(whole)} without"
    # One product of six in attention, once more: 12 layers x 2 x 4 x 6 heads.
    again = 12 * 2 * (4 * 6) * 1024 * 1024 * 64
    if matmul_flops(tiled) != matmul_flops(whole) + again:
        yield (f"GPT-2's matmuls: {matmul_flops(tiled)} flop in tiles, expected {again} "
               f"more than {matmul_flops(whole)}")
    for field in ("collective_payload_bytes", "wire_bytes_per_device", "transfers"):
        if tiled["totals"][field] != whole["totals"][field]:
            yield f"GPT-2: tiles change {field}"
    # Where a program would have too many tiles they are larger.
    largest = meshc.plan("bench/gpt.mesh")
    commands = sum(op["repeat"] for op in largest["ops"])
    if commands > 2 ** 17:
        yield f"bench/gpt.mesh has {commands} commands"


def check_specs(meshc):
    """Those of tests/end_to_end, whose numbers are compared there, have tiles."""
    for spec, names in (("tiles", {"layer/0/attn/scores", "layer/1/attn/softmax", "logits"}),
                        ("gathered_tiles", {"s"})):
        plan = meshc.plan(f"tests/end_to_end/{spec}.mesh", "--tile-bytes", "1024")
        whole = {tensor["name"] for tensor in plan["tensors"] if tensor["stored"]}
        if whole & names:
            yield f"{spec}.mesh has {sorted(whole & names)} as a whole"
        if max(op["repeat"] for op in plan["ops"]) < 4:
            yield f"{spec}.mesh has no tiles"


def check_batches(meshc):
    """Sizes with few divisors: the program keeps within what it may have."""
    for batch in (10006, 10007, 40009):
        plan = meshc.plan(ATTENTION, "-D", f"batch={batch}", "-D", "pos=128", "-D", "d_head=4")
        commands = sum(op["repeat"] for op in plan["ops"])
        if commands > 2 ** 17:
            yield f"{batch} samples: {commands} commands"


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    problems = [*check_attention(meshc), *check_gpt2(meshc), *check_batches(meshc),
                *check_specs(meshc)]
    if problems:
        sys.exit("\n".join(problems))


main()

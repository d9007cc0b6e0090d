"""What cuBLASLt does beside the products of a training step, by epilogue: which are
formed depends on the model and its sizes. The numbers are those of cublasLt.h."""

import sys

import cases
import compiler
import record

NAMES = {1: "none", 2: "relu", 4: "bias", 6: "relu_bias", 32: "gelu", 36: "gelu_bias",
         130: "relu_aux", 134: "relu_aux_bias", 136: "drelu", 152: "drelu_bgrad",
         160: "gelu_aux", 164: "gelu_aux_bias", 192: "dgelu", 208: "dgelu_bgrad",
         256: "bgrada", 512: "bgradb"}

ACTIVATIONS = "tests/end_to_end/activations.mesh"
ODD = ["-Dfirst=7", "-Dsecond=5", "-Dthird=3", "-Dlinear=2"]
BLOCK_SIZES = [f"-D{name}={size}" for name, size in {
    "batch": 4, "pos": 6, "d_model": 16, "heads": 2, "d_head": 8, "d_ff": 24}.items()]

# Products of one step by what is done beside them; "+addend": with beta = 1.
EXPECTED = {
    "mlp": ([cases.MLP, "-Dbatch=16", "-Dpixel=24", "-Dhidden=16"],
            {"none": 2, "bias": 1, "relu_aux_bias": 1, "drelu_bgrad": 1}),
    "mlp-odd": ([cases.MLP, "-Dbatch=10", "-Dpixel=9", "-Dhidden=7"],
                {"none": 3, "bias": 1, "relu_bias": 1}),
    "activations": ([ACTIVATIONS],
                    {"none": 7, "bias": 3, "relu_aux": 1, "relu_aux_bias": 1, "drelu": 1,
                     "drelu_bgrad": 1, "gelu_aux_bias": 1, "dgelu_bgrad": 1, "bgrada": 1}),
    # A matrix of 2 x 12 columns keeps its relu and the gradient.
    "activations-odd": ([ACTIVATIONS, *ODD],
                        {"none": 10, "bias": 4, "relu_bias": 1, "relu_aux": 1, "drelu": 1}),
    # Residual sums: 4 behind attention, 4 behind the second bias of a layer; the others
    # are gradients that meet.
    "blocks": ([cases.BLOCKS, *BLOCK_SIZES],
               {"none": 100, "none+addend": 12, "bias": 4, "bias+addend": 4}),
}


def main():
    meshc = compiler.Compiler(sys.argv[1], sys.argv[2])
    problems = []
    for name, (arguments, expected) in EXPECTED.items():
        calls = record.count_calls(meshc, arguments, sys.argv[3], "epilogue", "beta")
        found = {}
        for (function, epilogue, beta), count in sorted(calls.items()):
            if function == "cublasLtMatmul":
                kind = NAMES[epilogue] + ("+addend" if beta else "")
                found[kind] = found.get(kind, 0) + count
        if found != expected:
            problems.append(f"{name}: {found}, expected {expected}")
    if problems:
        sys.exit("\n".join(problems))


main()

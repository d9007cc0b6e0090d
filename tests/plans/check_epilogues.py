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
BF16, FP16 = ["--precision", "bf16"], ["--precision", "fp16"]
BLOCK_SIZES = [f"-D{name}={size}" for name, size in {
    "batch": 4, "pos": 6, "d_model": 16, "heads": 2, "d_head": 8, "d_ff": 24}.items()]

# In 16 bits the bias of a gradient is summed beside the product of f32 that reads the
# gradient, not beside the one of 16 bits that writes it.
HALF_MLP = {"none": 1, "bias": 1, "relu_aux_bias": 1, "drelu": 1, "bgrada": 1}
HALF_ACTIVATIONS = {"none": 5, "bias": 3, "relu_aux": 1, "relu_aux_bias": 1, "drelu": 2,
                    "gelu_aux_bias": 1, "dgelu": 1, "bgrada": 3}
# relu of f16 and its gradient are kernels, lest the library make 0 of NaN; the kernel of
# a gradient sums it as well.
FP16_MLP = {"none": 3, "bias": 2}
FP16_ACTIVATIONS = {"none": 9, "bias": 4, "gelu_aux_bias": 1, "dgelu": 1, "bgrada": 2}
MLP = [cases.MLP, "-Dbatch=16", "-Dpixel=24", "-Dhidden=16"]

# Products of one step by what is done beside them; "+addend": with beta = 1.
EXPECTED = {
    "mlp": (MLP, {"none": 2, "bias": 1, "relu_aux_bias": 1, "drelu_bgrad": 1}),
    "mlp-bf16": (MLP + BF16, HALF_MLP),
    "mlp-fp16": (MLP + FP16, FP16_MLP),
    "mlp-odd": ([cases.MLP, "-Dbatch=10", "-Dpixel=9", "-Dhidden=7"],
                {"none": 3, "bias": 1, "relu_bias": 1}),
    "activations": ([ACTIVATIONS],
                    {"none": 7, "bias": 3, "relu_aux": 1, "relu_aux_bias": 1, "drelu": 1,
                     "drelu_bgrad": 1, "gelu_aux_bias": 1, "dgelu_bgrad": 1, "bgrada": 1}),
    "activations-bf16": ([ACTIVATIONS] + BF16, HALF_ACTIVATIONS),
    "activations-fp16": ([ACTIVATIONS] + FP16, FP16_ACTIVATIONS),
    # A matrix of 2 x 12 columns keeps its relu and the gradient.
    "activations-odd": ([ACTIVATIONS, *ODD],
                        {"none": 10, "bias": 4, "relu_bias": 1, "relu_aux": 1, "drelu": 1}),
    # Where a layer has one output, the gradient that arrives at the layer before is a
    # sum over one term, which cuBLASLt takes no end of: first relu's, then gelu's.
    "activations-second-1": ([ACTIVATIONS, "-Dsecond=1"],
                             {"none": 6, "bias": 3, "relu": 1, "relu_aux_bias": 1,
                              "drelu_bgrad": 1, "bgrada": 1}),
    "activations-third-1": ([ACTIVATIONS, "-Dthird=1"],
                            {"none": 6, "bias": 2, "relu_aux": 1, "relu_aux_bias": 1,
                             "drelu": 1, "drelu_bgrad": 1, "gelu_aux_bias": 1}),
    "mlp-class-1": (MLP + ["-Dclass=1"], {"none": 2, "relu_bias": 1}),
    # A tensor that is added is no epilogue.
    "activations-bias": ([ACTIVATIONS, *BF16, "--matmul-epilogues", "bias"],
                         {"none": 12, "bias": 5}),
    "activations-none": ([ACTIVATIONS, "--matmul-epilogues", "none"], {"none": 17}),
    "blocks-none": ([cases.BLOCKS, *BLOCK_SIZES, "--matmul-epilogues", "none"],
                    {"none": 84, "none+addend": 12}),
    # Residual sums: 4 behind attention, 4 behind the second bias of a layer; the others
    # are gradients that meet.
    "blocks": ([cases.BLOCKS, *BLOCK_SIZES],
               {"none": 76, "none+addend": 12, "bias": 4, "bias+addend": 4}),
    # The gradients that meet there do so in f32, in kernels; so does the first sum,
    # since the input is f32.
    "blocks-bf16": ([cases.BLOCKS, *BLOCK_SIZES] + BF16,
                    {"none": 85, "none+addend": 3, "bias": 4, "bias+addend": 4}),
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

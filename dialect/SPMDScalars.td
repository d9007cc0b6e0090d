// Functions of numbers that the math dialect lacks, as bodies of operations on
// tensors have them. On vectors they are of each element; kernels have arithmetic in
// their place (codegen/kernels/).

#ifndef MESHC_DIALECT_SPMDSCALARS
#define MESHC_DIALECT_SPMDSCALARS

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class SPMD_Scalar<string mnemonic, list<Trait> traits = []>
    : SPMD_Op<mnemonic, !listconcat([Pure, SameOperandsAndResultType,
                                     Elementwise, Scalarizable, Vectorizable,
                                     Tensorizable], traits)>;

def SPMD_ErfInvOp : SPMD_Scalar<"erf_inv"> {
  let summary = "The number of which the operand is the error function";
  let description = [{
    NaN where there is none, beyond -1 and 1; infinite there.
  }];
  let arguments = (ins FloatLike:$operand);
  let results = (outs FloatLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class SPMD_RandomWords<string mnemonic, string first, string second>
    : SPMD_Scalar<mnemonic> {
  let results = (outs SignlessIntegerLike:$result);
  let assemblyFormat =
      "$" # first # " `,` $" # second # " attr-dict `:` type($result)";
}

def SPMD_RandomBitsOp : SPMD_RandomWords<"random_bits", "key", "counter"> {
  let summary = "64 random bits";
  let description = [{
    w0 + 2^32 w1 of Philox4x32-10 as nd.random has it, for a 64-bit key and the
    counter words c0 = counter mod 2^32, c1 = counter / 2^32, c2 = c3 = 0.
  }];
  let arguments = (ins SignlessIntegerLike:$key, SignlessIntegerLike:$counter);
}

def SPMD_FoldInOp : SPMD_RandomWords<"fold_in", "seed", "number"> {
  let summary = "A seed into which a number is mixed";
  let description = "As nd.fold_in says.";
  let arguments = (ins SignlessIntegerLike:$seed, SignlessIntegerLike:$number);
}

#endif

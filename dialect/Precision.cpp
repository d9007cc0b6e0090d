// In which floats each operation computes where a program computes in 16 bits.
// passes/LowerPrecision.cpp applies the table, to operations as the user wrote
// them: gradients follow the operations they are gradients of.

#include "dialect/ND.h"

using namespace meshc::nd;

#define MESHC_PRECISION(OP, USE)                                               \
  PrecisionUse OP::getPrecisionUse() { return PrecisionUse::USE; }

//===-- Products ----------------------------------------------------------===//

MESHC_PRECISION(EinsumOp, Product)

//===-- f32 ---------------------------------------------------------------===//

// What multiplies the relative error of its operand, or of 1 - f(x).
MESHC_PRECISION(ExpOp, Wide)
MESHC_PRECISION(LogOp, Wide)
MESHC_PRECISION(PowOp, Wide)
MESHC_PRECISION(RsqrtOp, Wide)
MESHC_PRECISION(SqrtOp, Wide)
MESHC_PRECISION(DivOp, Wide)
MESHC_PRECISION(ErfOp, Wide)
MESHC_PRECISION(ErfInvOp, Wide)
MESHC_PRECISION(LogisticOp, Wide)
MESHC_PRECISION(TanhOp, Wide)
// What multiplies an absolute error, that of a large argument.
MESHC_PRECISION(CosOp, Wide)
MESHC_PRECISION(SinOp, Wide)
// A comparison widens its operands for nothing, and has no result to store.
MESHC_PRECISION(CompareOp, Wide)

// Small terms add up.
MESHC_PRECISION(PutOp, Wide)

PrecisionUse ReduceOp::getPrecisionUse() {
  switch (getKind()) {
  case Reduction::Sum:
  case Reduction::Mean:
    return PrecisionUse::Wide;
  case Reduction::Max:
  case Reduction::Min:
    return PrecisionUse::Follow; // one of the elements
  }
  llvm_unreachable("not a reduction");
}

//===-- As wide as the operands -------------------------------------------===//

MESHC_PRECISION(AbsOp, Follow)
MESHC_PRECISION(AddOp, Follow)
MESHC_PRECISION(MaximumOp, Follow)
MESHC_PRECISION(MinimumOp, Follow)
MESHC_PRECISION(MulOp, Follow)
MESHC_PRECISION(NegOp, Follow)
MESHC_PRECISION(SelectOp, Follow)
MESHC_PRECISION(SignOp, Follow)
MESHC_PRECISION(SubOp, Follow)

MESHC_PRECISION(BroadcastOp, Move)
MESHC_PRECISION(GatherOp, Move)
MESHC_PRECISION(RenameOp, Move)
MESHC_PRECISION(ReshardOp, Move)
MESHC_PRECISION(StopGradientOp, Move)

//===-- As written --------------------------------------------------------===//

MESHC_PRECISION(AndOp, Keep)
MESHC_PRECISION(ArgReduceOp, Keep)
MESHC_PRECISION(CastOp, Keep)
MESHC_PRECISION(ConstantOp, Keep)
MESHC_PRECISION(FoldInOp, Keep)
MESHC_PRECISION(IotaOp, Keep)
MESHC_PRECISION(NotOp, Keep)
MESHC_PRECISION(OrOp, Keep)
MESHC_PRECISION(RandomOp, Keep)

// Elementwise operations; README.md says what one takes besides its declaration
// here.

#ifndef MESHC_DIALECT_NDELEMENTWISE
#define MESHC_DIALECT_NDELEMENTWISE

include "dialect/NDBase.td"
include "dialect/NDInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Operands broadcast by name: the result has the union of their dimensions, in
// the order in which they first occur.
// `typed` are the values that share one element type; `partial` says which
// pending terms an operand may hold, in terms of `operand` and `kind`.
class ND_Elementwise<string mnemonic, string typed, string partial>
    : Op<ND_Dialect, mnemonic, [Pure,
        DeclareOpInterfaceMethods<ElementwiseOpInterface>,
        DeclareOpInterfaceMethods<PartitionOpInterface, ["getPartialUse"]>,
        DeclareOpInterfaceMethods<PrecisionOpInterface>,
        DeclareOpInterfaceMethods<FloatClassOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return verifyElementwise(*this, }] # typed # [{);
    }
    DimUse $cppClass::getDimUse(::llvm::StringRef) {
      return DimUse::parallel();
    }
    PartialUse $cppClass::getPartialUse([[maybe_unused]] unsigned operand,
                                        [[maybe_unused]] ReduceKind kind) {
      return }] # partial # [{;
    }
    LocalResults $cppClass::buildLocal(PartitionBuilder &builder,
                                       ::mlir::ValueRange shards) {
      return buildElementwise(*this, builder, shards);
    }
  }];
}

// Which operands may hold pending terms.
class PartialWhen<string condition, string use> {
  string expression = condition # " ? PartialUse::" # use # " : PartialUse::Complete";
}
defvar NoPartial = "PartialUse::Complete";
defvar AnyPartial = "PartialUse::Joint";
defvar SumPartial = PartialWhen<"kind == ReduceKind::Sum", "Joint">.expression;
defvar ProductPartial = PartialWhen<"kind == ReduceKind::Sum", "Alone">.expression;

class ND_Unary<string mnemonic, string what, Type type = ND_FloatTensor,
               string partial = NoPartial>
    : ND_Elementwise<mnemonic, "{getInput(), getResult()}", partial> {
  let summary = what;
  let description = [{
    **Constraints**
    - (C1) the result has the operand's dimensions.
    - (C2) the result has the operand's element type.
  }];
  let arguments = (ins type:$input);
  let builders = [OpBuilder<(ins "::mlir::Value":$input), [{
    build($_builder, $_state, input.getType(), input);
  }]>];
}

def ND_NegOp : ND_Unary<"neg", "Negates", ND_ComputingTensor, SumPartial>;
def ND_ExpOp : ND_Unary<"exp", "Raises e to the operand">;
def ND_LogOp : ND_Unary<"log", "Takes the natural logarithm">;
def ND_TanhOp : ND_Unary<"tanh", "Takes the hyperbolic tangent">;
def ND_LogisticOp : ND_Unary<"logistic", "Computes 1 / (1 + exp(-x))">;
def ND_ErfOp : ND_Unary<"erf", "Computes the error function">;
def ND_ErfInvOp : ND_Unary<"erf_inv",
    "Inverts the error function; NaN beyond -1 and 1, where it is infinite">;
def ND_SinOp : ND_Unary<"sin", "Takes the sine">;
def ND_CosOp : ND_Unary<"cos", "Takes the cosine">;
def ND_SqrtOp : ND_Unary<"sqrt", "Takes the square root">;
def ND_RsqrtOp : ND_Unary<"rsqrt", "Computes 1 / sqrt(x)">;
def ND_AbsOp : ND_Unary<"abs", "Takes the absolute value",
    ND_ComputingTensor>;
def ND_SignOp : ND_Unary<"sign", "Computes -1, 0 or 1; 0 at 0",
    ND_ComputingTensor>;
def ND_NotOp : ND_Unary<"not", "Negates a condition", ND_BoolTensor>;
def ND_StopGradientOp : ND_Unary<"stop_gradient",
    "Passes its operand on; its gradient is zero", ND_Tensor, AnyPartial>;

class ND_Binary<string mnemonic, string what, Type type = ND_ComputingTensor,
                string partial = NoPartial>
    : ND_Elementwise<mnemonic, "{getLhs(), getRhs(), getResult()}", partial> {
  let summary = what;
  let description = [{
    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) the result has the union of the operands' dimensions.
    - (C3) operands and result have one element type.
  }];
  let arguments = (ins type:$lhs, type:$rhs);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs), [{
    build($_builder, $_state, getBroadcastType({lhs, rhs}), lhs, rhs);
  }]>];
}

def ND_AddOp : ND_Binary<"add", "Adds", ND_ComputingTensor, SumPartial> { let hasFolder = 1; }
def ND_SubOp : ND_Binary<"sub", "Subtracts", ND_ComputingTensor, SumPartial> { let hasFolder = 1; }
def ND_MulOp : ND_Binary<"mul", "Multiplies", ND_ComputingTensor, ProductPartial> { let hasFolder = 1; }
def ND_DivOp : ND_Binary<"div", "Divides; integers truncate toward zero",
    ND_ComputingTensor,
    // Only a float division is linear in the dividend.
    PartialWhen<"operand == 0 && kind == ReduceKind::Sum && "
                "::llvm::isa<::mlir::FloatType>(getResult().getType()"
                ".getElementType())", "Alone">.expression> {
  let hasFolder = 1;
}
def ND_MinimumOp : ND_Binary<"minimum", "Takes the smaller; NaN if either is"> {
  let description = [{
    Where both are equal each gets half of the gradient; an operand that equals
    a constant gets none, so that relu, maximum(x, 0), has the slope 0 at 0.

    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) the result has the union of the operands' dimensions.
    - (C3) operands and result have one element type.
  }];
}
def ND_MaximumOp : ND_Binary<"maximum", "Takes the larger; NaN if either is"> {
  let description = ND_MinimumOp.description;
}
def ND_PowOp : ND_Binary<"pow", "Raises to a power", ND_FloatTensor>;
def ND_AndOp : ND_Binary<"and", "Holds where both hold", ND_BoolTensor>;
def ND_OrOp : ND_Binary<"or", "Holds where either holds", ND_BoolTensor>;

def ND_FoldInOp
    : ND_Elementwise<"fold_in", "{getSeed(), getNumber(), getResult()}",
                     NoPartial> {
  let summary = "Mixes a number into a seed";
  let description = [{
    `seed` where `number` is 0: what begins without loops goes on in them. Else
    the output words w0 and w1 of nd.random's generator as one number,
    w0 + 2^32 w1, for the key `seed` and the counter words c0 = number mod 2^32,
    c1 = number / 2^32, c2 = 1, c3 = 0, which no number of nd.random has. So
    seeds of different numbers are independent, and so are the numbers that are
    drawn from them.

    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) the result has the union of the operands' dimensions.
    - (C3) operands and result are of i64.
  }];
  let arguments = (ins ND_LongTensor:$seed, ND_LongTensor:$number);
  let builders = [OpBuilder<(ins "::mlir::Value":$seed,
                                 "::mlir::Value":$number), [{
    build($_builder, $_state, getBroadcastType({seed, number}), seed, number);
  }]>];
}

def ND_CompareOp
    : ND_Elementwise<"compare", "{getLhs(), getRhs()}", NoPartial> {
  let summary = "Compares; a comparison with NaN is false, except ne";
  let description = [{
    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) the result has the union of the operands' dimensions.
    - (C3) the operands have one element type; the result is boolean.
  }];
  let arguments = (ins ND_PredicateAttr:$predicate, ND_Tensor:$lhs,
                       ND_Tensor:$rhs);
  let assemblyFormat = [{
    `` $predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "Predicate":$predicate, "::mlir::Value":$lhs,
                                 "::mlir::Value":$rhs), [{
    build($_builder, $_state,
          getBroadcastType({lhs, rhs}).withElementType($_builder.getI1Type()),
          predicate, lhs, rhs);
  }]>];
}

def ND_SelectOp
    : ND_Elementwise<"select", "{getWhenTrue(), getWhenFalse(), getResult()}",
        PartialWhen<"operand > 0 && kind == ReduceKind::Sum", "Joint">.expression> {
  let summary = "Takes from the first where the condition holds, else the second";
  let description = [{
    What is not taken never matters: a NaN there stays out of the value and of
    the gradient. Through contractions too: where no result that an element of
    an operand goes into was taken, the element may be infinite or NaN. There
    the promise ends with what FloatClassOpInterface assumes: what became
    infinite or NaN by overflow, or in a softmax all of whose elements are
    masked, needs a choice of its own in front of the contraction.

    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) the result has the union of the operands' dimensions.
    - (C3) the two choices and the result have one element type.
  }];
  let arguments = (ins ND_BoolTensor:$condition, ND_Tensor:$whenTrue,
                       ND_Tensor:$whenFalse);
  let builders = [OpBuilder<(ins "::mlir::Value":$condition,
                                 "::mlir::Value":$whenTrue,
                                 "::mlir::Value":$whenFalse), [{
    auto chosen = ::llvm::cast<NamedTensorType>(whenTrue.getType());
    build($_builder, $_state,
          getBroadcastType({condition, whenTrue, whenFalse})
              .withElementType(chosen.getElementType()),
          condition, whenTrue, whenFalse);
  }]>];
}

// What rounds is linear but for the roundings: terms may be rounded before they are
// added. Whether they should be is decided where they move (passes/TermFlow.h).
def ND_CastOp
    : ND_Elementwise<"cast", "{}",
        PartialWhen<"kind == ReduceKind::Sum && isFloatCast(*this)", "Alone">.expression> {
  let summary = "Converts the elements to another type";
  let description = [{
    Floats become integers by truncation toward zero, which has no value where the
    integer does not fit (arith.fptosi, arith.fptoui); integers keep their low bits;
    booleans become 0 or 1; numbers become booleans by comparison with 0.

    **Constraints**
    - (C1) the result has the operand's dimensions.
  }];
  let arguments = (ins ND_Tensor:$input);
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$input,
                                 "::mlir::Type":$elementType), [{
    build($_builder, $_state,
          ::llvm::cast<NamedTensorType>(input.getType())
              .withElementType(elementType), input);
  }]>];
}

#endif

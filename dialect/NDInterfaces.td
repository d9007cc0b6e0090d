// What an operation tells the compiler about itself.

#ifndef MESHC_DIALECT_NDINTERFACES
#define MESHC_DIALECT_NDINTERFACES

include "mlir/IR/OpBase.td"

def PartitionOpInterface : OpInterface<"PartitionOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    What an operation lets partitioning do with each of its dimensions.

    The iteration space of an operation is the union of the dimensions of its
    operands and result. Each of them has one use:

    - *pointwise*: blocks are independent; operands and result are split alike;
    - *reduced(kind)*: absent from the result; when it is split, each device
      has one term and the result is partial over the axes;
    - *whole*: must not be split; partitioning gathers it first.

    Example: `einsum(x, w -> batch, hidden)` of x[batch, pixel] and
    w[pixel, hidden] is pointwise in batch and hidden, reduced(sum) in pixel. A
    layout that splits batch over `data` and pixel over `model` therefore gives
    a result split over `data` and partial sum over `model`, without moving
    anything.

    Pending terms may pass an operation that is linear: `getPartialUse` says
    for each operand whether it may be partial, and whether the other operands
    then have to be partial as well (addition) or must not be (product).

    Names differ between an operand and the iteration space only where the
    operation renames: `getOperandDim` maps them.
  }];
  let methods = [
    InterfaceMethod<[{
      The dimensions of the iteration space, result dimensions first.
    }], "::llvm::SmallVector<DimAttr>", "getIterationDims", (ins), "", [{
      return getUnionOfDims($_op.getOperation());
    }]>,
    InterfaceMethod<[{
      How this operation uses `dim`, a dimension of its iteration space.
    }], "DimUse", "getDimUse", (ins "::llvm::StringRef":$dim)>,
    InterfaceMethod<[{
      Name under which operand `operand` has the iteration dimension `dim`;
      empty if it lacks it.
    }], "::llvm::StringRef", "getOperandDim",
      (ins "unsigned":$operand, "::llvm::StringRef":$dim), "", [{
      auto type =
          ::llvm::cast<NamedTensorType>($_op->getOperand(operand).getType());
      return type.hasDim(dim) ? dim : ::llvm::StringRef();
    }]>,
    InterfaceMethod<[{
      Whether operand `operand` may hold pending terms of `kind`.
    }], "PartialUse", "getPartialUse",
      (ins "unsigned":$operand, "ReduceKind":$kind), "", [{
      return PartialUse::Complete;
    }]>,
    InterfaceMethod<[{
      Builds the operation on one device's blocks. `shards` are the local
      values of the operands; the result has the local shape of the result.
    }], "::mlir::FailureOr<::mlir::Value>", "buildLocal",
      (ins "PartitionBuilder &":$builder, "::mlir::ValueRange":$shards)>,
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    The reverse-mode derivative of an operation, as nd operations.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradient with respect to each operand from `outputGradient`,
      the gradient with respect to the result. A null value means the operand
      has none (integers, conditions). A gradient may have more dimensions than
      its operand where that was broadcast: the caller sums them away; it must
      not have fewer. Of the operations built, the first operand is the
      gradient that arrived, or one made of it, where there are several.
    }], "::llvm::SmallVector<::mlir::Value>", "buildGradients",
      (ins "GradientBuilder &":$builder, "::mlir::Value":$outputGradient)>,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    In which floats an operation computes where a program computes in 16 bits.
  }];
  let methods = [
    InterfaceMethod<[{
      What it needs of the width of its f32 operands and result.
    }], "PrecisionUse", "getPrecisionUse">,
  ];
}

def FloatClassOpInterface : OpInterface<"FloatClassOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    Which floats a result may hold: NaN, infinities, zeros, negative and
    positive numbers.

    It is assumed that numbers stay in the range of their type: sums, products
    and quotients of numbers do not overflow, and what is not 0 does not
    underflow. `exp` of a positive number may overflow. A maximum or minimum
    over dimensions finds a number where there may be one, so that a softmax in
    which -inf masks elements is finite.
  }];
  let methods = [
    InterfaceMethod<[{
      The classes of the result, given those of each operand; what is no float
      is finite.
    }], "::llvm::FPClassTest", "getResultClasses",
      (ins "::llvm::ArrayRef<::llvm::FPClassTest>":$operands)>,
  ];
}

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    An operation whose result element depends on one element of each operand.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the operation on scalars with `arith` and `math`.
    }], "::mlir::Value", "buildScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::ValueRange":$operands)>,
  ];
}

def BorderOpInterface : OpInterface<"BorderOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    An operation on the border of a program, through which one value enters or
    leaves: an input, an output, a read or a write of a variable, of nd and of
    spmd alike.

    The operation that defines a value is on the border exactly if the value
    enters the program there.
  }];
  let methods = [
    InterfaceMethod<"The name by which the outside knows the value.",
                    "::llvm::StringRef", "getBorderName">,
    InterfaceMethod<"Whether the value comes in; it goes out otherwise.",
                    "bool", "isEntry">,
    InterfaceMethod<"Whether the outside is a variable of the module.",
                    "bool", "isVariable">,
    InterfaceMethod<[{
      The value: the result of what lets it in, the operand of what lets it out.
    }], "::mlir::Value", "getBorderValue">,
    InterfaceMethod<[{
      The tensor on all devices, with its sharding once it has one.
    }], "::meshc::nd::NamedTensorType", "getGlobalType">,
  ];
  let extraSharedClassDeclaration = [{
    bool isExit() { return !$_op.isEntry(); }
  }];
}

#endif

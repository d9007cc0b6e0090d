// What an operation tells the compiler about itself.

#ifndef MESHC_DIALECT_NDINTERFACES
#define MESHC_DIALECT_NDINTERFACES

include "mlir/IR/OpBase.td"

def PartitionOpInterface : OpInterface<"PartitionOpInterface"> {
  let cppNamespace = "::meshc::nd";
  let description = [{
    An operation by its loops: what partitioning may do with each of them, and
    how the dimensions of operands and results follow from them.

    A loop runs over one dimension of the iteration space, by name. Each has one
    use:

    - *parallel*: blocks are independent of one another;
    - *reduced(kind)*: a result lacks it; when it is split, each device has one
      term and the result is partial over the axes;
    - *blocked*: blocks are computed alone and then combined, which is written
      out before shardings are assigned; what is left must not be split;
    - *ordered*: one position after the other: must not be split;
    - *whole*: must not be split; partitioning gathers it first.

    A dimension of an operand or result has an access: the loop of its own name
    unless the operation says otherwise. `getOperandAccess` and
    `getResultAccess` give it. Where it is a loop, or is indexed by a tensor
    along one, the dimension is split as the loop is. Where it is another form,
    a device needs positions of blocks that are not its own: the dimension is
    whole.

    Example: `einsum(x, w -> batch, hidden)` of x[batch, pixel] and
    w[pixel, hidden] is parallel in batch and hidden, reduced(sum) in pixel. A
    layout that splits batch over `data` and pixel over `model` therefore gives
    a result split over `data` and partial sum over `model`, without moving
    anything.

    Pending terms may pass an operation that is linear: `getPartialUse` says
    for each operand whether it may be partial, and whether the other operands
    then have to be partial as well (addition) or must not be (product). Every
    result is then partial.
  }];
  let methods = [
    InterfaceMethod<[{
      The loops, each with the name and size of its dimension: those of the
      results first.
    }], "::llvm::SmallVector<DimAttr>", "getIterationDims", (ins), "", [{
      return getUnionOfDims($_op.getOperation());
    }]>,
    InterfaceMethod<[{
      How this operation uses the loop `dim`.
    }], "DimUse", "getDimUse", (ins "::llvm::StringRef":$dim)>,
    InterfaceMethod<[{
      How the dimension `dim` of operand `operand` follows from the loops.
    }], "DimAccess", "getOperandAccess",
      (ins "unsigned":$operand, "::mlir::StringAttr":$dim), "", [{
      return DimAccess::itself(dim);
    }]>,
    InterfaceMethod<[{
      How the dimension `dim` of result `result` follows from the loops.
    }], "DimAccess", "getResultAccess",
      (ins "unsigned":$result, "::mlir::StringAttr":$dim), "", [{
      return DimAccess::itself(dim);
    }]>,
    InterfaceMethod<[{
      Whether operand `operand` may hold pending terms of `kind`.
    }], "PartialUse", "getPartialUse",
      (ins "unsigned":$operand, "ReduceKind":$kind), "", [{
      return PartialUse::Complete;
    }]>,
    InterfaceMethod<[{
      Builds the operation on one device's blocks. `shards` are the local
      values of the operands; there is one value for each result, of its local
      shape.
    }], "LocalResults", "buildLocal",
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
      Builds the gradient with respect to each operand from `arrived`, the
      gradients with respect to each result: null where there is none, which one
      result alone never is. A null value means the operand has none (integers,
      conditions). A gradient may have more dimensions than
      its operand where that was broadcast: the caller sums them away; it must
      not have fewer. Of the operations built, the first operand is the
      gradient that arrived, or one made of it, where there are several.
    }], "::llvm::SmallVector<::mlir::Value>", "buildGradients",
      (ins "GradientBuilder &":$builder, "::mlir::ValueRange":$arrived)>,
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

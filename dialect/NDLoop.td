// Repetition along a dimension: the loop, and the tensors of one position that
// make a tensor or come out of one.

#ifndef MESHC_DIALECT_NDLOOP
#define MESHC_DIALECT_NDLOOP

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def ND_LoopOp : Op<ND_Dialect, "loop",
    [SingleBlock, AttrSizedOperandSegments, RecursiveMemoryEffects,
     RecursivelySpeculatable,
     DeclareOpInterfaceMethods<RegionBranchOpInterface,
                               ["getEntrySuccessorOperands"]>]> {
  let summary = "Runs its region once for each position of a dimension, in order";
  let description = [{
    The arguments of the region are the position, a scalar i32; the carried
    values; and for each sliced operand its slice at the position. The region
    ends with nd.yield. What it uses from outside is captured: it is the same in
    all iterations.

    The results are, in this order:
    - for each carried value what the last iteration yields for it. The first
      iteration has the initial value, each other one what the iteration before
      it yields;
    - for each stacked value what all iterations yield, along the dimension,
      which is the first of the result;
    - for each summed value the sum over the iterations, in their order.

    With `reverse` the first iteration is that of the last position, and so on:
    the gradient of a loop runs backwards. Slices and stacked values lie at the
    position all the same.

    Rewritten before anything else: a loop that carries nothing into one
    computation along the dimension (nd-map-loops), any other into straight-line
    code (nd-unroll). A value in the region is called after the loop, `layer/h` in
    the loop `layer`: that of iteration 3 is `layer/3/h`.

    ```mlir
    %last, %all = nd.loop "time"=5 carries(%start) slices(%x)
        : (!nd.tensor<["c"=3], f32>, !nd.tensor<["time"=5, "c"=3], f32>)
        -> (!nd.tensor<["c"=3], f32>, !nd.tensor<["time"=5, "c"=3], f32>) {
    ^bb0(%t: !nd.tensor<[], i32>, %h: !nd.tensor<["c"=3], f32>,
         %s: !nd.tensor<["c"=3], f32>):
      %next = nd.add %h, %s
          : (!nd.tensor<["c"=3], f32>, !nd.tensor<["c"=3], f32>)
          -> !nd.tensor<["c"=3], f32>
      nd.yield carries(%next : !nd.tensor<["c"=3], f32>)
          stacks(%next : !nd.tensor<["c"=3], f32>)
    }
    ```

    **Constraints**
    - (C1) each sliced operand has the dimension, in its size.
    - (C2) the arguments of the region are a scalar i32, the types of the
      initial values, and the types of the sliced operands without the dimension.
    - (C3) the region yields for each initial value one of its type.
    - (C4) the results have the types of the initial values, those of the
      stacked values with the dimension before their own, and those of the summed
      values. A sharding that a constraint gave what is stacked or summed is not
      that of the whole.
    - (C5) no carried and no stacked value has the dimension.
    - (C6) the region has no input, output, read or write; only
      floats and integers of 32 or 64 bits are summed.
  }];
  let arguments = (ins ND_DimAttr:$dim, Variadic<ND_Tensor>:$initial,
                       Variadic<ND_Tensor>:$sliced, UnitAttr:$reverse);
  let results = (outs Variadic<ND_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $dim (`reverse` $reverse^)? (`carries` `(` $initial^ `)`)? (`slices` `(` $sliced^ `)`)? attr-dict
    `:` functional-type(operands, results) $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What the region yields.
    YieldOp getYield();
    /// Arguments of the region.
    ::mlir::BlockArgument getPosition();
    ::mlir::ArrayRef<::mlir::BlockArgument> getCarriedArguments();
    ::mlir::ArrayRef<::mlir::BlockArgument> getSlices();
    /// Results by what they are.
    ::mlir::ResultRange getCarriedResults();
    ::mlir::ResultRange getStackedResults();
    ::mlir::ResultRange getSummedResults();
    /// What the region yields for a result.
    ::mlir::Value getYielded(::mlir::OpResult result);
    /// The operand that `slice`, one of getSlices(), is a slice of.
    ::mlir::Value getSlicedOperand(::mlir::BlockArgument slice);
    /// The position of iteration `iteration`.
    int64_t getPositionOf(int64_t iteration);
  }];
}

def ND_YieldOp : Op<ND_Dialect, "yield",
    [Pure, Terminator, HasParent<"LoopOp">, AttrSizedOperandSegments,
     DeclareOpInterfaceMethods<RegionBranchTerminatorOpInterface>]> {
  let summary = "Ends an iteration of nd.loop with what it computed";
  let arguments = (ins Variadic<ND_Tensor>:$carried,
                       Variadic<ND_Tensor>:$stacked,
                       Variadic<ND_Tensor>:$summed);
  let assemblyFormat = [{
    (`carries` `(` $carried^ `:` type($carried) `)`)?
    (`stacks` `(` $stacked^ `:` type($stacked) `)`)?
    (`sums` `(` $summed^ `:` type($summed) `)`)? attr-dict
  }];
}

// Both are operations until gradients stand: the gradient of each is the other.
class ND_StackingOp<string mnemonic, list<Trait> traits = []>
    : Op<ND_Dialect, mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<FloatClassOpInterface>,
        DeclareOpInterfaceMethods<PrecisionOpInterface>,
        DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)> {
  let hasVerifier = 1;
}

def ND_StackOp : ND_StackingOp<"stack",
    [DeclareOpInterfaceMethods<PartitionOpInterface, ["getPartialUse"]>]> {
  let summary = "Puts tensors of one shape one after the other along a new dimension";
  let description = [{
    The element of the result at position t of the dimension is that of operand
    t. It is one operation for shardings, so that the pending terms of all
    operands pass it together. Along a dimension that is split, or that is not
    the first one in memory, it is written out once shardings are assigned
    (nd-write-stacks); elsewhere operands lie one after the other (spmd.stack).

    **Constraints**
    - (C1) there is an operand; all have the same dimensions, not the new one, in
      any order of storage, and one element type.
    - (C2) the result has these dimensions and the new one, whose size is the
      number of operands, and their element type.
  }];
  let arguments = (ins StrAttr:$dim, Variadic<ND_Tensor>:$inputs);
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = [{
    $inputs `along` $dim attr-dict `:` functional-type($inputs, $result)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::StringAttr":$dim, "::mlir::ValueRange":$inputs)>
  ];
  let extraClassDeclaration = [{
    /// Whether the operands lie one after the other on every device: the
    /// dimension is the first one in memory and not split.
    bool isWhole();
  }];
}

def ND_UnstackOp : ND_StackingOp<"unstack"> {
  let summary = "The tensors at each position of a dimension";
  let description = [{
    The inverse of nd.stack: result t is the operand at position t of the
    dimension. Rewritten into views before shardings (nd-decompose).

    **Constraints**
    - (C1) the operand has the dimension; there are as many results as it has
      positions.
    - (C2) all results are of the operand's type without the dimension.
  }];
  let arguments = (ins ND_Tensor:$input, StrAttr:$dim);
  let results = (outs Variadic<ND_Tensor>:$results);
  let assemblyFormat = [{
    $input `along` $dim attr-dict `:` functional-type($input, $results)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$input, "::mlir::StringAttr":$dim)>
  ];
}

#endif

// The exec dialect: one device's program as steps, each of which becomes one
// command of the runtime, or a few. Values of it are tensors in memory.

#ifndef MESHC_CODEGEN_EXEC
#define MESHC_CODEGEN_EXEC

include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// In C++ `exec` is the namespace of the runtime's schema.
def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::meshc::steps";
  let summary = "The steps of one device's program";
  let dependentDialects = ["::meshc::spmd::SPMDDialect"];
}

//===-- Attributes --------------------------------------------------------===//

def Exec_MatmulActivation : I32EnumAttr<"MatmulActivation",
    "what a library matmul applies to its result",
    [I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Relu", 1, "relu">,
     I32EnumAttrCase<"GeluErf", 2, "gelu_erf">,
     I32EnumAttrCase<"GeluTanh", 3, "gelu_tanh">]> {
  let cppNamespace = "::meshc::codegen";
}

def Exec_ColumnSum : I32EnumAttr<"ColumnSum",
    "of which matrix a library matmul sums the columns beside its product: the "
    "result over its rows, or a factor over what is contracted",
    [I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Result", 1, "result">,
     I32EnumAttrCase<"FirstFactor", 2, "first_factor">,
     I32EnumAttrCase<"SecondFactor", 3, "second_factor">]> {
  let cppNamespace = "::meshc::codegen";
}

def Exec_ConvTensor : I32EnumAttr<"ConvTensor",
    "one of the three tensors of a convolution",
    [I32EnumAttrCase<"Destination", 0, "destination">,
     I32EnumAttrCase<"Source", 1, "source">,
     I32EnumAttrCase<"Weights", 2, "weights">]> {
  let cppNamespace = "::meshc::codegen";
}

def Exec_LocationAttr
    : Attr<CPred<"::llvm::isa<::mlir::LocationAttr>($_self)">, "location"> {
  let storageType = "::mlir::LocationAttr";
  let returnType = "::mlir::LocationAttr";
  let convertFromStorage = "$_self";
}

//===-- Interface ---------------------------------------------------------===//

def StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::meshc::steps";
  let description = [{
    An operation that reads tensors in memory, its operands, writes others, its
    results, and becomes commands. What planning asks about it:

    - what a result is called (`getResultLoc`) and how much memory it takes
      (`getMask`);
    - which operands' memory a result may take (`getSharing`), and where
      operands may begin (`readsAnywhere`);
    - how much it computes (`getWork`), or that it communicates;
    - its commands: `prepare` emits code, which tells what workspace it needs,
      before memory is planned, `addCommands` comes afterwards.
  }];
  let methods = [
    InterfaceMethod<"Name, phase and span of a result.",
                    "::mlir::Location", "getResultLoc",
                    (ins "unsigned":$result)>,
    InterfaceMethod<[{By result, the numbers of the operands whose memory it may
        take: every element is read before that element is written, and by no
        other iteration.}],
        "::meshc::steps::Sharing", "getSharing",
        (ins "::meshc::codegen::KernelBodies &":$bodies)>,
    InterfaceMethod<[{Rows, and 32-bit words of a row, of a result that has one
        bit for each element in memory; nothing for any other.}],
        "std::optional<::meshc::steps::Mask>", "getMask",
        (ins "unsigned":$result), "", "return std::nullopt;">,
    InterfaceMethod<"Work, in units of one addition.", "double", "getWork">,
    InterfaceMethod<"Whether it changes shardings and computes nothing.",
        "bool", "communicates", (ins), "", "return false;">,
    InterfaceMethod<"Whether it adds to an operand where that lies.",
        "bool", "accumulates", (ins), "", "return false;">,
    InterfaceMethod<[{Whether its operands may begin at any element; else they
        begin where those of kernels do.}],
        "bool", "readsAnywhere", (ins), "", "return false;">,
    InterfaceMethod<"Emits its code. Fails with a diagnostic.",
        "::llvm::LogicalResult", "prepare",
        (ins "::meshc::codegen::CommandBuilder &":$commands), "",
        "return ::mlir::success();">,
    InterfaceMethod<"Adds its commands. Fails with a diagnostic.",
        "::llvm::LogicalResult", "addCommands",
        (ins "::meshc::codegen::CommandBuilder &":$commands)>,
  ];
}

//===-- Operations --------------------------------------------------------===//

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

class Exec_StepOp<string mnemonic, list<string> methods,
                  list<Trait> traits = []>
    : Exec_Op<mnemonic, [DeclareOpInterfaceMethods<StepOpInterface, methods>]
                        # traits>;

def Exec_ProgramOp : Exec_Op<"program",
    [Symbol, SingleBlock, NoTerminator, NoRegionArguments, IsolatedFromAbove,
     HasParent<"::mlir::ModuleOp">]> {
  let summary = "The steps of a program, in the order in which they are issued";
  let description = [{
    What comes in and goes out are the operations on the border of an spmd
    program: `spmd.input` and `spmd.read` first, `spmd.output` and `spmd.write`
    last. Everything between them is a step.

    **Constraints**
    - (C1) it holds steps and the border of an spmd program.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let hasRegionVerifier = 1;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator,
    ParentOneOf<["KernelOp", "GroupOp", "TransferOp", "LoopOp"]>]> {
  let summary = "Ends the body of a step with its results";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

class Exec_BodyOp<string mnemonic, list<string> methods = []>
    : Exec_StepOp<mnemonic, methods,
        [IsolatedFromAbove, SingleBlock]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` $body attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasRegionVerifier = 1;
  code baseDeclarations = [{
    /// The results as the body knows them.
    ::mlir::OperandRange getYielded() {
      return getBody().front().getTerminator()->getOperands();
    }
  }];
  let extraClassDeclaration = baseDeclarations;
}

def Exec_KernelOp : Exec_BodyOp<"kernel", ["prepare"]> {
  let summary = "Fused tensor operations: generated code";
  let description = [{
    The body has the operations of the kernel and, of what it computes again
    (splats, positions, broadcasts), a copy of its own. Block arguments are the
    operands, in order; no two operands are the same tensor.

    **Constraints**
    - (C1) block arguments and yielded values have the types of operands and
      results.
    - (C2) the body computes tensors of static shape from tensors and scalars.
    - (C3) there is a result, and what is yielded is computed in the body.
  }];
}

def Exec_GroupOp : Exec_BodyOp<"group", ["prepare"]> {
  let summary = "Kernels with the same body as one launch";
  let description = [{
    Horizontal fusion: kernels that do not depend on one another run as one
    step. The results are those of the kernels, in order.

    **Constraints**
    - (C1) block arguments and yielded values have the types of operands and
      results.
    - (C2) the body has at least two kernels, which read operands of the group
      alone.
    - (C3) the results of the kernels are yielded, in order.
  }];
}

def Exec_TransferOp : Exec_BodyOp<"transfer", ["communicates"]> {
  let summary = "Collectives that go together";
  let description = [{
    Member i of the body takes operand i to result i.

    **Constraints**
    - (C1) block arguments and yielded values have the types of operands and
      results.
    - (C2) the body has a collective for each operand, in order, and yields
      their results.
    - (C3) collectives that go together are of one kind.
  }];
}

def Exec_MatmulOp : Exec_StepOp<"matmul",
    ["getMask", "accumulates", "readsAnywhere"],
    [AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "A library's contraction of two tensors, and its epilogue";
  let description = [{
    result = activation(lhs * rhs + addend + bias), the bias along the result's
    last dimensions. `indexing_maps` say, as those of `linalg.generic`, by which
    loops lhs, rhs and the result are indexed; loops that the result lacks are
    summed over. The result, addend and bias have one element type; lhs and rhs
    have another one, of 16 bits, where the result is f32 all the same. All is
    computed in f32; 16 bits are rounded to once, where the program rounds in
    between too.

    `aux` is what an activation leaves behind for its gradient: its argument for
    gelu; for relu a comparison with 0, which is one bit for each element in
    memory. With `slope`, what another matmul left behind, the result is
    lhs * rhs times the slope of the activation at what it stands for.

    `column_sum` are sums over rows of the result or of a factor.

    `aux_loc` and `sum_loc` are the locations of these results; that of the
    operation is the result's.

    **Constraints**
    - (C1) there are three projected permutations of the same loops, one for
      each of lhs, rhs and result, and sizes agree.
    - (C2) the addend has the result's type; there is one only where there is no
      activation.
    - (C3) aux and slope go with an activation, and not with each other.
    - (C4) what is contracted in several library calls ends with no bias and no
      activation.
    - (C5) there are column sums where it is said of what, and only there.
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs,
                       Optional<AnyRankedTensor>:$addend,
                       Optional<AnyRankedTensor>:$bias,
                       Optional<AnyRankedTensor>:$slope,
                       AffineMapArrayAttr:$indexing_maps,
                       DefaultValuedAttr<Exec_MatmulActivation,
                           "::meshc::codegen::MatmulActivation::None">:$activation,
                       DefaultValuedAttr<Exec_ColumnSum,
                           "::meshc::codegen::ColumnSum::None">:$column_sum_of,
                       OptionalAttr<Exec_LocationAttr>:$aux_loc,
                       OptionalAttr<Exec_LocationAttr>:$sum_loc);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$aux,
                      Optional<AnyRankedTensor>:$column_sum);
  let assemblyFormat = [{
    $lhs `,` $rhs (`addend` $addend^)? (`bias` $bias^)?
    (`activation` $activation^)? (`slope` $slope^)?
    (`sums` $column_sum_of^)? attr-dict
    `:` type($lhs) `,` type($rhs) (`addend` type($addend)^)?
    (`bias` type($bias)^)? (`slope` type($slope)^)?
    `->` type($result) (`aux` type($aux)^)? (`sums` type($column_sum)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What its library calls are.
    ::meshc::codegen::MatmulForm getForm();
    /// Sizes of the loops.
    ::llvm::SmallVector<int64_t> getLoopSizes();
    bool isGradient() { return bool(getSlope()); }
  }];
}

def Exec_ConvOp : Exec_StepOp<"conv", ["readsAnywhere"]> {
  let summary = "A library's convolution, or one of its gradients";
  let description = [{
    The terms of a convolution are source * weights * destination: the loops are
    those of all three, and `indexing_maps` say by which of them each is
    indexed, the source in space at stride * a + dilation * b - pad, where a is a
    loop of the destination and b one of the weights. What is outside the source
    is 0. It computes one of the three from the others: an element of it is the
    sum, over all terms that it is in, of the product of the other two. The
    destination is the convolution; source and weights are what its gradients
    are.

    The operands are source, weights and destination, in this order, but for the
    one that is computed.

    ```mlir
    %y = exec.conv destination %x, %w {indexing_maps = [
        affine_map<(n, row, k, dy, c) -> (n, 2 * row + dy - 1, c)>,
        affine_map<(n, row, k, dy, c) -> (dy, c, k)>,
        affine_map<(n, row, k, dy, c) -> (n, row, k)>]}
        : tensor<2x8x3xf32>, tensor<3x3x5xf32> -> tensor<2x4x5xf32>
    ```

    **Constraints**
    - (C1) there are three maps of the same loops.
    - (C2) both operands are of f32 or of bf16, and so is the result, or of f32;
      sums are of f32 and rounded once.
    - (C3) it is one call of the library: weights and destination are indexed by
      projected permutations of the loops, the source by loops or as above;
      sizes agree; windows see something of the source, and all of a source
      that is computed; after merging loops that step through memory as one
      there is one loop of inputs, one of outputs and one of groups, and no more
      than three dimensions of space, batches beyond the first included.
  }];
  let arguments = (ins Exec_ConvTensor:$computes, AnyRankedTensor:$lhs,
                       AnyRankedTensor:$rhs, AffineMapArrayAttr:$indexing_maps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $computes $lhs `,` $rhs attr-dict
    `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What its library call is.
    ::meshc::codegen::ConvForm getForm();
  }];
}

def Exec_PutOp : Exec_StepOp<"put", ["prepare"]> {
  let summary = "Adds elements up where an index says";
  let description = [{
    The put of the spmd dialect as one command, whose constraints it has.

    ```mlir
    %g = exec.put %x[%tokens] {indexing_maps = [
        affine_map<(v, c, t) -> (t, c)>, affine_map<(v, c, t) -> (t)>,
        affine_map<(v, c, t) -> (v, c)>]}
        : tensor<7x3xf32>, tensor<7xi32> -> tensor<5x3xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$index,
                       AffineMapArrayAttr:$indexing_maps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `[` $index `]` attr-dict
    `:` type($input) `,` type($index) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Sizes and strides of its loops, as the runtime's schema has them.
    ::meshc::exec::PutT getLoops();
  }];
}

def Exec_SliceOp : Exec_StepOp<"slice", ["readsAnywhere"]> {
  let summary = "A part of a tensor, where it lies";
  let description = [{
    The elements of the operand from `offset` on, one behind the other, or with
    `strides` from one position of each dimension of the result to the next, all
    in elements. It computes nothing: the result lies where it lies in the
    operand, so it is no command, unless something asks for memory of its own:
    the border of a program, a transfer, or a kernel whose operands do not begin
    where it begins. Then it is a copy.

    ```mlir
    %w3 = exec.slice %w at 105 : tensor<4x5x7xf32> -> tensor<5x7xf32>
    %q = exec.slice %qkv at 7 strides [21, 1]
        : tensor<5x3x7xf32> -> tensor<5x7xf32>
    ```

    **Constraints**
    - (C1) operand and result have one element type.
    - (C2) the operand has all elements of the result.
    - (C3) strides, of which there is one for each dimension, are no less than 0.
    - (C4) a result with strides is a factor of matmuls, and nothing else.
  }];
  let arguments = (ins AnyRankedTensor:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$offset,
                       OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `at` $offset (`strides` $strides^)? attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of the result, in elements, by dimension.
    ::llvm::SmallVector<int64_t> getResultStrides();
  }];
}

def Exec_StackOp : Exec_StepOp<"stack", ["readsAnywhere"]> {
  let summary = "Tensors one after the other in memory";
  let description = [{
    Its first dimension says which operand. Operands are computed where they lie
    in the result, so it is no command, but for a copy of each that lies
    elsewhere: an input, a variable, one that is stacked twice, or whose place
    does not begin where a kernel's operands begin.

    ```mlir
    %g = exec.stack %g0, %g1 : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
    ```

    **Constraints**
    - (C1) there is an operand, and all have one type.
    - (C2) the result is as many of them as there are operands.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$parts);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $parts attr-dict `:` type($parts) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_LoopOp : Exec_StepOp<"loop", ["prepare"],
    [IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "Steps that are run once for each position of a dimension, in order";
  let description = [{
    The arguments of the body are the carried values, for each sliced operand its
    slice at the position, and the captured operands, which are the same in all
    iterations. The body yields the carried values of the next iteration, then
    what is stacked. The results are the carried values after the last iteration
    and, along the dimension, which is their first but for those of size 1, the
    stacked ones. A slice is one position of a dimension with as many as there
    are iterations, or a tile of a longer one.

    With `reverse` the first iteration is that of the last position. Slices and
    stacked values lie at the position all the same.

    The steps of the body stand in the program once, whatever the number of
    iterations. A carried value has one place, in which the next one is computed
    where nothing reads it any more; slices are read and stacked values computed
    where they lie in the whole, if they lie on cache lines there. Anything else
    is copied.

    ```mlir
    %last, %all = exec.loop "time" x 5 carries(%start) slices(%x) captures(%w) {
    ^bb0(%h: tensor<16xf32>, %s: tensor<16xf32>, %v: tensor<16xf32>):
      %next = exec.kernel(%h, %s, %v) { ... }
      exec.yield %next, %next : tensor<16xf32>, tensor<16xf32>
    } : (tensor<16xf32>, tensor<5x16xf32>, tensor<16xf32>)
        -> (tensor<16xf32>, tensor<5x16xf32>)
    ```

    **Constraints**
    - (C1) each sliced operand has as many slices of one size as there are
      iterations.
    - (C2) the arguments of the body have the types of the initial values, of the
      slices and of the captured operands.
    - (C3) what is yielded has the types of the carried values and of slices of
      the stacked ones.
    - (C4) the body holds steps, once those of the program are formed.
  }];
  let arguments = (ins StrAttr:$dim,
                       ConfinedAttr<I64Attr, [IntPositive]>:$iterations,
                       Variadic<AnyRankedTensor>:$initial,
                       Variadic<AnyRankedTensor>:$sliced,
                       Variadic<AnyRankedTensor>:$captured, UnitAttr:$reverse);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $dim `x` $iterations (`reverse` $reverse^)?
    (`carries` `(` $initial^ `)`)? (`slices` `(` $sliced^ `)`)?
    (`captures` `(` $captured^ `)`)? $body attr-dict
    `:` functional-type(operands, $outputs)
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Arguments of the body, by what they are.
    ::mlir::ArrayRef<::mlir::BlockArgument> getCarriedArguments();
    ::mlir::ArrayRef<::mlir::BlockArgument> getSlices();
    ::mlir::ArrayRef<::mlir::BlockArgument> getCapturedArguments();
    /// Results, by what they are.
    ::mlir::ResultRange getCarriedResults();
    ::mlir::ResultRange getStackedResults();
    /// What the body yields for them.
    ::mlir::OperandRange getYielded();
    /// The steps of the body, in order.
    std::vector<StepOpInterface> getSteps();
  }];
}

#endif

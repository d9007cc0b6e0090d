// The border of programs, sources of values, and operations that change the set
// of dimensions. What stands around programs is in NDModule.td, elementwise
// operations are in NDElementwise.td.

#ifndef MESHC_DIALECT_NDOPS
#define MESHC_DIALECT_NDOPS

include "dialect/NDModule.td"

//===-- Border of a program -----------------------------------------------===//

// `name` and `value` are expressions for its name and for the value that
// crosses the border.
class ND_Border<string mnemonic, bit isEntry, bit isVariable, string name,
                string value, list<Trait> traits = []>
    : Op<ND_Dialect, mnemonic,
         !listconcat([DeclareOpInterfaceMethods<BorderOpInterface>], traits)> {
  let extraClassDefinition = [{
    ::llvm::StringRef $cppClass::getBorderName() { return }] # name # [{; }
    bool $cppClass::isEntry() { return }] # isEntry # [{; }
    bool $cppClass::isVariable() { return }] # isVariable # [{; }
    ::mlir::Value $cppClass::getBorderValue() { return }] # value # [{; }
    NamedTensorType $cppClass::getGlobalType() {
      return }] # value # [{.getType();
    }
  }];
}

def ND_InputOp : ND_Border<"input", 1, 0, "getName()", "getResult()"> {
  let summary = "A value given to the program from outside";
  let description = [{
    `index_bound` b says that integers lie in [0, b); 0 promises nothing. The
    input `seedName`, a scalar i64 of which no spec can have the name, is filled
    by the runtime: random numbers are drawn from it. It is the seed of the
    program's run, which is another one for each. So is `stepName`, a scalar i32:
    the number of the training step, from 1, and 2^31 - 1 from there on, and
    `partName`, a scalar i32: the part of the step that the program runs, from 0.
    A scalar whose name is `settingPrefix` and an expression is what that is of
    the module's settings.
  }];
  let arguments = (ins StrAttr:$name,
                       DefaultValuedAttr<I64Attr, "0">:$index_bound);
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral seedName = "random seed";
    /// Whether random numbers are drawn from it.
    bool isSeed() { return getName() == seedName; }
    static constexpr ::llvm::StringLiteral stepName = "training step";
    bool isStep() { return getName() == stepName; }
    static constexpr ::llvm::StringLiteral partName = "part of the step";
    bool isPart() { return getName() == partName; }
    static constexpr ::llvm::StringLiteral settingPrefix = "setting ";
    bool isSetting() { return getName().starts_with(settingPrefix); }
    /// Whether the runtime fills it, nobody else.
    bool isOfRun() {
      return isSeed() || isStep() || isPart() || isSetting();
    }
  }];
}

def ND_OutputOp : ND_Border<"output", 0, 0, "getName()", "getValue()"> {
  let summary = "Gives a value to the outside under a name";
  let arguments = (ins StrAttr:$name, ND_Tensor:$value);
  let assemblyFormat = "$name `,` $value attr-dict `:` type($value)";
}

def ND_ReadOp : ND_Border<"read", 1, 1, "getVariable()", "getResult()",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Reads a variable as it was when the program started";
  let description = [{
    **Constraints**
    - (C1) the symbol is a variable of the result's type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = "$variable attr-dict `:` type($result)";
}

def ND_GradientOp : Op<ND_Dialect, "gradient",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The gradient of what is minimized by a parameter";
  let description = [{
    Stands in the program @update alone, and is what nd-build-step finds by
    differentiation.

    **Constraints**
    - (C1) the symbol is a parameter of the result's type.
    - (C2) it is in @update.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = "$variable attr-dict `:` type($result)";
}

def ND_WriteOp : ND_Border<"write", 0, 1, "getVariable()", "getValue()",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Sets a variable at the end of the program";
  let description = [{
    **Constraints**
    - (C1) the symbol is a variable of the value's type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable, ND_Tensor:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` type($value)";
}

//===-- Sources -----------------------------------------------------------===//

// `partition` lists the methods of PartitionOpInterface whose default does not
// serve the operation.
class ND_Op<string mnemonic, list<Trait> traits = [],
            list<string> partition = []>
    : Op<ND_Dialect, mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<PartitionOpInterface, partition>,
        DeclareOpInterfaceMethods<FloatClassOpInterface>,
        DeclareOpInterfaceMethods<PrecisionOpInterface>], traits)> {
  let results = (outs ND_Tensor:$result);
  let hasVerifier = 1;
}

def ND_ConstantOp : ND_Op<"constant", [ConstantLike]> {
  let summary = "A tensor whose elements are all one value";
  let description = [{
    **Constraints**
    - (C1) the value has the element type of the result.
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let assemblyFormat = "`(` $value `)` attr-dict `:` type($result)";
  let hasFolder = 1;
}

def ND_IotaOp : ND_Op<"iota"> {
  let summary = "The position along its one dimension: 0, 1, 2, ...";
  let description = [{
    **Constraints**
    - (C1) the result has one dimension and integer or float elements that are
      computed with.
  }];
  let arguments = (ins);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def ND_RandomOp : ND_Op<"random"> {
  let summary = "Random numbers from a counter: equal on every mesh and layout";
  let description = [{
    `key` is a hash of the name the numbers are for. `order` are the dimensions
    over which positions count, major first; without it all of the result, as
    they are stored. The seed may have dimensions, those of loops for example:
    it is another one at each of their positions. The element with row-major
    position i over `order` is a function of (seed, key, i) alone, through one
    block of Philox4x32-10 (Salmon et al. 2011), as 64-bit unsigned numbers
    K = key XOR seed and i:

    - key words k0 = K mod 2^32, k1 = K / 2^32;
    - counter words c0 = i mod 2^32, c1 = i / 2^32, c2 = c3 = 0;
    - output words w0, w1 (w2, w3 are not used);
    - uj = floor(wj / 2^8) * 2^-24 + 2^-25, which lies in (0, 1);
    - `uniform`: first + (second - first) * u0, from low to high;
    - `normal`: first + second * sqrt(-2 log u0) * cos(2 pi u1), of mean `first`
      and standard deviation `second` (Box-Muller);
    - `truncated_normal`: first + second * sqrt(2) * erf_inv(a * (2 u0 - 1)) with
      a = erf(sqrt(2)), a normal number of mean `first` and standard deviation
      `second` of which two deviations either way are left.

    It is computed in the element type of the result, in f32 if that is
    narrower: the constants first, second, second - first, 2 pi, 2 a, -a and
    second * sqrt(2) are rounded to it.

    Where a program runs part p of m of a step, the positions of the dimensions
    `parted` are those of a part: position q counts as q m + p, of m times as many.
    So what is drawn for a sample of the whole batch is drawn for it in its part.

    **Constraints**
    - (C1) the seed is of i64.
    - (C2) the result has float elements.
    - (C3) the result has the dimensions of `order`, each once, and those of the
      seed, and no others.
    - (C4) the part is a scalar of i32, the number of parts is positive, and
      positions of the dimensions `parted` count.
  }];
  let arguments = (ins ND_DistributionAttr:$distribution, ND_IntTensor:$seed,
                       Optional<ND_IntTensor>:$part, I64Attr:$key,
                       F64Attr:$first, F64Attr:$second,
                       OptionalAttr<StrArrayAttr>:$order,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       OptionalAttr<StrArrayAttr>:$parted);
  let assemblyFormat = [{
    `` $distribution `(` $first `,` $second `)` `key` $key `seed` $seed
    (`part` $part^ `of` $parts `along` $parted)? (`order` $order^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The dimensions over which positions count, major first.
    ::llvm::SmallVector<DimAttr> getCountedDims();
    /// Whether positions along it are those of a part.
    bool isParted(::mlir::StringAttr dim);
  }];
}

//===-- Operations on the set of dimensions -------------------------------===//

class ND_ShapeOp<string mnemonic, list<string> partition>
    : ND_Op<mnemonic, [DeclareOpInterfaceMethods<DifferentiableOpInterface>],
            partition>;

def ND_EinsumOp : ND_ShapeOp<"einsum", ["getPartialUse"]> {
  let summary = "Sums products over every dimension absent from the result";
  let description = [{
    **Constraints**
    - (C1) a dimension has the same size wherever it appears.
    - (C2) every result dimension appears in some input.
    - (C3) the inputs have one element type, a float; the result has it too, or
      f32 if it is narrower.

    Products of floats narrower than f32 are added up in f32, and the sum is
    rounded once, to the type of the result.

    ```mlir
    %h = nd.einsum %x, %w : (!batch_by_pixel, !pixel_by_hidden)
        -> !batch_by_hidden
    ```
  }];
  let arguments = (ins Variadic<ND_FloatTensor>:$inputs);
  let assemblyFormat =
      "$inputs attr-dict `:` functional-type($inputs, $result)";
  let hasCanonicalizeMethod = 1;
}

def ND_ReduceOp : ND_ShapeOp<"reduce", ["getPartialUse"]> {
  let summary = "Reduces over the dimensions absent from the result";
  let description = [{
    Elements that share the maximum (minimum) share its gradient equally. The
    maximum of a NaN is NaN.

    **Constraints**
    - (C1) every result dimension is a dimension of the input, of equal size.
    - (C2) the result has the input's element type; a mean needs floats.
  }];
  let arguments = (ins ND_ReductionAttr:$kind, ND_ComputingTensor:$input);
  let assemblyFormat =
      "`` $kind $input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def ND_ArgReduceOp : Op<ND_Dialect, "arg_reduce",
    [Pure, DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "Position of the largest or smallest element along a dimension";
  let description = [{
    Of equal elements the first counts; a NaN counts as the extreme. The
    position has no gradient. Rewritten into reductions before shardings are
    assigned (nd-decompose).

    **Constraints**
    - (C1) the result has the input's dimensions without `dim`.
    - (C2) the result has i32 elements.
  }];
  let arguments = (ins ND_ArgKindAttr:$kind, StrAttr:$dim,
                       ND_ComputingTensor:$input);
  let results = (outs ND_Tensor:$result);
  let assemblyFormat = [{
    `` $kind $input `over` $dim attr-dict `:` functional-type($input, $result)
  }];
  let hasVerifier = 1;
}

def ND_BroadcastOp : ND_ShapeOp<"broadcast", ["getPartialUse"]> {
  let summary = "Repeats its operand along new dimensions";
  let description = [{
    **Constraints**
    - (C1) the result has every dimension of the input, of equal size.
    - (C2) the element type stays.
  }];
  let arguments = (ins ND_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def ND_RenameOp : ND_ShapeOp<"rename",
    ["getIterationDims", "getOperandAccess", "getPartialUse"]> {
  let summary = "Gives dimensions other names";
  let description = [{
    All at once, so that two dimensions can exchange their names.

    ```mlir
    %t = nd.rename %x "a" -> "b", "b" -> "a" : (!a_by_b) -> !b_by_a
    ```

    **Constraints**
    - (C1) `from` are dimensions of the input, each once, one for each of `to`.
    - (C2) the result is the input's type with these names changed.
  }];
  let arguments = (ins ND_Tensor:$input, StrArrayAttr:$from, StrArrayAttr:$to);
  let assemblyFormat = [{
    $input custom<NewNames>($from, $to) attr-dict `:`
    functional-type($input, $result)
  }];
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$input,
                                 "::mlir::ArrayAttr":$from,
                                 "::mlir::ArrayAttr":$to)>,
                  OpBuilder<(ins "::mlir::Value":$input,
                                 "::llvm::StringRef":$from,
                                 "::llvm::StringRef":$to)>];
  let extraClassDeclaration = [{
    /// The name in the result of a dimension of the input.
    ::mlir::StringAttr getNewName(::mlir::StringAttr dim);
  }];
}

def ND_ViewOp : ND_ShapeOp<"view",
    ["getIterationDims", "getOperandAccess", "getPartialUse"]> {
  let summary = "Reads each dimension at positions that dimensions determine";
  let description = [{
    Slices, strides, shifts, padding, windows, dilation, upsampling, diagonals
    and their gradients are views. An element of the result is the element of
    the input at the positions that the accesses give; a dimension without an
    access is read at its own position. Where a position is not whole or lies
    outside the dimension, the element is 0 (false).

    ```mlir
    %seen = nd.view %x ["y" = 2 "row" + "dy" - 1]
        : (!nd.tensor<["y"=8, "c"=3], f32>)
        -> !nd.tensor<["row"=4, "dy"=3, "c"=3], f32>
    ```

    The gradient is a view again, summed over dimensions that the input lacks:
    each access is solved for one of its dimensions.

    **Constraints**
    - (C1) each access is of another dimension of the input, and its loops are
      dimensions of the result.
    - (C2) every other dimension of the input is one of the result; a dimension
      has the same size wherever it appears.
    - (C3) every dimension of the result is one of these or in an access.
    - (C4) the element type stays.
  }];
  let arguments = (ins ND_Tensor:$input,
                       TypedArrayAttrBase<ND_AccessAttr, "accesses">:$accesses);
  let assemblyFormat = [{
    $input custom<Accesses>($accesses) attr-dict
    `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// The access of dimension `dim` of the input: itself if it has none.
    DimAccess getInputAccess(::mlir::StringAttr dim);
    /// Whether some element of the result has no position in the input.
    bool mayReadOutside();
  }];
}

def ND_GatherOp : ND_ShapeOp<"gather", ["getOperandAccess", "getPartialUse"]> {
  let summary = "Picks elements along a dimension by index";
  let description = [{
    result[i.., r..] = input[index[i.., r..], r..]: the input's dimension `dim`
    is replaced by the dimensions of the index; dimensions both have are matched
    by name. An index outside [0, size) gives 0.

    **Constraints**
    - (C1) the input has the dimension `dim`; the index has not.
    - (C2) a dimension has the same size wherever it appears.
    - (C3) the result has the input's dimensions without `dim`, united with the
      index's, and the input's element type.
  }];
  let arguments = (ins ND_Tensor:$input, ND_IntTensor:$index, StrAttr:$dim);
  let assemblyFormat = [{
    $input `[` $index `]` `over` $dim attr-dict
    `:` functional-type(operands, results)
  }];
}

def ND_PutOp : ND_ShapeOp<"put", ["getPartialUse"]> {
  let summary = "Adds elements up where an index says, along a new dimension";
  let description = [{
    result[dim = v, r..] is the sum of input[i.., r..] over all i.. at which
    index[i.., r..] is v: the gradient of nd.gather. What an index outside
    [0, size) says is added to nothing; what no index says is 0.

    Floats narrower than f32 are added up in f32, and the sum is rounded once, to
    the type of the result.

    **Constraints**
    - (C1) the result, and neither operand, has the dimension `dim`.
    - (C2) a dimension has the same size wherever it appears.
    - (C3) the input has the other dimensions of the result and those of the
      index, and no more.
    - (C4) the result has the input's element type, a float, or f32 if that is
      narrower.

    ```mlir
    %g = nd.put %rows[%tokens] over "word" : (!time_by_feature, !time_i32)
        -> !word_by_feature
    ```
  }];
  let arguments = (ins ND_FloatTensor:$input, ND_IntTensor:$index, StrAttr:$dim);
  let assemblyFormat = [{
    $input `[` $index `]` `over` $dim attr-dict
    `:` functional-type(operands, results)
  }];
}

def ND_ReshardOp : Op<ND_Dialect, "reshard", [Pure,
    DeclareOpInterfaceMethods<FloatClassOpInterface>,
    DeclareOpInterfaceMethods<PrecisionOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Changes the sharding of a value, not the value";
  let description = [{
    Before shardings are assigned it is the user's constraint on one value: the
    result type has a sharding, the operand has none yet. It says nothing of the
    gradient. With a role it is rules of the layout for that role that ask for it.

    **Constraints**
    - (C1) operand and result differ at most in their sharding.
    - (C2) the result has a sharding.
  }];
  let arguments = (ins ND_Tensor:$input,
                       OptionalAttr<TypedArrayAttrBase<ND_CauseAttr,
                                                       "causes">>:$causes,
                       OptionalAttr<ND_LayoutRoleAttr>:$role);
  let results = (outs ND_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input,
                                 "::mlir::ArrayAttr":$causes),
                            [{ build($_builder, $_state, type, input, causes,
                                     LayoutRoleAttr()); }]>];
  let assemblyFormat = [{
    $input (`of` `` $role^)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

include "dialect/NDLoop.td"

#endif

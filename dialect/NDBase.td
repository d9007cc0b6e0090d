// The nd dialect: the whole computation on tensors with named dimensions.
// Attributes and the type; operations are in NDOps.td and NDElementwise.td.

#ifndef MESHC_DIALECT_NDBASE
#define MESHC_DIALECT_NDBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def ND_Dialect : Dialect {
  let name = "nd";
  let cppNamespace = "::meshc::nd";
  let summary = "Whole-program tensor computation with named dimensions";
  let description = [{
    A tensor is a set of named dimensions and an element type. Operations
    broadcast by name; the order of dimensions is storage, never meaning. Once
    shardings are assigned they are part of the type.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Of #nd.remark, on operations of `linalg`.
    static constexpr ::llvm::StringLiteral getRemarkAttrName() {
      return "nd.remark";
    }
  }];
}

class ND_Attr<string name, string attrMnemonic> : AttrDef<ND_Dialect, name> {
  let mnemonic = attrMnemonic;
}

//===-- Enumerations ------------------------------------------------------===//

class ND_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::meshc::nd";
  let genSpecializedAttr = 0;
}

def ND_ReduceKind : ND_Enum<"ReduceKind", "how terms are combined", [
  I32EnumAttrCase<"Sum", 1, "sum">,
  I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Min", 3, "min">,
]>;

def ND_Reduction : ND_Enum<"Reduction", "a reduction over dimensions", [
  I32EnumAttrCase<"Sum", 1, "sum">,
  I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Min", 3, "min">,
  I32EnumAttrCase<"Mean", 4, "mean">,
]>;
def ND_ReductionAttr : EnumAttr<ND_Dialect, ND_Reduction, "reduction">;

def ND_ArgKind : ND_Enum<"ArgKind", "which extreme's position", [
  I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">,
]>;
def ND_ArgKindAttr : EnumAttr<ND_Dialect, ND_ArgKind, "arg_kind">;

def ND_CauseKind : ND_Enum<"CauseKind", "what asks for a change of sharding", [
  I32EnumAttrCase<"Contraction", 0, "contraction">,
  I32EnumAttrCase<"Reduction", 1, "reduction">,
  I32EnumAttrCase<"Constraint", 2, "constraint">,
  I32EnumAttrCase<"Conflict", 3, "conflict">,
  I32EnumAttrCase<"Window", 4, "window">,
  I32EnumAttrCase<"Rule", 5, "rule">,
  I32EnumAttrCase<"NoRule", 6, "no_rule">,
]>;

def ND_Predicate : ND_Enum<"Predicate", "a comparison", [
  I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">,
  I32EnumAttrCase<"Lt", 2, "lt">, I32EnumAttrCase<"Le", 3, "le">,
  I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">,
]>;
def ND_PredicateAttr : EnumAttr<ND_Dialect, ND_Predicate, "predicate">;

def ND_Distribution : ND_Enum<"Distribution", "a random distribution", [
  I32EnumAttrCase<"Uniform", 1, "uniform">,
  I32EnumAttrCase<"Normal", 2, "normal">,
  I32EnumAttrCase<"TruncatedNormal", 3, "truncated_normal">,
]>;
def ND_DistributionAttr : EnumAttr<ND_Dialect, ND_Distribution, "distribution">;

def ND_VariableRole : ND_Enum<"VariableRole", "what a variable is for", [
  I32EnumAttrCase<"Parameter", 1, "parameter">,
  I32EnumAttrCase<"State", 2, "state">,
  I32EnumAttrCase<"ModelState", 3, "model_state">,
  I32EnumAttrCase<"InStep", 4, "in_step">,
]>;
def ND_VariableRoleAttr
    : EnumAttr<ND_Dialect, ND_VariableRole, "variable_role">;

// Numbered as layout::Role.
def ND_LayoutRole : ND_Enum<"LayoutRole", "of which tensors a layout rule is", [
  I32EnumAttrCase<"Params", 1, "params">,
  I32EnumAttrCase<"Gradients", 2, "gradients">,
  I32EnumAttrCase<"State", 3, "state">,
]>;
def ND_LayoutRoleAttr : EnumAttr<ND_Dialect, ND_LayoutRole, "layout_role">;

def ND_Precision : ND_Enum<"Precision", "in which floats a program computes", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"BF16", 1, "bf16">,
  I32EnumAttrCase<"FP16", 2, "fp16">,
]>;
def ND_PrecisionAttr : EnumAttr<ND_Dialect, ND_Precision, "precision">;

def ND_Phase : ND_Enum<"Phase", "part of a training step", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"Update", 2, "update">,
]>;

def ND_OriginKind : ND_Enum<"OriginKind", "what a thing is to what it is called after", [
  I32EnumAttrCase<"Value", 0, "value">,
  I32EnumAttrCase<"Gradient", 1, "gradient">,
  I32EnumAttrCase<"Update", 2, "updated">, // "update" is the phase
  I32EnumAttrCase<"State", 3, "state">,
]>;

def ND_OriginPart : ND_Enum<"OriginPart", "what a thing is on the way to its value", [
  I32EnumAttrCase<"Itself", 0, "itself">,
  I32EnumAttrCase<"Inside", 1, "inside">,     // computed on the way to it
  I32EnumAttrCase<"Copy", 2, "copy">,         // as a library takes it
  I32EnumAttrCase<"Padded", 3, "padded">,     // with zeros behind it
  I32EnumAttrCase<"Sums", 4, "sums">,         // terms that are still to be added
  I32EnumAttrCase<"Gathered", 5, "gathered">, // with what other devices hold of it
  I32EnumAttrCase<"Order", 6, "order">,       // the order in which it is summed
]>;

def ND_RemarkKind : ND_Enum<"RemarkKind", "what costs memory and was not written", [
  I32EnumAttrCase<"LibraryCopy", 0, "library_copy">,
  I32EnumAttrCase<"StoredView", 1, "stored_view">,
  // A large value that is not computed in tiles: what reads it needs all of it;
  // too much would be computed again; no dimension is left to cut.
  I32EnumAttrCase<"ReadWhole", 2, "read_whole">,
  I32EnumAttrCase<"ComputedAgain", 3, "computed_again">,
  I32EnumAttrCase<"Uncut", 4, "uncut">,
]>;
// `nd.remark` of an operation of `linalg`: where its result is stored, that is a
// remark of the plan.
def ND_RemarkAttr : EnumAttr<ND_Dialect, ND_RemarkKind, "remark"> {
  let assemblyFormat = "`<` $value `>`";
}

//===-- Attributes --------------------------------------------------------===//

def ND_RecomputedAttr : ND_Attr<"Recomputed", "recomputed"> {
  let summary = "What of a scope a training step computes again";
  let description = [{
    The scope without its iterations, how many units there are of it (iterations
    or calls), and on each device the bytes that are not kept from the forward to
    the backward phase and the operations of scalars that are computed twice.
  }];
  let parameters = (ins "::mlir::StringAttr":$scope, "int64_t":$units,
                        "int64_t":$bytes, "int64_t":$flops);
  let assemblyFormat = [{
    `<` $scope `of` $units `saves` $bytes `for` $flops `>`
  }];
}

def ND_RateAttr : ND_Attr<"Rate", "rate"> {
  let summary = "The rate of an optimizer at some steps of a training";
  let description = [{
    The name that the rate has among the metrics, steps, and what it is at each.
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "::mlir::DenseI64ArrayAttr":$steps,
                        "::mlir::DenseF64ArrayAttr":$values);
  let assemblyFormat = "`<` $name `at` $steps `=` $values `>`";
}

def ND_DimAttr : ND_Attr<"Dim", "dim"> {
  let summary = "A named dimension and its global size";
  let description = [{
    **Constraints**
    - (C1) the name is not empty.
    - (C2) the size is at least 1.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let assemblyFormat = "`` $name `` `=` `` $size";
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::StringAttr":$name,
                                        "int64_t":$size), [{
      return $_get(name.getContext(), name, size);
    }]>
  ];
  let genVerifyDecl = 1;
}

def ND_AxisRefAttr : ND_Attr<"AxisRef", "axis"> {
  let summary = "A mesh axis by name, or a part of it";
  let description = [{
    `size` 0 means the whole axis; otherwise the part of the axis below its
    `pre` major-most positions, of `size` positions: printed `model:(2)4`.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$pre,
                        "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
}

def ND_WindowAttr : ND_Attr<"Window", "window"> {
  let summary = "What blocks of a loop read of a dimension";
  let description = [{
    Of the positions `(factor * loop + value) / divisor`, value from `low` to
    `high`, rounded down, those of a block of the loop; around a ring they are
    taken modulo `modulus`, which is 0 elsewhere. Without a loop those from `low`
    to `high`. layout/Sharding.h, `Window`, has examples.

    **Constraints**
    - (C1) factor is not 0, divisor is at least 1, and 1 with a modulus, and low
      is at most high.
    - (C2) all five are below 2^31.
  }];
  let parameters = (ins OptionalParameter<"DimAttr">:$loop, "int64_t":$factor,
                        "int64_t":$low, "int64_t":$high, "int64_t":$divisor,
                        "int64_t":$modulus);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def ND_DimSplitAttr : ND_Attr<"DimSplit", "split"> {
  let summary = "A dimension and the axes that split it, major to minor";
  let description = [{
    Printed `"batch"@data`. Where there is a window the axes split its loop:
    `"y" by 2 "row"=5@rows + [-1, 1]`, of quotients
    `"row" by "y"=8@rows + [0, 1] / 2`, around a ring
    `"n" by "n"=8@rows + [-1, -1] mod 8`; without a loop no axis does:
    `"stage" + [3, 3]`.
  }];
  let parameters = (ins "::mlir::StringAttr":$dim,
                        ArrayRefParameter<"AxisRefAttr">:$axes,
                        OptionalParameter<"WindowAttr">:$window);
  let builders = [
    AttrBuilder<(ins "::mlir::StringAttr":$dim,
                     "::llvm::ArrayRef<AxisRefAttr>":$axes), [{
      return $_get($_ctxt, dim, axes, WindowAttr());
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
}

def ND_ShardingAttr : ND_Attr<"Sharding", "sharding"> {
  let summary = "How a tensor lies on the mesh";
  let description = [{
    Only split dimensions are listed, in the order of the type. A partial
    tensor is one term per position of `partialAxes`, to be combined by
    `partialKind`. layout/Sharding.h teaches the concept.

    Printed `<"batch"@data, "hidden"@model@x:(2)4>`, followed by
    ` partial sum over (y)` where terms are pending; `<>` is replicated.

    The syntax is written by hand because the declarative format has no
    optional groups over lists inside attributes.
  }];
  let parameters = (ins ArrayRefParameter<"DimSplitAttr">:$splits,
                        "std::optional<ReduceKind>":$partialKind,
                        ArrayRefParameter<"AxisRefAttr">:$partialAxes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isPartial() const { return !getPartialAxes().empty(); }
    /// Axes that split `dim`, or the loop of its window; empty if it is whole.
    ::llvm::ArrayRef<AxisRefAttr> getAxes(::llvm::StringRef dim) const;
    /// The window of `dim`; null if it has none.
    WindowAttr getWindow(::llvm::StringRef dim) const;
    bool hasWindow() const;
  }];
}

//===-- Origins -----------------------------------------------------------===//

def ND_ScopeAttr : ND_Attr<"Scope", "scope"> {
  let summary = "A call or a loop of the spec, with those around it";
  let description = [{
    Printed from the outermost one on: `"layer"[3]/"attn"` is the call `attn` in
    iteration 3 of the loop `layer`. A loop that has not been written out has no
    iteration, `iteration` is -1 then, as it is of a call.

    **Constraints**
    - (C1) the name is not empty.
    - (C2) the iteration is at least -1.
  }];
  let parameters = (ins OptionalParameter<"::meshc::nd::ScopeAttr">:$parent,
                        "::mlir::StringAttr":$name, "int64_t":$iteration);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::meshc::nd::ScopeAttr":$parent,
                                        "::mlir::StringAttr":$name), [{
      return $_get(name.getContext(), parent, name, int64_t(-1));
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// This scope in iteration `iteration` of `loop`: itself where it is not in
    /// there.
    ScopeAttr inIteration(ScopeAttr loop, int64_t iteration) const;
    /// "layer/3/attn".
    std::string getText() const;
    /// "layer/attn": without iterations, as patterns of the spec match it.
    std::string getPath() const;
  }];
}

def ND_OriginAttr : ND_Attr<"Origin", "origin"> {
  let summary = "What an operation of the program is for";
  let description = [{
    The value of the spec that it computes or helps to compute, and its phase of
    a training step. `kind` says what it is to that value: itself, its gradient,
    its update, or the optimizer's `state` of it. What a precision makes of a
    value is the value `as` another element type. `part` says how far on the way
    to all this it is: it itself, something inside of it, or what meshc adds, such
    as a copy of it for a library.

        #nd.origin<"layer"[3]/"attn"/"scores">
        #nd.origin<backward inside gradient "h">
        #nd.origin<copy "h">
        #nd.origin<update state "adam/m" of "b1"/"wq">
        #nd.origin<"w" as "bf16">
        #nd.origin<backward>                            of no named value

    It is the metadata of locations (Locations.h): rewrites hand those on.

    **Constraints**
    - (C1) what has no name has a phase and nothing else.
    - (C2) state has a name of its own, `state`; nothing else has one.
  }];
  let parameters = (ins OptionalParameter<"::meshc::nd::ScopeAttr">:$scope,
                        "::mlir::StringAttr":$name, "Phase":$phase,
                        "OriginKind":$kind, "::mlir::StringAttr":$state,
                        "::mlir::StringAttr":$as, "OriginPart":$part);
  let builders = [
    AttrBuilderWithInferredContext<(ins "::meshc::nd::ScopeAttr":$scope,
                                        "::mlir::StringAttr":$name), [{
      auto none = ::mlir::StringAttr::get(name.getContext());
      return $_get(name.getContext(), scope, name, Phase::Forward,
                   OriginKind::Value, none, none, OriginPart::Itself);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool hasName() const { return !getName().empty(); }
    OriginAttr inScope(ScopeAttr scope) const;
    OriginAttr inPhase(Phase phase) const;
    OriginAttr withPart(OriginPart part) const;
    /// Whether it is the value, on this device or gathered from several, and not
    /// something on the way to it.
    bool isItself() const {
      return getPart() == OriginPart::Itself ||
             getPart() == OriginPart::Gathered;
    }
    OriginAttr withKind(OriginKind kind) const;
    /// The state of this name that an optimizer has of it.
    OriginAttr asState(::llvm::StringRef state) const;
    /// It in another element type.
    OriginAttr asElement(::llvm::StringRef type) const;
    /// Whether both are called after one value.
    bool isOf(OriginAttr other) const {
      return getScope() == other.getScope() && getName() == other.getName();
    }
    /// As plans and messages call it: "layer/3/attn/scores", "gradient of h",
    /// "adam/m/b1/wq", "w as bf16"; on the way to a value what the value is
    /// called. Empty if it has no name.
    std::string getText() const;
    /// "layer/attn/scores": what it is called after, without iterations, as
    /// patterns of the spec match it. Empty if it has no name.
    std::string getPath() const;
  }];
}

//===-- Accesses ----------------------------------------------------------===//

def ND_AccessKind : ND_Enum<"AccessKind", "a form of a position", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"Floor", 1, "floor">,
  I32EnumAttrCase<"Modulo", 2, "modulo">,
]>;

def ND_AccessAttr : ND_Attr<"Access", "access"> {
  let summary = "Which position of a dimension is read, by loops";
  let description = [{
    The form that `layout::Access` describes, its loops by name:

        "y" = 2 "row" + "dy" - 1
        "row" = ("y" - "dy" + 1) / 2     none where that is not whole
        "row" = floor("up" / 2)
        "n" = ("n" + 1) mod 8

    Equal forms are one attribute: loops are sorted by name.

    **Constraints**
    - (C1) divisor and modulus are at least 1.
    - (C2) factors, offset and divisor are below 2^31.
  }];
  let parameters = (ins "::mlir::StringAttr":$dim, "AccessKind":$kind,
                        ArrayRefParameter<"::mlir::StringAttr">:$loops,
                        ArrayRefParameter<"int64_t">:$factors,
                        "int64_t":$offset, "int64_t":$divisor);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::StringAttr":$dim,
                                        "const DimAccess &":$access)>
  ];
  let extraClassDeclaration = [{
    DimAccess getAccess() const;
    /// The dimension whose position is read; null if it is another form.
    ::mlir::StringAttr getLoop() const;
  }];
}

def ND_CauseAttr : ND_Attr<"Cause", "cause"> {
  let summary = "Why a change of sharding is in the program";
  let description = [{
    Recorded where the decision is made and carried by every later pass: what
    kind of rule asked for it and which (passes/Causes.h), what the consumer and
    the operand are for and, where that is no value with a name of its own, the
    operation that makes them ("einsum"), the sharding needed and the one the producer left, the spec positions that put both there, and the best
    rejected alternative with both costs in microseconds under the cost model.
    `written` where the model itself asks for the sharding; else a rule of the
    layout does, and the compiler inserted the change.
  }];
  let parameters = (ins
    EnumParameter<ND_CauseKind>:$kind,
    "::mlir::StringAttr":$rule,
    "OriginAttr":$consumer, "OriginAttr":$operand,
    "::mlir::StringAttr":$needed, "::mlir::StringAttr":$had,
    "::mlir::ArrayAttr":$spans,
    OptionalParameter<"::mlir::StringAttr">:$consumerOperation,
    OptionalParameter<"::mlir::StringAttr">:$operandOperation,
    OptionalParameter<"::mlir::StringAttr">:$alternative,
    OptionalParameter<"::mlir::FloatAttr">:$alternativeUs,
    OptionalParameter<"::mlir::FloatAttr">:$chosenUs,
    OptionalParameter<"::mlir::UnitAttr">:$written);
  let assemblyFormat = "`<` struct(params) `>`";
}

//===-- Initialisers of variables -----------------------------------------===//

def ND_FillAttr : ND_Attr<"Fill", "fill"> {
  let summary = "Every element starts as one value";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $value `>`";
}

def ND_RandomAttr : ND_Attr<"Random", "random"> {
  let summary = "Elements start as random numbers";
  let description = [{
    `first`, `second` are those of nd.random: mean and standard deviation of
    `normal` and `truncated_normal`, low and high of `uniform`.
  }];
  let parameters = (ins EnumParameter<ND_Distribution>:$distribution,
                        "::mlir::FloatAttr":$first,
                        "::mlir::FloatAttr":$second);
  let assemblyFormat = "`<` $distribution `,` $first `,` $second `>`";
}

//===-- The type ----------------------------------------------------------===//

def ND_NamedTensorType : TypeDef<ND_Dialect, "NamedTensor"> {
  let mnemonic = "tensor";
  let summary = "A tensor whose dimensions have names";
  let description = [{
    `!nd.tensor<["batch"=256, "hidden"=1024], f32>`, and once shardings are
    assigned `!nd.tensor<["batch"=256], f32, <"batch"@data>>`.

    **Constraints**
    - (C1) dimension names are distinct.
    - (C2) the element type is f32, f64, f16, bf16, i32, i64 or i1, or one of those
      for data: ui8, i8, i16.

    Elements for data are moved, compared and converted; operations that compute
    refuse them. The unsigned one is a type of its own here, where `nd.compare` and
    `nd.cast` ask for the sign; on one device's blocks all integers are signless,
    the operations of `arith` having the signs.
    - (C3) the number of elements fits a signed 64-bit integer.
    - (C4) every dimension a sharding splits is a dimension of the type, listed
      in the type's order.
    - (C5) no axis, or part of one, serves two purposes in the sharding.
  }];
  let parameters = (ins OptionalArrayRefParameter<"DimAttr">:$dims,
                        "::mlir::Type":$elementType,
                        OptionalParameter<"ShardingAttr">:$sharding);
  let assemblyFormat =
      "`<` `[` (`]`) : ($dims^ `]`)? `,` $elementType (`,` $sharding^)? `>`";
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<DimAttr>":$dims,
        "::mlir::Type":$elementType,
        CArg<"ShardingAttr", "{}">:$sharding), [{
      return $_get(elementType.getContext(), dims, elementType, sharding);
    }]>
  ];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return int64_t(getDims().size()); }
    bool hasDim(::llvm::StringRef name) const { return findDim(name) >= 0; }
    /// Position of the dimension in storage order; -1 if there is none.
    int64_t findDim(::llvm::StringRef name) const;
    /// Global sizes in storage order.
    ::llvm::SmallVector<int64_t> getSizes() const;
    /// Product of the global sizes; 1 for a scalar.
    int64_t getNumElements() const;
    bool isPartial() const { return getSharding() && getSharding().isPartial(); }
    NamedTensorType withSharding(ShardingAttr sharding) const {
      return get(getDims(), getElementType(), sharding);
    }
    NamedTensorType withoutSharding() const {
      return get(getDims(), getElementType());
    }
    NamedTensorType withElementType(::mlir::Type elementType) const {
      return get(getDims(), elementType, getSharding());
    }
  }];
}

def ND_Tensor : Type<CPred<"::llvm::isa<::meshc::nd::NamedTensorType>($_self)">,
                     "tensor with named dimensions",
                     "::meshc::nd::NamedTensorType">,
                BuildableType<"">;
def ND_ComputingTensor : Type<
    And<[ND_Tensor.predicate,
         CPred<"!::meshc::nd::isForData(::llvm::cast<"
               "::meshc::nd::NamedTensorType>($_self).getElementType())">]>,
    "tensor of elements that are computed with",
    "::meshc::nd::NamedTensorType">;
class ND_TensorOf<string elements, string description> : Type<
    And<[ND_Tensor.predicate,
         CPred<"::llvm::isa<" # elements # ">(::llvm::cast<"
               "::meshc::nd::NamedTensorType>($_self).getElementType())">]>,
    description, "::meshc::nd::NamedTensorType">;
def ND_FloatTensor : ND_TensorOf<"::mlir::FloatType", "tensor of floats">;
def ND_IntTensor : Type<
    And<[ND_ComputingTensor.predicate,
         ND_TensorOf<"::mlir::IntegerType", "tensor of integers">.predicate]>,
    "tensor of integers that are computed with",
    "::meshc::nd::NamedTensorType">;
def ND_LongTensor : Type<
    And<[ND_Tensor.predicate,
         CPred<"::llvm::cast<::meshc::nd::NamedTensorType>($_self)"
               ".getElementType().isSignlessInteger(64)">]>,
    "tensor of i64", "::meshc::nd::NamedTensorType">;
def ND_BoolTensor : Type<
    And<[ND_Tensor.predicate,
         CPred<"::llvm::cast<::meshc::nd::NamedTensorType>($_self)"
               ".getElementType().isInteger(1)">]>,
    "tensor of booleans", "::meshc::nd::NamedTensorType">;

#endif

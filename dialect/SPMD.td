// The spmd dialect: what one device does, on builtin tensors of local shape.
// Computation is `linalg`, `tensor` and `arith`; this dialect adds the frame of
// a program and the collectives.

#ifndef MESHC_DIALECT_SPMD
#define MESHC_DIALECT_SPMD

include "dialect/NDBase.td"
include "dialect/NDInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def SPMD_Dialect : Dialect {
  let name = "spmd";
  let cppNamespace = "::meshc::spmd";
  let summary = "The program of one device";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

class SPMD_Op<string mnemonic, list<Trait> traits = []>
    : Op<SPMD_Dialect, mnemonic, traits>;

def SPMD_ProgramOp : SPMD_Op<"program",
    [Symbol, SingleBlock, NoTerminator, NoRegionArguments, IsolatedFromAbove,
     HasParent<"::mlir::ModuleOp">]> {
  let summary = "A straight-line program, the same for every device";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
}

//===-- Border of a program -----------------------------------------------===//

// `name`, `value` and `global` are expressions for its name, for the value that
// crosses the border and for the tensor of which the value is a block.
class SPMD_Border<string mnemonic, bit isEntry, bit isVariable, string name,
                  string value, string global, list<Trait> traits = []>
    : SPMD_Op<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<BorderOpInterface>], traits)> {
  let extraClassDefinition = [{
    ::llvm::StringRef $cppClass::getBorderName() { return }] # name # [{; }
    bool $cppClass::isEntry() { return }] # isEntry # [{; }
    bool $cppClass::isVariable() { return }] # isVariable # [{; }
    ::mlir::Value $cppClass::getBorderValue() { return }] # value # [{; }
    ::meshc::nd::NamedTensorType $cppClass::getGlobalType() {
      return }] # global # [{;
    }
  }];
}

defvar GlobalAttr = "::llvm::cast<::meshc::nd::NamedTensorType>(getGlobal())";
defvar GlobalOfVariable = "getVariableType(*this, getVariable())";

def SPMD_InputOp : SPMD_Border<"input", 1, 0, "getName()", "getResult()",
    GlobalAttr> {
  let summary = "This device's block of a value given from outside";
  let description = [{
    `global` is the sharded tensor of which the value is this device's block.
    `index_bound`, `seedName`, `stepName`, `partName` and `settingPrefix` are those
    of nd.input.

    **Constraints**
    - (C1) the value has the local shape and the element type of `global`.
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<ND_Tensor>:$global,
                       DefaultValuedAttr<I64Attr, "0">:$index_bound);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name `of` $global attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether random numbers are drawn from it.
    bool isSeed() { return getName() == ::meshc::nd::InputOp::seedName; }
    /// Whether it is the number of the training step.
    bool isStep() { return getName() == ::meshc::nd::InputOp::stepName; }
    /// Whether it is the part of the step that the program runs.
    bool isPart() { return getName() == ::meshc::nd::InputOp::partName; }
    /// Whether it is a number that is set when a training starts.
    bool isSetting() {
      return getName().starts_with(::meshc::nd::InputOp::settingPrefix);
    }
    /// Whether the runtime fills it, nobody else.
    bool isOfRun() {
      return isSeed() || isStep() || isPart() || isSetting();
    }
  }];
}

def SPMD_OutputOp : SPMD_Border<"output", 0, 0, "getName()", "getValue()",
    GlobalAttr> {
  let summary = "Gives this device's block of a value to the outside";
  let description = [{
    **Constraints**
    - (C1) the value has the local shape and the element type of `global`.
  }];
  let arguments = (ins StrAttr:$name, TypeAttrOf<ND_Tensor>:$global,
                       AnyRankedTensor:$value);
  let assemblyFormat = "$name `of` $global `,` $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def SPMD_ReadOp : SPMD_Border<"read", 1, 1, "getVariable()", "getResult()",
    GlobalOfVariable,
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "This device's block of a variable, as it was at the start";
  let description = [{
    **Constraints**
    - (C1) the symbol is a variable with a sharding; the value has its local
      shape and its element type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$variable attr-dict `:` type($result)";
}

def SPMD_WriteOp : SPMD_Border<"write", 0, 1, "getVariable()", "getValue()",
    GlobalOfVariable,
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Sets this device's block of a variable at the end";
  let description = [{
    **Constraints**
    - (C1) the symbol is a variable with a sharding; the value has its local
      shape and its element type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable, AnyRankedTensor:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` type($value)";
}

def SPMD_AxisIndexOp : SPMD_Op<"axis_index", [Pure]> {
  let summary = "This device's coordinate on an axis, or on a part of it";
  let description = [{
    **Constraints**
    - (C1) the axis is one of the mesh, or a part that it has.
  }];
  let arguments = (ins ND_AxisRefAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "`` $axis attr-dict";
  let hasVerifier = 1;
}

//===-- Collectives -------------------------------------------------------===//

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::meshc::spmd";
  let description = [{
    Takes every device's block of a tensor under one sharding to its block of
    the same tensor under another. The two sharded types say all there is to
    say; the kind of operation tells the shape of the transfer:

    | operation        | source -> target                                        |
    |---               |---                                                      |
    | `all_reduce`     | partial axes are completed                              |
    | `reduce_scatter` | partial axes are completed and move to the minor end of a dimension |
    | `all_gather`     | minor axes of dimensions are dropped                    |
    | `all_to_all`     | axes move from one dimension to another                 |
    | `permute`        | each block moves to another device                      |
    | `exchange`       | anything: each device takes what it needs from its peers |
    | `slice`          | axes are added; each device keeps a part of its block   |
  }];
  let methods = [
    InterfaceMethod<"The value this device brings in.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getInput">,
    InterfaceMethod<"The value this device has afterwards.",
                    "::mlir::TypedValue<::mlir::RankedTensorType>", "getResult">,
    InterfaceMethod<"The tensor as it lies before.",
                    "::meshc::nd::NamedTensorType", "getSourceType", (ins), "",
                    [{ return ::llvm::cast<::meshc::nd::NamedTensorType>(
                           $_op.getSource()); }]>,
    InterfaceMethod<"The tensor as it lies afterwards.",
                    "::meshc::nd::NamedTensorType", "getTargetType", (ins), "",
                    [{ return ::llvm::cast<::meshc::nd::NamedTensorType>(
                           $_op.getTarget()); }]>,
    InterfaceMethod<"Why it is here.", "::mlir::ArrayAttr", "getCausesAttr">,
    InterfaceMethod<"Sets why it is here.", "void", "setCausesAttr",
                    (ins "::mlir::ArrayAttr":$causes)>,
    InterfaceMethod<"Its kind.", "::meshc::layout::CollectiveKind", "getKind">,
  ];
}

class SPMD_Collective<string mnemonic, string kind, string what>
    : SPMD_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<CollectiveOpInterface, ["getKind"]>]> {
  let summary = what;
  let description = [{
    **Constraints**
    - (C1) source and target are one tensor under two shardings.
    - (C2) operand and result have the local shapes of source and target.
    - (C3) the change of sharding is one that this operation makes.
  }];
  let arguments = (ins AnyRankedTensor:$input, TypeAttrOf<ND_Tensor>:$source,
                       TypeAttrOf<ND_Tensor>:$target,
                       OptionalAttr<TypedArrayAttrBase<ND_CauseAttr,
                                                       "causes">>:$causes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `from` $source `to` $target attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::meshc::layout::CollectiveKind $cppClass::getKind() {
      return ::meshc::layout::CollectiveKind::}] # kind # [{;
    }
    ::llvm::LogicalResult $cppClass::verify() {
      return verifyCollective(*this);
    }
  }];
}

def SPMD_AllReduceOp : SPMD_Collective<"all_reduce", "AllReduce",
    "Completes pending terms on every device">;
def SPMD_ReduceScatterOp : SPMD_Collective<"reduce_scatter", "ReduceScatter",
    "Completes pending terms, each device keeping one part">;
def SPMD_AllGatherOp : SPMD_Collective<"all_gather", "AllGather",
    "Joins the blocks of a split dimension on every device">;
def SPMD_AllToAllOp : SPMD_Collective<"all_to_all", "AllToAll",
    "Moves a split from one dimension to another">;
def SPMD_PermuteOp : SPMD_Collective<"permute", "Permute",
    "Moves each block to another device">;
def SPMD_ExchangeOp : SPMD_Collective<"exchange", "Exchange",
    "Takes the parts each device needs from where they are">;
def SPMD_SliceOp : SPMD_Collective<"slice", "Slice",
    "Keeps a part of the own block; no communication">;

include "dialect/SPMDView.td"
include "dialect/SPMDScalars.td"

#endif

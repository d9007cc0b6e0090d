// What stands at the level of a module: mesh, dims, layout, variables, data, the
// recipe of a training, and programs.

#ifndef MESHC_DIALECT_NDMODULE
#define MESHC_DIALECT_NDMODULE

include "dialect/NDElementwise.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

// An enumeration prints a space before itself; where it comes first, `` takes
// away the one after the operation's name.

class ND_Declaration<string mnemonic, list<Trait> traits = []>
    : Op<ND_Dialect, mnemonic,
         !listconcat([HasParent<"::mlir::ModuleOp">], traits)>;

def ND_MeshOp : ND_Declaration<"mesh"> {
  let summary = "Declares the processor mesh of the module";
  let description = [{
    Axes are major to minor: device number d is the row-major index of its
    coordinates. `device_order` gives the physical device of each number;
    `machine` the kind of machine by whose prices the program is planned, by
    default that of CPU devices.

    **Constraints**
    - (C1) there is one mesh per module.
    - (C2) axis names are distinct, sizes are at least 1, and there are at most
      2^20 devices.
    - (C3) a device order is a permutation of the device numbers.
    - (C4) there is a machine of that name.

    ```mlir
    nd.mesh ["data"=2, "model"=3] machine "h100"
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<ND_DimAttr, "axes">:$axes,
                       OptionalAttr<DenseI64ArrayAttr>:$device_order,
                       OptionalAttr<StrAttr>:$machine);
  let assemblyFormat = [{
    custom<NamedSizes>($axes) (`device_order` $device_order^)?
    (`machine` $machine^)? attr-dict
  }];
  let hasVerifier = 1;
}

def ND_DimOp : ND_Declaration<"dim"> {
  let summary = "Declares a dimension of the program, for the plan";
  let arguments = (ins StrAttr:$name, I64Attr:$size);
  let assemblyFormat = "$name `=` $size attr-dict";
}

def ND_RuleOp : ND_Declaration<"rule"> {
  let summary = "One line of the layout: dimensions and the axes that split them";
  let description = [{
    The text is a rule as a spec has it, for all tensors that have the dimensions,
    those of a role or those of a name (layout/LayoutRule.h), and `getRule` what it
    says. Nothing but layout/Layout.h knows what rules mean.

    **Constraints**
    - (C1) the text is a rule.
    - (C2) every axis is an axis of the mesh, named once.
    - (C3) no other rule of the role or for the pattern names the dimension, or none.

    ```mlir
    nd.rule "(heads, d_ff) -> model"
    nd.rule "d -> data unless batch"
    nd.rule "state: * -> data"
    nd.rule "\22layer/attn/scores\22: pos -> ()"
    ```
  }];
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::meshc::layout::LayoutRule getRule();
    /// Writes a line of the layout.
    static RuleOp create(::mlir::OpBuilder &builder, ::mlir::Location loc,
                         const ::meshc::layout::LayoutRule &rule);
  }];
}

def ND_VariableOp : ND_Declaration<"variable", [Symbol]> {
  let summary = "A value that lives between programs: a parameter or state";
  let description = [{
    Gradients and the optimizer change a `parameter`. `model_state` is what the
    model itself sets in a training step, `state` what the optimizer and the loss
    scale keep. What is `in_step` one part of a step leaves for the next, such as
    the sum of the gradients so far; between steps it is nothing.

    **Constraints**
    - (C1) a parameter has a float element type.
    - (C2) the initialiser is `#nd.fill`, `#nd.random` or `@init`, the program
      that writes it then; random numbers are floats.
    - (C3) the fill value of integers is an integer of at most 53 bits.
    - (C4) what is `in_step` may be terms on several devices, nothing else.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ND_VariableRoleAttr:$role,
                       TypeAttrOf<ND_Tensor>:$type, AnyAttr:$init);
  let assemblyFormat = "`` $role $sym_name `:` $type `=` $init attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    NamedTensorType getTensorType() {
      return ::llvm::cast<NamedTensorType>(getType());
    }
  }];
}

def ND_DataOp : ND_Declaration<"data"> {
  let summary = "Binds an input to the samples of files";
  let description = [{
    `over` is the dim of the input that counts samples. `train` and `test` are
    files, or folders, for the reader; `test` is empty where there is none. Of
    readers that cut windows out of a sequence, `stride` is from the first
    position of a window to that of the next, and `units` what the positions
    are; `columns` are those of a table.

    ```mlir
    nd.data "text" over "batch" = "tokens"("a.bin", "b.bin") stride 64 units "u16"
    ```
  }];
  let arguments = (ins StrAttr:$input, StrAttr:$over, StrAttr:$reader,
                       StrAttr:$train, StrAttr:$test,
                       OptionalAttr<I64Attr>:$stride,
                       OptionalAttr<StrAttr>:$units,
                       OptionalAttr<StrArrayAttr>:$columns);
  let assemblyFormat = [{
    $input `over` $over `=` $reader `(` $train `,` $test `)`
    (`stride` $stride^)? (`units` $units^)? (`columns` $columns^)? attr-dict
  }];
}

def ND_TrainingOp : ND_Declaration<"training"> {
  let summary = "The training recipe";
  let description = [{
    How parameters change is the program @update; `optimizer` is what the spec
    says of it, for messages. `steps` 0 means that epochs decide. Where a step is
    made of `parts`, the programs of the module compute one of them: inputs have
    the samples of a part, gradients and outputs of a step are the mean over all.
    What is in a scope that fits a pattern of `recompute` is computed again in the
    backward phase; `recomputed` is what that has come to. `rates` are for
    messages, as the optimizer is.

    **Constraints**
    - (C1) there is a part at least.
  }];
  let arguments = (ins StrAttr:$minimize, StrAttr:$optimizer, I64Attr:$epochs,
                       I64Attr:$steps,
                       DefaultValuedAttr<I64Attr, "1">:$parts,
                       OptionalAttr<StrArrayAttr>:$recompute,
                       OptionalAttr<TypedArrayAttrBase<ND_RecomputedAttr,
                           "what is computed again">>:$recomputed,
                       OptionalAttr<TypedArrayAttrBase<ND_RateAttr,
                           "rates">>:$rates);
  let assemblyFormat = [{
    `minimize` $minimize `by` $optimizer `epochs` $epochs `steps` $steps
    attr-dict
  }];
  let hasVerifier = 1;
}

def ND_ObjectiveOp : ND_Declaration<"objective"> {
  let summary = "The output that gradients are of";
  let description = [{
    Without a training recipe, or of those parameters which it says, whose
    gradients are of another output than that of the recipe.
  }];
  let arguments = (ins StrAttr:$minimize,
                       OptionalAttr<StrArrayAttr>:$parameters);
  let assemblyFormat = "`minimize` $minimize (`for` $parameters^)? attr-dict";
}

def ND_SettingOp : ND_Declaration<"setting"> {
  let summary = "A number that the spec defines by a name";
  let description = [{
    `value` is an expression over such numbers (runtime/settings/Settings.h): what
    the number is unless it is set when a training starts. Of one that is `fixed`
    the module is made, and it cannot be set.

    ```mlir
    nd.setting "lr" = "0.001"
    nd.setting "layers" = "12" fixed
    ```
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$value, UnitAttr:$fixed);
  let assemblyFormat = "$name `=` $value (`fixed` $fixed^)? attr-dict";
}

def ND_RequirementOp : ND_Declaration<"requirement"> {
  let summary = "What has to hold of settings";
  let description = [{
    The module was made where a comparison of numbers came out so: settings of
    which it comes out otherwise have another module.

    ```mlir
    nd.requirement "lr 0 >="
    ```
  }];
  let arguments = (ins StrAttr:$expression);
  let assemblyFormat = "$expression attr-dict";
}

def ND_PrecisionOp : ND_Declaration<"precision"> {
  let summary = "In which floats the program computes what it declares as f32";
  let description = [{
    Parameters, state and what crosses the border stay f32 in any case; without
    the declaration everything does. `scale` is what the loss is multiplied by
    at the start, before it is differentiated, and `growth_steps` after how many
    steps in a row without an overflow that doubles; both are of fp16 alone.

    **Constraints**
    - (C1) there is one precision per module.
    - (C2) the scale is a power of two in [2^-24, 2^24], and `growth_steps` is
      positive.

    ```mlir
    nd.precision fp16 {scale = 1024.0 : f64}
    ```
  }];
  let arguments = (ins ND_PrecisionAttr:$precision,
                       DefaultValuedAttr<F64Attr, "65536.0">:$scale,
                       DefaultValuedAttr<I64Attr, "2000">:$growth_steps);
  let assemblyFormat = "`` $precision attr-dict";
  let hasVerifier = 1;
}

def ND_ProgramOp : ND_Declaration<"program",
    [Symbol, SingleBlock, NoTerminator, NoRegionArguments,
     IsolatedFromAbove]> {
  let summary = "A straight-line program over the module's variables";
  let description = [{
    `forward` is what the user wrote; `init`, `step`, `eval` and `gradient` are
    derived from it. Beside it is `training`, if the model reads whether it is
    trained or has state: the same model in the training step, of which `step` is
    made then. It alone writes variables, those of `model_state`; in what it and
    `training_gradient` become these are outputs. `update` says what becomes of
    parameters and of the optimizer's state: it reads gradients by nd.gradient,
    and nd-build-step makes it the end of `step`. Of a step of parts `step` is the
    last one, `accumulate` each of the others.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral updateName = "update";
    static constexpr ::llvm::StringLiteral accumulateName = "accumulate";
  }];
}

#endif

// Views, stacks and puts on one device: what windows see, what lies one after the
// other and what an index adds up, until code generation says how.

#ifndef MESHC_DIALECT_SPMDVIEW
#define MESHC_DIALECT_SPMDVIEW

def SPMD_ViewOp : SPMD_Op<"view", [Pure]> {
  let summary = "This device's block of what nd.view reads";
  let description = [{
    `source` and `target` are the sharded tensors of an nd.view with these
    accesses; the operand is this device's block of the source, the result that
    of the target.

    Code generation has a convolution read the source itself where the library
    can, and makes a kernel of the view elsewhere. So the partitioned program
    says what a window is.

    ```mlir
    %seen = spmd.view %x ["y" = 2 "row" + "dy" - 1]
        from !nd.tensor<["y"=8, "c"=3], f32, <>>
        to !nd.tensor<["row"=4, "dy"=3, "c"=3], f32, <"c"@data>>
        : tensor<8x1xf32> -> tensor<4x3x1xf32>
    ```

    **Constraints**
    - (C1) to (C4) are those of nd.view for source and target.
    - (C5) operand and result have the local shapes of source and target.
    - (C6) a window of the source is what its access reads, of a loop that the
      target splits over the same axes.
    - (C7) any other dimension of the source that is split is a loop of the
      target, which is split so, or has the blocks that digits of its loops have.
  }];
  let arguments = (ins AnyRankedTensor:$input,
                       TypedArrayAttrBase<ND_AccessAttr, "accesses">:$accesses,
                       TypeAttrOf<ND_Tensor>:$source,
                       TypeAttrOf<ND_Tensor>:$target);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input custom<Accesses>($accesses) `from` $source `to` $target attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::meshc::nd::NamedTensorType getSourceType() {
      return ::llvm::cast<::meshc::nd::NamedTensorType>(getSource());
    }
    ::meshc::nd::NamedTensorType getTargetType() {
      return ::llvm::cast<::meshc::nd::NamedTensorType>(getTarget());
    }
    /// Where dimension `dim` of the operand is read, by positions in the blocks
    /// of this device. Nothing where that depends on the device.
    std::optional<::meshc::nd::DimAccess> getLocalAccess(::mlir::StringAttr dim);
    /// Where the result lies in the operand, if every element of it is one of
    /// the operand's and no two are the same one. Nothing otherwise.
    std::optional<::meshc::spmd::Slice> findSlice();
    /// Builds the view as an operation of `linalg`; returns its result.
    ::mlir::Value buildGeneric(::mlir::OpBuilder &builder);
  }];
}

def SPMD_StackOp : SPMD_Op<"stack", [Pure]> {
  let summary = "This device's blocks of tensors, along a dimension that is not split";
  let description = [{
    The first dimension of the result says which operand. Code generation has
    operands computed where they lie in the result.

    ```mlir
    %g = spmd.stack %g0, %g1 : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
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

def SPMD_PutOp : SPMD_Op<"put", [Pure]> {
  let summary = "Adds elements of this device's block up where an index says";
  let description = [{
    The loops are those of all three tensors, and `indexing_maps` say by which of
    them input, index and result are indexed. One loop is the result's alone: its
    position is what the index says. An element of the result is the sum, over
    the loops that it lacks, of the elements of the input whose index is its
    position; an index that is no position is added to nothing.

    Code generation sorts what is added up by index, on CPUs and GPUs.

    ```mlir
    %g = spmd.put %x[%tokens] {indexing_maps = [
        affine_map<(v, c, t) -> (t, c)>, affine_map<(v, c, t) -> (t)>,
        affine_map<(v, c, t) -> (v, c)>]}
        : tensor<7x3xf32>, tensor<7xi32> -> tensor<5x3xf32>
    ```

    **Constraints**
    - (C1) there are three projected permutations of the same loops, and sizes
      agree.
    - (C2) one loop is the result's alone; the input has each other one, and what
      the result lacks the index has.
    - (C3) the input is of floats, the result of the same type, f32 at least, or
      of f32; the index is of i32 or i64.
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
    /// Builds it as an operation of `linalg`; returns its result.
    ::mlir::Value buildGeneric(::mlir::OpBuilder &builder);
  }];
}

#endif

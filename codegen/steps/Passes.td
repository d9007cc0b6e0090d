// Passes from one device's program to its steps, in pipeline order. Each
// describes what it needs and leaves, with the program before and after.

#ifndef MESHC_CODEGEN_STEPS_PASSES
#define MESHC_CODEGEN_STEPS_PASSES

include "mlir/Pass/PassBase.td"

def BatchSums : Pass<"exec-batch-sums", "::mlir::ModuleOp"> {
  let summary = "Computes sums over loops that lie apart as a batch of matmuls";
  let description = [{
    A contraction along several loops that no library takes as one is a call for
    each position of all but one of them, which add up one after the other: the
    gradient of a convolution's weight has one for each image where channels lie
    between images and rows. It becomes one call whose batch is what lies apart,
    and a sum, if that takes less time than the calls do, and the batch no more
    than `max-bytes`. Where a copy of one factor, in which the loops lie together,
    takes less time still, the call reads that.

    Needs:  programs as spmd-partition leaves them, with loops (exec-tile-values).
    Leaves: contractions of one call each where that is possible.

    Before:
    ```mlir
    nd.mesh ["d"=1] machine "h200"
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["b"=32, "c"=16, "p"=64], f32, <>> : tensor<32x16x64xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=32, "o"=24, "p"=64], f32, <>> : tensor<32x24x64xf32>
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<16x24xf32>
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x24xf32>) -> tensor<16x24xf32>
      %w = linalg.generic {indexing_maps = [affine_map<(c, o, b, p) -> (b, c, p)>,
                                            affine_map<(c, o, b, p) -> (b, o, p)>,
                                            affine_map<(c, o, b, p) -> (c, o)>],
                           iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
          ins(%x, %y : tensor<32x16x64xf32>, tensor<32x24x64xf32>)
          outs(%init : tensor<16x24xf32>) {
      ^bb0(%a: f32, %e: f32, %o: f32):
        %m = arith.mulf %a, %e : f32
        %r = arith.addf %o, %m : f32
        linalg.yield %r : f32
      } -> tensor<16x24xf32>
      spmd.output "w" of !nd.tensor<["c"=16, "o"=24], f32, <>>, %w : tensor<16x24xf32>
    }
    ```
    After:
    ```mlir
    nd.mesh ["d"=1] machine "h200"
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["b"=32, "c"=16, "p"=64], f32, <>> : tensor<32x16x64xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=32, "o"=24, "p"=64], f32, <>> : tensor<32x24x64xf32>
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<16x24xf32>
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x24xf32>) -> tensor<16x24xf32>
      %none = arith.constant 0.0 : f32
      %all = tensor.empty() : tensor<32x16x24xf32>
      %zeros = linalg.fill ins(%none : f32) outs(%all : tensor<32x16x24xf32>)
          -> tensor<32x16x24xf32>
      %terms = linalg.generic {indexing_maps = [#left, #right, #batch],
                               iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
          ins(%x, %y : tensor<32x16x64xf32>, tensor<32x24x64xf32>)
          outs(%zeros : tensor<32x16x24xf32>) {
      ^bb0(%a: f32, %e: f32, %o: f32):
        %m = arith.mulf %a, %e : f32
        %r = arith.addf %o, %m : f32
        linalg.yield %r : f32
      } -> tensor<32x16x24xf32>
      %w = linalg.generic {indexing_maps = [#whole, #kept],
                           iterator_types = ["reduction", "parallel", "parallel"]}
          ins(%terms : tensor<32x16x24xf32>) outs(%init : tensor<16x24xf32>) {
      ^bb0(%t: f32, %o: f32):
        %r = arith.addf %o, %t : f32
        linalg.yield %r : f32
      } -> tensor<16x24xf32>
      spmd.output "w" of !nd.tensor<["c"=16, "o"=24], f32, <>>, %w : tensor<16x24xf32>
    }
    ```
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "268435456",
           "of the terms of a sum">,
  ];
  let dependentDialects = ["::meshc::steps::ExecDialect",
                           "::mlir::tensor::TensorDialect"];
}

def PadMatmuls : Pass<"exec-pad-matmuls", "::mlir::ModuleOp"> {
  let summary = "Makes odd sizes of matmuls multiples of what the library is fast with";
  let description = [{
    A contraction of 16-bit factors is computed with sizes that are multiples of
    `multiple`: zeros are added to its factors, and what they give is left out of
    the result. Without `always` that is done where the time that it saves is more
    than that of the copies which it may cost. What a loop captures is padded ahead of it.

    Needs:  programs as spmd-partition leaves them, with loops (exec-tile-values).
    Leaves: the same programs, with views around contractions.

    Before:
    ```mlir
    nd.mesh ["d"=1] machine "h200"
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["r"=4096, "k"=512], bf16, <>> : tensor<4096x512xbf16>
      %w = spmd.input "w" of !nd.tensor<["k"=512, "c"=4099], bf16, <>> : tensor<512x4099xbf16>
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<4096x4099xf32>
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4096x4099xf32>)
          -> tensor<4096x4099xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(r, c, k) -> (r, k)>,
                                            affine_map<(r, c, k) -> (k, c)>,
                                            affine_map<(r, c, k) -> (r, c)>],
                           iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x, %w : tensor<4096x512xbf16>, tensor<512x4099xbf16>)
          outs(%init : tensor<4096x4099xf32>) {
      ^bb0(%a: bf16, %b: bf16, %o: f32):
        %aa = arith.extf %a : bf16 to f32
        %bb = arith.extf %b : bf16 to f32
        %m = arith.mulf %aa, %bb : f32
        %r = arith.addf %o, %m : f32
        linalg.yield %r : f32
      } -> tensor<4096x4099xf32>
      spmd.output "y" of !nd.tensor<["r"=4096, "c"=4099], f32, <>>, %y
          : tensor<4096x4099xf32>
    }
    ```
    After:
    ```mlir
    nd.mesh ["d"=1] machine "h200"
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["r"=4096, "k"=512], bf16, <>> : tensor<4096x512xbf16>
      %w = spmd.input "w" of !nd.tensor<["k"=512, "c"=4099], bf16, <>> : tensor<512x4099xbf16>
      %zero = arith.constant 0.0 : f32
      %wide = spmd.view %w ["d1" = "d1'"]
          from !nd.tensor<["d0"=512, "d1"=4099], bf16, <>>
          to !nd.tensor<["d0"=512, "d1'"=4104], bf16, <>>
          : tensor<512x4099xbf16> -> tensor<512x4104xbf16>
      %empty = tensor.empty() : tensor<4096x4104xf32>
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4096x4104xf32>)
          -> tensor<4096x4104xf32>
      %product = linalg.generic {indexing_maps = [#rows, #columns, #result],
                           iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x, %wide : tensor<4096x512xbf16>, tensor<512x4104xbf16>)
          outs(%init : tensor<4096x4104xf32>) {
      ^bb0(%a: bf16, %b: bf16, %o: f32):
        %aa = arith.extf %a : bf16 to f32
        %bb = arith.extf %b : bf16 to f32
        %m = arith.mulf %aa, %bb : f32
        %r = arith.addf %o, %m : f32
        linalg.yield %r : f32
      } -> tensor<4096x4104xf32>
      %y = spmd.view %product ["d1" = "d1'"]
          from !nd.tensor<["d0"=4096, "d1"=4104], f32, <>>
          to !nd.tensor<["d0"=4096, "d1'"=4099], f32, <>>
          : tensor<4096x4104xf32> -> tensor<4096x4099xf32>
      spmd.output "y" of !nd.tensor<["r"=4096, "c"=4099], f32, <>>, %y
          : tensor<4096x4099xf32>
    }
    ```
  }];
  let options = [
    Option<"multiple", "multiple", "int64_t", "8", "of which sizes are fast">,
    Option<"always", "always", "bool", "false", "whatever it saves">,
  ];
  let dependentDialects = ["::meshc::spmd::SPMDDialect", "::meshc::steps::ExecDialect",
                           "::mlir::tensor::TensorDialect"];
}

def FormSteps : Pass<"exec-form-steps", "::mlir::ModuleOp"> {
  let summary = "Divides programs into kernels, matmuls and transfers";
  let description = [{
    Puts an exec.program in the place of each spmd.program. On CPUs contractions
    of views become convolutions, which read what is viewed where it lies, if
    the library has one; other views become kernels. Views that split or merge
    dimensions between kernels move to what those read and leave. Contractions that a
    library computes become matmuls and absorb what the library does besides as
    their epilogue; collectives become transfers of one; all else becomes
    kernels, which are fused where that saves memory traffic
    (codegen/steps/README.md). What several kernels compute again, such as a
    splat, each has in its body. What nothing that leaves the program depends on
    goes.

    Needs:  programs as spmd-partition leaves them, in which one operation is
            computed as one (nd-fuse-arithmetic), with loops (exec-tile-values).
    Leaves: an exec.program for each spmd.program.

    Before:
    ```mlir
    nd.mesh ["d"=1]
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
      %empty = tensor.empty() : tensor<6xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
                           iterator_types = ["parallel"]}
          ins(%x : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
      ^bb0(%a: f32, %o: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      } -> tensor<6xf32>
      spmd.output "y" of !nd.tensor<["a"=6], f32, <>>, %y : tensor<6xf32>
    }
    ```
    After:
    ```mlir
    nd.mesh ["d"=1]
    exec.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
      %y = exec.kernel(%x) {
      ^bb0(%b: tensor<6xf32>):
        %empty = tensor.empty() : tensor<6xf32>
        %z = linalg.generic {indexing_maps = [#whole, #whole],
                             iterator_types = ["parallel"]}
            ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
        ^bb0(%a: f32, %o: f32):
          %r = math.exp %a : f32
          linalg.yield %r : f32
        } -> tensor<6xf32>
        exec.yield %z : tensor<6xf32>
      } : (tensor<6xf32>) -> tensor<6xf32>
      spmd.output "y" of !nd.tensor<["a"=6], f32, <>>, %y : tensor<6xf32>
    }
    ```
  }];
  let options = [
    Option<"library", "library", "::meshc::codegen::MatmulLibrary",
           "::meshc::codegen::MatmulLibrary::OneDnn", "which library multiplies",
           [{::llvm::cl::values(
               clEnumValN(::meshc::codegen::MatmulLibrary::OneDnn, "onednn", ""),
               clEnumValN(::meshc::codegen::MatmulLibrary::CublasLt, "cublaslt",
                          ""))}]>,
    Option<"epilogues", "epilogues", "::meshc::codegen::MatmulEpilogues",
           "::meshc::codegen::MatmulEpilogues::All",
           "what its matmuls may end with",
           [{::llvm::cl::values(
               clEnumValN(::meshc::codegen::MatmulEpilogues::All, "all", ""),
               clEnumValN(::meshc::codegen::MatmulEpilogues::Bias, "bias", ""),
               clEnumValN(::meshc::codegen::MatmulEpilogues::None, "none", ""))}]>,
    Option<"fuse", "fuse", "bool", "true",
           "whether a step may compute several operations">,
  ];
  let dependentDialects = ["::meshc::steps::ExecDialect",
                           "::mlir::affine::AffineDialect",
                           "::mlir::tensor::TensorDialect"];
}

def GroupKernels : Pass<"exec-group-kernels", "::meshc::steps::ProgramOp"> {
  let summary = "Puts independent kernels with the same body in one launch";
  let description = [{
    Horizontal fusion, for GPUs: of kernels that go through their tensors from
    end to end, those with the same body, sizes aside, become an exec.group.
    They run at the end of the program if no step reads their results, as updates
    of parameters, and at its start if they read nothing but inputs and
    variables, as casts of parameters.

    Needs:  fused kernels (exec-form-steps).
    Leaves: groups where kernels stood.

    Before:
    ```mlir
    nd.mesh ["d"=1]
    exec.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
      %0 = exec.kernel(%x) {
      ^bb0(%b: tensor<6xf32>):
        %empty = tensor.empty() : tensor<6xf32>
        %z = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
                             iterator_types = ["parallel"]}
            ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
        ^bb0(%a: f32, %o: f32):
          %r = math.exp %a : f32
          linalg.yield %r : f32
        } -> tensor<6xf32>
        exec.yield %z : tensor<6xf32>
      } : (tensor<6xf32>) -> tensor<6xf32>
      %1 = exec.kernel(%y) {
      ^bb0(%b: tensor<5xf32>):
        %empty = tensor.empty() : tensor<5xf32>
        %z = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>],
                             iterator_types = ["parallel"]}
            ins(%b : tensor<5xf32>) outs(%empty : tensor<5xf32>) {
        ^bb0(%a: f32, %o: f32):
          %r = math.exp %a : f32
          linalg.yield %r : f32
        } -> tensor<5xf32>
        exec.yield %z : tensor<5xf32>
      } : (tensor<5xf32>) -> tensor<5xf32>
      spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0 : tensor<6xf32>
      spmd.output "y" of !nd.tensor<["b"=5], f32, <>>, %1 : tensor<5xf32>
    }
    ```
    After:
    ```mlir
    nd.mesh ["d"=1]
    exec.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
      %0:2 = exec.group(%x, %y) {
      ^bb0(%a: tensor<6xf32>, %b: tensor<5xf32>):
        %1 = exec.kernel(%a) {
        ^bb0(%c: tensor<6xf32>):
          %empty = tensor.empty() : tensor<6xf32>
          %z = linalg.generic {indexing_maps = [#whole, #whole],
                               iterator_types = ["parallel"]}
              ins(%c : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
          ^bb0(%e: f32, %o: f32):
            %r = math.exp %e : f32
            linalg.yield %r : f32
          } -> tensor<6xf32>
          exec.yield %z : tensor<6xf32>
        } : (tensor<6xf32>) -> tensor<6xf32>
        %2 = exec.kernel(%b) {
        ^bb0(%c: tensor<5xf32>):
          %empty = tensor.empty() : tensor<5xf32>
          %z = linalg.generic {indexing_maps = [#whole, #whole],
                               iterator_types = ["parallel"]}
              ins(%c : tensor<5xf32>) outs(%empty : tensor<5xf32>) {
          ^bb0(%e: f32, %o: f32):
            %r = math.exp %e : f32
            linalg.yield %r : f32
          } -> tensor<5xf32>
          exec.yield %z : tensor<5xf32>
        } : (tensor<5xf32>) -> tensor<5xf32>
        exec.yield %1, %2 : tensor<6xf32>, tensor<5xf32>
      } : (tensor<6xf32>, tensor<5xf32>) -> (tensor<6xf32>, tensor<5xf32>)
      spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0#0 : tensor<6xf32>
      spmd.output "y" of !nd.tensor<["b"=5], f32, <>>, %0#1 : tensor<5xf32>
    }
    ```
  }];
  let dependentDialects = ["::meshc::steps::ExecDialect"];
}

def MergeTransfers : Pass<"exec-merge-transfers", "::meshc::steps::ProgramOp"> {
  let summary = "Lets small collectives go together";
  let description = [{
    Small collectives of one kind, over the same axes, with one element type and
    phase, become one transfer where the last of them stood. Small is what takes
    longer to start than to send, under the cost model; a collective is held back
    for others not past its reader and not for long (MergeTransfers.h has the
    rule).

    Needs:  transfers of one collective each (exec-form-steps).
    Leaves: transfers of several.

    Before:
    ```mlir
    nd.mesh ["d"=2]
    exec.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over d> : tensor<6xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <> partial sum over d> : tensor<5xf32>
      %0 = exec.transfer(%x) {
      ^bb0(%b: tensor<6xf32>):
        %z = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over d>
            to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
        exec.yield %z : tensor<6xf32>
      } : (tensor<6xf32>) -> tensor<6xf32>
      %1 = exec.transfer(%y) {
      ^bb0(%b: tensor<5xf32>):
        %z = spmd.all_reduce %b from !nd.tensor<["b"=5], f32, <> partial sum over d>
            to !nd.tensor<["b"=5], f32, <>> : tensor<5xf32> -> tensor<5xf32>
        exec.yield %z : tensor<5xf32>
      } : (tensor<5xf32>) -> tensor<5xf32>
      spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0 : tensor<6xf32>
      spmd.output "y" of !nd.tensor<["b"=5], f32, <>>, %1 : tensor<5xf32>
    }
    ```
    After:
    ```mlir
    nd.mesh ["d"=2]
    exec.program @p {
      %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over d> : tensor<6xf32>
      %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <> partial sum over d> : tensor<5xf32>
      %0:2 = exec.transfer(%x, %y) {
      ^bb0(%a: tensor<6xf32>, %b: tensor<5xf32>):
        %1 = spmd.all_reduce %a from !nd.tensor<["a"=6], f32, <> partial sum over d>
            to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
        %2 = spmd.all_reduce %b from !nd.tensor<["b"=5], f32, <> partial sum over d>
            to !nd.tensor<["b"=5], f32, <>> : tensor<5xf32> -> tensor<5xf32>
        exec.yield %1, %2 : tensor<6xf32>, tensor<5xf32>
      } : (tensor<6xf32>, tensor<5xf32>) -> (tensor<6xf32>, tensor<5xf32>)
      spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0#0 : tensor<6xf32>
      spmd.output "y" of !nd.tensor<["b"=5], f32, <>>, %0#1 : tensor<5xf32>
    }
    ```
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "int64_t",
           "-1",
           "what the members of a transfer bring in together, at most; 0 leaves "
           "each alone; -1: by the cost model">,
  ];
  let dependentDialects = ["::meshc::steps::ExecDialect"];
}

def PrefetchGathers : Pass<"exec-prefetch-gathers", "::meshc::steps::ProgramOp"> {
  let summary = "Lets what is gathered travel while the layer before computes";
  let description = [{
    A transfer that gathers goes in front of the layer that is `layers` before the one
    which reads it first, or right behind what it sends if that is made later. Where a
    layer makes itself what it gathers, that stays (PrefetchGathers.h has the rule).

    Needs:  transfers as exec-form-steps leaves them, before they are merged.
    Leaves: the same steps in another order.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    nd.mesh ["x"=2]
    nd.variable parameter @v : !nd.tensor<["a"=4], f32, <"a"@x>> = #nd.fill<1.0>
    exec.program @step {
      %x = spmd.input "x" of !nd.tensor<["a"=4], f32, <>> : tensor<4xf32>
      %v = spmd.read @v : tensor<2xf32>
      %h = exec.kernel(%x, %x) {
      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
        %empty = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {indexing_maps = [#whole, #whole, #whole],
            iterator_types = ["parallel"]}
            ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
        ^bb0(%e: f32, %f: f32, %out: f32):
          %m = arith.mulf %e, %f : f32
          linalg.yield %m : f32
        } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
        exec.yield %r : tensor<4xf32>
      } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
      %whole = exec.transfer(%v) {
      ^bb0(%b: tensor<2xf32>):
        %z = spmd.all_gather %b from !nd.tensor<["a"=4], f32, <"a"@x>>
            to !nd.tensor<["a"=4], f32, <>> : tensor<2xf32> -> tensor<4xf32>
        exec.yield %z : tensor<4xf32>
      } : (tensor<2xf32>) -> tensor<4xf32>
      %y = exec.kernel(%h, %whole) {
      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
        %empty = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {indexing_maps = [#whole, #whole, #whole],
            iterator_types = ["parallel"]}
            ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
        ^bb0(%e: f32, %f: f32, %out: f32):
          %m = arith.mulf %e, %f : f32
          linalg.yield %m : f32
        } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
        exec.yield %r : tensor<4xf32>
      } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
      spmd.output "y" of !nd.tensor<["a"=4], f32, <>>, %y : tensor<4xf32>
    }
    ```
    After, what follows `%v`:
    ```mlir
      %whole = exec.transfer(%v) {
      ^bb0(%b: tensor<2xf32>):
        %z = spmd.all_gather %b from !nd.tensor<["a"=4], f32, <"a"@x>>
            to !nd.tensor<["a"=4], f32, <>> : tensor<2xf32> -> tensor<4xf32>
        exec.yield %z : tensor<4xf32>
      } : (tensor<2xf32>) -> tensor<4xf32>
      %h = exec.kernel(%x, %x) {
      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
        %empty = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {indexing_maps = [#whole, #whole, #whole],
            iterator_types = ["parallel"]}
            ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
        ^bb0(%e: f32, %f: f32, %out: f32):
          %m = arith.mulf %e, %f : f32
          linalg.yield %m : f32
        } -> tensor<4xf32>
        exec.yield %r : tensor<4xf32>
      } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %y = exec.kernel(%h, %whole) {
      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
        %empty = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {indexing_maps = [#whole, #whole, #whole],
            iterator_types = ["parallel"]}
            ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
        ^bb0(%e: f32, %f: f32, %out: f32):
          %m = arith.mulf %e, %f : f32
          linalg.yield %m : f32
        } -> tensor<4xf32>
        exec.yield %r : tensor<4xf32>
      } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let options = [
    Option<"layers", "layers", "int64_t", "1",
           "by how many layers; 0: none, what is gathered is sent where it is read">,
  ];
  let dependentDialects = ["::meshc::steps::ExecDialect"];
}

#endif

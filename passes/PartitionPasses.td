// Passes that make programs of one device, and those on them.

#ifndef MESHC_PASSES_PARTITIONPASSES
#define MESHC_PASSES_PARTITIONPASSES

include "mlir/Pass/PassBase.td"

def Partition : Pass<"nd-partition", "::mlir::ModuleOp"> {
  let summary = "Turns the whole program into the program of one device";
  let description = [{
    Names have done their work: a value becomes the block that one device has of
    it, a builtin tensor of the local shape. Each operation builds itself on
    blocks through PartitionOpInterface, as `linalg` on what is local; each
    `nd.reshard` becomes the cheapest sequence of collectives between its two
    shardings (layout/ReshardPlanner.h), which carry its causes.

    All blocks have one shape. That of a dimension which the axes do not divide
    is rounded up, and what lies beyond the end is padding of any value: it is
    masked, with the identity of the reduction, where an operation reduces over
    it, and nowhere else. Positions (`nd.iota`, `nd.random`, masks) are global:
    they add the coordinates of the device.

    Needs:  shardings in all types, in agreement (nd-assign-shardings).
    Leaves: spmd.program in place of every nd.program; mesh, rules and
            variables as they were.

    Before:
    ```mlir
    nd.mesh ["model"=3]
    nd.program @eval {
      %x = nd.input "x" : !nd.tensor<["batch"=2, "in"=9], f32, <"in"@model>>
      %s = nd.reduce sum %x
          : (!nd.tensor<["batch"=2, "in"=9], f32, <"in"@model>>)
          -> !nd.tensor<["batch"=2], f32, <> partial sum over model>
      %y = nd.reshard %s
          : !nd.tensor<["batch"=2], f32, <> partial sum over model>
          -> !nd.tensor<["batch"=2], f32, <>>
      nd.output "y", %y : !nd.tensor<["batch"=2], f32, <>>
    }
    ```
    After:
    ```mlir
    nd.mesh ["model"=3]
    spmd.program @eval {
      %x = spmd.input "x" of !batch_by_in_at_model : tensor<2x3xf32>
      %empty = tensor.empty() : tensor<2xf32>
      %zero = arith.constant 0.0 : f32
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2xf32>)
          -> tensor<2xf32>
      %s = linalg.generic {indexing_maps = [#rows_columns, #rows],
          iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<2x3xf32>) outs(%init : tensor<2xf32>) {
      ^bb0(%element: f32, %sum: f32):
        %next = arith.addf %sum, %element : f32
        linalg.yield %next : f32
      } -> tensor<2xf32>
      %y = spmd.all_reduce %s from !batch_sum_over_model to !batch
          : tensor<2xf32> -> tensor<2xf32>
      spmd.output "y" of !batch, %y : tensor<2xf32>
    }
    ```
  }];
  let dependentDialects = [
    "::meshc::nd::NDDialect", "::meshc::spmd::SPMDDialect",
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def EliminateEqual : Pass<"spmd-eliminate-equal", "::mlir::ModuleOp"> {
  let summary = "Makes one operation of equal ones";
  let description = [{
    MLIR's elimination of common subexpressions and of what nothing uses, in time
    that grows as the program does: operations with regions are compared only if
    the hashes of their bodies are equal too.

    Needs:  nothing.
    Leaves: no two operations without effects are equal where one dominates the
            other.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    spmd.program @eval {
      %x = spmd.input "x" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %y = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.exp %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      %z = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.exp %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "y" of !nd.tensor<["a"=3], f32, <>>, %y : tensor<3xf32>
      spmd.output "z" of !nd.tensor<["a"=3], f32, <>>, %z : tensor<3xf32>
    }
    ```
    After:
    ```mlir
    spmd.program @eval {
      %x = spmd.input "x" of !a : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %y = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.exp %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "y" of !a, %y : tensor<3xf32>
      spmd.output "z" of !a, %y : tensor<3xf32>
    }
    ```
  }];
}

def FuseArithmetic : Pass<"spmd-fuse-arithmetic", "::mlir::ModuleOp"> {
  let summary = "Decides which operations are computed as one";
  let description = [{
    Machines compute some pairs of operations in one, faster and with other bits
    than one after the other. Which pairs these are is decided here, once: a pair
    becomes one operation, whose body no later pass and no kernel takes apart, and
    nothing else is put together afterwards. So a value has the same bits in every
    kernel, and every stage of one, that computes it.

    - a product of f32 or f64 that nothing but sums and differences of its own
      size read becomes part of each: a fused multiply-add, rounded once. Where a
      sum over dimensions reads it, the product goes into the sum as those of a
      contraction do;
    - `1 + tanh x`, `1 + erf x`, `1 / sqrt x` and `1 / (1 + exp x)`, if nothing
      else reads what lies between: GPUs have shorter forms of them;
    - a quotient and its conversion to an integer, which on GPUs needs all bits of
      the quotient: the conversion gets a quotient of its own.

    Only readers in the phase of the product count, and only operations of one
    phase become one: what the backward phase reads changes nothing in the
    forward phase, so evaluation and training compute the same. A product that
    later phases read stays beside the fused operation.

    What is added to a matrix product is left alone: a library call takes the sum
    along. So is a product that is repeated along a dimension of the sum: it is
    computed once for all of it.

    Needs:  equal operations are one operation (CSE).
    Leaves: no operation more for each element than before.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    spmd.program @eval {
      %x = spmd.input "x" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %y = spmd.input "y" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %z = spmd.input "z" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %p = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x, %y : tensor<3xf32>, tensor<3xf32>)
          outs(%empty : tensor<3xf32>) {
      ^bb0(%a: f32, %b: f32, %out: f32):
        %value = arith.mulf %a, %b : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      %s = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%p, %z : tensor<3xf32>, tensor<3xf32>)
          outs(%empty : tensor<3xf32>) {
      ^bb0(%a: f32, %b: f32, %out: f32):
        %value = arith.addf %a, %b : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "s" of !nd.tensor<["a"=3], f32, <>>, %s : tensor<3xf32>
    }
    ```
    After:
    ```mlir
    spmd.program @eval {
      %x = spmd.input "x" of !a : tensor<3xf32>
      %y = spmd.input "y" of !a : tensor<3xf32>
      %z = spmd.input "z" of !a : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %s = linalg.generic {indexing_maps = [#whole, #whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x, %y, %z : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
          outs(%empty : tensor<3xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
        %value = math.fma %a, %b, %c : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "s" of !a, %s : tensor<3xf32>
    }
    ```
  }];
  let dependentDialects = [
    "::meshc::spmd::SPMDDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect"];
}

def RecomputeResiduals : Pass<"spmd-recompute-residuals", "::mlir::ModuleOp"> {
  let summary = "Has the backward phase compute again what need not be kept";
  let description = [{
    A value of the forward phase that a kernel of the backward phase reads need
    not stay in memory between the two if it is an elementwise function of values
    that do, or a view of one which is no slice: the kernel computes it on the
    way. Which values stay is a minimum cut
    (passes/VertexCut.h) between

    - what can only be kept: results of products, sums, collectives, gathers and
      transpositions, none of which is computed twice, and every value to which
      more scalar operations in a row lead than the machine does in a third of
      the time of its bytes; random numbers are drawn again, whatever that
      takes;
    - what kernels of later phases read,

    where keeping a value costs its bytes on one device, and nothing if it is in
    memory anyway: variables, inputs, outputs, and operands of products and
    collectives of the backward phase. Of equally cheap cuts it is the one with
    least to compute again. So the gradient of an exact gelu reads the argument,
    not the three functions of it that its formula mentions.

    The same operations on the same operands, roundings to 16 bits included, give
    the same values. They are in the phase `backward`, in front of the first
    reader, and inside the value that they compute again. Readers with a product
    or a collective between them each have their own. Nothing is sent twice: this
    runs after partitioning, where a collective is an operation like any other,
    and last, because CSE would undo it.

    Needs:  equal operations are one operation (CSE).
    Leaves: what later phases read of the forward phase has no more bytes than
            before; copies in the phase `backward`.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    spmd.program @step {
      %x = spmd.input "x" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %h = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.tanh %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      %y = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%h : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.exp %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "y" of !nd.tensor<["a"=3], f32, <>>, %y : tensor<3xf32>
      %g = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%h : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = arith.negf %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32> loc(fused<#nd.origin<backward "g">>[unknown])
      spmd.output "g" of !nd.tensor<["a"=3], f32, <>>, %g : tensor<3xf32>
    }
    ```
    After, what follows `%y`:
    ```mlir
      spmd.output "y" of !a, %y : tensor<3xf32>
      %again = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.tanh %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      %g = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%again : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = arith.negf %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32>
      spmd.output "g" of !a, %g : tensor<3xf32>
    }
    ```
  }];
  let dependentDialects = ["::meshc::spmd::SPMDDialect"];
}

def RecomputeScopes : Pass<"spmd-recompute-scopes", "::mlir::ModuleOp"> {
  let summary = "Has the backward phase compute again the scopes that it is asked to";
  let description = [{
    `recompute` of nd.training names calls and loops. A unit is one call, or one
    iteration of a loop, the outermost one that fits. Of a unit these stay in memory
    for the backward phase: what it reads of elsewhere, what is read elsewhere in the
    forward phase, and what collectives gave it, except for what they gathered, which
    is larger than what it is gathered of. All else that the backward phase reads of it
    is computed again, products too, in front of the first reader, in the phase
    `backward`: the same operations on the same operands, so that the bits are the
    same (Chen et al. 2016, "Training deep nets with sublinear memory cost"). So the
    memory of units is that of their inputs and of one unit at a time.

    `recomputed` of nd.training says what it has come to, for each scope.

    Needs:  spmd-recompute-residuals: what is kept is kept.
    Leaves: @step and @accumulate that keep less.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    nd.training minimize "loss" by "sgd" epochs 1 steps 0 {recompute = ["layer"]}
    spmd.program @step {
      %x = spmd.input "x" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
      %empty = tensor.empty() : tensor<3xf32>
      %h = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = math.tanh %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
      %g = linalg.generic {indexing_maps = [#whole, #whole],
          iterator_types = ["parallel"]}
          ins(%h : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
      ^bb0(%element: f32, %out: f32):
        %value = arith.negf %element : f32
        linalg.yield %value : f32
      } -> tensor<3xf32> loc(fused<#nd.origin<backward "g">>[unknown])
      spmd.output "g" of !nd.tensor<["a"=3], f32, <>>, %g : tensor<3xf32>
    }
    ```
    After, beside the program in which `%g` reads a copy of `%h` in front of it:
    ```mlir
    nd.training minimize "loss" by "sgd" epochs 1 steps 0 {recompute = ["layer"], recomputed = [#nd.recomputed<"layer" of 1 saves 12 for 3>]}
    ```
  }];
  let dependentDialects = ["::meshc::spmd::SPMDDialect"];
}

def GatherAgain : Pass<"spmd-gather-again", "::mlir::ModuleOp"> {
  let summary = "Has the backward phase gather split parameters again";
  let description = [{
    A parameter that devices hold parts of is whole in memory only while a layer
    reads it (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training
    trillion parameter models", stage 3): what the backward phase reads of it is
    gathered again, in front of the first reader there. Devices send half as much again
    for it: a gather in each phase and a scatter of its gradient. What elementwise
    operations and views make of what is gathered is made again as well. The same
    values, so the same bits.

    Parameters that the last layer of the forward phase reads stay: the backward
    phase begins with that layer, which is the outermost iteration or call
    (getLayer), or one operation that is in none.

    Needs:  spmd-recompute-scopes, whose copies are of the backward phase. Nothing
            makes one of equal operations from here on.
    Leaves: what is gathered of a parameter has readers in one phase, the last
            layer's aside.

    Before:
    ```mlir
    #whole = affine_map<(d0) -> (d0)>
    nd.mesh ["x"=2]
    nd.variable parameter @w : !nd.tensor<["a"=4], f32, <"a"@x>> = #nd.fill<1.0>
    nd.variable parameter @v : !nd.tensor<["a"=4], f32, <"a"@x>> = #nd.fill<1.0>
    spmd.program @step {
      %x = spmd.input "x" of !nd.tensor<["a"=4], f32, <>> : tensor<4xf32>
      %empty = tensor.empty() : tensor<4xf32>
      %w = spmd.read @w : tensor<2xf32>
      %v = spmd.read @v : tensor<2xf32>
      %whole = spmd.all_gather %w from !nd.tensor<["a"=4], f32, <"a"@x>>
          to !nd.tensor<["a"=4], f32, <>> : tensor<2xf32> -> tensor<4xf32>
      %last = spmd.all_gather %v from !nd.tensor<["a"=4], f32, <"a"@x>>
          to !nd.tensor<["a"=4], f32, <>> : tensor<2xf32> -> tensor<4xf32>
      %h = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%x, %whole : tensor<4xf32>, tensor<4xf32>)
          outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %f: f32, %out: f32):
        %m = arith.mulf %e, %f : f32
        linalg.yield %m : f32
      } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
      %y = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%h, %last : tensor<4xf32>, tensor<4xf32>)
          outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %f: f32, %out: f32):
        %m = arith.mulf %e, %f : f32
        linalg.yield %m : f32
      } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
      spmd.output "y" of !nd.tensor<["a"=4], f32, <>>, %y : tensor<4xf32>
      %d = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%y, %last : tensor<4xf32>, tensor<4xf32>)
          outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %f: f32, %out: f32):
        %m = arith.mulf %e, %f : f32
        linalg.yield %m : f32
      } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "layer"[1]/"h">>[unknown])
      %g = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%d, %whole : tensor<4xf32>, tensor<4xf32>)
          outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %f: f32, %out: f32):
        %m = arith.mulf %e, %f : f32
        linalg.yield %m : f32
      } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "layer"[0]/"h">>[unknown])
      spmd.output "g" of !nd.tensor<["a"=4], f32, <>>, %g : tensor<4xf32>
    }
    ```
    After, what follows `%d`:
    ```mlir
      %again = spmd.all_gather %w from !nd.tensor<["a"=4], f32, <"a"@x>>
          to !nd.tensor<["a"=4], f32, <>> : tensor<2xf32> -> tensor<4xf32>
      %g = linalg.generic {indexing_maps = [#whole, #whole, #whole],
          iterator_types = ["parallel"]}
          ins(%d, %again : tensor<4xf32>, tensor<4xf32>)
          outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %f: f32, %out: f32):
        %m = arith.mulf %e, %f : f32
        linalg.yield %m : f32
      } -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::meshc::spmd::SPMDDialect"];
}

#endif

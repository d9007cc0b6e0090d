// Passes on what the user wrote: checks, precision, gradients, updates.

#ifndef MESHC_PASSES_PROGRAMPASSES
#define MESHC_PASSES_PROGRAMPASSES

include "mlir/Pass/PassBase.td"

def CheckLayout : Pass<"nd-check-layout", "::mlir::ModuleOp"> {
  let summary = "Checks that the layout is legal for every tensor";
  let description = [{
    An axis serves one dimension of a tensor: a layout that puts two of them on
    one axis is refused here, before differentiation and decomposition make
    values of their own. Those may have dimensions together that no tensor of the
    user has; for them the cheapest legal sharding is chosen later.

    Needs:  rules that name axes of the mesh (the verifier of nd.rule).
    Leaves: the module as it was.

    Before:
    ```mlir
    nd.mesh ["data"=2]
    nd.rule "batch -> data"
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["batch"=4, "in"=3], f32>
      nd.output "y", %x : !nd.tensor<["batch"=4, "in"=3], f32>
    }
    ```
    After, the same: with `nd.rule "in -> data"` beside it there would be an
    error at `%x`, with notes at the two rules.
    ```mlir
    nd.mesh ["data"=2]
    nd.rule "batch -> data"
    nd.program @forward {
      %x = nd.input "x" : !batch_by_in
      nd.output "y", %x : !batch_by_in
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def LowerPrecision : Pass<"nd-lower-precision", "::mlir::ModuleOp"> {
  let summary = "Computes in 16 bits what may be";
  let description = [{
    Where the module declares nd.precision bf16 or fp16, values of @forward that
    were declared as f32 become bf16 or f16. Parameters, inputs and outputs stay
    f32; so do integers and f64. What each operation needs it says itself
    (PrecisionOpInterface; dialect/Precision.cpp has the table):

    - products (einsum) take 16-bit operands, add up in f32 and round once;
    - sums, exponentials, logarithms, quotients, roots and sigmoids compute in
      f32, and everything that reads them elementwise does: norms, softmax and
      losses are f32 between their 16-bit inputs and what narrows them;
    - other elementwise operations are 16-bit, unless only f32 operations read
      the result, or a constant beside it has no 16-bit form;
    - what moves elements moves them as they are.

    Where that makes nothing narrower there is a remark, and the declaration
    goes: the program is one in f32.

    A variable, input, constant, position or converted integer fits either width
    and is converted for each operation that needs it in 16 bits; before it is
    unstacked where each part has one reader, in 16 bits. Every operation with a
    16-bit result rounds it: results do not depend on which operations become one
    kernel. A library call that takes along what follows a product rounds once
    (codegen/README.md, decisions).

    Needs:  @forward as the user wrote it.
    Leaves: @forward with conversions; what is not f32 untouched.

    Before:
    ```mlir
    nd.precision bf16
    nd.variable parameter @w : !nd.tensor<["in"=3, "out"=2], f32> = #nd.fill<1.0>
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["in"=3], f32>
      %w = nd.read @w : !nd.tensor<["in"=3, "out"=2], f32>
      %y = nd.einsum %x, %w : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<["in"=3, "out"=2], f32>) -> !nd.tensor<["out"=2], f32>
      %e = nd.exp %y : (!nd.tensor<["out"=2], f32>) -> !nd.tensor<["out"=2], f32>
      nd.output "e", %e : !nd.tensor<["out"=2], f32>
    }
    ```
    After:
    ```mlir
    nd.precision bf16
    nd.variable parameter @w : !in_by_out = #nd.fill<1.0 : f64>
    nd.program @forward {
      %x = nd.input "x" : !in
      %w = nd.read @w : !in_by_out
      %x16 = nd.cast %x : (!in) -> !in_bf16
      %w16 = nd.cast %w : (!in_by_out) -> !in_by_out_bf16
      %y = nd.einsum %x16, %w16 : (!in_bf16, !in_by_out_bf16) -> !out_bf16
      %y32 = nd.cast %y : (!out_bf16) -> !out
      %e = nd.exp %y32 : (!out) -> !out
      nd.output "e", %e : !out
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Differentiate : Pass<"nd-differentiate", "::mlir::ModuleOp"> {
  let summary = "Makes the program that computes outputs and gradients";
  let description = [{
    Copies @forward to @gradient and appends the gradient of one output with
    respect to parameters and float inputs, in reverse mode: each operation
    passes the gradient of its result on to its operands, through
    DifferentiableOpInterface, from the last operation to the first. What several
    operations pass on to one value is added; what broadcasting repeated is
    summed. A gradient leaves as the output `grad:NAME`; that of a source that
    does not influence the output is 0.

    The output is what the training recipe or `nd.objective` minimizes; without
    them it is the one output that is a float scalar. If there is none or are
    several, and without the option `output`, the pass does nothing.

    The gradient of a loop is a loop that runs backwards: it carries the gradients
    of what the loop carries, stacks those of slices and sums those of what the
    region captures. What it reads of an iteration the loop stacks in addition
    (passes/LoopResiduals.h). The pipeline has no loops here yet: carried values
    would need a 16-bit form in nd-lower-precision, gradients of 16-bit copies in
    a region the precision of their parameters, and partitioning to know regions.

    In fp16 the loss is scaled; @gradient halves the scale where a gradient
    overflows, and says in the output `fp16/retry` that it is to run again.
    Gradients are in the phase `backward`, at the position of the operation they
    come from, and are called `gradient of NAME`.

    Needs:  @forward; the output is a float scalar.
    Leaves: @gradient beside @forward.

    Before:
    ```mlir
    nd.variable parameter @w : !nd.tensor<["in"=3], f32> = #nd.fill<1.0>
    nd.training minimize "loss" by "sgd(lr = 0.1)" epochs 1 steps 0
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["in"=3], f32>
      %w = nd.read @w : !nd.tensor<["in"=3], f32>
      %loss = nd.einsum %x, %w : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<["in"=3], f32>) -> !nd.tensor<[], f32>
      nd.output "loss", %loss : !nd.tensor<[], f32>
    }
    ```
    After, beside what was there:
    ```mlir
    nd.program @gradient {
      %x = nd.input "x" : !in
      %w = nd.read @w : !in
      %loss = nd.einsum %x, %w : (!in, !in) -> !scalar
      nd.output "loss", %loss : !scalar
      %one = nd.constant(1.0 : f32) : !scalar
      %dw = nd.einsum %one, %x : (!scalar, !in) -> !in
      nd.output "grad:w", %dw : !in
    }
    ```
  }];
  let options = [
    ListOption<"wanted", "wanted", "std::string",
               "parameters and float inputs to differentiate by; all parameters "
               "if there are none">,
    Option<"output", "output", "std::string", "",
           "output to differentiate, in place of the one to minimize">,
    Option<"inputsOf", "inputs-of", "std::string", "",
           "output that gradients by inputs are of, and those by parameters "
           "where nothing says what is minimized">,
  ];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def BuildStep : Pass<"nd-build-step", "::mlir::ModuleOp"> {
  let summary = "Makes the program of one training step";
  let description = [{
    Turns @forward into @eval, and, if there is a training recipe, @training, or
    where there is none a copy of @forward, into @step: the outputs that are one
    number, gradients of the minimized output with respect to all parameters, and
    what @update makes of them. There nd.gradient is a gradient, and nd.read of a
    parameter the value that the step has read.

    A parameter that does not influence the minimized output gets a warning and
    no update; one that does so without a gradient, behind stop_gradient, gets a
    remark. The optimizer's state of it (#nd.origin) goes; whoever reads its
    gradient otherwise reads zeros.

    Needs:  @forward and, with a recipe, @update; the minimized output is a float
            scalar.
    Leaves: @eval and @step, none of @forward, @training and @update.

    Before:
    ```mlir
    nd.variable parameter @w : !nd.tensor<["in"=3], f32> = #nd.fill<1.0>
    nd.training minimize "loss" by "sgd(lr = 0.1)" epochs 1 steps 0
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["in"=3], f32>
      %w = nd.read @w : !nd.tensor<["in"=3], f32>
      %loss = nd.einsum %x, %w : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<["in"=3], f32>) -> !nd.tensor<[], f32>
      nd.output "loss", %loss : !nd.tensor<[], f32>
    }
    nd.program @update {
      %w = nd.read @w : !nd.tensor<["in"=3], f32>
      %g = nd.gradient @w : !nd.tensor<["in"=3], f32>
      %lr = nd.constant(0.1 : f32) : !nd.tensor<[], f32>
      %step = nd.mul %g, %lr : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<[], f32>) -> !nd.tensor<["in"=3], f32>
      %updated = nd.sub %w, %step : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<["in"=3], f32>) -> !nd.tensor<["in"=3], f32>
      nd.write @w, %updated : !nd.tensor<["in"=3], f32>
    }
    ```
    After, where @eval is what @forward was:
    ```mlir
    nd.program @step {
      %x = nd.input "x" : !in
      %w = nd.read @w : !in
      %loss = nd.einsum %x, %w : (!in, !in) -> !scalar
      nd.output "loss", %loss : !scalar
      %one = nd.constant(1.0 : f32) : !scalar
      %dw = nd.einsum %one, %x : (!scalar, !in) -> !in
      %lr = nd.constant(0.1 : f32) : !scalar
      %step = nd.mul %dw, %lr : (!in, !scalar) -> !in
      %updated = nd.sub %w, %step : (!in, !in) -> !in
      nd.write @w, %updated : !in
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def BuildInit : Pass<"nd-build-init", "::mlir::ModuleOp"> {
  let summary = "Makes the program that sets every variable";
  let description = [{
    Writes the initial value of every parameter and state variable. Random ones
    are a function of the input `seed`, a 64-bit FNV-1a hash of the variable's
    name, and the element's global position, so they are the same on every mesh
    and layout, and do not change when other variables come and go.

    Runs after the step is built, because optimizers add state.

    Needs:  every variable is declared (nd-build-step).
    Leaves: @init.

    Before:
    ```mlir
    nd.variable parameter @w : !nd.tensor<["in"=3], f32>
        = #nd.random<normal, 0.0 : f64, 0.5 : f64>
    nd.variable parameter @b : !nd.tensor<["in"=3], f32> = #nd.fill<0.0>
    ```
    After, beside the variables:
    ```mlir
    nd.program @init {
      %seed = nd.input "random seed" : !nd.tensor<[], i64>
      %w = nd.random normal(0.0, 0.5) key -5808541479991114666 seed %seed
          : (!nd.tensor<[], i64>) -> !in
      nd.write @w, %w : !in
      %b = nd.constant(0.0 : f32) : !in
      nd.write @b, %b : !in
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Decompose : Pass<"nd-decompose", "::mlir::ModuleOp"> {
  let summary = "Rewrites operations into those that partition";
  let description = [{
    Fewer kinds of operations reach partitioning: the position of an extreme
    becomes two reductions, a mean a scaled sum (so that pending sums may pass
    it), a contraction of many tensors a chain of contractions of two, in the
    cheapest order by arithmetic and memory traffic of the whole tensors. A
    dimension that only one input of a contraction has is summed before; a
    contraction in which one side has nothing of its own is an elementwise
    product and a sum. A tensor at each position of a dimension (nd.unstack) is a
    view.

    The same walk simplifies what gradients are made of: splats and repeated
    values are not stored or worked on in full, constants are folded, gathered
    and reassociated, and `nd.stop_gradient` goes. The gradient of what a
    convolution reads becomes a convolution of the gradient that arrived.

    Needs:  gradients are taken (nd-differentiate, nd-build-step); no shardings.
    Leaves: no arg_reduce, mean, unstack or stop_gradient; every einsum has two
            inputs and contracts a dimension that both have.

    Before:
    ```mlir
    nd.program @eval {
      %x = nd.input "x" : !nd.tensor<["batch"=2, "class"=3], f32>
      %y = nd.reduce mean %x : (!nd.tensor<["batch"=2, "class"=3], f32>)
          -> !nd.tensor<["batch"=2], f32>
      nd.output "y", %y : !nd.tensor<["batch"=2], f32>
    }
    ```
    After:
    ```mlir
    nd.program @eval {
      %third = nd.constant(0.333333343 : f32) : !scalar
      %x = nd.input "x" : !batch_by_class
      %sum = nd.reduce sum %x : (!batch_by_class) -> !batch
      %y = nd.mul %sum, %third : (!batch, !scalar) -> !batch
      nd.output "y", %y : !batch
    }
    ```
  }];
  // Scalar forms, of which constants are folded.
  let dependentDialects = ["::meshc::nd::NDDialect",
                           "::meshc::spmd::SPMDDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif

// Passes in pipeline order. Each describes what it needs and leaves, with the
// program before and after.

#ifndef MESHC_PASSES
#define MESHC_PASSES

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

    Before and after:
    ```mlir
    module {
      nd.mesh ["data"=2]
      nd.rule "batch" -> ["data"]
      nd.program @forward {
        %x = nd.input "x" : !nd.tensor<["batch"=4, "in"=3], f32>
        nd.output "y", %x : !nd.tensor<["batch"=4, "in"=3], f32>
      }
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

    The output is what the training recipe minimizes; without a recipe, and
    without the option `output`, the pass does nothing. Gradients are in the
    phase `backward`, at the position of the operation they come from, and are
    called `gradient of NAME`.

    Needs:  @forward; the output is a float scalar.
    Leaves: @gradient beside @forward.

    Before:
    ```mlir
    nd.variable parameter @w : !nd.tensor<["in"=3], f32> = #nd.fill<1.0>
    nd.training minimize "loss" by "sgd" {lr = 0.1 : f64} epochs 1 steps 0
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
  ];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def BuildStep : Pass<"nd-build-step", "::mlir::ModuleOp"> {
  let summary = "Makes the program of one training step";
  let description = [{
    Turns @forward into @eval, and, if there is a training recipe, a copy of it
    into @step: outputs, gradients of the minimized output with respect to all
    parameters, and the optimizer's update of each. What the optimizer remembers
    becomes state variables. passes/Optimizers.h has the optimizers and their
    formulas. Updates are in the phase `update`.

    A parameter that does not influence the minimized output gets a warning and
    no update.

    Needs:  @forward; the minimized output is a float scalar; the recipe names
            a known optimizer and gives all its hyper-parameters.
    Leaves: @eval and @step, no @forward.

    Before:
    ```mlir
    nd.variable parameter @w : !nd.tensor<["in"=3], f32> = #nd.fill<1.0>
    nd.training minimize "loss" by "sgd" {lr = 0.1 : f64} epochs 1 steps 0
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["in"=3], f32>
      %w = nd.read @w : !nd.tensor<["in"=3], f32>
      %loss = nd.einsum %x, %w : (!nd.tensor<["in"=3], f32>,
          !nd.tensor<["in"=3], f32>) -> !nd.tensor<[], f32>
      nd.output "loss", %loss : !nd.tensor<[], f32>
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
      %seed = nd.input "seed" : !nd.tensor<[], i64>
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
    product and a sum.

    The same walk simplifies what gradients are made of: splats and repeated
    values are not stored or worked on in full, constants are folded, gathered
    and reassociated, and `nd.stop_gradient` goes.

    Needs:  gradients are taken (nd-differentiate, nd-build-step); no shardings.
    Leaves: no arg_reduce, mean or stop_gradient; every einsum has two inputs
            and contracts a dimension that both have.

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
  let dependentDialects = ["::meshc::nd::NDDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def ChooseOrders : Pass<"nd-choose-orders", "::mlir::ModuleOp"> {
  let summary = "Chooses in which order the dimensions of values are stored";
  let description = [{
    Contractions run in place, without copies, when the dimensions of each class
    (batch, rows, columns, contracted) lie together in every tensor. This pass
    permutes the dimensions of intermediate values to that end. It runs before
    shardings are assigned because local shapes follow the order.

    Needs: binary contractions (nd-decompose).
    Leaves: variables, inputs and outputs in the order they were written in; a
    permuting `nd.reduce sum` where a value has to return to it.

    Before:
    ```mlir
    module {
      nd.program @eval {
        %x = nd.input "x" : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
        %w = nd.input "w" : !nd.tensor<["d"=5, "h"=7, "e"=11], f32>
        %o = nd.input "o" : !nd.tensor<["h"=7, "e"=11, "d"=5], f32>
        %q = nd.einsum %x, %w
            : (!nd.tensor<["b"=2, "p"=3, "d"=5], f32>,
               !nd.tensor<["d"=5, "h"=7, "e"=11], f32>)
            -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
        %y = nd.einsum %q, %o
            : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>,
               !nd.tensor<["h"=7, "e"=11, "d"=5], f32>)
            -> !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
        nd.output "y", %y : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
      }
    }
    ```
    After, `%q` is stored as `["b"=2, "p"=3, "h"=7, "e"=11]`.
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def AssignShardings : Pass<"nd-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Decides how every value lies on the mesh";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Partition : Pass<"nd-partition", "::mlir::ModuleOp"> {
  let summary = "Turns the whole program into the program of one device";
  let dependentDialects = [
    "::meshc::nd::NDDialect", "::meshc::spmd::SPMDDialect",
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

#endif

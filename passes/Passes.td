// Passes in pipeline order. Each describes what it needs and leaves, with the
// program before and after.

#ifndef MESHC_PASSES
#define MESHC_PASSES

include "mlir/Pass/PassBase.td"

include "passes/LoopPasses.td"

def MapLoops : Pass<"nd-map-loops", "::mlir::ModuleOp"> {
  let summary = "Makes a loop that carries nothing one computation";
  let description = [{
    The iterations of a loop without carried values do not depend on one another:
    the loop is the map of its region over the dimension. What depends on the
    position or on a slice gets the dimension, by its name, before the others; the
    position is an iota, a slice the whole tensor, a stacked value the value
    itself and a summed one its sum over the dimension. No iteration is written
    out: the program is as long as the region, and shardings split the dimension
    as the table says. A loop inside that carries values stays one, and computes
    all positions of the outer dimension at once.

    A loop stays as it is where

    - it carries values;
    - an operation in it, or a loop inside, has the loop's dimension already and
      depends on the position: names of dimensions would clash;
    - a value in it that depends on the position is constrained to a sharding,
      which does not say where the dimension is to lie.

    Needs:  programs as they were built.
    Leaves: loops that nd-unroll is to write out.

    Before:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["member"=3, "c"=2], f32>
      %w = nd.input "w" : !nd.tensor<["c"=2, "d"=5], f32>
      %all, %sum = nd.loop "member"=3 slices(%x)
          : (!nd.tensor<["member"=3, "c"=2], f32>)
          -> (!nd.tensor<["member"=3, "d"=5], f32>, !nd.tensor<["d"=5], f32>) {
      ^bb0(%m: !nd.tensor<[], i32>, %s: !nd.tensor<["c"=2], f32>):
        %y = nd.einsum %s, %w
            : (!nd.tensor<["c"=2], f32>, !nd.tensor<["c"=2, "d"=5], f32>)
            -> !nd.tensor<["d"=5], f32>
        nd.yield stacks(%y : !nd.tensor<["d"=5], f32>)
            sums(%y : !nd.tensor<["d"=5], f32>)
      }
      nd.output "all", %all : !nd.tensor<["member"=3, "d"=5], f32>
      nd.output "sum", %sum : !nd.tensor<["d"=5], f32>
    }
    ```
    After:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !member_by_c
      %w = nd.input "w" : !c_by_d
      %all = nd.einsum %x, %w : (!member_by_c, !c_by_d) -> !member_by_d
      %sum = nd.reduce sum %all : (!member_by_d) -> !d
      nd.output "all", %all : !member_by_d
      nd.output "sum", %sum : !d
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Unroll : Pass<"nd-unroll", "::mlir::ModuleOp"> {
  let summary = "Writes loops out as straight-line code";
  let description = [{
    The region of nd.loop is copied once for each position of its dimension. What
    is sliced comes from nd.unstack, the position is a constant, a carried value
    is that of the iteration before; what is stacked goes into nd.stack, what is
    summed is added in the order of the iterations. Passes that follow see no
    loop: programs with loops are differentiated, laid out and compiled as if the
    iterations had been written down one by one.

    A value called `layer/h` in the loop `layer` is called `layer/3/h` in its
    iteration 3; stacked and summed it is `layer/h`. Places in the spec stay.

    A loop that would become more than `max-operations` operations, loops inside
    it written out, is an error at the loop.

    Needs:  the loops that are left after nd-map-loops.
    Leaves: no nd.loop.

    Before:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["time"=2, "c"=3], f32>
      %h = nd.input "h" : !nd.tensor<["c"=3], f32>
      %last, %all = nd.loop "time"=2 carries(%h) slices(%x)
          : (!nd.tensor<["c"=3], f32>, !nd.tensor<["time"=2, "c"=3], f32>)
          -> (!nd.tensor<["c"=3], f32>, !nd.tensor<["time"=2, "c"=3], f32>) {
      ^bb0(%t: !nd.tensor<[], i32>, %before: !nd.tensor<["c"=3], f32>,
           %s: !nd.tensor<["c"=3], f32>):
        %next = nd.add %before, %s
            : (!nd.tensor<["c"=3], f32>, !nd.tensor<["c"=3], f32>)
            -> !nd.tensor<["c"=3], f32>
        nd.yield carries(%next : !nd.tensor<["c"=3], f32>)
            stacks(%next : !nd.tensor<["c"=3], f32>)
      }
      nd.output "last", %last : !nd.tensor<["c"=3], f32>
      nd.output "all", %all : !nd.tensor<["time"=2, "c"=3], f32>
    }
    ```
    After:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !time_by_c
      %h = nd.input "h" : !c
      %s:2 = nd.unstack %x along "time" : (!time_by_c) -> (!c, !c)
      %first = nd.add %h, %s#0 : (!c, !c) -> !c
      %second = nd.add %first, %s#1 : (!c, !c) -> !c
      %all = nd.stack %first, %second along "time" : (!c, !c) -> !time_by_c
      nd.output "last", %second : !c
      nd.output "all", %all : !time_by_c
    }
    ```
  }];
  let options = [
    Option<"maxOperations", "max-operations", "int64_t", "100000",
           "operations that one loop may become">,
  ];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

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
    nd.rule "batch" -> ["data"]
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["batch"=4, "in"=3], f32>
      nd.output "y", %x : !nd.tensor<["batch"=4, "in"=3], f32>
    }
    ```
    After, the same: with `nd.rule "in" -> ["data"]` beside it there would be an
    error at `%x`, with notes at the two rules.
    ```mlir
    nd.mesh ["data"=2]
    nd.rule "batch" -> ["data"]
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
    and is converted for each operation that needs it in 16 bits. Every operation
    with a 16-bit result rounds it: results do not depend on which operations
    become one kernel. A library call that takes along what follows a product
    rounds once (codegen/README.md, decisions).

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
  let dependentDialects = ["::meshc::nd::NDDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def ShrinkResiduals : Pass<"nd-shrink-residuals", "::mlir::ModuleOp"> {
  let summary = "Has the backward phase keep fewer and narrower values";
  let description = [{
    A residual is a value of the forward phase that the backward phase reads: it
    stays in memory between the two. Two kinds need not be kept:

    - the exponentials e of a softmax p = e / s, where s is the sum of e: what
      reads e in the backward phase reads p s instead. As e <= s, the product
      differs from e by its two roundings at most, relative to s;
    - an f32 value whose rounding to 16 bits a product of the backward phase
      reads anyway: elementwise operations of that phase read the rounding too.
      Variables and inputs are left alone: they stay in any case.

    Needs:  equal operations are one operation (CSE): what has two names is
            kept twice.
    Leaves: the same operations with other operands; products and conversions in
            the phase `backward`.

    Before:
    ```mlir
    nd.program @step {
      %x = nd.input "x" : !nd.tensor<["row"=2, "col"=3], f32>
      %e = nd.exp %x : (!nd.tensor<["row"=2, "col"=3], f32>)
          -> !nd.tensor<["row"=2, "col"=3], f32>
      %s = nd.reduce sum %e : (!nd.tensor<["row"=2, "col"=3], f32>)
          -> !nd.tensor<["row"=2], f32>
      %p = nd.div %e, %s : (!nd.tensor<["row"=2, "col"=3], f32>,
          !nd.tensor<["row"=2], f32>) -> !nd.tensor<["row"=2, "col"=3], f32>
      %ds = nd.mul %e, %p : (!nd.tensor<["row"=2, "col"=3], f32>,
          !nd.tensor<["row"=2, "col"=3], f32>) -> !nd.tensor<["row"=2, "col"=3], f32>
          loc(fused<#nd.phase<backward>>["ds"])
      nd.output "ds", %ds : !nd.tensor<["row"=2, "col"=3], f32>
    }
    ```
    After:
    ```mlir
    nd.program @step {
      %x = nd.input "x" : !row_by_col
      %e = nd.exp %x : (!row_by_col) -> !row_by_col
      %s = nd.reduce sum %e : (!row_by_col) -> !row
      %p = nd.div %e, %s : (!row_by_col, !row) -> !row_by_col
      %again = nd.mul %p, %s : (!row_by_col, !row) -> !row_by_col
      %ds = nd.mul %again, %p : (!row_by_col, !row_by_col) -> !row_by_col
      nd.output "ds", %ds : !row_by_col
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def ChooseOrders : Pass<"nd-choose-orders", "::mlir::ModuleOp"> {
  let summary = "Chooses in which order the dimensions of values are stored";
  let description = [{
    Contractions run in place, without copies, when the dimensions of each class
    (batch, rows, columns, contracted) lie together in every tensor. This pass
    permutes the dimensions of intermediate values to that end. It runs before
    shardings are assigned because local shapes follow the order.

    Needs:  binary contractions (nd-decompose).
    Leaves: variables, inputs and outputs in the order they were written in; a
            permuting `nd.reduce sum` where a value has to return to it.

    Before:
    ```mlir
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
    ```
    After, `%q` has its rows (b, p) and its columns (h, e) together:
    ```mlir
    nd.program @eval {
      %x = nd.input "x" : !b_by_p_by_d
      %w = nd.input "w" : !d_by_h_by_e
      %o = nd.input "o" : !h_by_e_by_d
      %q = nd.einsum %x, %w
          : (!b_by_p_by_d, !d_by_h_by_e) -> !b_by_p_by_h_by_e
      %y = nd.einsum %q, %o
          : (!b_by_p_by_h_by_e, !h_by_e_by_d) -> !b_by_p_by_d
      nd.output "y", %y : !b_by_p_by_d
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def AssignShardings : Pass<"nd-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Decides how every value lies on the mesh";
  let description = [{
    Writes a sharding into every type, and an `nd.reshard` wherever a reader
    needs a value otherwise than its producer leaves it. From here on no rewrite
    can lose where a value lies, and every movement of data is in sight.

    A sharding is found in one of four ways:

    - inputs, variables and outputs lie as the layout table says;
    - an `nd.reshard` that is there already is the user's constraint on one
      value;
    - an operation splits the dimensions it iterates over as the table says, its
      operands and result alike. Where two of them claim one axis, the choice
      that costs least to reshard is taken (passes/IterationSplit.h);
    - a sum over a split dimension leaves one term per device, which moves on
      through linear operations as long as that costs nothing, and is completed
      where it is needed whole (passes/TermFlow.h). Sums of such terms are
      regrouped so that one completion does for all.

    Sizes need not divide. Readers of one value in one sharding share its
    reshard. Each reshard carries its causes (passes/Causes.h): who needed it,
    by which rule of the spec, and the best other way with its cost.

    Needs:  a legal layout (nd-check-layout); operations that partition
            (nd-decompose); the order of storage (nd-choose-orders).
    Leaves: a sharding in every type, such that operands and results of each
            operation agree (verifyShardings); causes on every reshard; nd.stack
            is the one operation left that has no local form.

    Before:
    ```mlir
    nd.mesh ["data"=2, "model"=3]
    nd.rule "batch" -> ["data"]
    nd.rule "hidden" -> ["model"]
    nd.program @eval {
      %h = nd.input "h" : !nd.tensor<["batch"=4, "hidden"=7], f32>
      %w = nd.input "w" : !nd.tensor<["hidden"=7, "out"=5], f32>
      %p = nd.einsum %h, %w : (!nd.tensor<["batch"=4, "hidden"=7], f32>,
          !nd.tensor<["hidden"=7, "out"=5], f32>)
          -> !nd.tensor<["batch"=4, "out"=5], f32>
      %n = nd.neg %p : (!nd.tensor<["batch"=4, "out"=5], f32>)
          -> !nd.tensor<["batch"=4, "out"=5], f32>
      %y = nd.exp %n : (!nd.tensor<["batch"=4, "out"=5], f32>)
          -> !nd.tensor<["batch"=4, "out"=5], f32>
      nd.output "y", %y : !nd.tensor<["batch"=4, "out"=5], f32>
    }
    ```
    After, with the causes left out:
    ```mlir
    !batch_at_data_by_out_sum_over_model = !nd.tensor<["batch"=4, "out"=5], f32,
        <"batch"@data> partial sum over model>

    nd.program @eval {
      %h = nd.input "h" : !batch_at_data_by_hidden_at_model
      %w = nd.input "w" : !hidden_at_model_by_out
      %p = nd.einsum %h, %w
          : (!batch_at_data_by_hidden_at_model, !hidden_at_model_by_out)
          -> !batch_at_data_by_out_sum_over_model
      %n = nd.neg %p : (!batch_at_data_by_out_sum_over_model)
          -> !batch_at_data_by_out_sum_over_model
      %whole = nd.reshard %n
          : !batch_at_data_by_out_sum_over_model -> !batch_at_data_by_out
      %y = nd.exp %whole : (!batch_at_data_by_out) -> !batch_at_data_by_out
      nd.output "y", %y : !batch_at_data_by_out
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def WriteStacks : Pass<"nd-write-stacks", "::mlir::ModuleOp"> {
  let summary = "Writes stacks as choices by position";
  let description = [{
    Tensors put one after the other (nd.stack) are chosen by position, by eights:
    one choice among n reads n tensors for each element, a tree of them 8 for each
    factor of 8 in n. What is put together on the way has a dimension of its own,
    `layers of 8`, which no rule splits.

    Only here, because a stack passes on the pending terms of all its operands
    (passes/TermFlow.h): nothing tells from a choice, a repetition and a view that
    they make a tensor no larger than their operands together.

    Needs:  a sharding in every type (nd-assign-shardings).
    Leaves: no nd.stack; shardings that agree.

    Before:
    ```mlir
    nd.mesh ["data"=2]
    nd.rule "c" -> ["data"]
    nd.program @eval {
      %x = nd.input "x" : !nd.tensor<["c"=4], f32, <"c"@data>>
      %y = nd.input "y" : !nd.tensor<["c"=4], f32, <"c"@data>>
      %s = nd.stack %x, %y along "t" : (!nd.tensor<["c"=4], f32, <"c"@data>>,
          !nd.tensor<["c"=4], f32, <"c"@data>>)
          -> !nd.tensor<["t"=2, "c"=4], f32, <"c"@data>>
      nd.output "s", %s : !nd.tensor<["t"=2, "c"=4], f32, <"c"@data>>
    }
    ```
    After:
    ```mlir
    nd.program @eval {
      %x = nd.input "x" : !c_at_data
      %y = nd.input "y" : !c_at_data
      %second = nd.broadcast %y : (!c_at_data) -> !t_by_c_at_data
      %first = nd.broadcast %x : (!c_at_data) -> !t_by_c_at_data
      %position = nd.iota : !t_i32
      %one = nd.constant(1 : i32) : !scalar_i32
      %before = nd.compare lt %position, %one
          : (!t_i32, !scalar_i32) -> !t_i1
      %s = nd.select %before, %first, %second
          : (!t_i1, !t_by_c_at_data, !t_by_c_at_data) -> !t_by_c_at_data
      nd.output "s", %s : !t_by_c_at_data
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

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
    that do: the kernel computes it on the way. Which values stay is a minimum
    cut (passes/VertexCut.h) between

    - what can only be kept: results of products, sums, collectives, gathers,
      transpositions and random numbers, none of which is computed twice, and
      every value to which more than 32 scalar operations in a row lead;
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
      } -> tensor<3xf32> loc(fused<#nd.phase<backward>>["g"])
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

#endif

// Passes that decide who holds what: residuals, storage orders, shardings.

#ifndef MESHC_PASSES_SHARDINGPASSES
#define MESHC_PASSES_SHARDINGPASSES

include "mlir/Pass/PassBase.td"

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
          loc(fused<#nd.origin<backward "ds">>[unknown])
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
    nd.rule "batch -> data"
    nd.rule "hidden -> model"
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
  let summary = "Writes stacks along split dimensions as choices by position";
  let description = [{
    Tensors put one after the other (nd.stack) lie so on every device where the
    new dimension is whole there and the first one in memory: these stay. Others
    are chosen by position, by eights: one choice among n reads n tensors for each
    element, a tree of them 8 for each factor of 8 in n. What is put together on
    the way has a dimension of its own, `layers of 8`, which no rule splits.

    Only here, because a stack passes on the pending terms of all its operands
    (passes/TermFlow.h): nothing tells from a choice, a repetition and a view that
    they make a tensor no larger than their operands together.

    Needs:  a sharding in every type (nd-assign-shardings).
    Leaves: no nd.stack along a dimension that is split or not the first one in
    memory; shardings that agree.

    Before:
    ```mlir
    nd.mesh ["data"=2]
    nd.rule "t -> data"
    nd.program @eval {
      %x = nd.input "x" : !nd.tensor<["c"=4], f32, <>>
      %y = nd.input "y" : !nd.tensor<["c"=4], f32, <>>
      %s = nd.stack %x, %y along "t"
          : (!nd.tensor<["c"=4], f32, <>>, !nd.tensor<["c"=4], f32, <>>)
          -> !nd.tensor<["t"=2, "c"=4], f32, <"t"@data>>
      nd.output "s", %s : !nd.tensor<["t"=2, "c"=4], f32, <"t"@data>>
    }
    ```
    After:
    ```mlir
    nd.program @eval {
      %x = nd.input "x" : !c
      %y = nd.input "y" : !c
      %second = nd.broadcast %y : (!c) -> !t_at_data_by_c
      %first = nd.broadcast %x : (!c) -> !t_at_data_by_c
      %position = nd.iota : !t_at_data_i32
      %one = nd.constant(1 : i32) : !scalar_i32
      %before = nd.compare lt %position, %one
          : (!t_at_data_i32, !scalar_i32) -> !t_at_data_i1
      %s = nd.select %before, %first, %second
          : (!t_at_data_i1, !t_at_data_by_c, !t_at_data_by_c) -> !t_at_data_by_c
      nd.output "s", %s : !t_at_data_by_c
    }
    ```
  }];
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

#endif

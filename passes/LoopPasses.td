// Passes on loops.

#ifndef MESHC_PASSES_LOOPPASSES
#define MESHC_PASSES_LOOPPASSES

include "mlir/Pass/PassBase.td"

def Hoist : Pass<"nd-hoist", "::mlir::ModuleOp"> {
  let summary = "Moves out of loops what all iterations share, and sums of einsums";
  let description = [{
    What an operation in a loop computes of values from outside alone is the same
    in all iterations: it moves in front of the loop, so that its gradient is
    computed once, too.

    The sum over the iterations of an einsum is one einsum after the loop, over the
    dimension as well: of the tensors that slices are of, of what the loop stacks in
    addition, and of what is the same in all iterations. That is the gradient of a
    parameter that all iterations read: one product with longer sums instead of
    one product and one addition for each iteration. The sum of several einsums is
    the sum of theirs.

    A sum stays in its loop where

    - its terms are no einsums, or something else reads them;
    - an input of the einsum has the loop's dimension already;
    - an input is a view: what windows see of all iterations would be stored.

    Needs:  nothing.
    Leaves: programs with the same values, sums added up in another order.

    Before:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !nd.tensor<["time"=3, "c"=2], f32>
      %u = nd.input "u" : !nd.tensor<["c"=2, "d"=5], f32>
      %y = nd.input "y" : !nd.tensor<["d"=5], f32>
      %sum = nd.loop "time"=3 slices(%x) : (!nd.tensor<["time"=3, "c"=2], f32>)
          -> !nd.tensor<["c"=2, "d"=5], f32> {
      ^bb0(%t: !nd.tensor<[], i32>, %s: !nd.tensor<["c"=2], f32>):
        %h = nd.einsum %s, %u
            : (!nd.tensor<["c"=2], f32>, !nd.tensor<["c"=2, "d"=5], f32>)
            -> !nd.tensor<["d"=5], f32>
        %e = nd.exp %y : (!nd.tensor<["d"=5], f32>) -> !nd.tensor<["d"=5], f32>
        %g = nd.mul %h, %e
            : (!nd.tensor<["d"=5], f32>, !nd.tensor<["d"=5], f32>)
            -> !nd.tensor<["d"=5], f32>
        %p = nd.einsum %s, %g
            : (!nd.tensor<["c"=2], f32>, !nd.tensor<["d"=5], f32>)
            -> !nd.tensor<["c"=2, "d"=5], f32>
        nd.yield sums(%p : !nd.tensor<["c"=2, "d"=5], f32>)
      }
      nd.output "sum", %sum : !nd.tensor<["c"=2, "d"=5], f32>
    }
    ```
    After:
    ```mlir
    nd.program @forward {
      %x = nd.input "x" : !time_by_c
      %u = nd.input "u" : !c_by_d
      %y = nd.input "y" : !d
      %e = nd.exp %y : (!d) -> !d
      %g = nd.loop "time"=3 slices(%x) : (!time_by_c) -> !time_by_d {
      ^bb0(%t: !scalar_i32, %s: !c):
        %h = nd.einsum %s, %u : (!c, !c_by_d) -> !d
        %each = nd.mul %h, %e : (!d, !d) -> !d
        nd.yield stacks(%each : !d)
      }
      %sum = nd.einsum %x, %g : (!time_by_c, !time_by_d) -> !c_by_d
      nd.output "sum", %sum : !c_by_d
    }
    ```
  }];
}

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

#endif

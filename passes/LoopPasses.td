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

#endif

// RUN: meshc-opt %s -nd-assign-shardings -nd-partition -split-input-file | FileCheck %s

// Two contractions partial over one axis, one of them
// scaled, are added before their one all_reduce.
// CHECK-LABEL: spmd.program @reduced_once
// CHECK:         linalg.generic
// CHECK-NOT:     spmd.all_reduce
// CHECK:         arith.addf
// CHECK:         %[[WHOLE:.*]] = spmd.all_reduce %{{.*}} from !m_by_n_sum_over_x to !m_by_n
// CHECK-NEXT:    spmd.output "y" of !m_by_n, %[[WHOLE]]
// CHECK-NOT:     spmd.all_reduce
nd.mesh ["x"=2]
nd.rule "k -> x"
nd.program @reduced_once {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=4], f32>
  %b = nd.input "b" : !nd.tensor<["k"=4, "n"=5], f32>
  %c = nd.input "c" : !nd.tensor<["k"=4, "n"=5], f32>
  %p = nd.einsum %a, %b : (!nd.tensor<["m"=3, "k"=4], f32>, !nd.tensor<["k"=4, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %q = nd.einsum %a, %c : (!nd.tensor<["m"=3, "k"=4], f32>, !nd.tensor<["k"=4, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %half = nd.constant(0.5 : f32) : !nd.tensor<[], f32>
  %h = nd.mul %p, %half : (!nd.tensor<["m"=3, "n"=5], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %s = nd.add %h, %q : (!nd.tensor<["m"=3, "n"=5], f32>, !nd.tensor<["m"=3, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  nd.output "y", %s : !nd.tensor<["m"=3, "n"=5], f32>
}

// -----

// A sum over all that is split is one reduction of one number.
// CHECK-LABEL: spmd.program @full_sum
// CHECK-COUNT-1: spmd.all_reduce {{.*}} from !scalar_sum_over_x_y to !scalar {{.*}} : tensor<f32> -> tensor<f32>
// CHECK-NOT:     spmd.all_reduce
nd.mesh ["x"=2, "y"=3]
nd.rule "b -> x"
nd.rule "c -> y"
nd.program @full_sum {
  %a = nd.input "a" : !nd.tensor<["b"=4, "c"=8], f32>
  %s = nd.reduce sum %a : (!nd.tensor<["b"=4, "c"=8], f32>) -> !nd.tensor<[], f32>
  %e = nd.exp %s : (!nd.tensor<[], f32>) -> !nd.tensor<[], f32>
  nd.output "y", %e : !nd.tensor<[], f32>
}

// -----

// Summed over a split dimension and needed split over the same axis: one
// reduce_scatter, of uneven blocks.
// CHECK-LABEL: spmd.program @needed_split
// CHECK:         %[[S:.*]] = linalg.generic
// CHECK:         %[[D:.*]] = spmd.reduce_scatter %{{.*}} from !c_sum_over_x to !c_at_x {causes = [#nd.cause<kind = reduction, rule = "reduction over split dimension \22b\22"{{.*}} : tensor<7xf32> -> tensor<4xf32>
// CHECK-NOT:     spmd.all_reduce
// CHECK:         spmd.output "y" of !d_at_x
nd.mesh ["x"=2]
nd.rule "b -> x"
nd.rule "d -> x"
nd.program @needed_split {
  %a = nd.input "a" : !nd.tensor<["b"=4, "c"=7], f32>
  %s = nd.reduce sum %a : (!nd.tensor<["b"=4, "c"=7], f32>) -> !nd.tensor<["c"=7], f32>
  %d = nd.rename %s "c" -> "d" : (!nd.tensor<["c"=7], f32>) -> !nd.tensor<["d"=7], f32>
  nd.output "y", %d : !nd.tensor<["d"=7], f32>
}

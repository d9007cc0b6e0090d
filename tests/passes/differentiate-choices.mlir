// RUN: meshc-opt %s -nd-differentiate="output=loss wanted=x,w" -split-input-file | FileCheck %s

// The elements of log(x) that go into no result that was taken are set to 0, and
// where no choice took anything the quotient is a choice.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[LOG:.*]] = nd.log %[[X:.*]] :
// CHECK:         nd.output "loss"
// CHECK:         %[[G:.*]] = nd.select %{{.*}}, %{{.*}}, %{{.*}} : (!a_i1, !a_by_c, !scalar) -> !a_by_c
// CHECK:         %[[DLOG:.*]] = nd.einsum %[[G]], %{{.*}} : (!a_by_c, !b_by_c) -> !a_by_b
// CHECK:         %[[SIZE:.*]] = nd.abs %[[G]]
// CHECK:         %[[ANY:.*]] = nd.reduce max %[[SIZE]] : (!a_by_c) -> !a
// CHECK:         %[[TAKEN:.*]] = nd.compare ne %[[ANY]],
// CHECK:         %[[MASKED:.*]] = nd.select %[[TAKEN]], %[[LOG]],
// CHECK:         nd.einsum %[[G]], %[[MASKED]] : (!a_by_c, !a_by_b) -> !b_by_c
// CHECK:         %[[QUOTIENT:.*]] = nd.div %[[DLOG]], %[[X]]
// CHECK:         %[[ZERO:.*]] = nd.compare eq %[[DLOG]],
// CHECK:         nd.select %[[ZERO]], %{{.*}}, %[[QUOTIENT]]
module {
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
    %w = nd.input "w" : !nd.tensor<["b"=3, "c"=5], f32>
    %t = nd.input "t" : !nd.tensor<["a"=2], i1>
    %zero = nd.constant(0.0 : f32) : !nd.tensor<[], f32>
    %l = nd.log %x : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["a"=2, "b"=3], f32>
    %e = nd.einsum %l, %w : (!nd.tensor<["a"=2, "b"=3], f32>, !nd.tensor<["b"=3, "c"=5], f32>) -> !nd.tensor<["a"=2, "c"=5], f32>
    %y = nd.select %t, %e, %zero : (!nd.tensor<["a"=2], i1>, !nd.tensor<["a"=2, "c"=5], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2, "c"=5], f32>
    %loss = nd.reduce sum %y : (!nd.tensor<["a"=2, "c"=5], f32>) -> !nd.tensor<[], f32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
  }
}

// -----

// A hidden layer has one choice, its own: nothing else can be infinite.
// CHECK-LABEL: nd.program @gradient
// CHECK:         nd.select
// CHECK-NOT:     nd.select
// CHECK:         nd.output "grad:x"
module {
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
    %w = nd.input "w" : !nd.tensor<["b"=3, "c"=5], f32>
    %zero = nd.constant(0.0 : f32) : !nd.tensor<[], f32>
    %t = nd.tanh %x : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["a"=2, "b"=3], f32>
    %e = nd.einsum %t, %w : (!nd.tensor<["a"=2, "b"=3], f32>, !nd.tensor<["b"=3, "c"=5], f32>) -> !nd.tensor<["a"=2, "c"=5], f32>
    %y = nd.maximum %e, %zero : (!nd.tensor<["a"=2, "c"=5], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2, "c"=5], f32>
    %loss = nd.reduce sum %y : (!nd.tensor<["a"=2, "c"=5], f32>) -> !nd.tensor<[], f32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
  }
}

// RUN: meshc-opt %s -nd-differentiate="wanted=x,w" | FileCheck %s
// RUN: meshc-opt %s -nd-differentiate="output=z wanted=x" | FileCheck %s --check-prefix=OTHER

// CHECK-LABEL: nd.program @gradient
// CHECK:         nd.output "grad:x",
// CHECK-NOT:     "grad:v"
// CHECK:         nd.output "grad:w",
// CHECK-NOT:     "grad:v"

// OTHER-LABEL: nd.program @gradient
// OTHER:         %[[Z:.*]] = nd.tanh
// OTHER:         nd.output "z"
// OTHER-NOT:     "grad:w"
// OTHER:         %[[SQUARE:.*]] = nd.mul %[[Z]], %[[Z]]
// OTHER:         %[[SLOPE:.*]] = nd.sub %{{.*}}, %[[SQUARE]]
// OTHER:         %[[DX:.*]] = nd.mul %{{.*}}, %[[SLOPE]]
// OTHER:         nd.output "grad:x", %[[DX]]
// OTHER-NOT:     "grad:w"
module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.variable parameter @v : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<[], f64>
    %w = nd.read @w : !nd.tensor<[], f64>
    %v = nd.read @v : !nd.tensor<[], f64>
    %z = nd.tanh %x : (!nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %p = nd.mul %x, %w : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %y = nd.mul %p, %v : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
    nd.output "z", %z : !nd.tensor<[], f64>
  }
}

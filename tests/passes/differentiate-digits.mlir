// A dimension that is split into two, or made of two, is turned round as a whole: the
// gradient sums nothing.
// RUN: meshc-opt %s -nd-differentiate | FileCheck %s

// CHECK-LABEL: nd.program @gradient
// CHECK:         nd.output "y",
// CHECK-NOT:     nd.reduce
// CHECK-DAG:     %[[W:.*]] = nd.view %{{.*}} ["head" = floor("wide" / 4), "d" = "wide" mod 4]
// CHECK-DAG:     %[[V:.*]] = nd.view %{{.*}} ["wide" = "d" + 4 "head"]
// CHECK-NOT:     nd.reduce
// CHECK:         nd.output "grad:w", %[[W]]
// CHECK:         nd.output "grad:v", %[[V]]
module {
  nd.variable parameter @w : !nd.tensor<["wide"=12], f64> = #nd.fill<1.0>
  nd.variable parameter @v : !nd.tensor<["head"=3, "d"=4], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["wide"=12], f64>
    %v = nd.read @v : !nd.tensor<["head"=3, "d"=4], f64>
    %s = nd.view %w ["wide" = 4 "head" + "d"] : (!nd.tensor<["wide"=12], f64>) -> !nd.tensor<["head"=3, "d"=4], f64>
    %m = nd.view %v ["head" = floor("wide" / 4), "d" = "wide" mod 4] : (!nd.tensor<["head"=3, "d"=4], f64>) -> !nd.tensor<["wide"=12], f64>
    %ss = nd.mul %s, %s : (!nd.tensor<["head"=3, "d"=4], f64>, !nd.tensor<["head"=3, "d"=4], f64>) -> !nd.tensor<["head"=3, "d"=4], f64>
    %mm = nd.mul %m, %m : (!nd.tensor<["wide"=12], f64>, !nd.tensor<["wide"=12], f64>) -> !nd.tensor<["wide"=12], f64>
    %a = nd.reduce sum %ss : (!nd.tensor<["head"=3, "d"=4], f64>) -> !nd.tensor<[], f64>
    %b = nd.reduce sum %mm : (!nd.tensor<["wide"=12], f64>) -> !nd.tensor<[], f64>
    %y = nd.add %a, %b : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

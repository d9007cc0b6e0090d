// RUN: meshc-opt %s -nd-build-step -nd-build-init | FileCheck %s

// A running mean starts as what it is of, and evaluations read it: of a parameter that
// has none they read the parameter.
// CHECK-LABEL: nd.program @init
// CHECK-DAG:     nd.write @w, %[[START:.*]] : !scalar
// CHECK-DAG:     nd.write @v,
// CHECK:         nd.write @"ema/w", %[[START]] : !scalar
// CHECK-LABEL: nd.program @step
// CHECK:         nd.read @w
// CHECK:         nd.read @v
// CHECK:         nd.read @"ema/w"
// CHECK:         nd.write @"ema/w"
// CHECK-LABEL: nd.program @eval
// CHECK:         nd.read @"ema/w"
// CHECK:         nd.read @v
// CHECK-NOT:     nd.write
module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.random<normal, 0.0, 1.0>
  nd.variable parameter @v : !nd.tensor<[], f64> = #nd.fill<2.0>
  nd.variable state @"ema/w" : !nd.tensor<[], f64> = @init
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    %v = nd.read @v : !nd.tensor<[], f64>
    %loss = nd.mul %w, %v : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
  }
  nd.program @update {
    %w = nd.read @w : !nd.tensor<[], f64>
    %gw = nd.gradient @w : !nd.tensor<[], f64>
    %nw = nd.sub %w, %gw : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @w, %nw : !nd.tensor<[], f64>
    %mean = nd.read @"ema/w" : !nd.tensor<[], f64>
    %half = nd.constant(0.5 : f64) : !nd.tensor<[], f64>
    %a = nd.mul %mean, %half : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %b = nd.mul %nw, %half : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %next = nd.add %a, %b : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @"ema/w", %next : !nd.tensor<[], f64>
  }
}

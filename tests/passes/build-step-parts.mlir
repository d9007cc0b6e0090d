// RUN: meshc-opt %s -nd-build-step -split-input-file | FileCheck %s
// RUN: meshc-opt %s -meshc-shard -split-input-file | FileCheck %s --check-prefix=SHARD

// A step of parts: all but the last add up, the first of them anew; the last one adds
// its own, takes the mean and applies it. State is set by each, outputs are means.
// CHECK-DAG:   nd.variable in_step @"gradient of w" : !in = #nd.fill<0.000000e+00 : f64>
// CHECK-DAG:   nd.variable in_step @"sum of loss" : !scalar = #nd.fill<0.000000e+00 : f64>
// CHECK-DAG:   nd.variable in_step @"sum of count" : !scalar_i32 = #nd.fill<0.000000e+00 : f64>
// CHECK-LABEL: nd.program @accumulate
// CHECK:         %[[PART:.*]] = nd.input "part of the step" : !scalar_i32
// CHECK:         %[[OWN:.*]] = nd.einsum
// CHECK:         nd.write @n,
// CHECK:         %[[FIRST:.*]] = nd.compare eq %[[PART]]
// CHECK:         %[[BEFORE:.*]] = nd.read @"gradient of w"
// CHECK:         %[[SUM:.*]] = nd.add %[[BEFORE]], %[[GRADIENT:.*]] :
// CHECK:         %[[NEXT:.*]] = nd.select %[[FIRST]], %[[GRADIENT]], %[[SUM]]
// CHECK:         nd.write @"gradient of w", %[[NEXT]]
// CHECK-NOT:     nd.output
// CHECK-NOT:     nd.write @w
// CHECK-LABEL: nd.program @step
// CHECK:         %[[KEPT:.*]] = nd.read @"gradient of w"
// CHECK:         %[[ALL:.*]] = nd.add %[[KEPT]],
// CHECK:         %[[FOUR:.*]] = nd.constant(4.000000e+00 : f32)
// CHECK:         %[[MEAN:.*]] = nd.div %[[ALL]], %[[FOUR]]
// CHECK:         nd.output "loss", %{{.*}} : !scalar{{$}}
// CHECK:         nd.output "count", %{{.*}} : !scalar{{$}}
// CHECK:         nd.mul %[[MEAN]],
// CHECK:         nd.write @w,
// CHECK-LABEL: nd.program @eval

// Terms stay where they are until the last part. Where the sum lies in parts they are
// scattered, part by part.
// SHARD:       nd.variable in_step @"gradient of w" : ![[TERMS:.*]] =
// SHARD-LABEL: nd.program @accumulate
// SHARD-NOT:     nd.reshard
// SHARD:       nd.program @step
module {
  nd.mesh ["x"=2]
  nd.dim "batch" = 6
  nd.dim "in" = 3
  nd.rule "batch -> x"
  nd.variable parameter @w : !nd.tensor<["in"=3], f32> = #nd.fill<1.0>
  nd.variable model_state @n : !nd.tensor<[], i32> = #nd.fill<0.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0 {parts = 4 : i64}
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["batch"=6, "in"=3], f32>
    %w = nd.read @w : !nd.tensor<["in"=3], f32>
    %n = nd.read @n : !nd.tensor<[], i32>
    %one = nd.constant(1 : i32) : !nd.tensor<[], i32>
    %next = nd.add %n, %one : (!nd.tensor<[], i32>, !nd.tensor<[], i32>) -> !nd.tensor<[], i32>
    %y = nd.einsum %x, %w : (!nd.tensor<["batch"=6, "in"=3], f32>, !nd.tensor<["in"=3], f32>) -> !nd.tensor<["batch"=6], f32>
    %squares = nd.mul %y, %y : (!nd.tensor<["batch"=6], f32>, !nd.tensor<["batch"=6], f32>) -> !nd.tensor<["batch"=6], f32>
    %loss = nd.reduce sum %squares : (!nd.tensor<["batch"=6], f32>) -> !nd.tensor<[], f32>
    nd.write @n, %next : !nd.tensor<[], i32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
    nd.output "count", %n : !nd.tensor<[], i32>
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f32) : !nd.tensor<[], f32>
    %w = nd.read @w : !nd.tensor<["in"=3], f32>
    %gw = nd.gradient @w : !nd.tensor<["in"=3], f32>
    %sw = nd.mul %gw, %lr : (!nd.tensor<["in"=3], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["in"=3], f32>
    %nw = nd.sub %w, %sw : (!nd.tensor<["in"=3], f32>, !nd.tensor<["in"=3], f32>) -> !nd.tensor<["in"=3], f32>
    nd.write @w, %nw : !nd.tensor<["in"=3], f32>
  }
}

// RUN: meshc-opt %s -nd-build-step -split-input-file | FileCheck %s
// RUN: meshc-opt %s -nd-build-step -split-input-file -mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// Metrics, gradient, update; @forward becomes @eval, which alone has tensors.
// CHECK-LABEL: nd.program @step
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[W:.*]] = nd.read @w
// CHECK:         nd.output "loss"
// CHECK-NOT:     nd.output "scaled"
// CHECK:         nd.output "sum"
// CHECK:         %[[DW:.*]] = nd.einsum %{{.*}}, %[[X]] : (!scalar_f64, !a_f64) -> !a_f64
// CHECK:         %[[LR:.*]] = nd.constant(1.000000e-01 : f64)
// CHECK-NOT:     nd.read
// CHECK:         %[[STEP:.*]] = nd.mul %[[DW]], %[[LR]]
// CHECK:         %[[NEXT:.*]] = nd.sub %[[W]], %[[STEP]]
// CHECK:         nd.write @w, %[[NEXT]]
// CHECK-LABEL: nd.program @eval
// CHECK:         nd.output "loss"
// CHECK:         nd.output "scaled"
// CHECK:         nd.output "sum"
// CHECK-NOT:     nd.write
// CHECK-NOT:   nd.program @forward
// CHECK-NOT:   nd.program @update

// LOC-LABEL: nd.program @step
// LOC:         nd.write @w, %{{.*}} loc(#[[$WRITE:.*]])
// LOC:       #[[$WRITE]] = loc(fused<#nd.origin<update updated "w">>[#
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f64> = #nd.fill<1.0> loc(fused<#nd.origin<"w">>["net.mesh":3:4])
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2], f64>
    %w = nd.read @w : !nd.tensor<["a"=2], f64>
    %loss = nd.einsum %x, %w : (!nd.tensor<["a"=2], f64>, !nd.tensor<["a"=2], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
    %scaled = nd.mul %x, %w : (!nd.tensor<["a"=2], f64>, !nd.tensor<["a"=2], f64>) -> !nd.tensor<["a"=2], f64>
    nd.output "scaled", %scaled : !nd.tensor<["a"=2], f64>
    %sum = nd.reduce sum %x : (!nd.tensor<["a"=2], f64>) -> !nd.tensor<[], f64>
    nd.output "sum", %sum : !nd.tensor<[], f64>
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f64) : !nd.tensor<[], f64>
    %w = nd.read @w : !nd.tensor<["a"=2], f64>
    %gw = nd.gradient @w : !nd.tensor<["a"=2], f64>
    %sw = nd.mul %gw, %lr : (!nd.tensor<["a"=2], f64>, !nd.tensor<[], f64>) -> !nd.tensor<["a"=2], f64>
    %nw = nd.sub %w, %sw : (!nd.tensor<["a"=2], f64>, !nd.tensor<["a"=2], f64>) -> !nd.tensor<["a"=2], f64>
    nd.write @w, %nw : !nd.tensor<["a"=2], f64> loc(fused<#nd.origin<update updated "w">>["net.mesh":3:4])
  }
}

// -----

// Without a recipe there is no step.
// CHECK-LABEL: module
// CHECK-NOT:   nd.program @step
// CHECK:       nd.program @eval
// CHECK-NOT:   nd.program @step
module {
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2], f64>
    nd.output "x", %x : !nd.tensor<["a"=2], f64>
  }
}

// -----

// What the optimizer remembers is its own, and the number of the step is given
// once, whatever it is read for.
// CHECK-LABEL: nd.program @step
// CHECK:         nd.input "training step" : !scalar_i32
// CHECK:         %[[T:.*]] = nd.cast
// CHECK:         %[[M:.*]] = nd.read @"heavy/m/w"
// CHECK:         %[[NEXT:.*]] = nd.add %[[M]], %{{.*}}
// CHECK:         nd.write @"heavy/m/w", %[[NEXT]]
// CHECK-NOT:     nd.input
// CHECK:         nd.mul %[[NEXT]], %[[T]]
// CHECK:         nd.write @w
// CHECK:       nd.program @eval
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f32> = #nd.fill<1.0>
  nd.variable state @"heavy/m/w" : !nd.tensor<["a"=2], f32> = #nd.fill<0.0>
  nd.training minimize "loss" by "heavy" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2], f32>
    %loss = nd.reduce sum %w : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<[], f32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
  }
  nd.program @update {
    %step = nd.input "training step" : !nd.tensor<[], i32>
    %t = nd.cast %step : (!nd.tensor<[], i32>) -> !nd.tensor<[], f32>
    %w = nd.read @w : !nd.tensor<["a"=2], f32>
    %g = nd.gradient @w : !nd.tensor<["a"=2], f32>
    %m = nd.read @"heavy/m/w" : !nd.tensor<["a"=2], f32>
    %next = nd.add %m, %g : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    nd.write @"heavy/m/w", %next : !nd.tensor<["a"=2], f32>
    %d = nd.mul %next, %t : (!nd.tensor<["a"=2], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2], f32>
    %u = nd.sub %w, %d : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    nd.write @w, %u : !nd.tensor<["a"=2], f32>
  }
}

// -----

// A parameter without a gradient stays as it is, and with it what the optimizer
// would remember of it: there is no such state. Whoever reads its gradient reads
// zeros.
// CHECK-LABEL: module
// CHECK-NOT:     @"heavy/m/idle"
// CHECK:         nd.program @step
// CHECK:           %[[ZEROS:.*]] = nd.constant(0.000000e+00 : f32) : !a
// CHECK:           nd.add %{{.*}}, %[[ZEROS]]
// CHECK:           nd.write @w
// CHECK-NOT:       nd.write
// CHECK:         nd.program @eval
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f32> = #nd.fill<1.0>
  nd.variable parameter @idle : !nd.tensor<["a"=2], f32> = #nd.fill<1.0> loc(fused<#nd.origin<"idle">>["net.mesh":3:4])
  nd.variable state @"heavy/m/idle" : !nd.tensor<["a"=2], f32> = #nd.fill<0.0> loc(fused<#nd.origin<state "heavy/m" of "idle">>["net.mesh":3:4])
  nd.training minimize "loss" by "heavy" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2], f32>
    %loss = nd.reduce sum %w : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<[], f32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
  }
  nd.program @update {
    %w = nd.read @w : !nd.tensor<["a"=2], f32>
    %g = nd.gradient @w : !nd.tensor<["a"=2], f32>
    %gi = nd.gradient @idle : !nd.tensor<["a"=2], f32>
    %both = nd.add %g, %gi : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    %u = nd.sub %w, %both : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    nd.write @w, %u : !nd.tensor<["a"=2], f32>
    %idle = nd.read @idle : !nd.tensor<["a"=2], f32>
    %m = nd.read @"heavy/m/idle" : !nd.tensor<["a"=2], f32>
    nd.write @"heavy/m/idle", %gi : !nd.tensor<["a"=2], f32>
    %ui = nd.sub %idle, %m : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    nd.write @idle, %ui : !nd.tensor<["a"=2], f32>
  }
}

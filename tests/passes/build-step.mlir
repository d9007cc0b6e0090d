// RUN: meshc-opt %s -nd-build-step -split-input-file | FileCheck %s
// RUN: meshc-opt %s -nd-build-step -split-input-file -mlir-print-debuginfo | FileCheck %s --check-prefix=LOC
// RUN: meshc-opt %s -nd-build-step -nd-build-init -nd-decompose -canonicalize -cse -split-input-file | FileCheck %s --check-prefix=SIMPLE

// Metrics, gradient, update; @forward becomes @eval, which alone has tensors.
// CHECK-LABEL: nd.program @step
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[W:.*]] = nd.read @w
// CHECK:         nd.output "loss"
// CHECK-NOT:     nd.output "scaled"
// CHECK:         nd.output "sum"
// CHECK:         %[[DW:.*]] = nd.einsum %{{.*}}, %[[X]] : (!scalar_f64, !a_f64) -> !a_f64
// CHECK:         %[[LR:.*]] = nd.constant(1.000000e-01 : f64)
// CHECK:         %[[STEP:.*]] = nd.mul %[[DW]], %[[LR]]
// CHECK:         %[[NEXT:.*]] = nd.sub %[[W]], %[[STEP]]
// CHECK:         nd.write @w, %[[NEXT]]
// CHECK-LABEL: nd.program @eval
// CHECK:         nd.output "loss"
// CHECK:         nd.output "scaled"
// CHECK:         nd.output "sum"
// CHECK-NOT:     nd.write
// CHECK-NOT:   nd.program @forward

// LOC-LABEL: nd.program @step
// LOC:         nd.write @w, %{{.*}} loc(#[[$WRITE:.*]])
// LOC:       #[[$WRITE]] = loc(fused<#nd.origin<update updated "w">>[#
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f64> = #nd.fill<1.0> loc(fused<#nd.origin<"w">>["net.mesh":3:4])
  nd.training minimize "loss" by "sgd" {lr = 0.1} epochs 1 steps 0
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

// Adam's memory: two tensors per parameter and one counter. Each parameter's
// update is elementwise on its own dimensions, and the scalars of the step are
// computed once.
// CHECK-LABEL: module
// CHECK:         nd.variable parameter @w : !a
// CHECK:         nd.variable state @"adam/m/w" : !a = #nd.fill<0.000000e+00 : f64>
// CHECK:         nd.variable state @"adam/v/w" : !a = #nd.fill<0.000000e+00 : f64>
// CHECK:         nd.variable state @"adam/step" : !scalar = #nd.fill<0.000000e+00 : f64>
// CHECK:         nd.variable parameter @u : !b
// CHECK:         nd.variable state @"adam/m/u" : !b
// CHECK:         nd.variable state @"adam/v/u" : !b

// SIMPLE-LABEL: nd.variable state @"adam/v/u"
// SIMPLE:       nd.program @init
// SIMPLE-DAG:     nd.write @"adam/step", %{{.*}} : !scalar
// SIMPLE-DAG:     nd.write @"adam/v/u", %{{.*}} : !b
// SIMPLE:       nd.program @step
// SIMPLE:         nd.read @"adam/step"
// SIMPLE-COUNT-2: nd.exp %{{.*}} : (!scalar) -> !scalar
// SIMPLE-NOT:     nd.exp
// SIMPLE-NOT:     nd.broadcast
// SIMPLE:         nd.write @u
// SIMPLE-NOT:     nd.exp
// SIMPLE-NOT:     nd.broadcast
// SIMPLE:       nd.program @eval
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f32> = #nd.fill<1.0>
  nd.variable parameter @u : !nd.tensor<["b"=3], f32> = #nd.fill<1.0>
  nd.training minimize "loss" by "adam" {lr = 0.1, beta1 = 0.9, beta2 = 0.999, epsilon = 1.0e-8} epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
    %w = nd.read @w : !nd.tensor<["a"=2], f32>
    %u = nd.read @u : !nd.tensor<["b"=3], f32>
    %p = nd.einsum %x, %w : (!nd.tensor<["a"=2, "b"=3], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["b"=3], f32>
    %q = nd.add %p, %u : (!nd.tensor<["b"=3], f32>, !nd.tensor<["b"=3], f32>) -> !nd.tensor<["b"=3], f32>
    %r = nd.mul %q, %q : (!nd.tensor<["b"=3], f32>, !nd.tensor<["b"=3], f32>) -> !nd.tensor<["b"=3], f32>
    %loss = nd.reduce mean %r : (!nd.tensor<["b"=3], f32>) -> !nd.tensor<[], f32>
    nd.output "loss", %loss : !nd.tensor<[], f32>
  }
}

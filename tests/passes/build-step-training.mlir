// RUN: meshc-opt %s -nd-build-step -split-input-file | FileCheck %s

// A model that reads `training` has a program for each: evaluation is what is
// not for training.
// CHECK-LABEL: nd.program @step
// CHECK:         nd.exp
// CHECK:         nd.write @w
// CHECK-LABEL: nd.program @eval
// CHECK-NOT:     nd.exp
// CHECK:         nd.tanh
// CHECK-NOT:   nd.program @training
module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" {lr = 0.1} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    %loss = nd.tanh %w : (!nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
  }
  nd.program @training {
    %w = nd.read @w : !nd.tensor<[], f64>
    %loss = nd.exp %w : (!nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
  }
}

// -----

// Without a recipe there is no step.
// CHECK-LABEL: nd.program @eval
// CHECK-NOT:   nd.program
module {
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<[], f64>
    nd.output "y", %x : !nd.tensor<[], f64>
  }
  nd.program @training {
    %x = nd.input "x" : !nd.tensor<[], f64>
    nd.output "y", %x : !nd.tensor<[], f64>
  }
}

// RUN: meshc-opt %s -nd-build-step -split-input-file | FileCheck %s

// A model that reads `training` has a program for each: evaluation is what is
// not for training. What the step computes can be asked for without a step.
// CHECK-LABEL: nd.program @step
// CHECK:         nd.exp
// CHECK:         nd.write @w
// CHECK-LABEL: nd.program @eval
// CHECK-NOT:     nd.exp
// CHECK:         nd.tanh
// CHECK-LABEL: nd.program @training
// CHECK:         nd.exp
// CHECK-NOT:     nd.write
module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
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
  nd.program @update {
    %lr = nd.constant(0.1 : f64) : !nd.tensor<[], f64>
    %w = nd.read @w : !nd.tensor<[], f64>
    %gw = nd.gradient @w : !nd.tensor<[], f64>
    %sw = nd.mul %gw, %lr : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %nw = nd.sub %w, %sw : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @w, %nw : !nd.tensor<[], f64>
  }
}

// -----

// Without a recipe there is no step.
// CHECK-LABEL: nd.program @eval
// CHECK-LABEL: nd.program @training
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

// -----

// The step sets the model's state, by what the gradients know nothing of. The
// program that changes nothing gives out what it would be; one that is not set
// as it is.
// CHECK-LABEL: nd.program @step
// CHECK:         %[[SEEN:.+]] = nd.read @seen
// CHECK:         %[[SUM:.+]] = nd.add %[[SEEN]]
// CHECK:         nd.write @seen, %[[SUM]]
// CHECK:         nd.write @w
// CHECK-NOT:     nd.write
// CHECK-LABEL: nd.program @eval
// CHECK-NOT:     nd.write
// CHECK-LABEL: nd.program @training
// CHECK:         %[[FIXED:.+]] = nd.read @fixed
// CHECK:         nd.output "loss"
// CHECK:         %[[NEXT:.+]] = nd.add
// CHECK-NOT:     nd.write
// CHECK:         nd.output "seen", %[[NEXT]]
// CHECK:         nd.output "fixed", %[[FIXED]]
// CHECK-NOT:     nd.output
module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.variable model_state @seen : !nd.tensor<[], f64> = #nd.fill<0.0>
  nd.variable model_state @fixed : !nd.tensor<[], f64> = #nd.fill<0.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    %fixed = nd.read @fixed : !nd.tensor<[], f64>
    %loss = nd.mul %w, %fixed : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
  }
  nd.program @training {
    %w = nd.read @w : !nd.tensor<[], f64>
    %seen = nd.read @seen : !nd.tensor<[], f64>
    %fixed = nd.read @fixed : !nd.tensor<[], f64>
    %loss = nd.mul %w, %fixed : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %loss : !nd.tensor<[], f64>
    %sum = nd.add %seen, %w : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @seen, %sum : !nd.tensor<[], f64>
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f64) : !nd.tensor<[], f64>
    %w = nd.read @w : !nd.tensor<[], f64>
    %gw = nd.gradient @w : !nd.tensor<[], f64>
    %sw = nd.mul %gw, %lr : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %nw = nd.sub %w, %sw : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @w, %nw : !nd.tensor<[], f64>
  }
}

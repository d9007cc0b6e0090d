// RUN: meshc-opt %s -nd-differentiate="wanted=weights" -split-input-file -verify-diagnostics

// expected-error @below {{there is no program @forward to differentiate}}
module {
  nd.training minimize "y" by "sgd" epochs 1 steps 0
}

// -----

module {
  nd.variable parameter @weight : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{there is no output "los" to minimize; did you mean "loss"?}}
  nd.training minimize "los" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @weight : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @weight : !nd.tensor<["a"=2], f64> = #nd.fill<1.0>
  // expected-error @below {{only a scalar of floats can be minimized, and output "loss" is '!nd.tensor<["a"=2], f64>'}}
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @weight : !nd.tensor<["a"=2], f64>
    nd.output "loss", %w : !nd.tensor<["a"=2], f64>
  }
}

// -----

module {
  // expected-error @below {{only a scalar of floats can be minimized, and output "loss" is '!nd.tensor<[], i32>'}}
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.input "x" : !nd.tensor<[], i32>
    nd.output "loss", %w : !nd.tensor<[], i32>
  }
}

// -----

module {
  nd.variable parameter @weight : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{there is no parameter and no float input "weights" to differentiate by; did you mean "weight"?}}
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @weight : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @weights : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{"weights" is a parameter and an input}}
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "weights" : !nd.tensor<[], f64>
    %w = nd.read @weights : !nd.tensor<[], f64>
    %y = nd.mul %w, %x : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.output "loss", %y : !nd.tensor<[], f64>
  }
}

// -----

// Of two outputs, each with its parameters, an input is neither's.
module {
  nd.variable parameter @critic : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{several outputs are minimized: of which one is the gradient by input "weights" wanted?}}
  nd.objective minimize "loss"
  nd.objective minimize "other" for ["critic"]
  nd.program @forward {
    %x = nd.input "weights" : !nd.tensor<[], f64>
    %w = nd.read @critic : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
    nd.output "other", %x : !nd.tensor<[], f64>
  }
}

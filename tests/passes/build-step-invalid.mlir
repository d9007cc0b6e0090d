// RUN: meshc-opt %s -nd-build-step -split-input-file -verify-diagnostics

// expected-error @below {{there is no program @forward to train}}
module {
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{there is no optimizer "adan"; did you mean "adam"?}}
  nd.training minimize "loss" by "adan" {lr = 0.1} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{optimizer "momentum" has no hyper-parameter "bta"; did you mean "beta"?}}
  nd.training minimize "loss" by "momentum" {lr = 0.1, bta = 0.9} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{optimizer "momentum" needs the hyper-parameter "beta"}}
  nd.training minimize "loss" by "momentum" {lr = 0.1} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{hyper-parameter "beta" must lie in [0}}
  nd.training minimize "loss" by "momentum" {lr = 0.1, beta = 1.0} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{hyper-parameter "lr" must be a float, found 1 : i64}}
  nd.training minimize "loss" by "sgd" {lr = 1} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-warning @below {{parameter "u" does not influence "loss": it stays as it starts}}
  nd.variable parameter @u : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" {lr = 0.1} epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
}

// RUN: meshc-opt %s -nd-build-step -split-input-file -verify-diagnostics

// expected-error @below {{there is no program @forward to train}}
module {
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  // expected-error @below {{there is no program @update that says how parameters change}}
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
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
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<[], f64>
    nd.output "loss", %w : !nd.tensor<[], f64>
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f64) : !nd.tensor<[], f64>
    %w = nd.read @w : !nd.tensor<[], f64>
    %gw = nd.gradient @w : !nd.tensor<[], f64>
    %sw = nd.mul %gw, %lr : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %nw = nd.sub %w, %sw : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @w, %nw : !nd.tensor<[], f64>
    %u = nd.read @u : !nd.tensor<[], f64>
    %gu = nd.gradient @u : !nd.tensor<[], f64>
    %su = nd.mul %gu, %lr : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    %nu = nd.sub %u, %su : (!nd.tensor<[], f64>, !nd.tensor<[], f64>) -> !nd.tensor<[], f64>
    nd.write @u, %nu : !nd.tensor<[], f64>
  }
}

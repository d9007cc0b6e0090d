// RUN: meshc-opt %s -split-input-file -verify-diagnostics -nd-lower-precision

// expected-error @below {{there is no program @forward to compute in 16 bits}}
module {
  nd.precision bf16
}

// -----

module {
  // expected-remark @below {{precision "fp16" changes nothing: the program computes nothing in f32 that could be narrower}}
  nd.precision fp16
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["b"=2], f64>
    %y = nd.mul %x, %x : (!nd.tensor<["b"=2], f64>, !nd.tensor<["b"=2], f64>) -> !nd.tensor<["b"=2], f64>
    nd.output "y", %y : !nd.tensor<["b"=2], f64>
  }
}

// RUN: meshc-opt %s -split-input-file -verify-diagnostics

nd.program @c1_factor {
  // expected-error @+2 {{(C1) a window of factor 0, range [0, 1], divisor 1 and modulus 0}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by 0 "row"=7@m + [0, 1]>>
}

// -----

nd.program @c1_range {
  // expected-error @+2 {{(C1) a window of factor 1, range [1, 0], divisor 1 and modulus 0}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [1, 0]>>
}

// -----

nd.program @c1_divisor {
  // expected-error @+2 {{(C1) a window of factor 1, range [0, 1], divisor 0 and modulus 0}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1] / 0>>
}

// -----

nd.program @c2_large {
  // expected-error @+2 {{(C2) the numbers of a window are below 2^31}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 2147483648]>>
}

// -----

nd.program @c1_modulus {
  // expected-error @+2 {{(C1) a window of factor 1, range [0, 1], divisor 1 and modulus -7}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1] mod -7>>
}

// -----

nd.program @without_axes {
  // expected-error @+2 {{expected valid '@'-identifier for symbol name}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["y"=7], f32, <"y" by "row"=7 + [0, 1]>>
}

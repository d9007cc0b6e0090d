// RUN: meshc-opt %s -split-input-file -verify-diagnostics

nd.program @c1_no_name {
  // expected-error @+2 {{(C1) a dimension needs a name}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'dims'}}
  %0 = nd.input "x" : !nd.tensor<[""=2], f32>
}

// -----

nd.program @c2_nothing {
  // expected-error @+2 {{(C2) dimension 'a' has size 0, expected at least 1}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'dims'}}
  %0 = nd.input "x" : !nd.tensor<["a"=0], f32>
}

// -----

nd.program @c2_negative {
  // expected-error @+2 {{(C2) dimension 'a' has size -3, expected at least 1}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'dims'}}
  %0 = nd.input "x" : !nd.tensor<["a"=-3], f32>
}

// -----

nd.program @number_that_does_not_fit {
  // expected-error @+3 {{integer value too large}}
  // expected-error @+2 {{failed to parse ND_DimAttr parameter 'size'}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'dims'}}
  %0 = nd.input "x" : !nd.tensor<["a"=9223372036854775808], f32>
}

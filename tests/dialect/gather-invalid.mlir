// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The numbered constraints of nd.gather and nd.put.

nd.program @c1_put_lacks_the_dimension {
  %x = nd.input "x" : !nd.tensor<["b"=2], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.put' op (C1) the result alone needs a dimension "v"}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=2], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["w"=5], f32>
}

// -----

nd.program @c1_put_has_the_dimension_already {
  %x = nd.input "x" : !nd.tensor<["b"=2, "v"=5], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.put' op (C1) the result alone needs a dimension "v"}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=2, "v"=5], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["v"=5], f32>
}

// -----

nd.program @c2_put_of_two_sizes {
  %x = nd.input "x" : !nd.tensor<["b"=3], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.put' op (C2) dimension "b" has two sizes}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=3], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["v"=5], f32>
}

// -----

nd.program @c3_put_by_what_the_input_lacks {
  %x = nd.input "x" : !nd.tensor<["b"=2], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2, "c"=3], i32>
  // expected-error @below {{'nd.put' op (C3) the input lacks dimension "c"}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=2], f32>, !nd.tensor<["b"=2, "c"=3], i32>) -> !nd.tensor<["v"=5], f32>
}

// -----

nd.program @c3_put_sums_what_the_index_lacks {
  %x = nd.input "x" : !nd.tensor<["b"=2, "c"=3], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.put' op (C3) neither the index nor the result has dimension "c"}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=2, "c"=3], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["v"=5], f32>
}

// -----

nd.program @c4_put_narrows {
  %x = nd.input "x" : !nd.tensor<["b"=2], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.put' op (C4) adds 'f32' up to 'bf16'}}
  %0 = nd.put %x[%i] over "v" : (!nd.tensor<["b"=2], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["v"=5], bf16>
}

// -----

nd.program @c1_nothing_to_pick_from {
  %t = nd.input "t" : !nd.tensor<["v"=5], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.gather' op (C1) the input, and not the index, needs a dimension "w"}}
  %0 = nd.gather %t[%i] over "w" : (!nd.tensor<["v"=5], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["b"=2], f32>
}

// -----

nd.program @c1_index_has_the_dimension {
  %t = nd.input "t" : !nd.tensor<["v"=5], f32>
  %i = nd.input "i" : !nd.tensor<["v"=5], i32>
  // expected-error @below {{'nd.gather' op (C1) the input, and not the index, needs a dimension "v"}}
  %0 = nd.gather %t[%i] over "v" : (!nd.tensor<["v"=5], f32>, !nd.tensor<["v"=5], i32>) -> !nd.tensor<["v"=5], f32>
}

// -----

nd.program @c2_two_sizes {
  %t = nd.input "t" : !nd.tensor<["v"=5, "b"=3], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.gather' op (C2) dimension "b" has two sizes}}
  %0 = nd.gather %t[%i] over "v" : (!nd.tensor<["v"=5, "b"=3], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["b"=2], f32>
}

// -----

nd.program @c3_lacks_a_dimension {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.gather' op (C3) the result lacks dimension "c"}}
  %0 = nd.gather %t[%i] over "v" : (!nd.tensor<["v"=5, "c"=3], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["b"=2], f32>
}

// -----

nd.program @c3_converts {
  %t = nd.input "t" : !nd.tensor<["v"=5], f32>
  %i = nd.input "i" : !nd.tensor<["b"=2], i32>
  // expected-error @below {{'nd.gather' op (C3) the result has the input's dimensions without "v", united with the index's, and the input's element type}}
  %0 = nd.gather %t[%i] over "v" : (!nd.tensor<["v"=5], f32>, !nd.tensor<["b"=2], i32>) -> !nd.tensor<["b"=2], f64>
}

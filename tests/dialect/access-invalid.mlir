// RUN: meshc-opt %s -split-input-file -verify-diagnostics

nd.program @c1_divided_by_nothing {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{(C1) dimension "v" is read at a quotient by 0, expected at least 1}}
  %0 = nd.view %t ["v" = "b" / 0] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2], f32>
}

// -----

nd.program @c2_too_far {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{(C2) dimension "v" is read at a multiple of 2147483648, expected less than 2^31}}
  %0 = nd.view %t ["v" = "b" + 2147483648] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2], f32>
}

// -----

nd.program @no_position_after_the_sign {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{expected a dimension or a number}}
  %0 = nd.view %t ["v" = "b" - ] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2], f32>
}

// RUN: meshc-opt %s -nd-assign-shardings -split-input-file -verify-diagnostics

nd.mesh ["x"=2]
// expected-error @below {{layout rule for "lenght" names no dimension of the program; did you mean "length"?}}
nd.rule "lenght -> x"
nd.program @rule_without_a_dimension {
  %x = nd.input "x" : !nd.tensor<["length"=4], f32>
}

// -----

nd.mesh ["x"=2]
// expected-note @below {{"m" is split by this rule}}
nd.rule "m -> x"
// expected-note @below {{"k" is split by this rule}}
nd.rule "k -> x"
nd.program @two_dimensions_on_one_axis {
  // expected-error @below {{dimensions "m" and "k" of one tensor are split over one axis, "x"}}
  %x = nd.input "x" : !nd.tensor<["m"=4, "k"=6], f32>
}

// -----

nd.mesh ["x"=2]
nd.program @no_way_to_partition {
  %x = nd.input "x" : !nd.tensor<["a"=4], f32>
  // expected-error @below {{'nd.arg_reduce' cannot be partitioned: it has no PartitionOpInterface (nd-decompose rewrites operations without one)}}
  %i = nd.arg_reduce max %x over "a" : (!nd.tensor<["a"=4], f32>) -> !nd.tensor<[], i32>
}

// RUN: meshc-opt %s -split-input-file -verify-diagnostics

nd.program @c1_twice {
  // expected-error @below {{(C1) dimension "a" occurs twice}}
  %0 = nd.input "x" : !nd.tensor<["a"=2, "b"=3, "a"=2], f32>
}

// -----

nd.program @c2_bits {
  // expected-error @below {{(C2) element type 'i4' is not one of f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], i4>
}

// -----

nd.program @c2_unsigned {
  // expected-error @below {{(C2) element type 'ui16' is not one of f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], ui16>
}

// -----

nd.program @c2_tensor_of_tensors {
  // expected-error @below {{(C2) element type 'tensor<2xf32>' is not one of f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], tensor<2xf32>>
}

// -----

nd.program @c3_elements {
  // expected-error @below {{(C3) the number of elements overflows}}
  %0 = nd.input "x" : !nd.tensor<["a"=4294967296, "b"=4294967296], f32>
}

// -----

nd.program @c4_no_such_dimension {
  // expected-error @below {{(C4) the sharding splits "b", which is no dimension of the type or out of the type's order}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], f32, <"b"@x>>
}

// -----

nd.program @c4_out_of_order {
  // expected-error @below {{(C4) the sharding splits "a", which is no dimension of the type or out of the type's order}}
  %0 = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32, <"b"@y, "a"@x>>
}

// -----

nd.program @c5_two_dimensions {
  // expected-error @below {{(C5) axis "x" serves two purposes in one sharding}}
  %0 = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32, <"a"@x, "b"@x>>
}

// -----

nd.program @c5_dimension_and_terms {
  // expected-error @below {{(C5) axis "x" serves two purposes in one sharding}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], f32, <"a"@x> partial sum over x>
}

// -----

nd.program @c5_parts_that_overlap {
  // expected-error @below {{(C5) axis "x" serves two purposes in one sharding}}
  %0 = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32, <"a"@x:(1)4, "b"@x:(2)4>>
}

// -----

nd.program @sharding_lists_a_dimension_twice {
  // expected-error @+2 {{dimension "a" is listed twice}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], f32, <"a"@x, "a"@y>>
}

// -----

nd.program @terms_of_no_kind {
  // expected-error @+2 {{expected sum, max or min}}
  // expected-error @+1 {{failed to parse ND_NamedTensorType parameter 'sharding'}}
  %0 = nd.input "x" : !nd.tensor<["a"=2], f32, <> partial product over x>
}

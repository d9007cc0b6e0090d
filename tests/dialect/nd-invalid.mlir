// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The numbered constraints of module-level declarations.

nd.mesh ["x"=2]
// expected-error @below {{'nd.mesh' op (C1) the module has another mesh}}
nd.mesh ["y"=3]

// -----

// expected-error @below {{'nd.mesh' op (C2) axis "x" occurs twice}}
nd.mesh ["x"=2, "y"=3, "x"=2]

// -----

// expected-error @below {{(C2) dimension 'x' has size 0, expected at least 1}}
nd.mesh ["x"=0]

// -----

// expected-error @below {{'nd.mesh' op (C2) the mesh has more than 2^20 devices}}
nd.mesh ["x"=1024, "y"=1025]

// -----

// expected-error @below {{'nd.mesh' op (C2) the mesh has more than 2^20 devices}}
nd.mesh ["x"=4611686018427387904, "y"=4]

// -----

// expected-error @below {{'nd.mesh' op (C4) there is no machine "k80"}}
nd.mesh ["x"=2, "y"=3] machine "k80"

// -----

// expected-error @below {{'nd.mesh' op (C3) the device order is no permutation of the 6 device numbers}}
nd.mesh ["x"=2, "y"=3] device_order [0, 1, 2, 3, 4, 4]

// -----

// expected-error @below {{'nd.mesh' op (C3) the device order is no permutation of the 6 device numbers}}
nd.mesh ["x"=2, "y"=3] device_order [0, 1, 2, 3, 4]

// -----

// expected-error @below {{'nd.mesh' op (C3) the device order is no permutation of the 6 device numbers}}
nd.mesh ["x"=2, "y"=3] device_order []

// -----

// expected-error @below {{'nd.variable' op (C1) a parameter has float elements, found 'i32'}}
nd.variable parameter @c1_integers : !nd.tensor<["a"=2], i32> = #nd.fill<1.0>

// -----

// expected-error @below {{'nd.variable' op (C2) the initialiser must be #nd.fill, #nd.random or @init}}
nd.variable parameter @c2_other_attribute : !nd.tensor<["a"=2], f32> = 1.0

// -----

// expected-error @below {{'nd.variable' op (C2) random initialisers need float elements}}
nd.variable state @c2_random_integers : !nd.tensor<["a"=2], i32> = #nd.random<uniform, 0.0, 1.0>

// -----

// expected-error @below {{'nd.variable' op (C3) integers are filled with an integer, found 5.000000e-01 : f64}}
nd.variable state @c3_fraction : !nd.tensor<["a"=2], i64> = #nd.fill<0.5>

// -----

// expected-error @below {{'nd.variable' op (C3) integers are filled with an integer, found 0x7FF8000000000000 : f64}}
nd.variable state @c3_nan : !nd.tensor<["a"=2], i64> = #nd.fill<0x7FF8000000000000 : f64>

// -----

// expected-error @below {{'nd.variable' op (C3) integers are filled with an integer, found 0x4340000000000001 : f64}}
nd.variable state @c3_beyond_53_bits : !nd.tensor<["a"=2], i64> = #nd.fill<9007199254740994.0>

// -----

// The border of a program.

nd.program @c1_no_variable {
  // expected-error @below {{'nd.read' op (C1) there is no variable @w}}
  %w = nd.read @w : !nd.tensor<["a"=2], f32>
}

// -----

nd.variable parameter @w : !nd.tensor<["a"=2], f32> = #nd.fill<1.0>
nd.program @c1_other_type {
  // expected-error @below {{'nd.read' op (C1) variable @w has type '!nd.tensor<["a"=2], f32>', found '!nd.tensor<["a"=3], f32>'}}
  %w = nd.read @w : !nd.tensor<["a"=3], f32>
}

// -----

nd.variable parameter @w : !nd.tensor<["a"=2], f32> = #nd.fill<1.0>
nd.program @c1_write_of_other_type {
  %x = nd.input "x" : !nd.tensor<["b"=2], f32>
  // expected-error @below {{'nd.write' op (C1) variable @w has type '!nd.tensor<["a"=2], f32>', found '!nd.tensor<["b"=2], f32>'}}
  nd.write @w, %x : !nd.tensor<["b"=2], f32>
}

// -----

// Sources.

nd.program @c1_value_of_other_type {
  // expected-error @below {{'nd.constant' op (C1) the value must have the element type 'f32'}}
  %0 = nd.constant(1 : i32) : !nd.tensor<[], f32>
}

// -----

nd.program @c1_positions_in_two_dimensions {
  // expected-error @below {{'nd.iota' op (C1) the result has one dimension and integer or float elements that are computed with}}
  %0 = nd.iota : !nd.tensor<["a"=2, "b"=3], i32>
}

// -----

nd.program @c1_positions_as_booleans {
  // expected-error @below {{'nd.iota' op (C1) the result has one dimension and integer or float elements that are computed with}}
  %0 = nd.iota : !nd.tensor<["a"=2], i1>
}

// -----

nd.program @c1_seed_of_32_bits {
  %seed = nd.input "seed" : !nd.tensor<[], i32>
  // expected-error @below {{'nd.random' op (C1) the seed is of i64, found '!nd.tensor<[], i32>'}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed : (!nd.tensor<[], i32>) -> !nd.tensor<["a"=2], f32>
}

// -----

nd.program @c3_seed_of_64_bits_alone {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  // expected-error @below {{'nd.fold_in' op (C3) expected one element type, found 'i64' and 'i32'}}
  %0 = nd.fold_in %seed, %seed : (!nd.tensor<[], i64>, !nd.tensor<[], i64>) -> !nd.tensor<[], i32>
}

// -----

nd.program @number_of_32_bits {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  %number = nd.input "number" : !nd.tensor<[], i32>
  // expected-error @below {{'nd.fold_in' op operand #1 must be tensor of i64, but got '!nd.tensor<[], i32>'}}
  %0 = nd.fold_in %seed, %number : (!nd.tensor<[], i64>, !nd.tensor<[], i32>) -> !nd.tensor<[], i64>
}

// -----

nd.program @c3_dim_of_the_seed {
  %seed = nd.input "seed" : !nd.tensor<["b"=3], i64>
  // expected-error @below {{'nd.random' op (C3) dimension "b" of the seed is none of the result}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed : (!nd.tensor<["b"=3], i64>) -> !nd.tensor<["a"=2], f32>
}

// -----

nd.program @c3_dim_twice {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  // expected-error @below {{'nd.random' op (C3) dimension "a" is not one of the result, or stands twice}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed order ["a", "a"] : (!nd.tensor<[], i64>) -> !nd.tensor<["a"=2], f32>
}

// -----

nd.program @c3_dim_of_nothing {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  // expected-error @below {{'nd.random' op (C3) the result has a dimension that neither the order nor the seed has}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed order ["a"] : (!nd.tensor<[], i64>) -> !nd.tensor<["a"=2, "b"=3], f32>
}

// -----

nd.program @c2_random_integers {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  // expected-error @below {{'nd.random' op (C2) the result has float elements}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed : (!nd.tensor<[], i64>) -> !nd.tensor<["a"=2], i32>
}

// -----

// Operations on the set of dimensions.

nd.program @c1_inputs_of_two_sizes {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  %b = nd.input "b" : !nd.tensor<["k"=5], f32>
  // expected-error @below {{'nd.einsum' op (C1) dimension "k" has size 3 and 5}}
  %0 = nd.einsum %a, %b : (!nd.tensor<["m"=2, "k"=3], f32>, !nd.tensor<["k"=5], f32>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c1_result_of_another_size {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.einsum' op (C1) dimension "m" has size 2 and 7}}
  %0 = nd.einsum %a : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["m"=7], f32>
}

// -----

nd.program @c2_new_dimension {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.einsum' op (C2) no input has the result's dimension "n"}}
  %0 = nd.einsum %a : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["n"=2], f32>
}

// -----

nd.program @c3_two_element_types {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=2], f64>
  // expected-error @below {{'nd.einsum' op (C3) expected one element type, found 'f32' and 'f64'}}
  %0 = nd.einsum %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f64>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c3_wider_result_than_f32 {
  %a = nd.input "a" : !nd.tensor<["m"=2], bf16>
  // expected-error @below {{'nd.einsum' op (C3) expected one element type, found 'bf16' and 'f64'}}
  %0 = nd.einsum %a, %a : (!nd.tensor<["m"=2], bf16>, !nd.tensor<["m"=2], bf16>) -> !nd.tensor<[], f64>
}

// -----

nd.program @c3_narrower_result {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.einsum' op (C3) expected one element type, found 'f32' and 'f16'}}
  %0 = nd.einsum %a, %a : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f32>) -> !nd.tensor<[], f16>
}

// -----

nd.precision bf16
// expected-error @below {{'nd.precision' op (C1) the module has another precision}}
nd.precision fp16

// -----

// expected-error @below {{'nd.precision' op (C2) the scale is no power of two in [2^-24, 2^24], found 1.000000e+03}}
nd.precision fp16 {scale = 1000.0 : f64}

// -----

// expected-error @below {{'nd.precision' op (C2) the scale is no power of two in [2^-24, 2^24], found 3.355443e+07}}
nd.precision fp16 {scale = 33554432.0 : f64}

// -----

// expected-error @below {{'nd.precision' op (C2) growth_steps must be positive, found 0}}
nd.precision fp16 {growth_steps = 0 : i64}

// -----

nd.program @c3_integers {
  %a = nd.input "a" : !nd.tensor<["m"=2], i32>
  // expected-error @below {{'nd.einsum' op operand #0 must be variadic of tensor of floats}}
  %0 = nd.einsum %a : (!nd.tensor<["m"=2], i32>) -> !nd.tensor<[], i32>
}

// -----

nd.program @no_inputs {
  // expected-error @below {{'nd.einsum' op needs an input}}
  %0 = "nd.einsum"() : () -> !nd.tensor<[], f32>
}

// -----

nd.program @c1_dimension_the_input_lacks {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.reduce' op (C1) dimension "n" of size 2 is no dimension of the input}}
  %0 = nd.reduce sum %a : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["n"=2], f32>
}

// -----

nd.program @c1_reduced_to_another_size {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.reduce' op (C1) dimension "m" of size 3 is no dimension of the input}}
  %0 = nd.reduce sum %a : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["m"=3], f32>
}

// -----

nd.program @c2_converts {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.reduce' op (C2) the result has the input's element type 'f32', found 'f64'}}
  %0 = nd.reduce sum %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<[], f64>
}

// -----

nd.program @c2_mean_of_integers {
  %a = nd.input "a" : !nd.tensor<["m"=2], i32>
  // expected-error @below {{'nd.reduce' op (C2) a mean needs floats}}
  %0 = nd.reduce mean %a : (!nd.tensor<["m"=2], i32>) -> !nd.tensor<[], i32>
}

// -----

nd.program @c1_no_such_dimension {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.arg_reduce' op (C1) the input has no dimension "k"}}
  %0 = nd.arg_reduce max %a over "k" : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2], i32>
}

// -----

nd.program @c1_dimension_stays {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.arg_reduce' op (C1) the result has the input's dimensions without "k"}}
  %0 = nd.arg_reduce max %a over "k" : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["k"=3], i32>
}

// -----

nd.program @c2_position_of_64_bits {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.arg_reduce' op (C2) the result has i32 elements, found 'i64'}}
  %0 = nd.arg_reduce max %a over "m" : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<[], i64>
}

// -----

nd.program @c1_drops_a_dimension {
  %a = nd.input "a" : !nd.tensor<["m"=2, "k"=3], f32>
  // expected-error @below {{'nd.broadcast' op (C1) dimension "k" of size 3 is no dimension of the result}}
  %0 = nd.broadcast %a : (!nd.tensor<["m"=2, "k"=3], f32>) -> !nd.tensor<["m"=2, "n"=5], f32>
}

// -----

nd.program @c2_broadcast_converts {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.broadcast' op (C2) the element type stays 'f32', found 'f64'}}
  %0 = nd.broadcast %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2, "n"=5], f64>
}

// -----

nd.program @c1_no_such_dimension {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C1) the input has no dimension "w"}}
  %0 = nd.view %t ["w" = "b"] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["v"=5, "c"=3, "b"=2], f32>
}

// -----

nd.program @c1_twice {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C1) dimension "v" is accessed twice}}
  %0 = nd.view %t ["v" = "b", "v" = 1] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2], f32>
}

// -----

nd.program @c1_not_in_the_result {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C1) dimension "v" is read along "b", which is no dimension of the result}}
  %0 = nd.view %t ["v" = "b"] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3], f32>
}

// -----

nd.program @c2_lacks_a_dimension {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C2) the result lacks dimension "c"}}
  %0 = nd.view %t ["v" = "b"] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["b"=2], f32>
}

// -----

nd.program @c2_view_of_two_sizes {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C2) dimension "v" has two sizes}}
  %0 = nd.view %t ["v" = "v" + 1] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "v"=4], f32>
}

// -----

nd.program @c3_nothing_follows {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C3) no position follows from dimension "d"}}
  %0 = nd.view %t ["v" = "b"] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2, "d"=7], f32>
}

// -----

nd.program @c4_view_converts {
  %t = nd.input "t" : !nd.tensor<["v"=5, "c"=3], f32>
  // expected-error @below {{'nd.view' op (C4) the element type stays 'f32', found 'f64'}}
  %0 = nd.view %t ["v" = "b"] : (!nd.tensor<["v"=5, "c"=3], f32>) -> !nd.tensor<["c"=3, "b"=2], f64>
}

// -----

nd.mesh ["x"=2]
nd.program @c1_another_tensor {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.reshard' op (C1) operand and result differ in more than their sharding}}
  %0 = nd.reshard %a : !nd.tensor<["m"=2], f32> -> !nd.tensor<["m"=3], f32, <"m"@x>>
}

// -----

nd.program @c2_loses_the_sharding {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32, <>>
  // expected-error @below {{'nd.reshard' op (C2) the result has no sharding}}
  %0 = nd.reshard %a : !nd.tensor<["m"=2], f32, <>> -> !nd.tensor<["m"=2], f32>
}

// -----

// Elementwise operations: one verifier for those of one operand, one for those
// of several.

nd.program @c1_unary_gains_a_dimension {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.exp' op (C1) the result must have the operand's dimensions}}
  %0 = nd.exp %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2, "n"=3], f32>
}

// -----

nd.program @c1_unary_resizes {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.neg' op (C1) the result must have the operand's dimensions}}
  %0 = nd.neg %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=3], f32>
}

// -----

nd.program @c2_unary_converts {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.exp' op (C2) expected one element type, found 'f32' and 'f64'}}
  %0 = nd.exp %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2], f64>
}

// -----

nd.program @unary_of_integers {
  %a = nd.input "a" : !nd.tensor<["m"=2], i32>
  // expected-error @below {{'nd.exp' op operand #0 must be tensor of floats}}
  %0 = nd.exp %a : (!nd.tensor<["m"=2], i32>) -> !nd.tensor<["m"=2], i32>
}

// -----

nd.program @c1_cast_resizes {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.cast' op (C1) the result must have the operand's dimensions}}
  %0 = nd.cast %a : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=3], i32>
}

// -----

nd.program @c1_binary_of_two_sizes {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3], f32>
  // expected-error @below {{'nd.add' op (C1) dimension "m" has size 2 and 3}}
  %0 = nd.add %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c2_binary_drops_a_dimension {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["n"=3], f32>
  // expected-error @below {{'nd.add' op (C2) the result must have the union of the operands' dimensions}}
  %0 = nd.add %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["n"=3], f32>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c3_binary_of_two_types {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=2], f64>
  // expected-error @below {{'nd.add' op (C3) expected one element type, found 'f32' and 'f64'}}
  %0 = nd.add %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f64>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c1_compare_of_two_sizes {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3], f32>
  // expected-error @below {{'nd.compare' op (C1) dimension "m" has size 2 and 3}}
  %0 = nd.compare lt %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=2], i1>
}

// -----

nd.program @c3_compare_of_two_types {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=2], i32>
  // expected-error @below {{'nd.compare' op (C3) expected one element type, found 'f32' and 'i32'}}
  %0 = nd.compare lt %a, %b : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], i32>) -> !nd.tensor<["m"=2], i1>
}

// -----

nd.program @c3_compare_gives_numbers {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.compare' op (C3) the result of a comparison is boolean}}
  %0 = nd.compare lt %a, %a : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @c3_select_of_two_types {
  %p = nd.input "p" : !nd.tensor<["m"=2], i1>
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %b = nd.input "b" : !nd.tensor<["m"=2], f64>
  // expected-error @below {{'nd.select' op (C3) expected one element type, found 'f32' and 'f64'}}
  %0 = nd.select %p, %a, %b : (!nd.tensor<["m"=2], i1>, !nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f64>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @select_by_numbers {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.select' op operand #0 must be tensor of booleans}}
  %0 = nd.select %a, %a, %a : (!nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f32>, !nd.tensor<["m"=2], f32>) -> !nd.tensor<["m"=2], f32>
}

// -----

nd.program @iota_beyond_i32 {
  %fits = nd.iota : !nd.tensor<["m"=2147483648], i32>
  // expected-error @below {{'nd.iota' op positions along "m" of size 2147483649 do not fit 'i32'}}
  %0 = nd.iota : !nd.tensor<["m"=2147483649], i32>
}

// -----

nd.program @arg_reduce_beyond_i32 {
  %x = nd.input "x" : !nd.tensor<["m"=2147483647], f32>
  %y = nd.input "y" : !nd.tensor<["m"=2147483648], f32>
  %fits = nd.arg_reduce max %x over "m" : (!nd.tensor<["m"=2147483647], f32>) -> !nd.tensor<[], i32>
  // expected-error @below {{'nd.arg_reduce' op positions along "m" of size 2147483648 do not fit 'i32'}}
  %0 = nd.arg_reduce max %y over "m" : (!nd.tensor<["m"=2147483648], f32>) -> !nd.tensor<[], i32>
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.program @forward {
    // expected-error @below {{'nd.gradient' op (C2) a gradient is read in @update alone}}
    %g = nd.gradient @w : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable state @s : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.program @update {
    // expected-error @below {{'nd.gradient' op (C1) @s is no parameter}}
    %g = nd.gradient @s : !nd.tensor<[], f64>
  }
}

// -----

module {
  nd.variable parameter @w : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.program @update {
    // expected-error @below {{'nd.gradient' op (C1) the parameter is '!nd.tensor<[], f64>'}}
    %g = nd.gradient @w : !nd.tensor<[], f32>
  }
}

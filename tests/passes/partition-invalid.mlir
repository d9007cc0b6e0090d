// RUN: meshc-opt %s -nd-partition -split-input-file -verify-diagnostics

// expected-error @below {{'nd.variable' op has no sharding (nd-assign-shardings gives it one)}}
nd.variable parameter @variable_without_sharding : !nd.tensor<["a"=4], f32> = #nd.fill<1.0>

// -----

nd.mesh ["x"=2]
nd.program @value_without_sharding {
  // expected-error @below {{has a value without a sharding: '!nd.tensor<["a"=4], f32>' (nd-assign-shardings gives it one)}}
  %x = nd.input "x" : !nd.tensor<["a"=4], f32>
}

// -----

nd.mesh ["x"=2]
nd.program @axis_that_is_none {
  // expected-error @below {{has a sharding over "z", which is no axis of the mesh}}
  %x = nd.input "x" : !nd.tensor<["a"=4], f32, <"a"@z>>
}

// -----

nd.mesh ["x"=6]
nd.program @part_that_does_not_fit {
  // expected-error @below {{has a sharding that does not fit the mesh}}
  %x = nd.input "x" : !nd.tensor<["a"=4], f32, <"a"@x:(4)3>>
}

// -----

nd.mesh ["x"=2]
nd.program @partial_input {
  // expected-error @below {{'nd.input' op cannot be partial, found sharding<> partial sum over x}}
  %x = nd.input "x" : !nd.tensor<["a"=4], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2, "y"=3]
nd.program @operands_split_otherwise {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %b = nd.input "b" : !nd.tensor<["a"=4], f32, <"a"@y>>
  // expected-error @below {{'nd.add' op splits dimension "a" in two ways: operands and result must agree}}
  %c = nd.add %a, %b : (!nd.tensor<["a"=4], f32, <"a"@x>>, !nd.tensor<["a"=4], f32, <"a"@y>>) -> !nd.tensor<["a"=4], f32, <"a"@x>>
}

// -----

nd.mesh ["x"=2]
nd.program @two_iterated_dimensions_on_one_axis {
  %a = nd.input "a" : !nd.tensor<["m"=4, "k"=3], f32, <"m"@x>>
  %b = nd.input "b" : !nd.tensor<["k"=3, "n"=5], f32, <"n"@x>>
  // expected-error @below {{'nd.einsum' op splits dimension "n" in two ways}}
  %c = nd.einsum %a, %b : (!nd.tensor<["m"=4, "k"=3], f32, <"m"@x>>, !nd.tensor<["k"=3, "n"=5], f32, <"n"@x>>) -> !nd.tensor<["m"=4, "n"=5], f32, <"m"@x>>
}

// -----

nd.mesh ["x"=2]
nd.program @two_summed_dimensions_on_one_axis {
  %a = nd.input "a" : !nd.tensor<["m"=4], f32, <"m"@x>>
  %b = nd.input "b" : !nd.tensor<["n"=5], f32, <"n"@x>>
  // expected-error @below {{'nd.einsum' op splits two dimensions over one axis: "x" "x"}}
  %c = nd.einsum %a, %b : (!nd.tensor<["m"=4], f32, <"m"@x>>, !nd.tensor<["n"=5], f32, <"n"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2]
nd.program @terms_through_what_is_not_linear {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  // expected-error @below {{'nd.exp' op operand 0 must be complete, found sharding<> partial sum over x}}
  %e = nd.exp %s : (!nd.tensor<[], f32, <> partial sum over x>) -> !nd.tensor<[], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2]
nd.program @complete_beside_partial {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %b = nd.input "b" : !nd.tensor<[], f32, <>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  // expected-error @below {{'nd.add' op operand 1 is complete where operand 0 is sharding<> partial sum over x}}
  %e = nd.add %s, %b : (!nd.tensor<[], f32, <> partial sum over x>, !nd.tensor<[], f32, <>>) -> !nd.tensor<[], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2]
nd.program @product_of_terms {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  // expected-error @below {{'nd.mul' op several operands are partial over one axis}}
  %e = nd.mul %s, %s : (!nd.tensor<[], f32, <> partial sum over x>, !nd.tensor<[], f32, <> partial sum over x>) -> !nd.tensor<[], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2, "y"=3]
nd.program @sum_of_other_terms {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %b = nd.input "b" : !nd.tensor<["a"=4], f32, <"a"@y>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  %t = nd.reduce sum %b : (!nd.tensor<["a"=4], f32, <"a"@y>>) -> !nd.tensor<[], f32, <> partial sum over y>
  // expected-error @below {{'nd.add' op operands must be partial alike, found sharding<> partial sum over x and sharding<> partial sum over y}}
  %e = nd.add %s, %t : (!nd.tensor<[], f32, <> partial sum over x>, !nd.tensor<[], f32, <> partial sum over y>) -> !nd.tensor<[], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2]
nd.program @axis_of_terms_splits_a_dimension {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <> partial sum over x>
  // expected-error @below {{'nd.mul' op operand 1 is sharding<> partial sum over x, but one of these axes splits a dimension}}
  %e = nd.mul %a, %s : (!nd.tensor<["a"=4], f32, <"a"@x>>, !nd.tensor<[], f32, <> partial sum over x>) -> !nd.tensor<["a"=4], f32, <"a"@x>>
}

// -----

nd.mesh ["x"=2]
nd.program @terms_that_are_lost {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <"a"@x>>
  // expected-error @below {{'nd.reduce' op result must be sharding<> partial sum over x, found sharding<>}}
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4], f32, <"a"@x>>) -> !nd.tensor<[], f32, <>>
}

// -----

nd.mesh ["x"=2]
nd.program @terms_from_nowhere {
  %a = nd.input "a" : !nd.tensor<["a"=4], f32, <>>
  // expected-error @below {{'nd.exp' op result must be complete, found sharding<> partial sum over x}}
  %e = nd.exp %a : (!nd.tensor<["a"=4], f32, <>>) -> !nd.tensor<["a"=4], f32, <> partial sum over x>
}

// -----

nd.mesh ["x"=2]
nd.program @terms_of_another_kind {
  %a = nd.input "a" : !nd.tensor<["a"=4, "b"=3], f32, <"a"@x>>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=4, "b"=3], f32, <"a"@x>>) -> !nd.tensor<["b"=3], f32, <> partial sum over x>
  // expected-error @below {{'nd.reshard' op cannot turn sharding<> partial sum over x into sharding<> partial max over x}}
  %m = nd.reshard %s : !nd.tensor<["b"=3], f32, <> partial sum over x> -> !nd.tensor<["b"=3], f32, <> partial max over x>
}

// -----

nd.mesh ["x"=2]
nd.program @no_way_to_partition {
  %x = nd.input "x" : !nd.tensor<["a"=4], f32, <>>
  // expected-error @below {{'nd.arg_reduce' cannot be partitioned: it has no PartitionOpInterface}}
  %i = nd.arg_reduce max %x over "a" : (!nd.tensor<["a"=4], f32, <>>) -> !nd.tensor<[], i32, <>>
}

// -----

nd.mesh ["m"=3]
nd.program @another_window {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32, <"y"@m>>
  %w = nd.reshard %x : !nd.tensor<["y"=7], f32, <"y"@m>> -> !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1]>>
  // expected-error @below {{'nd.view' op takes position dy + row - 1 of dimension "y", which is not the window sharding<"y" by "row"=7@m + [0, 1]>}}
  %0 = nd.view %w ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1]>>) -> !nd.tensor<["row"=7, "dy"=3], f32, <"row"@m>>
}

// -----

nd.mesh ["m"=3]
nd.program @window_of_a_loop_that_is_whole {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32, <"y"@m>>
  %w = nd.reshard %x : !nd.tensor<["y"=7], f32, <"y"@m>> -> !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>>
  // expected-error @below {{'nd.view' op splits dimension "row" in two ways: operands and result must agree}}
  %0 = nd.view %w ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>>) -> !nd.tensor<["row"=7, "dy"=3], f32, <>>
}

// -----

nd.mesh ["m"=3]
nd.program @window_of_what_is_a_loop {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32, <"y"@m>>
  %w = nd.reshard %x : !nd.tensor<["y"=7], f32, <"y"@m>> -> !nd.tensor<["y"=7], f32, <"y" by "y"=7@m + [-1, 1]>>
  // expected-error @below {{'nd.neg' op takes position y of dimension "y", which is not the window}}
  %0 = nd.neg %w : (!nd.tensor<["y"=7], f32, <"y" by "y"=7@m + [-1, 1]>>) -> !nd.tensor<["y"=7], f32, <"y"@m>>
}

// -----

nd.mesh ["m"=3]
nd.program @nobody_owns_a_window {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32, <"y"@m>>
  %w = nd.reshard %x : !nd.tensor<["y"=7], f32, <"y"@m>> -> !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>>
  // expected-error @below {{has a window, which no device owns a part of}}
  %0 = nd.reshard %w : !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>> -> !nd.tensor<["y"=7], f32, <>>
}

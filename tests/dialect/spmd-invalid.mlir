// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The numbered constraints.

nd.mesh ["x"=2]
spmd.program @c1_input_without_sharding {
  // expected-error @below {{'spmd.input' op (C1) needs a sharded tensor type, found '!nd.tensor<["a"=6], f32>'}}
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32> : tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_input_of_global_shape {
  // expected-error @below {{'spmd.input' op (C1) one device holds 'tensor<3xf32>' of '!nd.tensor<["a"=6], f32, <"a"@x>>', found 'tensor<6xf32>'}}
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_input_of_other_elements {
  // expected-error @below {{'spmd.input' op (C1) one device holds 'tensor<3xf32>' of '!nd.tensor<["a"=6], f32, <"a"@x>>', found 'tensor<3xf64>'}}
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf64>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_input_over_an_axis_that_is_none {
  // expected-error @below {{'spmd.input' op (C1) has a sharding over "z", which is no axis of the mesh}}
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@z>> : tensor<3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_input_over_a_part_that_does_not_fit {
  // expected-error @below {{'spmd.input' op (C1) has a sharding that does not fit the mesh}}
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x:(1)3>> : tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_output_of_global_shape {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.output' op (C1) one device holds 'tensor<6xf32>' of '!nd.tensor<["a"=6], f32, <>>', found 'tensor<3xf32>'}}
  spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0 : tensor<3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_read_of_nothing {
  // expected-error @below {{'spmd.read' op (C1) there is no variable @w}}
  %0 = spmd.read @w : tensor<3xf32>
}

// -----

nd.mesh ["x"=2]
nd.variable parameter @w : !nd.tensor<["a"=5], f32, <"a"@x>> = #nd.fill<1.0>
spmd.program @c1_read_of_other_shape {
  // expected-error @below {{'spmd.read' op (C1) one device holds 'tensor<3xf32>' of '!nd.tensor<["a"=5], f32, <"a"@x>>', found 'tensor<2xf32>'}}
  %0 = spmd.read @w : tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
nd.variable parameter @w : !nd.tensor<["a"=5], f32> = #nd.fill<1.0>
spmd.program @c1_write_without_sharding {
  %0 = spmd.input "x" of !nd.tensor<["a"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{'spmd.write' op (C1) needs a sharded tensor type, found '!nd.tensor<["a"=5], f32>'}}
  spmd.write @w, %0 : tensor<5xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_index_on_no_axis {
  // expected-error @below {{'spmd.axis_index' op (C1) the mesh has no axis "z"}}
  %0 = spmd.axis_index z
}

// -----

nd.mesh ["x"=6]
spmd.program @c1_index_on_no_part {
  // expected-error @below {{'spmd.axis_index' op (C1) axis "x" of size 6 has no part (2)4}}
  %0 = spmd.axis_index x:(2)4
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_two_tensors {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.all_gather' op (C1) source and target must be one tensor under two shardings}}
  %1 = spmd.all_gather %0 from !nd.tensor<["a"=6], f32, <"a"@x>> to !nd.tensor<["b"=6], f32, <>> : tensor<3xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_without_sharding {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.all_gather' op (C1) source and target must be one tensor under two shardings}}
  %1 = spmd.all_gather %0 from !nd.tensor<["a"=6], f32, <"a"@x>> to !nd.tensor<["a"=6], f32> : tensor<3xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_over_an_axis_that_is_none {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.slice' op (C1) has a sharding over "z", which is no axis of the mesh}}
  %1 = spmd.slice %0 from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["a"=6], f32, <"a"@z>> : tensor<6xf32> -> tensor<3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c2_local_shapes {
  %0 = spmd.input "x" of !nd.tensor<["a"=5], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.all_gather' op (C2) expected local shapes 'tensor<3xf32>' and 'tensor<5xf32>'}}
  %1 = spmd.all_gather %0 from !nd.tensor<["a"=5], f32, <"a"@x>> to !nd.tensor<["a"=5], f32, <>> : tensor<3xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_reduces_nothing {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.all_reduce' op (C3) cannot take sharding<"a"@x> to sharding<>}}
  %1 = spmd.all_reduce %0 from !nd.tensor<["a"=6], f32, <"a"@x>> to !nd.tensor<["a"=6], f32, <>> : tensor<3xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_scatters_to_the_wrong_place {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over x> : tensor<6xf32>
  // expected-error @below {{'spmd.reduce_scatter' op (C3) cannot take sharding<> partial sum over x to sharding<>}}
  %1 = spmd.reduce_scatter %0 from !nd.tensor<["a"=6], f32, <> partial sum over x> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2, "y"=3]
spmd.program @c3_drops_the_major_axis {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x@y>> : tensor<1xf32>
  // expected-error @below {{'spmd.all_gather' op (C3) cannot take sharding<"a"@x@y> to sharding<"a"@y>}}
  %1 = spmd.all_gather %0 from !nd.tensor<["a"=6], f32, <"a"@x@y>> to !nd.tensor<["a"=6], f32, <"a"@y>> : tensor<1xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_moves_nothing_between_dimensions {
  %0 = spmd.input "x" of !nd.tensor<["a"=6, "b"=4], f32, <"a"@x>> : tensor<3x4xf32>
  // expected-error @below {{'spmd.all_to_all' op (C3) cannot take sharding<"a"@x> to sharding<>}}
  %1 = spmd.all_to_all %0 from !nd.tensor<["a"=6, "b"=4], f32, <"a"@x>> to !nd.tensor<["a"=6, "b"=4], f32, <>> : tensor<3x4xf32> -> tensor<6x4xf32>
}

// -----

nd.mesh ["x"=2, "y"=3]
spmd.program @c3_permutes_to_another_shape {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.permute' op (C3) cannot take sharding<"a"@x> to sharding<"a"@y>}}
  %1 = spmd.permute %0 from !nd.tensor<["a"=6], f32, <"a"@x>> to !nd.tensor<["a"=6], f32, <"a"@y>> : tensor<3xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2, "y"=3]
spmd.program @c3_slices_what_another_device_has {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@x>> : tensor<3xf32>
  // expected-error @below {{'spmd.slice' op (C3) cannot take sharding<"a"@x> to sharding<"a"@y>}}
  %1 = spmd.slice %0 from !nd.tensor<["a"=6], f32, <"a"@x>> to !nd.tensor<["a"=6], f32, <"a"@y>> : tensor<3xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_exchanges_sums_for_maxima {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over x> : tensor<6xf32>
  // expected-error @below {{'spmd.exchange' op (C3) cannot take sharding<> partial sum over x to sharding<> partial max over x}}
  %1 = spmd.exchange %0 from !nd.tensor<["a"=6], f32, <> partial sum over x> to !nd.tensor<["a"=6], f32, <> partial max over x> : tensor<6xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=2, "y"=2]
spmd.program @c3_gathers_sums_as_maxima {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <"a"@y> partial sum over x> : tensor<3xf32>
  // expected-error @below {{'spmd.all_gather' op (C3) cannot take sharding<"a"@y> partial sum over x to sharding<> partial max over x}}
  %1 = spmd.all_gather %0 from !nd.tensor<["a"=6], f32, <"a"@y> partial sum over x> to !nd.tensor<["a"=6], f32, <> partial max over x> : tensor<3xf32> -> tensor<6xf32>
}

// -----

nd.mesh ["x"=6]
spmd.program @c1_input_over_a_part_that_does_not_divide {
  // expected-error @below {{'spmd.input' op (C1) has a sharding that does not fit the mesh}}
  %0 = spmd.input "x" of !nd.tensor<["a"=4], f32, <"a"@x:(0)4>> : tensor<1xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_no_dimension {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C1) the input has no dimension "b"}}
  %1 = spmd.view %0 ["b" = "r"] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["a"=6, "r"=2], f32, <>> : tensor<6xf32> -> tensor<6x2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c2_no_dimension_left {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C2) the result lacks dimension "a"}}
  %1 = spmd.view %0 [] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["r"=2], f32, <>> : tensor<6xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_a_dimension_of_nothing {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C3) no position follows from dimension "r"}}
  %1 = spmd.view %0 ["a" = 1] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["r"=2], f32, <>> : tensor<6xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c4_another_element_type {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C4) the element type stays}}
  %1 = spmd.view %0 ["a" = "r"] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["r"=2], i32, <>> : tensor<6xf32> -> tensor<2xi32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c5_no_sharding {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C5) needs sharded tensor types, found}}
  %1 = spmd.view %0 ["a" = "r"] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["r"=2], f32> : tensor<6xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c5_another_shape {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.view' op (C5) expected local shapes}}
  %1 = spmd.view %0 ["a" = "r"] from !nd.tensor<["a"=6], f32, <>> to !nd.tensor<["r"=2], f32, <"r"@x>> : tensor<6xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["m"=3]
spmd.program @c6_another_window {
  %0 = spmd.input "x" of !nd.tensor<["y"=7], f32, <"y"@m>> : tensor<3xf32>
  %1 = spmd.exchange %0 from !nd.tensor<["y"=7], f32, <"y"@m>> to !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1]>> : tensor<3xf32> -> tensor<4xf32>
  // expected-error @below {{'spmd.view' op (C6) dimension "y" is read at dy + row - 1, which is not its window of "row"}}
  %2 = spmd.view %1 ["y" = "row" + "dy" - 1] from !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [0, 1]>> to !nd.tensor<["row"=7, "dy"=3], f32, <"row"@m>> : tensor<4xf32> -> tensor<3x3xf32>
}

// -----

nd.mesh ["a"=3, "c"=2]
spmd.program @c7_other_digits {
  %0 = spmd.input "x" of !nd.tensor<["h"=3, "d"=4], f32, <"h"@a, "d"@c>> : tensor<1x2xf32>
  // expected-error @below {{'spmd.view' op (C7) dimension "h" is read at floor(n / 4), of which a device has no such block}}
  %1 = spmd.view %0 ["h" = floor("n" / 4), "d" = "n" mod 4] from !nd.tensor<["h"=3, "d"=4], f32, <"h"@a, "d"@c>> to !nd.tensor<["n"=12], f32, <"n"@c@a>> : tensor<1x2xf32> -> tensor<2xf32>
}

// -----

nd.mesh ["m"=3]
spmd.program @c1_nobody_owns_a_window {
  %0 = spmd.input "x" of !nd.tensor<["y"=7], f32, <"y"@m>> : tensor<3xf32>
  %1 = spmd.exchange %0 from !nd.tensor<["y"=7], f32, <"y"@m>> to !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>> : tensor<3xf32> -> tensor<5xf32>
  // expected-error @below {{'spmd.all_gather' op (C1) no device owns a part of a window}}
  %2 = spmd.all_gather %1 from !nd.tensor<["y"=7], f32, <"y" by "row"=7@m + [-1, 1]>> to !nd.tensor<["y"=7], f32, <>> : tensor<5xf32> -> tensor<7xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_stack_of_two_types {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %1 = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{'spmd.stack' op (C1) has operands of the types 'tensor<6xf32>' and 'tensor<5xf32>'}}
  %2 = spmd.stack %0, %1 : tensor<6xf32>, tensor<5xf32> -> tensor<2x6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c2_stack_of_another_shape {
  %0 = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.stack' op (C2) makes 'tensor<3x6xf32>' of 2 operands 'tensor<6xf32>'}}
  %2 = spmd.stack %0, %0 : tensor<6xf32>, tensor<6xf32> -> tensor<3x6xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_put_of_two_maps {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C1) needs three indexing maps}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>, affine_map<(v, b, a) -> (a)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_put_of_a_sum {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C1) has the indexing map affine_map<(d0, d1, d2) -> (d0 + d2, d1)> of 'tensor<6x3xf32>'}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a + v, b)>, affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c1_put_of_two_sizes {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C1) has a loop of the sizes 3 and 2}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>, affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x2xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c2_put_sums_without_index {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C2) does not say what loop 1 is}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>, affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c2_put_without_positions {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C2) has 0 loops of the result alone, expected 1}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(b, a) -> (a, b)>, affine_map<(b, a) -> (a)>, affine_map<(b, a) -> (b)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<3xf32>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_put_narrows {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'spmd.put' op (C3) adds 'f32' up to 'bf16'}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>, affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x3xbf16>
}

// -----

nd.mesh ["x"=2]
spmd.program @c3_put_by_floats {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'spmd.put' op (C3) has an index of 'f32'}}
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>, affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]} : tensor<6x3xf32>, tensor<6xf32> -> tensor<7x3xf32>
}

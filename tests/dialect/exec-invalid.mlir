// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The numbered constraints.

nd.mesh ["d"=2]
// expected-error @below {{'exec.program' op (C1) holds 'arith.constant', which is no step and not on the border of a program}}
exec.program @c1_other_operations {
  %0 = arith.constant 1.0 : f32
}

// -----

nd.mesh ["d"=2]
exec.program @c1_kernel_arguments {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.kernel' op (C1) the block arguments have other types than the operands}}
  %y = exec.kernel(%x) {
  ^bb0(%a: tensor<3xf32>):
    %c = arith.constant dense<1.0> : tensor<2xf32>
    exec.yield %c : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_kernel_results {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.kernel' op (C1) what is yielded has other types than the results}}
  %y = exec.kernel(%x) {
  ^bb0(%a: tensor<2xf32>):
    %c = arith.constant dense<1.0> : tensor<3xf32>
    exec.yield %c : tensor<3xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_kernel_of_an_input {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.kernel' op (C2) holds 'spmd.input', which no kernel computes}}
  %y = exec.kernel(%x) {
  ^bb0(%a: tensor<2xf32>):
    %c = spmd.input "y" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
    exec.yield %c : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_kernel_that_passes_on {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.kernel' op (C3) yields what it does not compute}}
  %y = exec.kernel(%x) {
  ^bb0(%a: tensor<2xf32>):
    exec.yield %a : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_group_of_one {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.group' op (C2) has fewer than two kernels}}
  %y = exec.group(%x) {
  ^bb0(%a: tensor<2xf32>):
    %one = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    exec.yield %one : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_group_of_a_chain {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.group' op (C2) has a kernel that reads what another one computes}}
  %y:2 = exec.group(%x) {
  ^bb0(%a: tensor<2xf32>):
    %one = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    %two = exec.kernel(%one) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    exec.yield %one, %two : tensor<2xf32>, tensor<2xf32>
  } : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
}

// -----

nd.mesh ["d"=2]
exec.program @c2_group_of_something_else {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.group' op (C2) holds 'arith.constant', no kernel}}
  %y = exec.group(%x) {
  ^bb0(%a: tensor<2xf32>):
    %c = arith.constant dense<1.0> : tensor<2xf32>
    exec.yield %c : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_group_in_another_order {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  // expected-error @below {{'exec.group' op (C3) does not yield its kernels' results in order}}
  %y:2 = exec.group(%x) {
  ^bb0(%a: tensor<2xf32>):
    %one = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    %two = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    exec.yield %two, %one : tensor<2xf32>, tensor<2xf32>
  } : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
}

// -----

nd.mesh ["d"=2]
exec.program @c2_transfer_of_a_constant {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  %y = spmd.input "y" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  // expected-error @below {{'exec.transfer' op (C2) holds 'arith.constant', no collective}}
  %z = exec.transfer(%x) {
  ^bb0(%a: tensor<2xf32>):
    %c = arith.constant dense<1.0> : tensor<2xf32>
    exec.yield %c : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_transfer_in_another_order {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  %y = spmd.input "y" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  // expected-error @below {{'exec.transfer' op (C2) has a collective that does not take the next operand}}
  %z:2 = exec.transfer(%x, %y) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %p = spmd.all_reduce %b from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
    %q = spmd.all_reduce %a from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
    exec.yield %p, %q : tensor<2xf32>, tensor<2xf32>
  } : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
}

// -----

nd.mesh ["d"=2]
exec.program @c2_transfer_yields_in_another_order {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  %y = spmd.input "y" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  // expected-error @below {{'exec.transfer' op (C2) does not yield its collectives' results in order}}
  %z:2 = exec.transfer(%x, %y) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %p = spmd.all_reduce %a from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
    %q = spmd.all_reduce %b from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
    exec.yield %q, %p : tensor<2xf32>, tensor<2xf32>
  } : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
}

// -----

nd.mesh ["d"=2]
exec.program @c3_transfer_of_two_kinds {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  %y = spmd.input "y" of !nd.tensor<["a"=2], f32, <> partial sum over d> : tensor<2xf32>
  // expected-error @below {{'exec.transfer' op (C3) has collectives of different kinds}}
  %z:2 = exec.transfer(%x, %y) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %p = spmd.all_reduce %a from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
    %q = spmd.reduce_scatter %b from !nd.tensor<["a"=2], f32, <> partial sum over d> to !nd.tensor<["a"=2], f32, <"a"@d>> : tensor<2xf32> -> tensor<1xf32>
    exec.yield %p, %q : tensor<2xf32>, tensor<1xf32>
  } : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<1xf32>)
}

// -----

nd.mesh ["d"=2]
exec.program @c1_two_maps {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C1) needs three indexing maps}}
  %0 = exec.matmul %a, %b {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_map_of_another_rank {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C1) affine_map<(d0, d1, d2) -> (d0)> does not index 'tensor<2x8xf32>'}}
  %0 = exec.matmul %a, %b {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_loop_of_two_sizes {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C1) a loop has the sizes 3 and 8}}
  %0 = exec.matmul %a, %b {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (c, b)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_addend_of_another_type {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C2) the addend is 'tensor<8xf32>', the result 'tensor<2x8xf32>'}}
  %0 = exec.matmul %a, %b addend %d {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> addend tensor<8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_addend_and_activation {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C2) has both an addend and an activation}}
  %0 = exec.matmul %a, %b addend %c activation relu {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> addend tensor<2x8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_aux_without_activation {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C3) has no activation that leaves something behind}}
  %0, %1 = exec.matmul %a, %b {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32> aux tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_aux_and_slope {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C3) leaves something behind and reads it}}
  %0, %1 = exec.matmul %a, %b activation gelu_tanh slope %c {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> slope tensor<2x8xf32> -> tensor<2x8xf32> aux tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c4_bias_of_several_calls {
  %a = spmd.input "a" of !nd.tensor<["p"=3, "m"=2, "q"=5], f32, <>> : tensor<3x2x5xf32>
  %b = spmd.input "b" of !nd.tensor<["p"=3, "n"=7, "q"=5], f32, <>> : tensor<3x7x5xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=7], f32, <>> : tensor<7xf32>
  // expected-error @below {{'exec.matmul' op (C4) a matmul over several strided contracted dimensions takes no bias or activation}}
  %0 = exec.matmul %a, %b bias %d {indexing_maps = [affine_map<(m, n, p, q) -> (p, m, q)>, affine_map<(m, n, p, q) -> (p, n, q)>, affine_map<(m, n, p, q) -> (m, n)>]} : tensor<3x2x5xf32>, tensor<3x7x5xf32> bias tensor<7xf32> -> tensor<2x7xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c5_sums_that_are_not_given {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C5) has column sums of nothing, or does not give those that it has}}
  %0 = exec.matmul %a, %b sums result {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c5_sums_of_nothing {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  // expected-error @below {{'exec.matmul' op (C5) has column sums of nothing, or does not give those that it has}}
  %0, %1 = exec.matmul %a, %b {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32> sums tensor<8xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_two_maps {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C1) needs three indexing maps}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_maps_of_other_loops {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C1) has indexing maps of different loops}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w) -> (r, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_a_window_backwards {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C3) no library call is this convolution}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r - w + 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_no_size_of_a_loop {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C3) no library call is this convolution}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, c)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_a_window_of_one_tensor_alone {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C3) no library call is this convolution}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (w + c, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_nothing_is_seen {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C3) no library call is this convolution}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w + 7, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_other_floats {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f16, <>> : tensor<7x3xf16>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], bf16, <>> : tensor<3x3x5xbf16>
  // expected-error @below {{'exec.conv' op (C2) computes f32 or bf16, found 'tensor<7x3xf16>'}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<7x3xf16>, tensor<3x3x5xbf16> -> tensor<4x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_different_floats {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  // expected-error @below {{'exec.conv' op (C2) has element types 'f32', 'f32' and 'bf16'}}
  %0 = exec.conv destination %x, %w {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xbf16>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_not_all_of_the_source {
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %y = spmd.input "y" of !nd.tensor<["row"=4, "k"=5], f32, <>> : tensor<4x5xf32>
  // expected-error @below {{'exec.conv' op (C3) no library call is this convolution}}
  %0 = exec.conv source %w, %y {indexing_maps = [affine_map<(r, k, w, c) -> (2 * r + w - 1, c)>, affine_map<(r, k, w, c) -> (w, c, k)>, affine_map<(r, k, w, c) -> (r, k)>]} : tensor<3x3x5xf32>, tensor<4x5xf32> -> tensor<11x3xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_loop_slices {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=7], f32, <>> : tensor<3x7xf32>
  // expected-error @below {{'exec.loop' op (C1) slices 'tensor<3x7xf32>', which has not 5 slices}}
  %y = exec.loop "t" x 5 slices(%x) {
  ^bb0(%s: tensor<7xf32>):
    exec.yield %s : tensor<7xf32>
  } : (tensor<3x7xf32>) -> tensor<5x7xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_loop_slices {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=7], f32, <>> : tensor<3x7xf32>
  // expected-error @below {{'exec.loop' op (C2) slices 'tensor<3x7xf32>' as 'tensor<3xf32>'}}
  %y = exec.loop "t" x 3 slices(%x) {
  ^bb0(%s: tensor<3xf32>):
    exec.yield %s : tensor<3xf32>
  } : (tensor<3x7xf32>) -> tensor<3x3xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_loop_captures {
  %x = spmd.input "x" of !nd.tensor<["b"=7], f32, <>> : tensor<7xf32>
  // expected-error @below {{'exec.loop' op (C2) has a body with 2 arguments for 1 operands}}
  %y = exec.loop "t" x 3 captures(%x) {
  ^bb0(%c: tensor<7xf32>, %d: tensor<7xf32>):
    exec.yield %d : tensor<7xf32>
  } : (tensor<7xf32>) -> tensor<3x7xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_loop_results {
  %x = spmd.input "x" of !nd.tensor<["b"=7], f32, <>> : tensor<7xf32>
  // expected-error @below {{'exec.loop' op (C3) yields 1 values for 0 results, 1 of them carried}}
  exec.loop "t" x 3 carries(%x) {
  ^bb0(%h: tensor<7xf32>):
    exec.yield %h : tensor<7xf32>
  } : (tensor<7xf32>) -> ()
}

// -----

nd.mesh ["d"=2]
exec.program @c3_loop_carries {
  %x = spmd.input "x" of !nd.tensor<["b"=7], f32, <>> : tensor<7xf32>
  %z = spmd.input "z" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{'exec.loop' op (C3) carries 'tensor<7xf32>', yields 'tensor<5xf32>' and results in 'tensor<7xf32>'}}
  %y = exec.loop "t" x 3 carries(%x) captures(%z) {
  ^bb0(%h: tensor<7xf32>, %c: tensor<5xf32>):
    exec.yield %c : tensor<5xf32>
  } : (tensor<7xf32>, tensor<5xf32>) -> tensor<7xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_loop_stacks {
  %z = spmd.input "z" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{'exec.loop' op (C3) stacks 'tensor<5xf32>' as 'tensor<2x5xf32>'}}
  %y = exec.loop "t" x 3 captures(%z) {
  ^bb0(%c: tensor<5xf32>):
    exec.yield %c : tensor<5xf32>
  } : (tensor<5xf32>) -> tensor<2x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c4_loop_body {
  // expected-error @below {{'exec.loop' op (C4) holds 'tensor.empty', which is no step}}
  %y = exec.loop "t" x 3 {
    %c = tensor.empty() : tensor<5xf32>
    exec.yield %c : tensor<5xf32>
  } : () -> tensor<3x5xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_slice_of_another_type {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'exec.slice' op (C1) takes 'tensor<2xf64>' out of 'tensor<6xf32>'}}
  %y = exec.slice %x at 2 : tensor<6xf32> -> tensor<2xf64>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_slice_beyond_the_end {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'exec.slice' op (C2) takes 'tensor<3xf32>' from element 4 of 'tensor<6xf32>'}}
  %y = exec.slice %x at 4 : tensor<6xf32> -> tensor<3xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_strided_slice_beyond_the_end {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=4], f32, <>> : tensor<3x4xf32>
  // expected-error @below {{'exec.slice' op (C2) takes 'tensor<3x2xf32>' from element 3 of 'tensor<3x4xf32>'}}
  %y = exec.slice %x at 3 strides [4, 1] : tensor<3x4xf32> -> tensor<3x2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_strides_without_end {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=4], f32, <>> : tensor<3x4xf32>
  // expected-error @below {{'exec.slice' op (C2) takes 'tensor<3x2xf32>' from element 0 of 'tensor<3x4xf32>'}}
  %y = exec.slice %x at 0 strides [9223372036854775807, 1] : tensor<3x4xf32> -> tensor<3x2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_strides_of_another_rank {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=4], f32, <>> : tensor<3x4xf32>
  // expected-error @below {{'exec.slice' op (C3) has 1 strides of 'tensor<3x2xf32>'}}
  %y = exec.slice %x at 0 strides [4] : tensor<3x4xf32> -> tensor<3x2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c3_stride_below_zero {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=4], f32, <>> : tensor<3x4xf32>
  // expected-error @below {{'exec.slice' op (C3) has the stride -4}}
  %y = exec.slice %x at 8 strides [-4, 1] : tensor<3x4xf32> -> tensor<3x2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c4_strided_slice_leaves {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=4], f32, <>> : tensor<3x4xf32>
  // expected-error @below {{'exec.slice' op (C4) has strides and is read by 'spmd.output'}}
  %y = exec.slice %x at 0 strides [4, 1] : tensor<3x4xf32> -> tensor<3x2xf32>
  spmd.output "y" of !nd.tensor<["a"=3, "c"=2], f32, <>>, %y : tensor<3x2xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c4_strided_slice_is_added {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=6], f32, <>> : tensor<3x6xf32>
  // expected-error @below {{'exec.slice' op (C4) has strides and is read by 'exec.matmul'}}
  %y = exec.slice %x at 0 strides [6, 1] : tensor<3x6xf32> -> tensor<3x3xf32>
  %z = exec.matmul %y, %y addend %y {indexing_maps = [affine_map<(a, c, b) -> (a, b)>, affine_map<(a, c, b) -> (b, c)>, affine_map<(a, c, b) -> (a, c)>]} : tensor<3x3xf32>, tensor<3x3xf32> addend tensor<3x3xf32> -> tensor<3x3xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c1_stack_of_two_types {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{'exec.stack' op (C1) has operands of the types 'tensor<6xf32>' and 'tensor<5xf32>'}}
  %z = exec.stack %x, %y : tensor<6xf32>, tensor<5xf32> -> tensor<2x6xf32>
}

// -----

nd.mesh ["d"=2]
exec.program @c2_stack_of_another_shape {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  // expected-error @below {{'exec.stack' op (C2) makes 'tensor<3x6xf32>' of 2 operands 'tensor<6xf32>'}}
  %z = exec.stack %x, %x : tensor<6xf32>, tensor<6xf32> -> tensor<3x6xf32>
}

// -----

nd.mesh ["x"=2]
exec.program @c2_put_without_positions {
  %x = spmd.input "x" of !nd.tensor<["d0"=6, "d1"=3], f32, <>> : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["d0"=6], i32, <>> : tensor<6xi32>
  // expected-error @below {{'exec.put' op (C2) has 0 loops of the result alone, expected 1}}
  %0 = exec.put %x[%i] {indexing_maps = [affine_map<(b, a) -> (a, b)>, affine_map<(b, a) -> (a)>, affine_map<(b, a) -> (b)>]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<3xf32>
}

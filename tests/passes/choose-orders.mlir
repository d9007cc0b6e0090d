// RUN: meshc-opt %s -nd-choose-orders -split-input-file | FileCheck %s

// Rows (b, p) and columns (h, e) each lie together in the result, and (h, e) lie
// together for the contraction that reads it.
// CHECK-LABEL: nd.program @projection
nd.program @projection {
  %x = nd.input "x" : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
  %w = nd.input "w" : !nd.tensor<["d"=5, "h"=7, "e"=11], f32>
  %o = nd.input "o" : !nd.tensor<["h"=7, "e"=11, "d"=5], f32>
  // CHECK: %[[Q:.*]] = nd.einsum {{.*}} -> !b_by_p_by_h_by_e
  %q = nd.einsum %x, %w : (!nd.tensor<["b"=2, "p"=3, "d"=5], f32>, !nd.tensor<["d"=5, "h"=7, "e"=11], f32>) -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
  // CHECK: nd.exp %[[Q]] : (!b_by_p_by_h_by_e) -> !b_by_p_by_h_by_e
  %r = nd.exp %q : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>) -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
  %y = nd.einsum %r, %o : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>, !nd.tensor<["h"=7, "e"=11, "d"=5], f32>) -> !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
  nd.output "y", %y : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
}

// -----

// Attention: scores keep batch dimensions outside, what is read from the values
// is stored as the output projection contracts it.
// CHECK-LABEL: nd.program @attention
nd.program @attention {
  %q = nd.input "q" : !nd.tensor<["b"=2, "p"=3, "h"=7, "e"=11], f32>
  %k = nd.input "k" : !nd.tensor<["b"=2, "s"=5, "h"=7, "e"=11], f32>
  %o = nd.input "o" : !nd.tensor<["h"=7, "e"=11, "d"=13], f32>
  // CHECK: %[[SCORES:.*]] = nd.einsum {{.*}} -> !b_by_h_by_p_by_s
  %scores = nd.einsum %q, %k : (!nd.tensor<["b"=2, "p"=3, "h"=7, "e"=11], f32>, !nd.tensor<["b"=2, "s"=5, "h"=7, "e"=11], f32>) -> !nd.tensor<["b"=2, "h"=7, "p"=3, "s"=5], f32>
  // CHECK: nd.einsum %[[SCORES]], {{.*}} -> !b_by_p_by_h_by_e
  %read = nd.einsum %scores, %k : (!nd.tensor<["b"=2, "h"=7, "p"=3, "s"=5], f32>, !nd.tensor<["b"=2, "s"=5, "h"=7, "e"=11], f32>) -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
  %y = nd.einsum %read, %o : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>, !nd.tensor<["h"=7, "e"=11, "d"=13], f32>) -> !nd.tensor<["b"=2, "p"=3, "d"=13], f32>
  nd.output "y", %y : !nd.tensor<["b"=2, "p"=3, "d"=13], f32>
}

// -----

// An output keeps the order it was written in, through a copy where a contraction
// reads it: for it too b may not be innermost.
// CHECK-LABEL: nd.program @output_keeps_its_order
nd.program @output_keeps_its_order {
  %a = nd.input "a" : !nd.tensor<["b"=2, "m"=3, "k"=5], f32>
  %c = nd.input "c" : !nd.tensor<["b"=2, "k"=5, "n"=7], f32>
  %d = nd.input "d" : !nd.tensor<["b"=2, "n"=7, "j"=11], f32>
  // CHECK: %[[PRODUCT:.*]] = nd.einsum {{.*}} -> !b_by_m_by_n
  // CHECK: nd.einsum %[[PRODUCT]]
  // CHECK: %[[WRITTEN:.*]] = nd.reduce sum %[[PRODUCT]] : {{.*}} -> !m_by_n_by_b
  // CHECK: nd.output "y", %[[WRITTEN]] : !m_by_n_by_b
  %y = nd.einsum %a, %c : (!nd.tensor<["b"=2, "m"=3, "k"=5], f32>, !nd.tensor<["b"=2, "k"=5, "n"=7], f32>) -> !nd.tensor<["m"=3, "n"=7, "b"=2], f32>
  %z = nd.einsum %y, %d : (!nd.tensor<["m"=3, "n"=7, "b"=2], f32>, !nd.tensor<["b"=2, "n"=7, "j"=11], f32>) -> !nd.tensor<["b"=2, "m"=3, "j"=11], f32>
  nd.output "y", %y : !nd.tensor<["m"=3, "n"=7, "b"=2], f32>
  nd.output "z", %z : !nd.tensor<["b"=2, "m"=3, "j"=11], f32>
}

// -----

// With nothing else to read it the library's own copy is as good, which is told.
// CHECK-LABEL: nd.program @output_alone
nd.program @output_alone {
  %a = nd.input "a" : !nd.tensor<["b"=2, "m"=3, "k"=5], f32>
  %c = nd.input "c" : !nd.tensor<["b"=2, "k"=5, "n"=7], f32>
  // CHECK: %[[PRODUCT:.*]] = nd.einsum {{.*}} -> !m_by_n_by_b
  // CHECK: nd.output "y", %[[PRODUCT]] : !m_by_n_by_b
  %y = nd.einsum %a, %c : (!nd.tensor<["b"=2, "m"=3, "k"=5], f32>, !nd.tensor<["b"=2, "k"=5, "n"=7], f32>) -> !nd.tensor<["m"=3, "n"=7, "b"=2], f32>
  nd.output "y", %y : !nd.tensor<["m"=3, "n"=7, "b"=2], f32>
}

// -----

// A constraint has the order of the value it constrains, its sharding lists
// dimensions in that order, and the contraction sees the reader behind it.
// CHECK: !b_by_p_at_b_by_h_at_a_by_e = !nd.tensor<["b"=2, "p"=3, "h"=7, "e"=11], f32, <"p"@b, "h"@a>>
// CHECK-LABEL: nd.program @constraint
nd.mesh ["a"=2, "b"=3]
nd.program @constraint {
  %x = nd.input "x" : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
  %w = nd.input "w" : !nd.tensor<["d"=5, "h"=7, "e"=11], f32>
  %o = nd.input "o" : !nd.tensor<["h"=7, "e"=11, "d"=5], f32>
  // CHECK: %[[Q:.*]] = nd.einsum {{.*}} -> !b_by_p_by_h_by_e
  %q = nd.einsum %x, %w : (!nd.tensor<["b"=2, "p"=3, "d"=5], f32>, !nd.tensor<["d"=5, "h"=7, "e"=11], f32>) -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
  // CHECK: %[[R:.*]] = nd.reshard %[[Q]] : {{.*}} -> !b_by_p_at_b_by_h_at_a_by_e
  %r = nd.reshard %q : !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32> -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32, <"h"@a, "p"@b>>
  // CHECK: %[[WRITTEN:.*]] = nd.reduce sum %[[R]] : {{.*}} -> !b_by_h_by_p_by_e
  // CHECK: nd.output "r", %[[WRITTEN]]
  nd.output "r", %r : !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32, <"h"@a, "p"@b>>
  %y = nd.einsum %r, %o : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32, <"h"@a, "p"@b>>, !nd.tensor<["h"=7, "e"=11, "d"=5], f32>) -> !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
  nd.output "y", %y : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
}

// -----

// What a variable becomes has no sharding of its own: the copy that takes it off
// stays.
// CHECK-LABEL: nd.program @written
// CHECK:         %[[R:.*]] = nd.reshard
// CHECK-NEXT:    %[[W:.*]] = nd.broadcast %[[R]] {{.*}} -> !k
// CHECK-NEXT:    nd.write @z, %[[W]]
nd.mesh ["c"=2]
nd.variable model_state @z : !nd.tensor<["k"=4], f32> = #nd.fill<1.0>
nd.program @written {
  %z = nd.read @z : !nd.tensor<["k"=4], f32>
  %n = nd.neg %z : (!nd.tensor<["k"=4], f32>) -> !nd.tensor<["k"=4], f32>
  %r = nd.reshard %n : !nd.tensor<["k"=4], f32> -> !nd.tensor<["k"=4], f32, <"k"@c>>
  %w = nd.broadcast %r : (!nd.tensor<["k"=4], f32, <"k"@c>>) -> !nd.tensor<["k"=4], f32>
  nd.write @z, %w : !nd.tensor<["k"=4], f32>
}

// -----

// An ensemble: members are columns like k, and no library is contiguous along both,
// so that the result does not end in members, which the reader would like.
// CHECK-LABEL: nd.program @ensemble
nd.program @ensemble {
  %x = nd.input "x" : !nd.tensor<["batch"=5, "c"=3], f32>
  %w = nd.input "w" : !nd.tensor<["member"=2, "c"=3, "k"=7], f32>
  // CHECK: %[[Y:.*]] = nd.einsum {{.*}} -> !batch_by_member_by_k
  %y = nd.einsum %x, %w : (!nd.tensor<["batch"=5, "c"=3], f32>, !nd.tensor<["member"=2, "c"=3, "k"=7], f32>) -> !nd.tensor<["batch"=5, "k"=7, "member"=2], f32>
  // CHECK: nd.einsum %[[Y]], {{.*}} -> !member_by_k_by_c
  %g = nd.einsum %y, %x : (!nd.tensor<["batch"=5, "k"=7, "member"=2], f32>, !nd.tensor<["batch"=5, "c"=3], f32>) -> !nd.tensor<["member"=2, "k"=7, "c"=3], f32>
  nd.output "g", %g : !nd.tensor<["member"=2, "k"=7, "c"=3], f32>
}

// -----

// Patches of an image: where the windows stand and what they see each lie in one piece,
// in the order of the weights, for the convolution and for the gradient of the weights.
// CHECK-LABEL: nd.program @patches
nd.program @patches {
  %x = nd.input "x" : !nd.tensor<["b"=2, "y"=5, "x"=7, "c"=3], f32>
  %w = nd.input "w" : !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>
  %g = nd.input "g" : !nd.tensor<["b"=2, "y"=5, "x"=7, "k"=11], f32>
  // CHECK: %[[SEEN:.*]] = nd.view {{.*}} -> !b_by_y_by_x_by_dy_by_dx_by_c
  %seen = nd.view %x ["y" = "y" + "dy" - 1, "x" = "x" + "dx"]
      : (!nd.tensor<["b"=2, "y"=5, "x"=7, "c"=3], f32>)
      -> !nd.tensor<["b"=2, "y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>
  // CHECK: nd.tanh %[[SEEN]] : (!b_by_y_by_x_by_dy_by_dx_by_c) -> !b_by_y_by_x_by_dy_by_dx_by_c
  %h = nd.tanh %seen : (!nd.tensor<["b"=2, "y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>) -> !nd.tensor<["b"=2, "y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>
  %y = nd.einsum %h, %w : (!nd.tensor<["b"=2, "y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>, !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>) -> !nd.tensor<["b"=2, "y"=5, "x"=7, "k"=11], f32>
  %d = nd.einsum %h, %g : (!nd.tensor<["b"=2, "y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>, !nd.tensor<["b"=2, "y"=5, "x"=7, "k"=11], f32>) -> !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>
  nd.output "y", %y : !nd.tensor<["b"=2, "y"=5, "x"=7, "k"=11], f32>
  nd.output "d", %d : !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>
}

// -----

// What something else reads too keeps its order.
// CHECK-LABEL: nd.program @patches_and_their_maximum
nd.program @patches_and_their_maximum {
  %x = nd.input "x" : !nd.tensor<["y"=5, "x"=7, "c"=3], f32>
  %w = nd.input "w" : !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>
  // CHECK: nd.view {{.*}} -> !y_by_dy_by_x_by_dx_by_c
  %seen = nd.view %x ["y" = "y" + "dy" - 1, "x" = "x" + "dx"]
      : (!nd.tensor<["y"=5, "x"=7, "c"=3], f32>)
      -> !nd.tensor<["y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>
  %y = nd.einsum %seen, %w : (!nd.tensor<["y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>, !nd.tensor<["dy"=3, "dx"=2, "c"=3, "k"=11], f32>) -> !nd.tensor<["y"=5, "x"=7, "k"=11], f32>
  %m = nd.reduce max %seen : (!nd.tensor<["y"=5, "dy"=3, "x"=7, "dx"=2, "c"=3], f32>) -> !nd.tensor<["y"=5, "x"=7, "c"=3], f32>
  nd.output "y", %y : !nd.tensor<["y"=5, "x"=7, "k"=11], f32>
  nd.output "m", %m : !nd.tensor<["y"=5, "x"=7, "c"=3], f32>
}

// -----

// Random numbers are stored as what they are computed with, but not where a reader
// has their order in its type.
// CHECK-LABEL: nd.program @drawn
nd.program @drawn {
  %seed = nd.input "random seed" : !nd.tensor<[], i64>
  %w = nd.read @w : !nd.tensor<["b"=2, "k"=5, "t"=3], f32>
  // CHECK: %[[FREE:.*]] = nd.random {{.*}} -> !b_by_k_by_t
  %free = nd.random uniform(0.0, 1.0) key 1 seed %seed order ["b", "t", "k"] : (!nd.tensor<[], i64>) -> !nd.tensor<["b"=2, "t"=3, "k"=5], f32>
  %x = nd.add %w, %free : (!nd.tensor<["b"=2, "k"=5, "t"=3], f32>, !nd.tensor<["b"=2, "t"=3, "k"=5], f32>) -> !nd.tensor<["b"=2, "k"=5, "t"=3], f32>
  // CHECK: %[[RENAMED:.*]] = nd.random {{.*}} -> !b_by_t_by_k
  %renamed = nd.random uniform(0.0, 1.0) key 2 seed %seed order ["b", "t", "k"] : (!nd.tensor<[], i64>) -> !nd.tensor<["b"=2, "t"=3, "k"=5], f32>
  // CHECK: nd.rename %[[RENAMED]]
  %r = nd.rename %renamed "b" -> "c" : (!nd.tensor<["b"=2, "t"=3, "k"=5], f32>) -> !nd.tensor<["c"=2, "t"=3, "k"=5], f32>
  %y = nd.add %x, %renamed : (!nd.tensor<["b"=2, "k"=5, "t"=3], f32>, !nd.tensor<["b"=2, "t"=3, "k"=5], f32>) -> !nd.tensor<["b"=2, "k"=5, "t"=3], f32>
  nd.output "r", %r : !nd.tensor<["c"=2, "t"=3, "k"=5], f32>
  nd.output "y", %y : !nd.tensor<["b"=2, "k"=5, "t"=3], f32>
}
nd.variable parameter @w : !nd.tensor<["b"=2, "k"=5, "t"=3], f32> = #nd.fill<0.0>

// RUN: meshc-opt %s -nd-decompose -split-input-file | FileCheck %s

!a = !nd.tensor<["a"=2], f32>
!b = !nd.tensor<["b"=3], f32>
!ab = !nd.tensor<["a"=2, "b"=3], f32>
!bc = !nd.tensor<["b"=3, "c"=5], f32>
!ac = !nd.tensor<["a"=2, "c"=5], f32>
!cd = !nd.tensor<["c"=5, "d"=7], f32>
!ad = !nd.tensor<["a"=2, "d"=7], f32>
!d = !nd.tensor<["d"=7], f32>
!s = !nd.tensor<[], f32>

// CHECK-LABEL: nd.program @position_of_an_extreme
// CHECK-DAG:     %[[NONE:.*]] = nd.constant(3 : i32) : !scalar_i32
// CHECK-DAG:     %[[X:.*]] = nd.input "x"
// CHECK:         %[[MAX:.*]] = nd.reduce max %[[X]] : (!a_by_b) -> !a
// CHECK:         %[[EQ:.*]] = nd.compare eq %[[X]], %[[MAX]]
// CHECK:         %[[NAN:.*]] = nd.compare ne %[[X]], %[[X]]
// CHECK:         %[[HIT:.*]] = nd.or %[[EQ]], %[[NAN]]
// CHECK:         %[[AT:.*]] = nd.iota : !b_i32
// CHECK:         %[[CANDIDATE:.*]] = nd.select %[[HIT]], %[[AT]], %[[NONE]]
// CHECK:         %[[FIRST:.*]] = nd.reduce min %[[CANDIDATE]] : (!a_by_b_i32) -> !a_i32
// CHECK:         nd.output "y", %[[FIRST]]
// Integers are never NaN.
// CHECK:         nd.reduce min
// CHECK-NOT:     nd.or
nd.program @position_of_an_extreme {
  %x = nd.input "x" : !ab
  %y = nd.arg_reduce max %x over "b" : (!ab) -> !nd.tensor<["a"=2], i32>
  nd.output "y", %y : !nd.tensor<["a"=2], i32>
  %i = nd.input "i" : !nd.tensor<["a"=2], i32>
  %z = nd.arg_reduce min %i over "a" : (!nd.tensor<["a"=2], i32>) -> !nd.tensor<[], i32>
  nd.output "z", %z : !nd.tensor<[], i32>
}

// CHECK-LABEL: nd.program @mean
// CHECK-DAG:     %[[SIXTH:.*]] = nd.constant(0.166666672 : f32)
// CHECK-DAG:     %[[X:.*]] = nd.input "x"
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[X]]
// CHECK:         nd.mul %[[SUM]], %[[SIXTH]]
nd.program @mean {
  %x = nd.input "x" : !ab
  %y = nd.reduce mean %x : (!ab) -> !s
  nd.output "y", %y : !s
}

// A vector on the right makes right to left the cheapest order: no product of
// matrices is left.
// CHECK-LABEL: nd.program @chain_with_a_vector
// CHECK-NOT:     -> !a_by_c
// CHECK:         nd.mul %{{.*}}, %{{.*}} : (!c_by_d, !d) -> !c_by_d
// CHECK:         nd.reduce sum %{{.*}} : (!c_by_d) -> !c
// CHECK:         nd.reduce sum %{{.*}} : (!b_by_c) -> !b
// CHECK:         nd.reduce sum %{{.*}} : (!a_by_b) -> !a
nd.program @chain_with_a_vector {
  %x = nd.input "x" : !ab
  %u = nd.input "u" : !bc
  %v = nd.input "v" : !cd
  %w = nd.input "w" : !d
  %y = nd.einsum %x, %u, %v, %w : (!ab, !bc, !cd, !d) -> !a
  nd.output "y", %y : !a
}

// CHECK-LABEL: nd.program @lone_dimension
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[W:.*]] = nd.input "w"
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[X]] : (!a_by_b) -> !a
// CHECK:         nd.mul %[[SUM]], %[[W]] : (!a, !c_by_d) -> !a_by_c_by_d
// CHECK-NOT:     nd.einsum
nd.program @lone_dimension {
  %x = nd.input "x" : !ab
  %w = nd.input "w" : !cd
  %y = nd.einsum %x, %w : (!ab, !cd) -> !nd.tensor<["a"=2, "c"=5, "d"=7], f32>
  nd.output "y", %y : !nd.tensor<["a"=2, "c"=5, "d"=7], f32>
}

// A matrix product stays what it is.
// CHECK-LABEL: nd.program @matrix_product
// CHECK:         nd.einsum %{{.*}}, %{{.*}} : (!a_by_b, !b_by_c) -> !a_by_c
nd.program @matrix_product {
  %x = nd.input "x" : !ab
  %w = nd.input "w" : !bc
  %y = nd.einsum %x, %w : (!ab, !bc) -> !ac
  nd.output "y", %y : !ac
}

// The gradient of a mean: a splat times a sum, nothing of the size of w.
// CHECK-LABEL: nd.program @contraction_with_a_splat
// CHECK-DAG:     %[[TENTH:.*]] = nd.constant(1.000000e-01 : f32) : !scalar
// CHECK-DAG:     %[[X:.*]] = nd.input "x"
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[X]] : (!a_by_b) -> !b
// CHECK:         %[[SCALED:.*]] = nd.mul %[[SUM]], %[[TENTH]] : (!b, !scalar) -> !b
// CHECK:         nd.broadcast %[[SCALED]] : (!b) -> !b_by_c
// CHECK-NOT:     nd.einsum
nd.program @contraction_with_a_splat {
  %x = nd.input "x" : !ab
  %g = nd.constant(0.1 : f32) : !ac
  %y = nd.einsum %x, %g : (!ab, !ac) -> !bc
  nd.output "y", %y : !bc
}

// CHECK-LABEL: nd.program @repeated_operands
// CHECK:         %[[U:.*]] = nd.input "u"
// CHECK:         %[[V:.*]] = nd.input "v"
// CHECK:         %[[E:.*]] = nd.exp %[[U]] : (!a) -> !a
// CHECK:         nd.mul %[[E]], %[[V]] : (!a, !a_by_b) -> !a_by_b
// CHECK-NOT:     nd.broadcast
nd.program @repeated_operands {
  %u = nd.input "u" : !a
  %v = nd.input "v" : !ab
  %r = nd.broadcast %u : (!a) -> !ab
  %e = nd.exp %r : (!ab) -> !ab
  %y = nd.mul %e, %v : (!ab, !ab) -> !ab
  nd.output "y", %y : !ab
}

// What is summed over a repetition is multiplied by its length.
// CHECK-LABEL: nd.program @sum_of_repeated
// CHECK-DAG:     %[[FIVE:.*]] = nd.constant(5.000000e+00 : f32)
// CHECK-DAG:     %[[X:.*]] = nd.input "x"
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[X]] : (!a_by_b) -> !b
// CHECK:         %[[Y:.*]] = nd.mul %[[SUM]], %[[FIVE]]
// CHECK:         nd.output "y", %[[Y]]
// CHECK:         %[[Z:.*]] = nd.reduce max %[[X]] : (!a_by_b) -> !b
// CHECK:         nd.output "z", %[[Z]]
nd.program @sum_of_repeated {
  %x = nd.input "x" : !ab
  %r = nd.broadcast %x : (!ab) -> !nd.tensor<["a"=2, "b"=3, "c"=5], f32>
  %y = nd.reduce sum %r : (!nd.tensor<["a"=2, "b"=3, "c"=5], f32>) -> !b
  nd.output "y", %y : !b
  %z = nd.reduce max %r : (!nd.tensor<["a"=2, "b"=3, "c"=5], f32>) -> !b
  nd.output "z", %z : !b
}

// CHECK-LABEL: nd.program @constants
// CHECK-DAG:     %[[SIX:.*]] = nd.constant(-6.000000e+00 : f32)
// CHECK-DAG:     %[[ROOT:.*]] = nd.constant(3.000000e+00 : f32)
// CHECK-DAG:     %[[X:.*]] = nd.input "x"
// CHECK:         %[[Y:.*]] = nd.mul %[[X]], %[[SIX]]
// CHECK:         nd.output "y", %[[Y]]
// CHECK:         nd.output "root", %[[ROOT]]
// CHECK:         nd.output "x", %[[X]]
nd.program @constants {
  %x = nd.input "x" : !ab
  %two = nd.constant(2.0 : f32) : !s
  %three = nd.constant(3.0 : f32) : !s
  %nine = nd.constant(9.0 : f32) : !s
  %u = nd.mul %two, %x : (!s, !ab) -> !ab
  %v = nd.mul %u, %three : (!ab, !s) -> !ab
  %y = nd.neg %v : (!ab) -> !ab
  nd.output "y", %y : !ab
  %root = nd.sqrt %nine : (!s) -> !s
  nd.output "root", %root : !s
  %c = nd.compare lt %two, %three : (!s, !s) -> !nd.tensor<[], i1>
  %k = nd.stop_gradient %x : (!ab) -> !ab
  %z = nd.select %c, %k, %v : (!nd.tensor<[], i1>, !ab, !ab) -> !ab
  nd.output "x", %z : !ab
}

// CHECK-LABEL: nd.program @powers
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[SQUARE:.*]] = nd.mul %[[X]], %[[X]]
// CHECK:         %[[CUBE:.*]] = nd.mul %[[SQUARE]], %[[X]]
// CHECK:         nd.div %{{.*}}, %[[CUBE]]
// CHECK-NOT:     nd.pow
nd.program @powers {
  %x = nd.input "x" : !ab
  %n = nd.constant(-3.0 : f32) : !s
  %y = nd.pow %x, %n : (!ab, !s) -> !ab
  nd.output "y", %y : !ab
}

// A value that returns to its order of storage is kept.
// CHECK-LABEL: nd.program @permuted
// CHECK:         nd.reduce sum %{{.*}} : (!a_by_b) -> !b_by_a
nd.program @permuted {
  %x = nd.input "x" : !ab
  %y = nd.reduce sum %x : (!ab) -> !nd.tensor<["b"=3, "a"=2], f32>
  nd.output "y", %y : !nd.tensor<["b"=3, "a"=2], f32>
}

// Constants are multiplied first only where the element type holds the product:
// 1e30 1e30 overflows in f32, 1e-30 1e-30 underflows.
// CHECK-LABEL: nd.program @products_of_constants
// CHECK-DAG:     %[[LARGE:.*]] = nd.constant(1.000000e+30 : f32)
// CHECK-DAG:     %[[TINY:.*]] = nd.constant(1.000000e-30 : f32)
// CHECK-DAG:     %[[SIX:.*]] = nd.constant(6.000000e+00 : f32)
// CHECK:         %[[L:.*]] = nd.mul %{{.*}}, %[[LARGE]]
// CHECK-NEXT:    %[[LL:.*]] = nd.mul %[[L]], %[[LARGE]]
// CHECK-NEXT:    nd.output "overflow", %[[LL]]
// CHECK-NEXT:    %[[T:.*]] = nd.mul %{{.*}}, %[[TINY]]
// CHECK-NEXT:    %[[TT:.*]] = nd.mul %[[T]], %[[TINY]]
// CHECK-NEXT:    nd.output "underflow", %[[TT]]
// CHECK-NEXT:    %[[PRODUCT:.*]] = nd.mul %{{.*}}, %[[SIX]]
// CHECK-NEXT:    nd.output "product", %[[PRODUCT]]
nd.program @products_of_constants {
  %x = nd.input "x" : !ab
  %large = nd.constant(1.0e30 : f32) : !s
  %tiny = nd.constant(1.0e-30 : f32) : !s
  %two = nd.constant(2.0 : f32) : !s
  %three = nd.constant(3.0 : f32) : !s
  %0 = nd.mul %x, %large : (!ab, !s) -> !ab
  %1 = nd.mul %0, %large : (!ab, !s) -> !ab
  nd.output "overflow", %1 : !ab
  %2 = nd.mul %x, %tiny : (!ab, !s) -> !ab
  %3 = nd.mul %2, %tiny : (!ab, !s) -> !ab
  nd.output "underflow", %3 : !ab
  %4 = nd.mul %x, %two : (!ab, !s) -> !ab
  %5 = nd.mul %4, %three : (!ab, !s) -> !ab
  nd.output "product", %5 : !ab
}

// -----

!b = !nd.tensor<["b"=3], bf16>
!ab = !nd.tensor<["a"=2, "b"=3], bf16>
!abc = !nd.tensor<["a"=2, "b"=3, "c"=257], bf16>

// 16-bit floats are added up in f32, and repetitions are counted there: 257 is
// no bf16.
// CHECK-LABEL: nd.program @sums_of_16_bits
// CHECK-DAG:     %[[TIMES:.*]] = nd.constant(2.570000e+02 : f32)
// CHECK-DAG:     %[[X:.*]] = nd.input "x" : !a_by_b_bf16
// CHECK:         %[[WIDE:.*]] = nd.cast %[[X]] : (!a_by_b_bf16) -> !a_by_b
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[WIDE]] : (!a_by_b) -> !b
// CHECK:         %[[PRODUCT:.*]] = nd.mul %[[SUM]], %[[TIMES]]
// CHECK:         %[[Y:.*]] = nd.cast %[[PRODUCT]] : (!b) -> !b_bf16
// CHECK:         nd.output "y", %[[Y]]
// CHECK:         %[[Z:.*]] = nd.reduce max %[[X]] : (!a_by_b_bf16) -> !b_bf16
// CHECK:         nd.output "z", %[[Z]]
nd.program @sums_of_16_bits {
  %x = nd.input "x" : !ab
  %r = nd.broadcast %x : (!ab) -> !abc
  %y = nd.reduce sum %r : (!abc) -> !b
  nd.output "y", %y : !b
  %z = nd.reduce max %r : (!abc) -> !b
  nd.output "z", %z : !b
}

// A contraction that is no matrix product rounds once as well, and not at all
// where its result is f32.
// CHECK-LABEL: nd.program @products_of_16_bits
// CHECK-DAG:     %[[X:.*]] = nd.input "x" : !a_by_b_bf16
// CHECK-DAG:     %[[W:.*]] = nd.input "w" : !b_bf16
// CHECK-DAG:     %[[X32:.*]] = nd.cast %[[X]] : (!a_by_b_bf16) -> !a_by_b
// CHECK-DAG:     %[[W32:.*]] = nd.cast %[[W]] : (!b_bf16) -> !b
// CHECK:         %[[PRODUCT:.*]] = nd.mul %[[X32]], %[[W32]] : (!a_by_b, !b) -> !a_by_b
// CHECK:         %[[SUM:.*]] = nd.reduce sum %[[PRODUCT]] : (!a_by_b) -> !a
// CHECK:         %[[Y:.*]] = nd.cast %[[SUM]] : (!a) -> !a_bf16
// CHECK:         nd.output "y", %[[Y]]
// CHECK:         %[[Z:.*]] = nd.reduce sum %{{.*}} : (!a_by_b) -> !a
// CHECK:         nd.output "z", %[[Z]] : !a
nd.program @products_of_16_bits {
  %x = nd.input "x" : !ab
  %w = nd.input "w" : !b
  %y = nd.einsum %x, %w : (!ab, !b) -> !nd.tensor<["a"=2], bf16>
  nd.output "y", %y : !nd.tensor<["a"=2], bf16>
  %z = nd.einsum %x, %w : (!ab, !b) -> !nd.tensor<["a"=2], f32>
  nd.output "z", %z : !nd.tensor<["a"=2], f32>
}

// -----

// The gradient of what a convolution of stride 2 reads: the view of what all
// windows saw becomes the view of what arrived, and the sum over the window a
// contraction.
// CHECK-LABEL: nd.program @gradient_of_a_convolution
// CHECK:         %[[G:.*]] = nd.input "g"
// CHECK-NEXT:    %[[W:.*]] = nd.input "w"
// CHECK-NEXT:    %[[SEEN:.*]] = nd.view %[[G]] ["row" = (-"dy" + "y" + 1) / 2] : (!b_by_row_by_k) -> !b_by_y_by_dy_by_k
// CHECK-NEXT:    %[[DX:.*]] = nd.einsum %[[SEEN]], %[[W]] : (!b_by_y_by_dy_by_k, !dy_by_c_by_k) -> !b_by_y_by_c
// CHECK-NEXT:    nd.output "dx", %[[DX]]
nd.program @gradient_of_a_convolution {
  %g = nd.input "g" : !nd.tensor<["b"=2, "row"=4, "k"=5], f32>
  %w = nd.input "w" : !nd.tensor<["dy"=3, "c"=2, "k"=5], f32>
  %0 = nd.einsum %g, %w : (!nd.tensor<["b"=2, "row"=4, "k"=5], f32>, !nd.tensor<["dy"=3, "c"=2, "k"=5], f32>) -> !nd.tensor<["b"=2, "row"=4, "dy"=3, "c"=2], f32>
  %1 = nd.view %0 ["row" = ("y" - "dy" + 1) / 2] : (!nd.tensor<["b"=2, "row"=4, "dy"=3, "c"=2], f32>) -> !nd.tensor<["b"=2, "y"=7, "c"=2, "dy"=3], f32>
  %2 = nd.reduce sum %1 : (!nd.tensor<["b"=2, "y"=7, "c"=2, "dy"=3], f32>) -> !nd.tensor<["b"=2, "y"=7, "c"=2], f32>
  nd.output "dx", %2 : !nd.tensor<["b"=2, "y"=7, "c"=2], f32>
}

// -----

// A view of an einsum that is no window of the other input stays behind it: in
// front of it there would be three times as much to multiply.
// CHECK-LABEL: nd.program @windows_of_a_product
// CHECK:         nd.einsum
// CHECK-NEXT:    nd.view
nd.program @windows_of_a_product {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %w = nd.input "w" : !nd.tensor<["c"=2, "k"=5], f32>
  %0 = nd.einsum %x, %w : (!nd.tensor<["y"=7, "c"=2], f32>, !nd.tensor<["c"=2, "k"=5], f32>) -> !nd.tensor<["y"=7, "k"=5], f32>
  %1 = nd.view %0 ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7, "k"=5], f32>) -> !nd.tensor<["row"=7, "dy"=3, "k"=5], f32>
  nd.output "seen", %1 : !nd.tensor<["row"=7, "dy"=3, "k"=5], f32>
}

// -----

// A large product of two tensors whose windows are seen is made of what is seen of
// each.
// CHECK-LABEL: nd.program @windows_of_a_large_product
// CHECK:         %[[G:.*]] = nd.input "g"
// CHECK:         %[[Q:.*]] = nd.input "q"
// CHECK-NEXT:    %[[SEEN_G:.*]] = nd.view %[[G]] ["pos" = "t" + "w"] : (!pos_by_w) -> !t_by_w
// CHECK-NEXT:    %[[SEEN_Q:.*]] = nd.view %[[Q]] ["pos" = "t" + "w"] : (!pos_by_d) -> !t_by_w_by_d
// CHECK-NEXT:    %[[TERMS:.*]] = nd.mul %[[SEEN_Q]], %[[SEEN_G]] : (!t_by_w_by_d, !t_by_w) -> !t_by_w_by_d
// CHECK-NEXT:    %[[DK:.*]] = nd.reduce sum %[[TERMS]] : (!t_by_w_by_d) -> !t_by_d
// CHECK-NEXT:    nd.output "dk", %[[DK]]
nd.program @windows_of_a_large_product {
  %g = nd.input "g" : !nd.tensor<["pos"=13, "w"=7], f32>
  %q = nd.input "q" : !nd.tensor<["pos"=13, "d"=11], f32>
  %0 = nd.einsum %g, %q : (!nd.tensor<["pos"=13, "w"=7], f32>, !nd.tensor<["pos"=13, "d"=11], f32>) -> !nd.tensor<["pos"=13, "w"=7, "d"=11], f32>
  %1 = nd.view %0 ["pos" = "t" + "w"] : (!nd.tensor<["pos"=13, "w"=7, "d"=11], f32>) -> !nd.tensor<["t"=13, "w"=7, "d"=11], f32>
  %2 = nd.reduce sum %1 : (!nd.tensor<["t"=13, "w"=7, "d"=11], f32>) -> !nd.tensor<["t"=13, "d"=11], f32>
  nd.output "dk", %2 : !nd.tensor<["t"=13, "d"=11], f32>
}

// -----

// A small one stays in memory; and where a factor is not seen elsewhere, it would
// take part outside.
// CHECK-LABEL: nd.program @windows_of_a_small_product
// CHECK:         nd.mul
// CHECK-NEXT:    nd.view
// CHECK-NEXT:    nd.output
nd.program @windows_of_a_small_product {
  %g = nd.input "g" : !nd.tensor<["pos"=13, "w"=7], f32>
  %q = nd.input "q" : !nd.tensor<["pos"=13, "d"=5], f32>
  %0 = nd.einsum %g, %q : (!nd.tensor<["pos"=13, "w"=7], f32>, !nd.tensor<["pos"=13, "d"=5], f32>) -> !nd.tensor<["pos"=13, "w"=7, "d"=5], f32>
  %1 = nd.view %0 ["pos" = "t" + "w"] : (!nd.tensor<["pos"=13, "w"=7, "d"=5], f32>) -> !nd.tensor<["t"=13, "w"=7, "d"=5], f32>
  nd.output "seen", %1 : !nd.tensor<["t"=13, "w"=7, "d"=5], f32>
}

// -----

// CHECK-LABEL: nd.program @windows_of_a_product_with_a_constant_factor
// CHECK:         nd.mul
// CHECK-NEXT:    nd.view
// CHECK-NEXT:    nd.output
nd.program @windows_of_a_product_with_a_constant_factor {
  %g = nd.input "g" : !nd.tensor<["pos"=13, "w"=7], f32>
  %c = nd.input "c" : !nd.tensor<["e"=101], f32>
  %0 = nd.einsum %g, %c : (!nd.tensor<["pos"=13, "w"=7], f32>, !nd.tensor<["e"=101], f32>) -> !nd.tensor<["pos"=13, "w"=7, "e"=101], f32>
  %1 = nd.view %0 ["pos" = "t" + "w"] : (!nd.tensor<["pos"=13, "w"=7, "e"=101], f32>) -> !nd.tensor<["t"=13, "w"=7, "e"=101], f32>
  nd.output "seen", %1 : !nd.tensor<["t"=13, "w"=7, "e"=101], f32>
}

// -----

// CHECK-LABEL: nd.program @unstack
// CHECK:         nd.view %{{.*}} ["t" = 1] : (!{{.*}}) -> !c
nd.program @unstack {
  %x = nd.input "x" : !nd.tensor<["t"=2, "c"=2], f32>
  %p:2 = nd.unstack %x along "t" : (!nd.tensor<["t"=2, "c"=2], f32>) -> (!nd.tensor<["c"=2], f32>, !nd.tensor<["c"=2], f32>)
  nd.output "y", %p#1 : !nd.tensor<["c"=2], f32>
}

// -----

// What every device can say by itself is not read: a constant, a position, and what
// is repeated along the dimension that is read.
// CHECK-LABEL: nd.program @generated
// CHECK-NOT:     nd.view
// CHECK:         nd.output "zeros", %{{.*}}
// CHECK:         nd.output "twos", %{{.*}}
// CHECK:         nd.output "positions", %{{.*}}
// CHECK:         nd.output "repeated", %{{.*}}
nd.program @generated {
  %zero = nd.constant(0.0 : f32) : !nd.tensor<["n"=5, "m"=2], f32>
  %0 = nd.view %zero ["n" = "n" - 1] : (!nd.tensor<["n"=5, "m"=2], f32>) -> !nd.tensor<["n"=5, "m"=2], f32>
  nd.output "zeros", %0 : !nd.tensor<["n"=5, "m"=2], f32>
  %two = nd.constant(2.0 : f32) : !nd.tensor<["n"=5], f32>
  %1 = nd.view %two ["n" = ("n" + "k") / 2] : (!nd.tensor<["n"=5], f32>) -> !nd.tensor<["n"=5, "k"=7], f32>
  nd.output "twos", %1 : !nd.tensor<["n"=5, "k"=7], f32>
  %iota = nd.iota : !nd.tensor<["n"=5], i32>
  %2 = nd.view %iota ["n" = ("k" - 3) mod 6] : (!nd.tensor<["n"=5], i32>) -> !nd.tensor<["k"=7], i32>
  nd.output "positions", %2 : !nd.tensor<["k"=7], i32>
  %x = nd.input "x" : !nd.tensor<["m"=2], f32>
  %many = nd.broadcast %x : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["n"=5, "m"=2], f32>
  %3 = nd.view %many ["n" = -"n" + 4] : (!nd.tensor<["n"=5, "m"=2], f32>) -> !nd.tensor<["n"=5, "m"=2], f32>
  nd.output "repeated", %3 : !nd.tensor<["n"=5, "m"=2], f32>
}

// -----

// What reads the values that are repeated goes on reading them, by all of its loops.
// CHECK-LABEL: nd.program @repeated_along_one
// CHECK:         %[[W:.*]] = nd.input "w"
// CHECK:         nd.view %[[W]] ["w" = -"n" + "r" + 3 "t" - 3] : (!w) -> !t_by_r_by_n
nd.program @repeated_along_one {
  %w = nd.input "w" : !nd.tensor<["w"=3], f32>
  %0 = nd.broadcast %w : (!nd.tensor<["w"=3], f32>) -> !nd.tensor<["n"=2, "w"=3], f32>
  %1 = nd.view %0 ["w" = -"n" + "r" + 3 "t" - 3] : (!nd.tensor<["n"=2, "w"=3], f32>) -> !nd.tensor<["t"=3, "r"=3, "n"=2], f32>
  nd.output "o", %1 : !nd.tensor<["t"=3, "r"=3, "n"=2], f32>
}

// -----

!s = !nd.tensor<[], f32>

// The scalar form of a constant may be of the other dialect; it stays where it
// does not fold.
// CHECK-LABEL: nd.program @scalar_forms_of_constants
// CHECK-DAG:     %[[HALF:.*]] = nd.constant(5.000000e-01 : f32)
// CHECK:         nd.erf_inv %[[HALF]]
// CHECK:         nd.fold_in
nd.program @scalar_forms_of_constants {
  %half = nd.constant(0.5 : f32) : !s
  %y = nd.erf_inv %half : (!s) -> !s
  nd.output "y", %y : !s
  %two = nd.constant(2 : i64) : !nd.tensor<[], i64>
  %seed = nd.fold_in %two, %two : (!nd.tensor<[], i64>, !nd.tensor<[], i64>) -> !nd.tensor<[], i64>
  nd.output "seed", %seed : !nd.tensor<[], i64>
}

// -----

// A view of a view is one, where a position is an access and all that the outer
// one reads is there: blocks around a ring, of a row.
// CHECK-LABEL: nd.program @one_view
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = nd.view %[[X]] ["b" = 1, "n" = (4 "block" + "j" + 15) mod 16] : {{.*}} -> !m_by_block_by_j
// CHECK-NEXT:    nd.output "y", %[[Y]]
nd.program @one_view {
  %x = nd.input "x" : !nd.tensor<["b"=2, "n"=16, "m"=3], f32>
  %0 = nd.view %x ["b" = 1, "n" = "p" mod 16] : (!nd.tensor<["b"=2, "n"=16, "m"=3], f32>) -> !nd.tensor<["p"=34, "m"=3], f32>
  %1 = nd.view %0 ["p" = "j" + 4 "block" + 15] : (!nd.tensor<["p"=34, "m"=3], f32>) -> !nd.tensor<["m"=3, "block"=4, "j"=4], f32>
  nd.output "y", %1 : !nd.tensor<["m"=3, "block"=4, "j"=4], f32>
}

// -----

// What the outer one reads outside is 0, whatever the inner one has there; the
// quotient of a remainder is no access; of a multiple of the modulus no position
// follows.
// CHECK-LABEL: nd.program @two_views
// CHECK-COUNT-6: nd.view
// CHECK-NOT:     nd.view
nd.program @two_views {
  %x = nd.input "x" : !nd.tensor<["n"=6], f32>
  %0 = nd.view %x ["n" = "p" + 2] : (!nd.tensor<["n"=6], f32>) -> !nd.tensor<["p"=3], f32>
  %1 = nd.view %0 ["p" = "q" + 1] : (!nd.tensor<["p"=3], f32>) -> !nd.tensor<["q"=3], f32>
  nd.output "y", %1 : !nd.tensor<["q"=3], f32>
  %2 = nd.view %x ["n" = floor("p" / 2)] : (!nd.tensor<["n"=6], f32>) -> !nd.tensor<["p"=4], f32>
  %3 = nd.view %2 ["p" = "q" mod 4] : (!nd.tensor<["p"=4], f32>) -> !nd.tensor<["q"=7], f32>
  nd.output "z", %3 : !nd.tensor<["q"=7], f32>
  %4 = nd.view %x ["n" = "p" mod 3] : (!nd.tensor<["n"=6], f32>) -> !nd.tensor<["p"=12], f32>
  %5 = nd.view %4 ["p" = 3 "q"] : (!nd.tensor<["p"=12], f32>) -> !nd.tensor<["q"=4], f32>
  nd.output "u", %5 : !nd.tensor<["q"=4], f32>
}

// -----

// What has a name stays: plans show it, and rules may be for it.
// CHECK-LABEL: nd.program @a_named_view
// CHECK-COUNT-2: nd.view
nd.program @a_named_view {
  %x = nd.input "x" : !nd.tensor<["b"=2, "n"=6], f32>
  %0 = nd.view %x ["b" = 1] : (!nd.tensor<["b"=2, "n"=6], f32>) -> !nd.tensor<["n"=6], f32> loc(fused<#nd.origin<"v">>[unknown])
  %1 = nd.view %0 ["n" = "k" + 1] : (!nd.tensor<["n"=6], f32>) -> !nd.tensor<["k"=3], f32>
  nd.output "y", %1 : !nd.tensor<["k"=3], f32>
}

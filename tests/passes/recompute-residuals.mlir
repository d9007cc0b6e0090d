// RUN: meshc-opt %s -nd-partition -cse -spmd-recompute-residuals -split-input-file -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s

!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!ac = !nd.tensor<["a"=2, "c"=5], f32, <>>
!cb = !nd.tensor<["c"=5, "b"=3], f32, <>>

// Two functions of one product are read later: the product is kept instead. The
// forward phase has its own copy; that of the backward phase stands in front of
// its first reader, inside the value.
// CHECK-LABEL: spmd.program @two_functions
// CHECK:         %[[X:[0-9]+]] = linalg.generic {{.*}}"reduction"
// CHECK:         %[[E:[0-9]+]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK:           math.erf
// CHECK:         spmd.output "y"
// CHECK:         %[[E2:[0-9]+]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK:           math.erf
// CHECK:         } -> tensor<2x3xf32> loc(fused<#nd.origin<backward inside "h">>["f.mesh":3:4])
// CHECK:         linalg.generic {{.*}} ins(%[[E2]]
// CHECK:           arith.negf
// CHECK:         %[[T2:[0-9]+]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK:           math.tanh
// CHECK:         linalg.generic {{.*}} ins(%[[T2]]
// CHECK:           math.absf
nd.mesh ["x"=1]
nd.program @two_functions {
  %u = nd.input "u" : !ac
  %v = nd.input "v" : !cb
  %x = nd.einsum %u, %v : (!ac, !cb) -> !ab
  %e = nd.erf %x : (!ab) -> !ab loc(fused<#nd.origin<"h">>["f.mesh":3:4])
  %t = nd.tanh %x : (!ab) -> !ab
  %y = nd.mul %e, %t : (!ab, !ab) -> !ab
  nd.output "y", %y : !ab
  %f = nd.neg %e : (!ab) -> !ab loc(fused<#nd.origin<backward "f">>[unknown])
  %g = nd.abs %t : (!ab) -> !ab loc(fused<#nd.origin<backward "g">>[unknown])
  nd.output "f", %f : !ab
  nd.output "g", %g : !ab
}

// -----

!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!ac = !nd.tensor<["a"=2, "c"=5], f32, <>>
!cb = !nd.tensor<["c"=5, "b"=3], f32, <>>

// One function of the product takes as many bytes as the product: nothing is
// gained.
// CHECK-LABEL: spmd.program @nothing_gained
// CHECK:         %[[E:[0-9]+]] = linalg.generic {{.*}} ins(%{{[0-9]+}} : tensor<2x3xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      math.erf
// CHECK-NOT:       math.erf
// CHECK:         linalg.generic {{.*}} ins(%[[E]]
// CHECK:           arith.negf
nd.mesh ["x"=1]
nd.program @nothing_gained {
  %u = nd.input "u" : !ac
  %v = nd.input "v" : !cb
  %x = nd.einsum %u, %v : (!ac, !cb) -> !ab
  %e = nd.erf %x : (!ab) -> !ab
  %y = nd.exp %e : (!ab) -> !ab
  nd.output "y", %y : !ab
  %f = nd.neg %e : (!ab) -> !ab loc(fused<#nd.origin<backward "f">>[unknown])
  nd.output "f", %f : !ab
}

// -----

!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!ac = !nd.tensor<["a"=2, "c"=5], f32, <>>
!cb = !nd.tensor<["c"=5, "b"=3], f32, <>>

// A product of the backward phase keeps h, so the negation reads it, and the
// tangent of it is not kept: it is computed again on either side of the product.
// CHECK-LABEL: spmd.program @kept_for_a_product
// CHECK:         %[[H:[0-9]+]] = linalg.generic {{.*}} ins(%{{[0-9]+}} : tensor<2x3xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      math.erf
// CHECK:         linalg.generic {{.*}} ins(%[[H]]
// CHECK:           math.tanh
// CHECK:         spmd.output "y"
// CHECK-NOT:     math.erf
// CHECK:         linalg.generic {{.*}} ins(%[[H]]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.negf
// CHECK:         %[[FIRST:[0-9]+]] = linalg.generic {{.*}} ins(%[[H]]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      math.tanh
// CHECK:         linalg.generic {{.*}} ins(%[[FIRST]]
// CHECK:         linalg.generic {{.*}} ins(%[[FIRST]]
// CHECK:         linalg.generic {{.*}}"reduction"]} ins(%[[H]],
// CHECK:         %[[SECOND:[0-9]+]] = linalg.generic {{.*}} ins(%[[H]]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      math.tanh
// CHECK:         linalg.generic {{.*}} ins(%[[SECOND]]
nd.mesh ["x"=1]
nd.program @kept_for_a_product {
  %u = nd.input "u" : !ac
  %v = nd.input "v" : !cb
  %x = nd.einsum %u, %v : (!ac, !cb) -> !ab
  %h = nd.erf %x : (!ab) -> !ab
  %y = nd.tanh %h : (!ab) -> !ab
  %z = nd.abs %y : (!ab) -> !ab
  nd.output "y", %z : !ab
  %f = nd.neg %h : (!ab) -> !ab loc(fused<#nd.origin<backward "f">>[unknown])
  %g = nd.exp %y : (!ab) -> !ab loc(fused<#nd.origin<backward "g">>[unknown])
  %i = nd.sqrt %y : (!ab) -> !ab loc(fused<#nd.origin<backward "i">>[unknown])
  %p = nd.einsum %h, %v : (!ab, !cb) -> !ac loc(fused<#nd.origin<backward "p">>[unknown])
  %k = nd.log %y : (!ab) -> !ab loc(fused<#nd.origin<backward "k">>[unknown])
  nd.output "f", %f : !ab
  nd.output "g", %g : !ab
  nd.output "i", %i : !ab
  nd.output "p", %p : !ac
  nd.output "k", %k : !ab
}

// -----

!a = !nd.tensor<["a"=7], f32, <>>
!ab = !nd.tensor<["a"=7, "b"=3], f32, <>>
!ba = !nd.tensor<["b"=3, "a"=7], f32, <>>
!i = !nd.tensor<["a"=7], i32, <>>

// The input is in memory anyway, but sums, transpositions and gathers are not
// computed twice.
// CHECK-LABEL: spmd.program @not_elementwise
// CHECK:         spmd.output "s"
// CHECK-NOT:     arith.addf
// CHECK-NOT:     affine_map<(d0, d1) -> (d1, d0)>
// CHECK-NOT:     tensor.extract
// CHECK:         spmd.output "i"
nd.mesh ["x"=1]
nd.program @not_elementwise {
  %x = nd.input "x" : !ab
  %at = nd.input "at" : !nd.tensor<["a"=7], i32, <>>
  %s = nd.reduce sum %x : (!ab) -> !a
  %t = nd.reduce sum %x : (!ab) -> !ba
  %h = nd.gather %x[%at] over "b" : (!ab, !i) -> !a
  %q = nd.exp %s : (!a) -> !a
  nd.output "s", %q : !a
  %f = nd.neg %s : (!a) -> !a loc(fused<#nd.origin<backward "f">>[unknown])
  %g = nd.neg %t : (!ba) -> !ba loc(fused<#nd.origin<backward "g">>[unknown])
  %i = nd.neg %h : (!a) -> !a loc(fused<#nd.origin<backward "i">>[unknown])
  nd.output "f", %f : !a
  nd.output "g", %g : !ba
  nd.output "i", %i : !a
}

// -----

!a = !nd.tensor<["a"=7], f32, <>>
!mask = !nd.tensor<["a"=7], i1, <>>
!s = !nd.tensor<[], f32, <>>
!l = !nd.tensor<[], i64, <>>

// Random numbers are drawn again, from a seed that is mixed again, and so is a mask
// that is made of them.
// CHECK-LABEL: spmd.program @masked
// CHECK:         spmd.output "y"
// CHECK:         spmd.fold_in
// CHECK:         spmd.random_bits
// CHECK:         arith.cmpf
// CHECK:         arith.select
// CHECK:         spmd.output "g"
nd.mesh ["x"=1]
nd.program @masked {
  %x = nd.input "x" : !a
  %w = nd.input "w" : !a
  %seed = nd.input "random seed" : !l
  %three = nd.constant(3 : i64) : !l
  %mixed = nd.fold_in %seed, %three : (!l, !l) -> !l
  %r = nd.random normal(0.0, 1.0) key 5 seed %mixed : (!l) -> !a
  %rate = nd.constant(0.25 : f32) : !s
  %zero = nd.constant(0.0 : f32) : !s
  %m = nd.compare lt %r, %rate : (!a, !s) -> !mask
  %y = nd.select %m, %zero, %x : (!mask, !s, !a) -> !a
  nd.output "y", %y : !a
  %g = nd.select %m, %zero, %w : (!mask, !s, !a) -> !a loc(fused<#nd.origin<backward "g">>[unknown])
  nd.output "g", %g : !a
}

// -----

!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!partial = !nd.tensor<["a"=2, "b"=3], f32, <> partial sum over x>

// A collective is not repeated: its result is kept, or what comes of it.
// CHECK-LABEL: spmd.program @sent_once
// CHECK:         %[[WHOLE:[0-9]+]] = spmd.all_reduce
// CHECK-NOT:     spmd.all_reduce
// CHECK:         linalg.generic {{.*}} ins(%[[WHOLE]]
// CHECK:           math.erf
// CHECK:         linalg.generic {{.*}} ins(%[[WHOLE]]
// CHECK:           math.erf
nd.mesh ["x"=3]
nd.program @sent_once {
  %x = nd.input "x" : !ab
  %w = nd.reshard %x : !ab -> !partial
  %n = nd.neg %w : (!partial) -> !partial
  %h = nd.reshard %n : !partial -> !ab
  %e = nd.erf %h : (!ab) -> !ab
  %t = nd.tanh %h : (!ab) -> !ab
  %y = nd.mul %e, %t : (!ab, !ab) -> !ab
  nd.output "y", %y : !ab
  %f = nd.mul %e, %t : (!ab, !ab) -> !ab loc(fused<#nd.origin<backward "f">>[unknown])
  %g = nd.sub %e, %t : (!ab, !ab) -> !ab loc(fused<#nd.origin<backward "g">>[unknown])
  nd.output "f", %f : !ab
  nd.output "g", %g : !ab
}

// -----

!a = !nd.tensor<["a"=7], f32, <>>

// By the prices of CPU devices 19 operations in a row are computed again, 20 are
// not.
// CHECK-LABEL: spmd.program @far_away
// CHECK:         spmd.output "y"
// CHECK-COUNT-19: arith.negf
// CHECK-NOT:     arith.negf
// CHECK:         math.absf
// CHECK-NOT:     arith.negf
// CHECK:         math.tanh
nd.mesh ["x"=1]
nd.program @far_away {
  %x = nd.input "x" : !a
  %n1 = nd.neg %x : (!a) -> !a
  %n2 = nd.neg %n1 : (!a) -> !a
  %n3 = nd.neg %n2 : (!a) -> !a
  %n4 = nd.neg %n3 : (!a) -> !a
  %n5 = nd.neg %n4 : (!a) -> !a
  %n6 = nd.neg %n5 : (!a) -> !a
  %n7 = nd.neg %n6 : (!a) -> !a
  %n8 = nd.neg %n7 : (!a) -> !a
  %n9 = nd.neg %n8 : (!a) -> !a
  %n10 = nd.neg %n9 : (!a) -> !a
  %n11 = nd.neg %n10 : (!a) -> !a
  %n12 = nd.neg %n11 : (!a) -> !a
  %n13 = nd.neg %n12 : (!a) -> !a
  %n14 = nd.neg %n13 : (!a) -> !a
  %n15 = nd.neg %n14 : (!a) -> !a
  %n16 = nd.neg %n15 : (!a) -> !a
  %n17 = nd.neg %n16 : (!a) -> !a
  %n18 = nd.neg %n17 : (!a) -> !a
  %n19 = nd.neg %n18 : (!a) -> !a
  %n20 = nd.neg %n19 : (!a) -> !a
  %y = nd.exp %n20 : (!a) -> !a
  nd.output "y", %y : !a
  %f = nd.abs %n19 : (!a) -> !a loc(fused<#nd.origin<backward "f">>[unknown])
  %g = nd.tanh %n20 : (!a) -> !a loc(fused<#nd.origin<backward "g">>[unknown])
  nd.output "f", %f : !a
  nd.output "g", %g : !a
}

// -----

!a = !nd.tensor<["a"=7], f32, <>>

// What reads a value that is said to be of the backward phase is kept.
// CHECK-LABEL: spmd.program @of_both_phases
// CHECK:         math.exp
// CHECK:         math.erf
// CHECK-NOT:     math.erf
// CHECK:         arith.negf
nd.mesh ["x"=1]
nd.program @of_both_phases {
  %x = nd.input "x" : !a
  %b = nd.exp %x : (!a) -> !a loc(fused<#nd.origin<backward "b">>[unknown])
  %h = nd.erf %b : (!a) -> !a
  %y = nd.abs %h : (!a) -> !a
  nd.output "y", %y : !a
  %f = nd.neg %h : (!a) -> !a loc(fused<#nd.origin<backward "f">>[unknown])
  nd.output "f", %f : !a
}

// -----

!y = !nd.tensor<["y"=7], f32, <>>
!rd = !nd.tensor<["row"=7, "dy"=3], f32, <>>
!dc = !nd.tensor<["dy"=3, "c"=5], f32, <>>
!rc = !nd.tensor<["row"=7, "c"=5], f32, <>>

// What windows see is read again where it lies; h, of a third of its bytes, is kept.
// What a product reads of windows stays.
// CHECK-LABEL: spmd.program @windows
// CHECK:         %[[H:[0-9]+]] = linalg.generic
// CHECK:           math.erf
// CHECK:         %[[SEEN:[0-9]+]] = spmd.view %[[H]] ["y" = "dy" + "row" - 1]
// CHECK:         spmd.output "y"
// CHECK:         %[[AGAIN:[0-9]+]] = spmd.view %[[H]] ["y" = "dy" + "row" - 1] {{.*}} loc(fused<#nd.origin<backward inside "seen">>["f.mesh":3:4])
// CHECK:         linalg.generic {{.*}} ins(%[[AGAIN]]
// CHECK:           arith.negf
// CHECK-LABEL: spmd.program @windows_of_a_product
// CHECK:         %[[SEEN:[0-9]+]] = spmd.view
// CHECK-NOT:     spmd.view
// CHECK:         linalg.generic {{.*}} ins(%[[SEEN]]
// CHECK:           arith.negf
nd.mesh ["x"=1]
nd.program @windows {
  %x = nd.input "x" : !y
  %h = nd.erf %x : (!y) -> !y
  %v = nd.view %h ["y" = "row" + "dy" - 1] : (!y) -> !rd loc(fused<#nd.origin<"seen">>["f.mesh":3:4])
  %e = nd.exp %v : (!rd) -> !rd
  nd.output "y", %e : !rd
  nd.output "h", %h : !y
  %f = nd.neg %v : (!rd) -> !rd loc(fused<#nd.origin<backward "f">>[unknown])
  nd.output "f", %f : !rd
}
nd.program @windows_of_a_product {
  %x = nd.input "x" : !y
  %w = nd.input "w" : !dc
  %v = nd.view %x ["y" = "row" + "dy" - 1] : (!y) -> !rd
  %e = nd.exp %v : (!rd) -> !rd
  nd.output "y", %e : !rd
  %p = nd.einsum %v, %w : (!rd, !dc) -> !rc loc(fused<#nd.origin<backward "p">>[unknown])
  %f = nd.neg %v : (!rd) -> !rd loc(fused<#nd.origin<backward "f">>[unknown])
  nd.output "p", %p : !rc
  nd.output "f", %f : !rd
}

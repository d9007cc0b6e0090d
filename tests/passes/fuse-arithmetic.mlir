// RUN: meshc-opt %s -nd-partition -cse -spmd-fuse-arithmetic -split-input-file | FileCheck %s

!s = !nd.tensor<[], f32, <>>
!a = !nd.tensor<["a"=2], f32, <>>
!b = !nd.tensor<["b"=3], f32, <>>
!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!ba = !nd.tensor<["b"=3, "a"=2], f32, <>>

// Sums and differences on either side; a transposed reader too.
// CHECK-LABEL: spmd.program @sums
// CHECK-NOT:     arith.mulf
// CHECK:         math.fma %[[A:.*]], %[[B:.*]], %[[C:.*]] : f32
// CHECK:         %[[NC:.*]] = arith.negf %{{.*}} : f32
// CHECK-NEXT:    math.fma %{{.*}}, %{{.*}}, %[[NC]] : f32
// CHECK:         %[[NA:.*]] = arith.negf %{{.*}} : f32
// CHECK-NEXT:    math.fma %[[NA]], %{{.*}}, %{{.*}} : f32
// CHECK:         spmd.output "turned"
nd.mesh ["x"=1]
nd.program @sums {
  %x = nd.input "x" : !ab
  %y = nd.input "y" : !ab
  %z = nd.input "z" : !ab
  %p = nd.mul %x, %y : (!ab, !ab) -> !ab
  %sum = nd.add %z, %p : (!ab, !ab) -> !ab
  nd.output "sum", %sum : !ab
  %q = nd.mul %y, %z : (!ab, !ab) -> !ab
  %minus = nd.sub %q, %x : (!ab, !ab) -> !ab
  nd.output "minus", %minus : !ab
  %r = nd.mul %x, %z : (!ab, !ab) -> !ab
  %from = nd.sub %y, %r : (!ab, !ab) -> !ab
  nd.output "from", %from : !ab
  %t = nd.mul %x, %x : (!ab, !ab) -> !ab
  %turned = nd.add %t, %z : (!ab, !ab) -> !ba
  nd.output "turned", %turned : !ba
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>

// Two sums read one product: each rounds it with itself. If something else of
// the same phase needs the product, or it is added to itself, it stays.
// CHECK-LABEL: spmd.program @readers
// CHECK-NOT:     arith.mulf
// CHECK:         math.fma
// CHECK-NOT:     arith.mulf
// CHECK:         math.fma
// CHECK:         spmd.output "one"
// CHECK:         spmd.output "two"
// CHECK-NOT:     math.fma
nd.mesh ["x"=1]
nd.program @readers {
  %x = nd.input "x" : !a
  %y = nd.input "y" : !a
  %p = nd.mul %x, %y : (!a, !a) -> !a
  %one = nd.add %p, %x : (!a, !a) -> !a
  %two = nd.sub %p, %y : (!a, !a) -> !a
  nd.output "one", %one : !a
  nd.output "two", %two : !a
  %q = nd.mul %x, %x : (!a, !a) -> !a
  %plus = nd.add %q, %y : (!a, !a) -> !a
  nd.output "q", %q : !a
  nd.output "plus", %plus : !a
  %r = nd.mul %y, %y : (!a, !a) -> !a
  %twice = nd.add %r, %r : (!a, !a) -> !a
  nd.output "twice", %twice : !a
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>

// What the backward phase reads does not change what the forward phase rounds:
// its product stands beside the sum.
// CHECK-LABEL: spmd.program @phases
// CHECK:         arith.mulf
// CHECK:         math.fma
// CHECK:         spmd.output "sum"
// CHECK:         math.exp
nd.mesh ["x"=1]
nd.program @phases {
  %x = nd.input "x" : !a
  %y = nd.input "y" : !a
  %p = nd.mul %x, %y : (!a, !a) -> !a
  %sum = nd.add %p, %x : (!a, !a) -> !a
  nd.output "sum", %sum : !a
  %g = nd.exp %p : (!a) -> !a loc(fused<#nd.origin<backward "g">>[unknown])
  nd.output "g", %g : !a
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>
!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>
!a_bf16 = !nd.tensor<["a"=2], bf16, <>>

// A repeated product is computed once; in 16 bits every operation rounds.
// CHECK-LABEL: spmd.program @repeated
// CHECK:         arith.mulf
// CHECK:         arith.addf
// CHECK:         spmd.output "sum"
// CHECK:         arith.mulf %{{.*}} : bf16
// CHECK:         arith.addf %{{.*}} : bf16
// CHECK-NOT:     math.fma
nd.mesh ["x"=1]
nd.program @repeated {
  %x = nd.input "x" : !a
  %y = nd.input "y" : !ab
  %p = nd.mul %x, %x : (!a, !a) -> !a
  %sum = nd.add %y, %p : (!ab, !a) -> !ab
  nd.output "sum", %sum : !ab
  %h = nd.input "h" : !a_bf16
  %q = nd.mul %h, %h : (!a_bf16, !a_bf16) -> !a_bf16
  %half = nd.add %q, %h : (!a_bf16, !a_bf16) -> !a_bf16
  nd.output "half", %half : !a_bf16
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>
!b = !nd.tensor<["b"=3], f32, <>>
!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>

// A product goes into a sum over dimensions, unless that would be a matrix
// product; a matrix product's sum is left to the library.
// CHECK-LABEL: spmd.program @reduced
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK:           %[[P:.*]] = arith.mulf
// CHECK-NEXT:      arith.addf %{{.*}}, %[[P]]
// CHECK:         spmd.output "squares"
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %{{.*}} : tensor<2xf32>, tensor<3xf32>)
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<2x3xf32>)
// CHECK:         spmd.output "outer"
nd.mesh ["x"=1]
nd.program @reduced {
  %x = nd.input "x" : !ab
  %p = nd.mul %x, %x : (!ab, !ab) -> !ab
  %squares = nd.reduce sum %p : (!ab) -> !a
  nd.output "squares", %squares : !a
  %u = nd.input "u" : !a
  %v = nd.input "v" : !b
  %q = nd.mul %u, %v : (!a, !b) -> !ab
  %outer = nd.reduce sum %q : (!ab) -> !a
  nd.output "outer", %outer : !a
}

// -----

!ac = !nd.tensor<["a"=2, "c"=5], f32, <>>
!cb = !nd.tensor<["c"=5, "b"=3], f32, <>>
!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>

// CHECK-LABEL: spmd.program @beside_a_matrix_product
// CHECK:         arith.mulf
// CHECK:         arith.mulf
// CHECK-NOT:     math.fma
nd.mesh ["x"=1]
nd.program @beside_a_matrix_product {
  %u = nd.input "u" : !ac
  %v = nd.input "v" : !cb
  %x = nd.input "x" : !ab
  %product = nd.einsum %u, %v : (!ac, !cb) -> !ab
  %p = nd.mul %x, %x : (!ab, !ab) -> !ab
  %sum = nd.add %product, %p : (!ab, !ab) -> !ab
  nd.output "sum", %sum : !ab
}

// -----

!s = !nd.tensor<[], f32, <>>
!a = !nd.tensor<["a"=2], f32, <>>

// Functions that GPUs compute together with what they come from, unless
// something else reads that.
// CHECK-LABEL: spmd.program @functions
// CHECK:         %[[T:.*]] = math.tanh
// CHECK-NEXT:    arith.addf %{{.*}}, %[[T]] fastmath<contract>
// CHECK:         spmd.output "t"
// CHECK:         %[[R:.*]] = math.sqrt
// CHECK-NEXT:    arith.divf %{{.*}}, %[[R]] fastmath<contract>
// CHECK:         spmd.output "r"
// CHECK:         %[[E:.*]] = math.exp
// CHECK-NEXT:    %[[D:.*]] = arith.addf %[[E]], %{{.*}} : f32
// CHECK-NEXT:    arith.divf %{{.*}}, %[[D]] fastmath<contract>
// CHECK:         spmd.output "l"
// CHECK:         math.erf
// CHECK:         arith.addf %{{.*}}, %{{.*}} : f32
// CHECK:         spmd.output "f"
nd.mesh ["x"=1]
nd.program @functions {
  %one = nd.constant(1.0 : f32) : !s
  %x = nd.input "x" : !a
  %tanh = nd.tanh %x : (!a) -> !a
  %t = nd.add %one, %tanh : (!s, !a) -> !a
  nd.output "t", %t : !a
  %root = nd.sqrt %x : (!a) -> !a
  %r = nd.div %one, %root : (!s, !a) -> !a
  nd.output "r", %r : !a
  %exp = nd.exp %x : (!a) -> !a
  %d = nd.add %exp, %one : (!a, !s) -> !a
  %l = nd.div %one, %d : (!s, !a) -> !a
  nd.output "l", %l : !a
  %erf = nd.erf %x : (!a) -> !a
  nd.output "erf", %erf : !a
  %f = nd.add %one, %erf : (!s, !a) -> !a
  nd.output "f", %f : !a
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>
!a_i32 = !nd.tensor<["a"=2], i32, <>>

// An integer has a quotient of its own.
// CHECK-LABEL: spmd.program @integers
// CHECK:         arith.divf
// CHECK:         %[[Q:.*]] = arith.divf
// CHECK-NEXT:    arith.fptosi %[[Q]]
nd.mesh ["x"=1]
nd.program @integers {
  %x = nd.input "x" : !a
  %y = nd.input "y" : !a
  %q = nd.div %x, %y : (!a, !a) -> !a
  nd.output "q", %q : !a
  %i = nd.cast %q : (!a) -> !a_i32
  nd.output "i", %i : !a_i32
}

// -----

!a = !nd.tensor<["a"=2], f32, <>>
!ab = !nd.tensor<["a"=2, "b"=3], f32, <>>

// A product that is negated on the way, as in the gradient of softmax.
// CHECK-LABEL: spmd.program @negated
// CHECK:         linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK:           %[[N:.*]] = arith.negf
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[N]], %{{.*}}
// CHECK-NEXT:      arith.addf %{{.*}}, %[[P]]
// CHECK:         spmd.output "sum"
nd.mesh ["x"=1]
nd.program @negated {
  %x = nd.input "x" : !ab
  %y = nd.input "y" : !ab
  %p = nd.mul %x, %y : (!ab, !ab) -> !ab
  %n = nd.neg %p : (!ab) -> !ab
  %sum = nd.reduce sum %n : (!ab) -> !a
  nd.output "sum", %sum : !a
}

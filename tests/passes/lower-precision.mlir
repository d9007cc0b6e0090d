// RUN: meshc-opt %s -split-input-file -nd-lower-precision | FileCheck %s

!x = !nd.tensor<["b"=2, "i"=3], f32>
!w = !nd.tensor<["i"=3, "o"=5], f32>
!y = !nd.tensor<["b"=2, "o"=5], f32>
!o = !nd.tensor<["o"=5], f32>
!b = !nd.tensor<["b"=2], f32>
!scalar = !nd.tensor<[], f32>

// What crosses the border stays f32; a constant is rounded with the operation;
// only the loss reads the sum of squares, in f32.
// CHECK-LABEL: nd.program @forward
// CHECK-DAG:     %[[X:.*]] = nd.input "x" : !b_by_i
// CHECK-DAG:     %[[W:.*]] = nd.read @w : !i_by_o
// CHECK-DAG:     %[[BIAS:.*]] = nd.read @bias : !o
// CHECK-DAG:     %[[X16:.*]] = nd.cast %[[X]] : (!b_by_i) -> !b_by_i_bf16
// CHECK-DAG:     %[[W16:.*]] = nd.cast %[[W]] : (!i_by_o) -> !i_by_o_bf16
// CHECK:         %[[Y:.*]] = nd.einsum %[[X16]], %[[W16]] : (!b_by_i_bf16, !i_by_o_bf16) -> !b_by_o_bf16
// CHECK-DAG:     %[[BIAS16:.*]] = nd.cast %[[BIAS]] : (!o) -> !o_bf16
// CHECK:         %[[Z:.*]] = nd.add %[[Y]], %[[BIAS16]] : (!b_by_o_bf16, !o_bf16) -> !b_by_o_bf16
// CHECK:         %[[ZERO:.*]] = nd.constant(0.000000e+00 : bf16) : !scalar_bf16
// CHECK:         %[[H:.*]] = nd.maximum %[[Z]], %[[ZERO]] : {{.*}} -> !b_by_o_bf16
// CHECK:         %[[H1:.*]] = nd.cast %[[H]] : (!b_by_o_bf16) -> !b_by_o
// CHECK:         %[[H2:.*]] = nd.cast %[[H]] : (!b_by_o_bf16) -> !b_by_o
// CHECK:         %[[SQUARE:.*]] = nd.mul %[[H1]], %[[H2]] : (!b_by_o, !b_by_o) -> !b_by_o
// CHECK:         %[[LOSS:.*]] = nd.reduce mean %[[SQUARE]] : (!b_by_o) -> !scalar
// CHECK:         nd.output "loss", %[[LOSS]] : !scalar
// CHECK:         %[[H3:.*]] = nd.cast %[[H]] : (!b_by_o_bf16) -> !b_by_o
// CHECK:         nd.output "h", %[[H3]] : !b_by_o
module {
  nd.precision bf16
  nd.variable parameter @w : !w = #nd.fill<1.0>
  nd.variable parameter @bias : !o = #nd.fill<1.0>
  nd.program @forward {
    %x = nd.input "x" : !x
    %w = nd.read @w : !w
    %bias = nd.read @bias : !o
    %y = nd.einsum %x, %w : (!x, !w) -> !y
    %z = nd.add %y, %bias : (!y, !o) -> !y
    %zero = nd.constant(0.0 : f32) : !scalar
    %h = nd.maximum %z, %zero : (!y, !scalar) -> !y
    %square = nd.mul %h, %h : (!y, !y) -> !y
    %loss = nd.reduce mean %square : (!y) -> !scalar
    nd.output "loss", %loss : !scalar
    nd.output "h", %h : !y
  }
}

// -----

!x = !nd.tensor<["b"=2, "i"=3], f32>
!b = !nd.tensor<["b"=2], f32>
!scalar = !nd.tensor<[], f32>

// Softmax: the maximum is one of the 16-bit elements, all else is f32, and the
// sum of two f32 values and an input is f32 too.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[Y:.*]] = nd.mul %{{.*}}, %{{.*}} : (!b_by_i_f16, !b_by_i_f16) -> !b_by_i_f16
// CHECK:         %[[M:.*]] = nd.reduce max %[[Y]] : (!b_by_i_f16) -> !b_f16
// CHECK:         %[[Y32:.*]] = nd.cast %[[Y]] : (!b_by_i_f16) -> !b_by_i
// CHECK:         %[[M32:.*]] = nd.cast %[[M]] : (!b_f16) -> !b
// CHECK:         %[[C:.*]] = nd.sub %[[Y32]], %[[M32]] : (!b_by_i, !b) -> !b_by_i
// CHECK:         %[[E:.*]] = nd.exp %[[C]] : (!b_by_i) -> !b_by_i
// CHECK:         %[[S:.*]] = nd.reduce sum %[[E]] : (!b_by_i) -> !b
// CHECK:         %[[P:.*]] = nd.div %[[E]], %[[S]] : (!b_by_i, !b) -> !b_by_i
// CHECK:         %[[SHIFTED:.*]] = nd.add %[[P]], %{{.*}} : (!b_by_i, !b_by_i) -> !b_by_i
// CHECK:         nd.output "p", %[[SHIFTED]] : !b_by_i
module {
  nd.precision fp16
  nd.program @forward {
    %x = nd.input "x" : !x
    %y = nd.mul %x, %x : (!x, !x) -> !x
    %m = nd.reduce max %y : (!x) -> !b
    %c = nd.sub %y, %m : (!x, !b) -> !x
    %e = nd.exp %c : (!x) -> !x
    %s = nd.reduce sum %e : (!x) -> !b
    %p = nd.div %e, %s : (!x, !b) -> !x
    %shifted = nd.add %p, %x : (!x, !x) -> !x
    nd.output "p", %shifted : !x
  }
}

// -----

!x = !nd.tensor<["b"=2], f32>
!i = !nd.tensor<["b"=2], i32>
!c = !nd.tensor<["b"=2], i1>
!f64 = !nd.tensor<["b"=2], f64>
!scalar = !nd.tensor<[], f32>

// A constant that f16 cannot hold keeps its operation in f32; other element
// types are left alone, and what moves elements takes them as they are.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[LOW:.*]] = nd.constant(-1.000000e+09 : f32) : !scalar
// CHECK:         %[[MASKED:.*]] = nd.select %{{.*}}, %{{.*}}, %[[LOW]] : (!b_i1, !b, !scalar) -> !b
// CHECK:         nd.mul %{{.*}}, %{{.*}} : (!b_f64, !b_f64) -> !b_f64
// CHECK:         nd.add %{{.*}}, %{{.*}} : (!b_i32, !b_i32) -> !b_i32
// CHECK:         %[[RENAMED:.*]] = nd.rename %{{.*}} "b" -> "a" : (!b) -> !a
// CHECK:         %[[SUM:.*]] = nd.add %{{.*}}, %{{.*}} : (!a_f16, !a_f16) -> !a_f16
// CHECK:         nd.rename %[[SUM]] "a" -> "z" : (!a_f16) -> !z_f16
module {
  nd.precision fp16
  nd.program @forward {
    %x = nd.input "x" : !x
    %i = nd.input "i" : !i
    %d = nd.input "d" : !f64
    %low = nd.constant(-1.0e+9 : f32) : !scalar
    %c = nd.compare lt %i, %i : (!i, !i) -> !c
    %masked = nd.select %c, %x, %low : (!c, !x, !scalar) -> !x
    %square = nd.mul %d, %d : (!f64, !f64) -> !f64
    %twice = nd.add %i, %i : (!i, !i) -> !i
    %renamed = nd.rename %x "b" -> "a" : (!x) -> !nd.tensor<["a"=2], f32>
    %sum = nd.add %renamed, %renamed : (!nd.tensor<["a"=2], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
    %again = nd.rename %sum "a" -> "z" : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["z"=2], f32>
    nd.output "masked", %masked : !x
    nd.output "square", %square : !f64
    nd.output "twice", %twice : !i
    nd.output "again", %again : !nd.tensor<["z"=2], f32>
  }
}

// -----

// f32 is what is there.
// CHECK-LABEL: nd.program @forward
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !b
// CHECK-NEXT:    %[[Y:.*]] = nd.mul %[[X]], %[[X]] : (!b, !b) -> !b
// CHECK-NEXT:    nd.output "y", %[[Y]] : !b
module {
  nd.precision f32
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["b"=2], f32>
    %y = nd.mul %x, %x : (!nd.tensor<["b"=2], f32>, !nd.tensor<["b"=2], f32>) -> !nd.tensor<["b"=2], f32>
    nd.output "y", %y : !nd.tensor<["b"=2], f32>
  }
}

// -----

// What the iterations of a loop read is rounded at once where each has one reader, in
// 16 bits; others stay f32.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[W:.*]] = nd.input "w"
// CHECK:         %[[W16:.*]] = nd.cast %[[W]] : (!t_by_k_by_n) -> !t_by_k_by_n_bf16
// CHECK:         nd.unstack %[[W16]] along "t" : (!t_by_k_by_n_bf16) -> (!k_by_n_bf16, !k_by_n_bf16)
// CHECK:         %[[G:.*]]:2 = nd.unstack %{{.*}} along "t" : (!t_by_n) -> (!n, !n)
// CHECK:         nd.mul %{{.*}}, %[[G]]#0 : (!b_by_n, !n) -> !b_by_n
module {
  nd.precision bf16
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["b"=3, "k"=5], f32>
    %w = nd.input "w" : !nd.tensor<["t"=2, "k"=5, "n"=7], f32>
    %g = nd.input "g" : !nd.tensor<["t"=2, "n"=7], f32>
    %w0, %w1 = nd.unstack %w along "t" : (!nd.tensor<["t"=2, "k"=5, "n"=7], f32>)
        -> (!nd.tensor<["k"=5, "n"=7], f32>, !nd.tensor<["k"=5, "n"=7], f32>)
    %g0, %g1 = nd.unstack %g along "t" : (!nd.tensor<["t"=2, "n"=7], f32>)
        -> (!nd.tensor<["n"=7], f32>, !nd.tensor<["n"=7], f32>)
    %y0 = nd.einsum %x, %w0 : (!nd.tensor<["b"=3, "k"=5], f32>, !nd.tensor<["k"=5, "n"=7], f32>)
        -> !nd.tensor<["b"=3, "n"=7], f32>
    %y1 = nd.einsum %x, %w1 : (!nd.tensor<["b"=3, "k"=5], f32>, !nd.tensor<["k"=5, "n"=7], f32>)
        -> !nd.tensor<["b"=3, "n"=7], f32>
    %z0 = nd.mul %y0, %g0 : (!nd.tensor<["b"=3, "n"=7], f32>, !nd.tensor<["n"=7], f32>)
        -> !nd.tensor<["b"=3, "n"=7], f32>
    %z1 = nd.mul %y1, %g0 : (!nd.tensor<["b"=3, "n"=7], f32>, !nd.tensor<["n"=7], f32>)
        -> !nd.tensor<["b"=3, "n"=7], f32>
    nd.output "z0", %z0 : !nd.tensor<["b"=3, "n"=7], f32>
    nd.output "z1", %z1 : !nd.tensor<["b"=3, "n"=7], f32>
  }
}

// -----

// What is renamed is rounded before, so that it travels narrow, for each of its
// readers.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[W:.*]] = nd.read @w : !k27_by_n
// CHECK:         %[[W16:.*]] = nd.cast %[[W]] : (!k27_by_n) -> !k27_by_n_bf16
// CHECK-NEXT:    %[[R16:.*]] = nd.rename %[[W16]] "k'" -> "k"
// CHECK:         nd.einsum %{{.*}}, %[[R16]]
module {
  nd.precision bf16
  nd.variable parameter @w : !nd.tensor<["k'"=5, "n"=7], f32> = #nd.fill<1.0>
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["b"=3, "k"=5], f32>
    %w = nd.read @w : !nd.tensor<["k'"=5, "n"=7], f32>
    %r = nd.rename %w "k'" -> "k" : (!nd.tensor<["k'"=5, "n"=7], f32>) -> !nd.tensor<["k"=5, "n"=7], f32>
    %y = nd.einsum %x, %r : (!nd.tensor<["b"=3, "k"=5], f32>, !nd.tensor<["k"=5, "n"=7], f32>) -> !nd.tensor<["b"=3, "n"=7], f32>
    %z = nd.einsum %y, %r : (!nd.tensor<["b"=3, "n"=7], f32>, !nd.tensor<["k"=5, "n"=7], f32>) -> !nd.tensor<["b"=3, "k"=5], f32>
    nd.output "z", %z : !nd.tensor<["b"=3, "k"=5], f32>
  }
}

// -----

// The program of the training step is lowered too.
// CHECK-LABEL: nd.program @forward
// CHECK:         nd.cast %{{.*}} : {{.*}} -> !{{.*}}bf16
// CHECK-LABEL: nd.program @training
// CHECK:         nd.cast %{{.*}} : {{.*}} -> !{{.*}}bf16
!two = !nd.tensor<["b"=2], f32>
!one = !nd.tensor<[], f32>
module {
  nd.precision bf16
  nd.program @forward {
    %x = nd.input "x" : !two
    %y = nd.einsum %x, %x : (!two, !two) -> !one
    nd.output "y", %y : !one
  }
  nd.program @training {
    %x = nd.input "x" : !two
    %y = nd.einsum %x, %x, %x : (!two, !two, !two) -> !one
    nd.output "y", %y : !one
  }
}

// -----

// How a value lies changes no width: the sum that only f32 operations read, behind a
// rule for its name, is f32, as it is without one.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[Y:.*]] = nd.einsum {{.*}} -> !b_by_o_bf16
// CHECK:         %[[WIDE:.*]] = nd.cast %[[Y]] : (!b_by_o_bf16) -> !b_by_o{{$}}
// CHECK:         %[[H:.*]] = nd.add %[[WIDE]], %{{.*}} : (!b_by_o, !o) -> !b_by_o{{$}}
// CHECK:         %[[R:.*]] = nd.reshard %[[H]] : !b_by_o -> !b_at_x_by_o{{$}}
// CHECK:         nd.exp %[[R]] : (!b_at_x_by_o) -> !b_at_x_by_o{{$}}
!x = !nd.tensor<["b"=2, "i"=3], f32>
!w = !nd.tensor<["i"=3, "o"=5], f32>
!o = !nd.tensor<["o"=5], f32>
!y = !nd.tensor<["b"=2, "o"=5], f32>
!lies = !nd.tensor<["b"=2, "o"=5], f32, <"b"@x>>
module {
  nd.mesh ["x"=2]
  nd.precision bf16
  nd.variable parameter @w : !w = #nd.fill<1.0>
  nd.variable parameter @bias : !o = #nd.fill<1.0>
  nd.program @forward {
    %x = nd.input "x" : !x
    %w = nd.read @w : !w
    %bias = nd.read @bias : !o
    %y = nd.einsum %x, %w : (!x, !w) -> !y
    %h = nd.add %y, %bias : (!y, !o) -> !y
    %r = nd.reshard %h : !y -> !lies
    %e = nd.exp %r : (!lies) -> !lies
    nd.output "e", %e : !lies
  }
}

// RUN: meshc-opt %s -nd-differentiate -split-input-file | FileCheck %s
// RUN: meshc-opt %s -nd-differentiate -split-input-file -mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// A contraction's gradients are contractions; @forward stays; parameters only.
// CHECK-LABEL: nd.program @forward
// CHECK-NOT:     grad:
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[W:.*]] = nd.read @w
// CHECK:         nd.output "y",
// CHECK:         %[[ONE:.*]] = nd.constant(1.000000e+00 : f64)
// CHECK:         %[[DY:.*]] = nd.broadcast %[[ONE]] : (!{{.*}}) -> !batch_by_out
// CHECK:         %[[DW:.*]] = nd.einsum %[[DY]], %[[X]] : (!batch_by_out{{.*}}, !batch_by_in{{.*}}) -> !in_by_out
// CHECK-NOT:     nd.einsum
// CHECK-NOT:     "grad:x"
// CHECK:         nd.output "grad:w", %[[DW]]
// CHECK:         nd.output "grad:unused",


// LOC-LABEL: nd.program @gradient
// LOC:         nd.output "y"
// LOC:         nd.einsum {{.*}} loc(#[[$DW:.*]])
// LOC-DAG:   #[[$DW]] = loc(fused<#nd.origin<backward gradient "w">>[#[[$SPAN:.*]]])
// LOC-DAG:   #[[$SPAN]] = loc("net.mesh":7:8)
module {
  nd.variable parameter @w : !nd.tensor<["in"=3, "out"=5], f64> = #nd.fill<1.0>
  nd.variable parameter @unused : !nd.tensor<["in"=3], f64> = #nd.fill<1.0>
  nd.variable state @count : !nd.tensor<[], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["batch"=2, "in"=3], f64>
    %w = nd.read @w : !nd.tensor<["in"=3, "out"=5], f64> loc(fused<#nd.origin<"w">>["net.mesh":2:3])
    %z = nd.einsum %x, %w : (!nd.tensor<["batch"=2, "in"=3], f64>, !nd.tensor<["in"=3, "out"=5], f64>) -> !nd.tensor<["batch"=2, "out"=5], f64> loc(fused<#nd.origin<"z">>["net.mesh":7:8])
    %y = nd.reduce sum %z : (!nd.tensor<["batch"=2, "out"=5], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// Without a recipe there is nothing to differentiate.
// CHECK-LABEL: nd.program @forward
// CHECK-NOT:   nd.program @gradient
module {
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2], f64>
    nd.output "y", %x : !nd.tensor<["a"=2], f64>
  }
}

// -----

// Two reads of one parameter add up; what it was broadcast along is summed.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[FIRST:.*]] = nd.read @b
// CHECK:         %[[SECOND:.*]] = nd.read @b
// CHECK:         %[[U:.*]] = nd.sub %[[X]], %[[FIRST]]
// CHECK:         %[[ONE:.*]] = nd.constant(1.000000e+00 : f64)
// CHECK:         %[[DY:.*]] = nd.broadcast %[[ONE]]
// CHECK:         %[[DU:.*]] = nd.mul %[[DY]], %[[SECOND]] : {{.*}} -> !a_by_b_f64
// CHECK:         %[[TERM:.*]] = nd.mul %[[DY]], %[[U]] : {{.*}} -> !a_by_b_f64
// CHECK:         %[[OF_SECOND:.*]] = nd.reduce sum %[[TERM]] : {{.*}} -> !b_f64
// CHECK:         %[[OTHER:.*]] = nd.neg %[[DU]]
// CHECK:         %[[OF_FIRST:.*]] = nd.reduce sum %[[OTHER]] : {{.*}} -> !b_f64
// CHECK:         %[[SUM:.*]] = nd.add %[[OF_FIRST]], %[[OF_SECOND]]
// CHECK:         nd.output "grad:b", %[[SUM]]
module {
  nd.variable parameter @b : !nd.tensor<["b"=3], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f64>
    %0 = nd.read @b : !nd.tensor<["b"=3], f64>
    %1 = nd.read @b : !nd.tensor<["b"=3], f64>
    %u = nd.sub %x, %0 : (!nd.tensor<["a"=2, "b"=3], f64>, !nd.tensor<["b"=3], f64>) -> !nd.tensor<["a"=2, "b"=3], f64>
    %v = nd.mul %u, %1 : (!nd.tensor<["a"=2, "b"=3], f64>, !nd.tensor<["b"=3], f64>) -> !nd.tensor<["a"=2, "b"=3], f64>
    %y = nd.reduce sum %v : (!nd.tensor<["a"=2, "b"=3], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// Nothing is built for what does not influence the output, and nothing for the
// integers and the position on the way.
// CHECK-LABEL: nd.program @gradient
// CHECK:         nd.output "accuracy"
// CHECK:         %[[ONE:.*]] = nd.constant(1.000000e+00 : f64)
// CHECK-NEXT:    %[[DX:.*]] = nd.broadcast %[[ONE]]
// CHECK-NEXT:    nd.output "grad:w", %[[DX]]
module {
  nd.variable parameter @w : !nd.tensor<["a"=2, "b"=3], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2, "b"=3], f64>
    %y = nd.reduce sum %w : (!nd.tensor<["a"=2, "b"=3], f64>) -> !nd.tensor<[], f64>
    %i = nd.arg_reduce max %w over "b" : (!nd.tensor<["a"=2, "b"=3], f64>) -> !nd.tensor<["a"=2], i32>
    %f = nd.cast %i : (!nd.tensor<["a"=2], i32>) -> !nd.tensor<["a"=2], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
    nd.output "accuracy", %f : !nd.tensor<["a"=2], f64>
  }
}

// -----

// relu's gradient is in terms of its result: nothing else has to be kept.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[H:.*]] = nd.maximum
// CHECK:         %[[ON:.*]] = nd.compare gt %[[H]], %{{.*}} :
// CHECK:         nd.select %[[ON]],
// CHECK-NOT:     nd.compare
module {
  nd.variable parameter @w : !nd.tensor<["a"=2], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2], f64>
    %zero = nd.constant(0.0 : f64) : !nd.tensor<[], f64>
    %h = nd.maximum %w, %zero : (!nd.tensor<["a"=2], f64>, !nd.tensor<[], f64>) -> !nd.tensor<["a"=2], f64>
    %y = nd.reduce sum %h : (!nd.tensor<["a"=2], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// A user's constraint says nothing of the gradient.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[DX:.*]] = nd.broadcast
// CHECK-NOT:     nd.reshard %[[DX]]
// CHECK:         nd.output "grad:w", %[[DX]]
module {
  nd.mesh ["x"=3]
  nd.variable parameter @w : !nd.tensor<["a"=2, "b"=3], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2, "b"=3], f64>
    %r = nd.reshard %w : !nd.tensor<["a"=2, "b"=3], f64> -> !nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>
    %y = nd.reduce sum %r : (!nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// A gradient reads what a constraint alone reads as it lies behind that.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[T:.*]] = nd.tanh
// CHECK-NEXT:    %[[R:.*]] = nd.reshard %[[T]]
// CHECK-NOT:     %[[T]]
// CHECK:         nd.mul %[[R]], %[[R]]
// CHECK-NOT:     %[[T]]
// CHECK:         nd.output "grad:w"
module {
  nd.mesh ["x"=3]
  nd.variable parameter @w : !nd.tensor<["a"=2, "b"=3], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["a"=2, "b"=3], f64>
    %t = nd.tanh %w : (!nd.tensor<["a"=2, "b"=3], f64>) -> !nd.tensor<["a"=2, "b"=3], f64>
    %r = nd.reshard %t : !nd.tensor<["a"=2, "b"=3], f64> -> !nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>
    %y = nd.reduce sum %r : (!nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// What was picked gets its gradient back by the same index, of however many
// positions; see below where nothing is added up.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[I:.*]] = nd.input "i"
// CHECK:         nd.put %{{.*}}[%[[I]]] over "v" : (!b_f64, !b_i32) -> !v_f64
module {
  nd.variable parameter @w : !nd.tensor<["v"=2147483649], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["v"=2147483649], f64>
    %i = nd.input "i" : !nd.tensor<["b"=3], i32>
    %g = nd.gather %w[%i] over "v" : (!nd.tensor<["v"=2147483649], f64>, !nd.tensor<["b"=3], i32>) -> !nd.tensor<["b"=3], f64>
    %y = nd.reduce sum %g : (!nd.tensor<["b"=3], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// Behind an index that has no dimension but the table's, each element is chosen.
// There are more positions than an i32 index can name: they are counted in i64.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[I:.*]] = nd.input "i"
// CHECK-DAG:     %[[WIDE:.*]] = nd.cast %[[I]] : {{.*}} -> !b_i64
// CHECK-DAG:     %[[POSITION:.*]] = nd.iota : !v_i64
// CHECK:         nd.compare eq %[[POSITION]], %[[WIDE]]
// CHECK-NOT:     nd.put
module {
  nd.variable parameter @w : !nd.tensor<["v"=2147483649, "b"=3], f64> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["v"=2147483649, "b"=3], f64>
    %i = nd.input "i" : !nd.tensor<["b"=3], i32>
    %g = nd.gather %w[%i] over "v" : (!nd.tensor<["v"=2147483649, "b"=3], f64>, !nd.tensor<["b"=3], i32>) -> !nd.tensor<["b"=3], f64>
    %y = nd.reduce sum %g : (!nd.tensor<["b"=3], f64>) -> !nd.tensor<[], f64>
    nd.output "y", %y : !nd.tensor<[], f64>
  }
}

// -----

// What is picked of a parameter in 16 bits is added up in those of the parameter.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[SUM:.*]] = nd.put %{{.*}}[%{{.*}}] over "v" : (!b_bf16, !b_i32) -> !v{{$}}
// CHECK-NEXT:    nd.output "{{.*}}", %[[SUM]]
module {
  nd.variable parameter @w : !nd.tensor<["v"=5], f32> = #nd.fill<1.0>
  nd.training minimize "y" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %w = nd.read @w : !nd.tensor<["v"=5], f32>
    %n = nd.cast %w : (!nd.tensor<["v"=5], f32>) -> !nd.tensor<["v"=5], bf16>
    %i = nd.input "i" : !nd.tensor<["b"=3], i32>
    %g = nd.gather %n[%i] over "v" : (!nd.tensor<["v"=5], bf16>, !nd.tensor<["b"=3], i32>) -> !nd.tensor<["b"=3], bf16>
    %f = nd.cast %g : (!nd.tensor<["b"=3], bf16>) -> !nd.tensor<["b"=3], f32>
    %y = nd.reduce sum %f : (!nd.tensor<["b"=3], f32>) -> !nd.tensor<[], f32>
    nd.output "y", %y : !nd.tensor<[], f32>
  }
}

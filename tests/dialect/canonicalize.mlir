// Folds and canonicalisations of single operations.
// RUN: meshc-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: nd.program @reshard_to_what_it_is
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    nd.output "y", %[[X]]
nd.mesh ["x"=2]
nd.program @reshard_to_what_it_is {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32, <"a"@x>>
  %y = nd.reshard %x : !nd.tensor<["a"=2], f32, <"a"@x>> -> !nd.tensor<["a"=2], f32, <"a"@x>>
  nd.output "y", %y : !nd.tensor<["a"=2], f32, <"a"@x>>
}

// -----

// CHECK-LABEL: nd.program @reshard_stays
// CHECK:         nd.reshard
nd.mesh ["x"=2]
nd.program @reshard_stays {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32>
  %y = nd.reshard %x : !nd.tensor<["a"=2], f32> -> !nd.tensor<["a"=2], f32, <"a"@x>>
  nd.output "y", %y : !nd.tensor<["a"=2], f32, <"a"@x>>
}

// -----

// CHECK-LABEL: nd.program @rename_chain
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = nd.rename %[[X]] "a" -> "d" : (!a_by_b) -> !d_by_b
// CHECK-NEXT:    nd.output "y", %[[Y]]
nd.program @rename_chain {
  %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
  %1 = nd.rename %x "a" -> "c" : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["c"=2, "b"=3], f32>
  %2 = nd.rename %1 "c" -> "d" : (!nd.tensor<["c"=2, "b"=3], f32>) -> !nd.tensor<["d"=2, "b"=3], f32>
  nd.output "y", %2 : !nd.tensor<["d"=2, "b"=3], f32>
}

// -----

// CHECK-LABEL: nd.program @rename_and_back
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    nd.output "y", %[[X]]
nd.program @rename_and_back {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32>
  %1 = nd.rename %x "a" -> "c" : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["c"=2], f32>
  %2 = nd.rename %1 "c" -> "a" : (!nd.tensor<["c"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "y", %2 : !nd.tensor<["a"=2], f32>
}

// -----

// Renames of two dimensions are one, even if one takes the other's name.
// CHECK-LABEL: nd.program @renames_of_two_dims
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = nd.rename %[[X]] "a" -> "c", "b" -> "a" : (!a_by_b) -> !c_by_a
// CHECK-NEXT:    nd.output "y", %[[Y]]
nd.program @renames_of_two_dims {
  %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
  %1 = nd.rename %x "a" -> "c" : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["c"=2, "b"=3], f32>
  %2 = nd.rename %1 "b" -> "a" : (!nd.tensor<["c"=2, "b"=3], f32>) -> !nd.tensor<["c"=2, "a"=3], f32>
  nd.output "y", %2 : !nd.tensor<["c"=2, "a"=3], f32>
}

// -----

// What is exchanged twice is where it was; once is no empty rename.
// CHECK-LABEL: nd.program @exchanges
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = nd.rename %[[X]] "a" -> "b", "b" -> "a" : (!a_by_b) -> !b_by_a
// CHECK-NEXT:    nd.output "once", %[[Y]]
// CHECK-NEXT:    nd.output "twice", %[[X]]
nd.program @exchanges {
  %x = nd.input "x" : !nd.tensor<["a"=2, "b"=2], f32>
  %1 = nd.rename %x "a" -> "b", "b" -> "a" : (!nd.tensor<["a"=2, "b"=2], f32>) -> !nd.tensor<["b"=2, "a"=2], f32>
  %2 = nd.rename %1 "a" -> "b", "b" -> "a" : (!nd.tensor<["b"=2, "a"=2], f32>) -> !nd.tensor<["a"=2, "b"=2], f32>
  nd.output "once", %1 : !nd.tensor<["b"=2, "a"=2], f32>
  nd.output "twice", %2 : !nd.tensor<["a"=2, "b"=2], f32>
}

// -----

// A splat stays one number however large the tensor.
// CHECK-LABEL: nd.program @splats
// CHECK-DAG:     %[[TWO:.*]] = nd.constant(2.000000e+00 : f32) : !a_by_b
// CHECK-DAG:     %[[SEVEN:.*]] = nd.constant(7 : i32) : !c_i32
// CHECK-NOT:     nd.broadcast
// CHECK:         nd.output "broadcast", %[[TWO]] : !a_by_b
// CHECK-NEXT:    nd.output "rename", %[[SEVEN]] : !c_i32
nd.program @splats {
  %two = nd.constant(2.0 : f32) : !nd.tensor<[], f32>
  %0 = nd.broadcast %two : (!nd.tensor<[], f32>) -> !nd.tensor<["a"=1000000000, "b"=1000000000], f32>
  nd.output "broadcast", %0 : !nd.tensor<["a"=1000000000, "b"=1000000000], f32>
  %seven = nd.constant(7 : i32) : !nd.tensor<["a"=1000000000], i32>
  %1 = nd.rename %seven "a" -> "c" : (!nd.tensor<["a"=1000000000], i32>) -> !nd.tensor<["c"=1000000000], i32>
  nd.output "rename", %1 : !nd.tensor<["c"=1000000000], i32>
}

// -----

// Arithmetic on splats, in the precision of their type: in f32 1e8 + 1 is 1e8.
// CHECK-LABEL: nd.program @arithmetic
// CHECK-DAG:     %[[SUM:.*]] = nd.constant(1.000000e+08 : f32) : !a
// CHECK-DAG:     %[[DIFFERENCE:.*]] = nd.constant(-2 : i32) : !a_i32
// CHECK-DAG:     %[[PRODUCT:.*]] = nd.constant(15 : i32) : !a_i32
// CHECK-DAG:     %[[RATIO:.*]] = nd.constant(0.333333343 : f32) : !scalar
// CHECK:         nd.output "sum", %[[SUM]]
// CHECK:         nd.output "difference", %[[DIFFERENCE]]
// CHECK:         nd.output "product", %[[PRODUCT]]
// CHECK:         nd.output "ratio", %[[RATIO]]
nd.program @arithmetic {
  %large = nd.constant(1.0e8 : f32) : !nd.tensor<["a"=2], f32>
  %one = nd.constant(1.0 : f32) : !nd.tensor<[], f32>
  %sum = nd.add %large, %one : (!nd.tensor<["a"=2], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "sum", %sum : !nd.tensor<["a"=2], f32>
  %three = nd.constant(3 : i32) : !nd.tensor<["a"=2], i32>
  %five = nd.constant(5 : i32) : !nd.tensor<["a"=2], i32>
  %difference = nd.sub %three, %five : (!nd.tensor<["a"=2], i32>, !nd.tensor<["a"=2], i32>) -> !nd.tensor<["a"=2], i32>
  nd.output "difference", %difference : !nd.tensor<["a"=2], i32>
  %product = nd.mul %three, %five : (!nd.tensor<["a"=2], i32>, !nd.tensor<["a"=2], i32>) -> !nd.tensor<["a"=2], i32>
  nd.output "product", %product : !nd.tensor<["a"=2], i32>
  %third = nd.constant(3.0 : f32) : !nd.tensor<[], f32>
  %ratio = nd.div %one, %third : (!nd.tensor<[], f32>, !nd.tensor<[], f32>) -> !nd.tensor<[], f32>
  nd.output "ratio", %ratio : !nd.tensor<[], f32>
}

// -----

// What adds 0 or multiplies by 1 is its other operand.
// CHECK-LABEL: nd.program @neutral
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    nd.output "0", %[[X]]
// CHECK-NEXT:    nd.output "1", %[[X]]
// CHECK-NEXT:    nd.output "2", %[[X]]
// CHECK-NEXT:    nd.output "3", %[[X]]
// CHECK-NEXT:    nd.output "4", %[[X]]
nd.program @neutral {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32>
  %zero = nd.constant(0.0 : f32) : !nd.tensor<[], f32>
  %one = nd.constant(1.0 : f32) : !nd.tensor<[], f32>
  %0 = nd.add %zero, %x : (!nd.tensor<[], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "0", %0 : !nd.tensor<["a"=2], f32>
  %1 = nd.sub %x, %zero : (!nd.tensor<["a"=2], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "1", %1 : !nd.tensor<["a"=2], f32>
  %2 = nd.mul %one, %x : (!nd.tensor<[], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "2", %2 : !nd.tensor<["a"=2], f32>
  %3 = nd.div %x, %one : (!nd.tensor<["a"=2], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "3", %3 : !nd.tensor<["a"=2], f32>
  %4 = nd.cast %x : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "4", %4 : !nd.tensor<["a"=2], f32>
}

// -----

// 0 - x and 1 / x are not x; what broadcasts or converts stays.
// CHECK-LABEL: nd.program @not_neutral
// CHECK:         nd.sub
// CHECK:         nd.div
// CHECK:         nd.add
// CHECK:         nd.cast
nd.program @not_neutral {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32>
  %zero = nd.constant(0.0 : f32) : !nd.tensor<["b"=3], f32>
  %one = nd.constant(1.0 : f32) : !nd.tensor<[], f32>
  %none = nd.constant(0.0 : f32) : !nd.tensor<[], f32>
  %0 = nd.sub %none, %x : (!nd.tensor<[], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "0", %0 : !nd.tensor<["a"=2], f32>
  %1 = nd.div %one, %x : (!nd.tensor<[], f32>, !nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "1", %1 : !nd.tensor<["a"=2], f32>
  %2 = nd.add %x, %zero : (!nd.tensor<["a"=2], f32>, !nd.tensor<["b"=3], f32>) -> !nd.tensor<["a"=2, "b"=3], f32>
  nd.output "2", %2 : !nd.tensor<["a"=2, "b"=3], f32>
  %3 = nd.cast %x : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f64>
  nd.output "3", %3 : !nd.tensor<["a"=2], f64>
}

// -----

// CHECK-LABEL: nd.program @nothing_to_do
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    nd.output "broadcast", %[[X]]
// CHECK-NEXT:    nd.output "reduce", %[[X]]
// CHECK-NEXT:    nd.output "einsum", %[[X]]
// CHECK-NEXT:    nd.output "view", %[[X]]
nd.program @nothing_to_do {
  %x = nd.input "x" : !nd.tensor<["a"=2], f32>
  %0 = nd.broadcast %x : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "broadcast", %0 : !nd.tensor<["a"=2], f32>
  %1 = nd.reduce max %x : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "reduce", %1 : !nd.tensor<["a"=2], f32>
  %2 = nd.einsum %x : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "einsum", %2 : !nd.tensor<["a"=2], f32>
  %3 = nd.view %x ["a" = "a"] : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<["a"=2], f32>
  nd.output "view", %3 : !nd.tensor<["a"=2], f32>
}

// -----

// A contraction of one is a sum; a sum of a sum is one sum, a sum of a maximum
// is not.
// CHECK-LABEL: nd.program @reductions
// CHECK-NEXT:    %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[SUM:.*]] = nd.reduce sum %[[X]] : (!a_by_b) -> !scalar
// CHECK-NEXT:    nd.output "sum", %[[SUM]]
// CHECK-NEXT:    %[[MAX:.*]] = nd.reduce max %[[X]] : (!a_by_b) -> !a
// CHECK-NEXT:    nd.reduce sum %[[MAX]] : (!a) -> !scalar
nd.program @reductions {
  %x = nd.input "x" : !nd.tensor<["a"=2, "b"=3], f32>
  %0 = nd.einsum %x : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["b"=3], f32>
  %1 = nd.reduce sum %0 : (!nd.tensor<["b"=3], f32>) -> !nd.tensor<[], f32>
  nd.output "sum", %1 : !nd.tensor<[], f32>
  %2 = nd.reduce max %x : (!nd.tensor<["a"=2, "b"=3], f32>) -> !nd.tensor<["a"=2], f32>
  %3 = nd.reduce sum %2 : (!nd.tensor<["a"=2], f32>) -> !nd.tensor<[], f32>
  nd.output "max", %3 : !nd.tensor<[], f32>
}

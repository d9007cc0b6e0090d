// RUN: meshc-opt %s -nd-assign-shardings -split-input-file | FileCheck %s

// A library that sends contiguous blocks scatters a sum over its outermost
// dimension: the product writes it in that order, and the parameter keeps its
// own.
// CHECK-LABEL: nd.program @scatter
// CHECK:         %[[P:.*]] = nd.einsum {{.*}} -> !c_by_e_sum_over_data
// CHECK-NEXT:    %[[S:.*]] = nd.reshard %[[P]] {{.*}} : !c_by_e_sum_over_data -> !c_at_data_by_e
// CHECK-NEXT:    %[[R:.*]] = nd.rename %[[S]] "c" -> "d"
// CHECK-NEXT:    %[[W:.*]] = nd.reduce sum %[[R]] : (!d_at_data_by_e) -> !e_by_d_at_data
// CHECK-NEXT:    nd.write @w, %[[W]]
nd.mesh ["data"=8] machine "h100"
nd.rule "batch -> data"
nd.rule "d -> data"
nd.variable parameter @w : !nd.tensor<["e"=4096, "d"=4096], f32> = #nd.fill<1.0>
nd.program @scatter {
  %x = nd.input "x" : !nd.tensor<["batch"=8192, "e"=4096], f32>
  %y = nd.input "y" : !nd.tensor<["batch"=8192, "c"=4096], f32>
  %p = nd.einsum %x, %y : (!nd.tensor<["batch"=8192, "e"=4096], f32>, !nd.tensor<["batch"=8192, "c"=4096], f32>) -> !nd.tensor<["e"=4096, "c"=4096], f32>
  %r = nd.rename %p "c" -> "d" : (!nd.tensor<["e"=4096, "c"=4096], f32>) -> !nd.tensor<["e"=4096, "d"=4096], f32>
  nd.write @w, %r : !nd.tensor<["e"=4096, "d"=4096], f32>
}

// -----

// A parameter is copied where it is gathered along an inner dimension.
// CHECK-LABEL: nd.program @gather
// CHECK:         %[[W:.*]] = nd.read @w : !e_by_d_at_data
// CHECK-NEXT:    %[[C:.*]] = nd.reduce sum %[[W]] {nd.copy_to_send} : (!e_by_d_at_data) -> !d_at_data_by_e
// CHECK-NEXT:    %[[G:.*]] = nd.reshard %[[C]] {{.*}} : !d_at_data_by_e -> !d_by_e
// CHECK-NEXT:    nd.rename %[[G]] "d" -> "c"
nd.mesh ["data"=8] machine "h100"
nd.rule "batch -> data"
nd.rule "d -> data"
nd.variable parameter @w : !nd.tensor<["e"=4096, "d"=4096], f32> = #nd.fill<1.0>
nd.program @gather {
  %x = nd.input "x" : !nd.tensor<["batch"=8192, "e"=4096], f32>
  %w = nd.read @w : !nd.tensor<["e"=4096, "d"=4096], f32>
  %r = nd.rename %w "d" -> "c" : (!nd.tensor<["e"=4096, "d"=4096], f32>) -> !nd.tensor<["e"=4096, "c"=4096], f32>
  %p = nd.einsum %x, %r : (!nd.tensor<["batch"=8192, "e"=4096], f32>, !nd.tensor<["e"=4096, "c"=4096], f32>) -> !nd.tensor<["batch"=8192, "c"=4096], f32>
  nd.output "p", %p : !nd.tensor<["batch"=8192, "c"=4096], f32>
}

// -----

// A product that would write another order in pieces keeps its own: the terms are
// copied before they are sent, and what arrives is copied back for the sum.
// CHECK-LABEL: nd.program @copied
// CHECK:         %[[P:.*]] = nd.einsum {{.*}} -> !batch_by_pos_by_d_sum_over_model
// CHECK-NEXT:    %[[C:.*]] = nd.reduce sum %[[P]] {nd.copy_to_send} {{.*}} -> !pos_by_batch_by_d_sum_over_model
// CHECK-NEXT:    %[[S:.*]] = nd.reshard %[[C]] {{.*}} -> !pos_at_model_by_batch_by_d
// CHECK:         nd.add
nd.mesh ["model"=8] machine "h100"
nd.rule "f -> model"
nd.rule "pos -> model unless f"
nd.program @copied {
  %h = nd.input "h" : !nd.tensor<["batch"=2, "pos"=2048, "f"=16384], f32>
  %w = nd.input "w" : !nd.tensor<["f"=16384, "d"=4096], f32>
  %x = nd.input "x" : !nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>
  %p = nd.einsum %h, %w : (!nd.tensor<["batch"=2, "pos"=2048, "f"=16384], f32>, !nd.tensor<["f"=16384, "d"=4096], f32>) -> !nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>
  %y = nd.add %p, %x : (!nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>, !nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>) -> !nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>
  nd.output "y", %y : !nd.tensor<["batch"=2, "pos"=2048, "d"=4096], f32>
}

// -----

// Processes send boxes of any shape.
// CHECK-LABEL: nd.program @processes
// CHECK:         nd.einsum {{.*}} -> !e_by_c_sum_over_data
nd.mesh ["data"=8]
nd.rule "batch -> data"
nd.rule "d -> data"
nd.variable parameter @w : !nd.tensor<["e"=4096, "d"=4096], f32> = #nd.fill<1.0>
nd.program @processes {
  %x = nd.input "x" : !nd.tensor<["batch"=8192, "e"=4096], f32>
  %y = nd.input "y" : !nd.tensor<["batch"=8192, "c"=4096], f32>
  %p = nd.einsum %x, %y : (!nd.tensor<["batch"=8192, "e"=4096], f32>, !nd.tensor<["batch"=8192, "c"=4096], f32>) -> !nd.tensor<["e"=4096, "c"=4096], f32>
  %r = nd.rename %p "c" -> "d" : (!nd.tensor<["e"=4096, "c"=4096], f32>) -> !nd.tensor<["e"=4096, "d"=4096], f32>
  nd.write @w, %r : !nd.tensor<["e"=4096, "d"=4096], f32>
}

// -----

// The contraction that reads what arrives sums over "batch" and "pos" of x,
// which lie so there: each device copies its part to that order, under the name
// that is split.
// CHECK-LABEL: nd.program @arriving
// CHECK:         %[[P:.*]] = nd.einsum {{.*}} -> !at_by_batch_by_d_sum_over_seq
// CHECK-NEXT:    %[[S:.*]] = nd.reshard %[[P]] {{.*}} -> !at_at_seq_by_batch_by_d
// CHECK-NEXT:    %[[R:.*]] = nd.rename %[[S]] "at" -> "pos"
// CHECK-NEXT:    %[[C:.*]] = nd.reduce sum %[[R]] : (!pos_at_seq_by_batch_by_d) -> !batch_by_pos_at_seq_by_d
// CHECK-NEXT:    nd.einsum %{{.*}}, %[[C]]
nd.mesh ["seq"=8] machine "h100"
nd.rule "pos -> seq"
nd.program @arriving {
  %x = nd.input "x" : !nd.tensor<["batch"=16, "pos"=1024, "e"=512], f32>
  %s = nd.input "s" : !nd.tensor<["batch"=16, "pos"=1024, "at"=1024], f32>
  %y = nd.input "y" : !nd.tensor<["batch"=16, "pos"=1024, "d"=512], f32>
  %p = nd.einsum %s, %y : (!nd.tensor<["batch"=16, "pos"=1024, "at"=1024], f32>, !nd.tensor<["batch"=16, "pos"=1024, "d"=512], f32>) -> !nd.tensor<["batch"=16, "at"=1024, "d"=512], f32>
  %r = nd.rename %p "at" -> "pos" : (!nd.tensor<["batch"=16, "at"=1024, "d"=512], f32>) -> !nd.tensor<["batch"=16, "pos"=1024, "d"=512], f32>
  %w = nd.einsum %x, %r : (!nd.tensor<["batch"=16, "pos"=1024, "e"=512], f32>, !nd.tensor<["batch"=16, "pos"=1024, "d"=512], f32>) -> !nd.tensor<["e"=512, "d"=512], f32>
  nd.output "w", %w : !nd.tensor<["e"=512, "d"=512], f32>
}

// -----

// A rename has the order of its operand. What is gathered behind one is copied, if
// others read the operand as it is.
// CHECK-LABEL: nd.program @renamed
// CHECK:         %[[W:.*]] = nd.read @w : !e_by_d_at_data
// CHECK:         %[[R:.*]] = nd.rename %[[W]] "d" -> "c" : (!e_by_d_at_data) -> !e_by_c_at_data
// CHECK-NEXT:    %[[C:.*]] = nd.reduce sum %[[R]] {nd.copy_to_send} : (!e_by_c_at_data) -> !c_at_data_by_e
// CHECK-NEXT:    nd.reshard %[[C]] {{.*}} : !c_at_data_by_e -> !c_by_e
nd.mesh ["data"=8] machine "h100"
nd.rule "(c, d) -> data unless batch"
nd.rule "batch -> data"
nd.variable parameter @w : !nd.tensor<["e"=4096, "d"=4096], f32> = #nd.fill<1.0>
nd.program @renamed {
  %x = nd.input "x" : !nd.tensor<["batch"=8192, "e"=4096], f32>
  %w = nd.read @w : !nd.tensor<["e"=4096, "d"=4096], f32>
  %r = nd.rename %w "d" -> "c" : (!nd.tensor<["e"=4096, "d"=4096], f32>) -> !nd.tensor<["e"=4096, "c"=4096], f32>
  %p = nd.einsum %x, %r : (!nd.tensor<["batch"=8192, "e"=4096], f32>, !nd.tensor<["e"=4096, "c"=4096], f32>) -> !nd.tensor<["batch"=8192, "c"=4096], f32>
  nd.output "p", %p : !nd.tensor<["batch"=8192, "c"=4096], f32>
  %s = nd.reduce sum %w : (!nd.tensor<["e"=4096, "d"=4096], f32>) -> !nd.tensor<["d"=4096], f32>
  nd.output "s", %s : !nd.tensor<["d"=4096], f32>
}

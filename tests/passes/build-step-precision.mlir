// RUN: meshc-opt %s -split-input-file -nd-lower-precision -nd-build-step | FileCheck %s

!x = !nd.tensor<["b"=2, "i"=3], f32>
!w = !nd.tensor<["i"=3, "o"=5], f32>
!o = !nd.tensor<["o"=5], f32>
!y = !nd.tensor<["b"=2, "o"=5], f32>
!scalar = !nd.tensor<[], f32>

// The gradients of parameters come out of their sums in f32: no product, and no
// sum over the batch, is rounded to bf16 on its way to the optimizer.
// CHECK-LABEL: nd.program @step
// CHECK:         %[[X16:.*]] = nd.cast %{{.*}} : (!b_by_i) -> !b_by_i_bf16
// CHECK:         %[[G:.*]] = nd.cast %{{.*}} : (!b_by_o) -> !b_by_o_bf16
// CHECK-DAG:     %[[DW:.*]] = nd.einsum %[[G]], %[[X16]] : (!b_by_o_bf16, !b_by_i_bf16) -> !i_by_o
// CHECK-DAG:     %[[G32:.*]] = nd.cast %[[G]] : (!b_by_o_bf16) -> !b_by_o
// CHECK-DAG:     %[[DB:.*]] = nd.reduce sum %[[G32]] : (!b_by_o) -> !o
// CHECK:         nd.mul %[[DW]], %{{.*}} : (!i_by_o, !scalar) -> !i_by_o
// CHECK:         nd.mul %[[DB]], %{{.*}} : (!o, !scalar) -> !o
module {
  nd.precision bf16
  nd.variable parameter @w : !w = #nd.fill<1.0>
  nd.variable parameter @bias : !o = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !x
    %w = nd.read @w : !w
    %bias = nd.read @bias : !o
    %y = nd.einsum %x, %w : (!x, !w) -> !y
    %z = nd.add %y, %bias : (!y, !o) -> !y
    %zero = nd.constant(0.0 : f32) : !scalar
    %h = nd.maximum %z, %zero : (!y, !scalar) -> !y
    %e = nd.exp %h : (!y) -> !y
    %loss = nd.reduce sum %e : (!y) -> !scalar
    nd.output "loss", %loss : !scalar
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f32) : !nd.tensor<[], f32>
    %w = nd.read @w : !w
    %gw = nd.gradient @w : !w
    %sw = nd.mul %gw, %lr : (!w, !nd.tensor<[], f32>) -> !w
    %nw = nd.sub %w, %sw : (!w, !w) -> !w
    nd.write @w, %nw : !w
    %bias = nd.read @bias : !o
    %gbias = nd.gradient @bias : !o
    %sbias = nd.mul %gbias, %lr : (!o, !nd.tensor<[], f32>) -> !o
    %nbias = nd.sub %bias, %sbias : (!o, !o) -> !o
    nd.write @bias, %nbias : !o
  }
}

// -----

!x = !nd.tensor<["i"=3], f32>
!scalar = !nd.tensor<[], f32>

// The loss scale is the gradient of the loss, goes out of the gradients again in
// f32, and decides with them about every write.
// CHECK-DAG:   nd.variable state @"fp16/loss_scale" : !scalar = #nd.fill<1.024000e+03
// CHECK-DAG:   nd.variable state @"fp16/good_steps" : !scalar_i32 = #nd.fill<0.0
// CHECK-DAG:   nd.variable state @"fp16/skipped_steps" : !scalar_i32 = #nd.fill<0.0
// CHECK-LABEL: nd.program @step
// CHECK:         %[[OLD:.*]] = nd.read @w : !i
// CHECK:         %[[SCALE:.*]] = nd.read @"fp16/loss_scale" : !scalar
// CHECK:         nd.broadcast %[[SCALE]]
// CHECK:         %[[ONE:.*]] = nd.constant(1.000000e+00 : f32)
// CHECK:         %[[INVERSE:.*]] = nd.div %[[ONE]], %[[SCALE]]
// CHECK:         %[[G:.*]] = nd.mul %[[SCALED:.*]], %[[INVERSE]] : (!i, !scalar) -> !i
// CHECK:         %[[UPDATED:.*]] = nd.sub %[[OLD]], %{{.*}} : (!i, !i) -> !i
// CHECK:         %[[LARGEST:.*]] = nd.constant(3.40282347E+38 : f32)
// CHECK:         %[[SIZE:.*]] = nd.abs %[[SCALED]]
// CHECK:         nd.compare le %[[SIZE]], %[[LARGEST]]
// CHECK:         %[[GOOD:.*]] = nd.compare eq %{{.*}}, %{{.*}} : (!scalar, !scalar) -> !scalar_i1
// CHECK:         %[[KEPT:.*]] = nd.select %[[GOOD]], %[[UPDATED]], %[[OLD]] : (!scalar_i1, !i, !i) -> !i
// CHECK:         nd.write @w, %[[KEPT]]
// CHECK:         %[[LIMIT:.*]] = nd.constant(7 : i32)
// CHECK:         nd.compare ge %{{.*}}, %[[LIMIT]]
// CHECK-DAG:     nd.write @"fp16/loss_scale", %[[AFTER:.*]] : !scalar
// CHECK-DAG:     nd.write @"fp16/good_steps"
// CHECK-DAG:     nd.write @"fp16/skipped_steps", %[[SKIPPED:.*]] : !scalar_i32
// CHECK-DAG:     nd.output "fp16/loss_scale", %[[AFTER]] : !scalar
// CHECK-DAG:     nd.output "fp16/skipped_steps", %[[SKIPPED]] : !scalar_i32
module {
  nd.precision fp16 {scale = 1024.0 : f64, growth_steps = 7 : i64}
  nd.variable parameter @w : !x = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !x
    %w = nd.read @w : !x
    %y = nd.mul %x, %w : (!x, !x) -> !x
    %z = nd.mul %y, %x : (!x, !x) -> !x
    %loss = nd.reduce sum %z : (!x) -> !scalar
    nd.output "loss", %loss : !scalar
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f32) : !nd.tensor<[], f32>
    %w = nd.read @w : !x
    %gw = nd.gradient @w : !x
    %sw = nd.mul %gw, %lr : (!x, !nd.tensor<[], f32>) -> !x
    %nw = nd.sub %w, %sw : (!x, !x) -> !x
    nd.write @w, %nw : !x
  }
}

// -----

!x = !nd.tensor<["b"=4, "i"=3], f32>
!part = !nd.tensor<["i'"=3, "o"=5], f32>
!renamed = !nd.tensor<["i"=3, "o"=5], f32>
!w = !nd.tensor<["p"=2, "i"=3, "o"=5], f32>
!y = !nd.tensor<["b"=4, "p"=2, "o"=5], f32>
!scalar = !nd.tensor<[], f32>

// Nor where parameters are renamed and stacked in between: one product for both.
// CHECK-LABEL: nd.program @step
// CHECK:         %[[DW:.*]] = nd.einsum %{{.*}}, %{{.*}} : (!b_by_p_by_o_bf16, !b_by_i_bf16) -> !p_by_i_by_o
// CHECK-NEXT:    %[[PARTS:.*]]:2 = nd.unstack %[[DW]] along "p" : (!p_by_i_by_o) -> (!i_by_o, !i_by_o)
// CHECK-DAG:     nd.rename %[[PARTS]]#0 {{.*}} : (!i_by_o) -> !i{{.*}}_by_o
// CHECK-DAG:     nd.mul %[[PARTS]]#1, %{{.*}} : (!i_by_o, !scalar) -> !i_by_o
// CHECK-NOT:     nd.einsum
// CHECK:       nd.program @eval
module {
  nd.precision bf16
  nd.variable parameter @first : !part = #nd.fill<1.0>
  nd.variable parameter @second : !renamed = #nd.fill<1.0>
  nd.training minimize "loss" by "sgd" epochs 1 steps 0
  nd.program @forward {
    %x = nd.input "x" : !x
    %first = nd.read @first : !part
    %second = nd.read @second : !renamed
    %renamed = nd.rename %first "i'" -> "i" : (!part) -> !renamed
    %w = nd.stack %renamed, %second along "p" : (!renamed, !renamed) -> !w
    %y = nd.einsum %x, %w : (!x, !w) -> !y
    %e = nd.exp %y : (!y) -> !y
    %loss = nd.reduce sum %e : (!y) -> !scalar
    nd.output "loss", %loss : !scalar
  }
  nd.program @update {
    %lr = nd.constant(0.1 : f32) : !nd.tensor<[], f32>
    %first = nd.read @first : !part
    %gfirst = nd.gradient @first : !part
    %sfirst = nd.mul %gfirst, %lr : (!part, !nd.tensor<[], f32>) -> !part
    %nfirst = nd.sub %first, %sfirst : (!part, !part) -> !part
    nd.write @first, %nfirst : !part
    %second = nd.read @second : !renamed
    %gsecond = nd.gradient @second : !renamed
    %ssecond = nd.mul %gsecond, %lr : (!renamed, !nd.tensor<[], f32>) -> !renamed
    %nsecond = nd.sub %second, %ssecond : (!renamed, !renamed) -> !renamed
    nd.write @second, %nsecond : !renamed
  }
}

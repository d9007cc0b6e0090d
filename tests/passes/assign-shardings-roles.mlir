// RUN: meshc-opt %s -nd-build-step -cse -nd-assign-shardings -split-input-file | FileCheck %s

// Rules for roles: gradients are scattered to where the state lies, each device
// updates its part, and what lies otherwise is gathered once. What an update reads
// alone of a parameter that is whole is a part of it, for which nothing is sent.

// CHECK:       nd.rule "state: * -> x"
// CHECK:       nd.variable parameter @w : !a =
// CHECK:       nd.variable state @m : !a_at_x =
// CHECK-LABEL: nd.program @step
// CHECK-DAG:     %[[W:.*]] = nd.read @w : !a
// CHECK-DAG:     %[[OLD:.*]] = nd.reshard %[[W]] {{.*}} : !a -> !a_at_x
// CHECK:         nd.einsum %{{.*}}, %[[W]] : (!b_at_x_by_a, !a) -> !scalar_sum_over_x
// CHECK:         %[[TERMS:.*]] = nd.einsum {{.*}} -> !a_sum_over_x
// CHECK-NEXT:    %[[G:.*]] = nd.reshard %[[TERMS]] {{.*}} : !a_sum_over_x -> !a_at_x
// CHECK-NEXT:    %[[M:.*]] = nd.read @m : !a_at_x
// CHECK-NEXT:    %[[NEXT:.*]] = nd.add %[[M]], %[[G]] : {{.*}} -> !a_at_x
// CHECK-NEXT:    nd.write @m, %[[NEXT]] : !a_at_x
// CHECK-NEXT:    %[[NEW:.*]] = nd.sub %[[OLD]], %[[NEXT]] : {{.*}} -> !a_at_x
// CHECK-NEXT:    %[[ALL:.*]] = nd.reshard %[[NEW]] {{.*}}no layout rule for \22a\22 beside \22state: * -> x\22{{.*}} : !a_at_x -> !a
// CHECK-NEXT:    nd.write @w, %[[ALL]] : !a
nd.mesh ["x"=2]
nd.rule "b -> x"
nd.rule "state: * -> x"
nd.variable parameter @w : !nd.tensor<["a"=4], f32> = #nd.fill<1.0> loc(fused<#nd.origin<"w">>["net.mesh":3:4])
nd.variable state @m : !nd.tensor<["a"=4], f32> = #nd.fill<0.0>
nd.training minimize "loss" by "momentum" epochs 1 steps 0
nd.program @forward {
  %x = nd.input "x" : !nd.tensor<["b"=6, "a"=4], f32>
  %w = nd.read @w : !nd.tensor<["a"=4], f32>
  %loss = nd.einsum %x, %w : (!nd.tensor<["b"=6, "a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<[], f32>
  nd.output "loss", %loss : !nd.tensor<[], f32>
}
#update = loc(fused<#nd.origin<update updated "w">>["net.mesh":3:4])
nd.program @update {
  %w = nd.read @w : !nd.tensor<["a"=4], f32> loc(#update)
  %m = nd.read @m : !nd.tensor<["a"=4], f32> loc(#update)
  %gw = nd.gradient @w : !nd.tensor<["a"=4], f32> loc(#update)
  %nm = nd.add %m, %gw : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @m, %nm : !nd.tensor<["a"=4], f32> loc(#update)
  %nw = nd.sub %w, %nm : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @w, %nw : !nd.tensor<["a"=4], f32> loc(#update)
}

// -----

// The parameter itself: it is gathered to be read, and its update is a part.
// CHECK:       nd.variable parameter @w : !a_at_x =
// CHECK:       nd.variable state @m : !a_at_x =
// CHECK-LABEL: nd.program @step
// CHECK:         %[[W:.*]] = nd.read @w : !a_at_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[W]] {{.*}}beside \22params: * -> x\22{{.*}} : !a_at_x -> !a
// CHECK-NEXT:    nd.einsum %{{.*}}, %[[WHOLE]]
// CHECK:         nd.reshard %{{.*}} : !a_sum_over_x -> !a_at_x
// CHECK:         %[[NEW:.*]] = nd.sub %[[W]], %{{.*}} : {{.*}} -> !a_at_x
// CHECK-NEXT:    nd.write @w, %[[NEW]] : !a_at_x
// CHECK-LABEL: nd.program @eval
// CHECK:         nd.reshard %{{.*}} : !a_at_x -> !a
nd.mesh ["x"=2]
nd.rule "b -> x"
nd.rule "params: * -> x"
nd.variable parameter @w : !nd.tensor<["a"=4], f32> = #nd.fill<1.0> loc(fused<#nd.origin<"w">>["net.mesh":3:4])
nd.variable state @m : !nd.tensor<["a"=4], f32> = #nd.fill<0.0>
nd.training minimize "loss" by "momentum" epochs 1 steps 0
nd.program @forward {
  %x = nd.input "x" : !nd.tensor<["b"=6, "a"=4], f32>
  %w = nd.read @w : !nd.tensor<["a"=4], f32>
  %loss = nd.einsum %x, %w : (!nd.tensor<["b"=6, "a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<[], f32>
  nd.output "loss", %loss : !nd.tensor<[], f32>
}
#update = loc(fused<#nd.origin<update updated "w">>["net.mesh":3:4])
nd.program @update {
  %w = nd.read @w : !nd.tensor<["a"=4], f32> loc(#update)
  %m = nd.read @m : !nd.tensor<["a"=4], f32> loc(#update)
  %gw = nd.gradient @w : !nd.tensor<["a"=4], f32> loc(#update)
  %nm = nd.add %m, %gw : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @m, %nm : !nd.tensor<["a"=4], f32> loc(#update)
  %nw = nd.sub %w, %nm : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @w, %nw : !nd.tensor<["a"=4], f32> loc(#update)
}

// -----

// 3 devices do not divide 4 positions: everything is whole.
// CHECK-LABEL: nd.program @step
// CHECK-NOT:     !a_at_x
// CHECK:         nd.reshard %{{.*}} : !a_sum_over_x -> !a
nd.mesh ["x"=3]
nd.rule "b -> x"
nd.rule "params: * -> x"
nd.variable parameter @w : !nd.tensor<["a"=4], f32> = #nd.fill<1.0> loc(fused<#nd.origin<"w">>["net.mesh":3:4])
nd.variable state @m : !nd.tensor<["a"=4], f32> = #nd.fill<0.0>
nd.training minimize "loss" by "momentum" epochs 1 steps 0
nd.program @forward {
  %x = nd.input "x" : !nd.tensor<["b"=6, "a"=4], f32>
  %w = nd.read @w : !nd.tensor<["a"=4], f32>
  %loss = nd.einsum %x, %w : (!nd.tensor<["b"=6, "a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<[], f32>
  nd.output "loss", %loss : !nd.tensor<[], f32>
}
#update = loc(fused<#nd.origin<update updated "w">>["net.mesh":3:4])
nd.program @update {
  %w = nd.read @w : !nd.tensor<["a"=4], f32> loc(#update)
  %m = nd.read @m : !nd.tensor<["a"=4], f32> loc(#update)
  %gw = nd.gradient @w : !nd.tensor<["a"=4], f32> loc(#update)
  %nm = nd.add %m, %gw : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @m, %nm : !nd.tensor<["a"=4], f32> loc(#update)
  %nw = nd.sub %w, %nm : (!nd.tensor<["a"=4], f32>, !nd.tensor<["a"=4], f32>) -> !nd.tensor<["a"=4], f32> loc(#update)
  nd.write @w, %nw : !nd.tensor<["a"=4], f32> loc(#update)
}

// RUN: meshc-opt %s -nd-differentiate -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=NAMES
// RUN: meshc-opt %s -nd-differentiate | FileCheck %s

!c = !nd.tensor<["c"=2], f32>
!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!tc = !nd.tensor<["t"=3, "c"=2], f32>

nd.variable parameter @w : !tc = #nd.fill<1.0>
nd.variable parameter @u : !c = #nd.fill<1.0>
nd.objective minimize "loss"

// The loop stacks the factors of its products in each iteration, its gradient runs from
// the last position to the first, carries the gradient of what is carried,
// stacks that of the slices and sums that of what is captured.
// CHECK-LABEL: nd.program @gradient
// CHECK:         %[[W:.*]] = nd.read @w
// CHECK:         %[[U:.*]] = nd.read @u
// CHECK:         %[[R:.*]]:3 = nd.loop "t"=3 carries(%{{.*}}) slices(%[[W]]) : (!c, !t_by_c) -> (!c, !t_by_c, !t_by_c) {
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32, %[[H:.*]]: !c, %[[S:.*]]: !c):
// CHECK-NEXT:      %[[M:.*]] = nd.mul %[[H]], %[[S]]
// CHECK:           nd.yield carries(%{{.*}} : !c) stacks(%[[M]], %[[H]] : !c, !c)
// CHECK:         %[[G:.*]] = nd.broadcast {{.*}} -> !c
// CHECK-NEXT:    %[[B:.*]]:3 = nd.loop "t"=3 reverse carries(%[[G]]) slices(%[[R]]#1, %[[W]], %[[R]]#2) : {{.*}} -> (!c, !t_by_c, !c) {
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32, %[[A:.*]]: !c, %[[KM:.*]]: !c, %[[KS:.*]]: !c, %[[KH:.*]]: !c):
// CHECK-NEXT:      %[[DM:.*]] = nd.mul %[[A]], %[[U]]
// CHECK-NEXT:      %[[DU:.*]] = nd.mul %[[A]], %[[KM]]
// CHECK-NEXT:      %[[DH:.*]] = nd.mul %[[DM]], %[[KS]]
// CHECK-NEXT:      %[[DS:.*]] = nd.mul %[[DM]], %[[KH]]
// CHECK-NEXT:      nd.yield carries(%[[DH]] : !c) stacks(%[[DS]] : !c) sums(%[[DU]] : !c)
// CHECK:         nd.output "grad:w", %[[B]]#1
// CHECK:         nd.output "grad:u", %[[B]]#2
// NAMES-LABEL: nd.program @gradient
// NAMES:         } loc(fused<#nd.origin<backward gradient "layer">>[unknown])
nd.program @forward {
  %h = nd.input "h" : !c
  %w = nd.read @w : !tc
  %u = nd.read @u : !c
  %r = nd.loop "t"=3 carries(%h) slices(%w) : (!c, !tc) -> !c {
  ^bb0(%t: !i, %a: !c, %s: !c):
    %m = nd.mul %a, %s : (!c, !c) -> !c
    %n = nd.mul %m, %u : (!c, !c) -> !c
    nd.yield carries(%n : !c)
  } loc(fused<#nd.origin<"layer">>[unknown])
  %loss = nd.reduce sum %r : (!c) -> !s
  nd.output "loss", %loss : !s
}

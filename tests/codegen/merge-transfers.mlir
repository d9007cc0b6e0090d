// RUN: meshc-opt %s -exec-merge-transfers | FileCheck %s
// RUN: meshc-opt %s -exec-merge-transfers=bucket-bytes=0 | FileCheck %s --check-prefix=APART

nd.mesh ["d"=2, "e"=3]

// Small sums over the same axes go together, where the last of them stood; others
// stay alone.
// CHECK-LABEL: exec.program @sums {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = spmd.input "y"
// CHECK-NEXT:    %[[Z:.*]] = spmd.input "z"
// CHECK-NEXT:    %[[R:.*]] = exec.transfer(%[[Z]]) {
// CHECK:         %[[S:.*]]:2 = exec.transfer(%[[X]], %[[Y]]) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<6xf32>, %[[B:.*]]: tensor<5xf32>):
// CHECK-NEXT:      %[[P:.*]] = spmd.all_reduce %[[A]]
// CHECK-NEXT:      %[[Q:.*]] = spmd.all_reduce %[[B]]
// CHECK-NEXT:      exec.yield %[[P]], %[[Q]]
// CHECK:         spmd.output "p" of {{.*}}, %[[S]]#0
// CHECK-NEXT:    spmd.output "q" of {{.*}}, %[[S]]#1
// CHECK-NEXT:    spmd.output "r" of {{.*}}, %[[R]]
// APART-COUNT-3: exec.transfer(%{{[a-z0-9]*}}) {
exec.program @sums {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over d> : tensor<6xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <> partial sum over d> : tensor<5xf32>
  %z = spmd.input "z" of !nd.tensor<["a"=6], f32, <> partial sum over e> : tensor<6xf32>
  %p = exec.transfer(%x) {
  ^bb0(%b: tensor<6xf32>):
    %t = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over d> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
    exec.yield %t : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %r = exec.transfer(%z) {
  ^bb0(%b: tensor<6xf32>):
    %t = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over e> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
    exec.yield %t : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %q = exec.transfer(%y) {
  ^bb0(%b: tensor<5xf32>):
    %t = spmd.all_reduce %b from !nd.tensor<["b"=5], f32, <> partial sum over d> to !nd.tensor<["b"=5], f32, <>> : tensor<5xf32> -> tensor<5xf32>
    exec.yield %t : tensor<5xf32>
  } : (tensor<5xf32>) -> tensor<5xf32>
  spmd.output "p" of !nd.tensor<["a"=6], f32, <>>, %p : tensor<6xf32>
  spmd.output "q" of !nd.tensor<["b"=5], f32, <>>, %q : tensor<5xf32>
  spmd.output "r" of !nd.tensor<["a"=6], f32, <>>, %r : tensor<6xf32>
}

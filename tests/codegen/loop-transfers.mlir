// RUN: meshc-opt %s -exec-merge-transfers | FileCheck %s

nd.mesh ["d"=2]

// Transfers of one body go together; none crosses its border.
// CHECK-LABEL: exec.program @transfers {
// CHECK:         exec.loop
// CHECK:           %[[T:.*]]:2 = exec.transfer(%{{.*}}, %{{.*}}) {
// CHECK:           exec.yield %[[T]]#0, %[[T]]#1
// CHECK-NEXT:    } :
// CHECK:         exec.transfer(%{{[a-z0-9]*}}) {
exec.program @transfers {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <> partial sum over d> : tensor<6xf32>
  %p, %q = exec.loop "t" x 5 captures(%x) {
  ^bb0(%y: tensor<6xf32>):
    %u = exec.transfer(%y) {
    ^bb0(%b: tensor<6xf32>):
      %t = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over d> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
      exec.yield %t : tensor<6xf32>
    } : (tensor<6xf32>) -> tensor<6xf32>
    %v = exec.matmul %y, %y {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>, affine_map<(m) -> (m)>]} : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
    %w = exec.transfer(%v) {
    ^bb0(%b: tensor<6xf32>):
      %t = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over d> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
      exec.yield %t : tensor<6xf32>
    } : (tensor<6xf32>) -> tensor<6xf32>
    exec.yield %u, %w : tensor<6xf32>, tensor<6xf32>
  } : (tensor<6xf32>) -> (tensor<5x6xf32>, tensor<5x6xf32>)
  %r = exec.transfer(%x) {
  ^bb0(%b: tensor<6xf32>):
    %t = spmd.all_reduce %b from !nd.tensor<["a"=6], f32, <> partial sum over d> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32>
    exec.yield %t : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  spmd.output "p" of !nd.tensor<["t"=5, "a"=6], f32, <>>, %p : tensor<5x6xf32>
  spmd.output "q" of !nd.tensor<["t"=5, "a"=6], f32, <>>, %q : tensor<5x6xf32>
  spmd.output "r" of !nd.tensor<["a"=6], f32, <>>, %r : tensor<6xf32>
}

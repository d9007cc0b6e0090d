// RUN: meshc-opt %s -exec-group-kernels | FileCheck %s

#a = affine_map<(a) -> (a)>

nd.mesh ["d"=1]

// Kernels of any size with one body are one group, at the end, in their order; one
// with another body stays where it is.
// CHECK-LABEL: exec.program @updates {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[Y:.*]] = spmd.input "y"
// CHECK-NEXT:    %[[OTHER:.*]] = exec.kernel(%[[X]]) {
// CHECK:           math.tanh
// CHECK:         %[[G:.*]]:2 = exec.group(%[[X]], %[[Y]]) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<6xf32>, %[[B:.*]]: tensor<5xf32>):
// CHECK-NEXT:      %[[P:.*]] = exec.kernel(%[[A]]) {
// CHECK:           %[[Q:.*]] = exec.kernel(%[[B]]) {
// CHECK:           exec.yield %[[P]], %[[Q]]
// CHECK:         spmd.output "p" of {{.*}}, %[[G]]#0
// CHECK-NEXT:    spmd.output "q" of {{.*}}, %[[G]]#1
// CHECK-NEXT:    spmd.output "r" of {{.*}}, %[[OTHER]]
exec.program @updates {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  %p = exec.kernel(%x) {
  ^bb0(%b: tensor<6xf32>):
    %empty = tensor.empty() : tensor<6xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.exp %s : f32
      linalg.yield %f : f32
    } -> tensor<6xf32>
    exec.yield %z : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %r = exec.kernel(%x) {
  ^bb0(%b: tensor<6xf32>):
    %empty = tensor.empty() : tensor<6xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.tanh %s : f32
      linalg.yield %f : f32
    } -> tensor<6xf32>
    exec.yield %z : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %q = exec.kernel(%y) {
  ^bb0(%b: tensor<5xf32>):
    %empty = tensor.empty() : tensor<5xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<5xf32>) outs(%empty : tensor<5xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.exp %s : f32
      linalg.yield %f : f32
    } -> tensor<5xf32>
    exec.yield %z : tensor<5xf32>
  } : (tensor<5xf32>) -> tensor<5xf32>
  spmd.output "p" of !nd.tensor<["a"=6], f32, <>>, %p : tensor<6xf32>
  spmd.output "q" of !nd.tensor<["b"=5], f32, <>>, %q : tensor<5xf32>
  spmd.output "r" of !nd.tensor<["a"=6], f32, <>>, %r : tensor<6xf32>
}

// What is read by a step and waits for one stays alone.
// CHECK-LABEL: exec.program @chain {
// CHECK-NOT:     exec.group
// CHECK:         spmd.output
exec.program @chain {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %p = exec.kernel(%x) {
  ^bb0(%b: tensor<6xf32>):
    %empty = tensor.empty() : tensor<6xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.exp %s : f32
      linalg.yield %f : f32
    } -> tensor<6xf32>
    exec.yield %z : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %q = exec.kernel(%p) {
  ^bb0(%b: tensor<6xf32>):
    %empty = tensor.empty() : tensor<6xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.exp %s : f32
      linalg.yield %f : f32
    } -> tensor<6xf32>
    exec.yield %z : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  %r = exec.kernel(%q) {
  ^bb0(%b: tensor<6xf32>):
    %empty = tensor.empty() : tensor<6xf32>
    %z = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%b : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
    ^bb0(%s: f32, %o: f32):
      %f = math.exp %s : f32
      linalg.yield %f : f32
    } -> tensor<6xf32>
    exec.yield %z : tensor<6xf32>
  } : (tensor<6xf32>) -> tensor<6xf32>
  spmd.output "r" of !nd.tensor<["a"=6], f32, <>>, %r : tensor<6xf32>
}

// RUN: meshc-opt %s -spmd-recompute-scopes -split-input-file | FileCheck %s

// Of the iterations of `layer` their inputs are kept, which are the values of the iteration
// before, and what a collective gave; the rest is computed again in front of its first
// reader, once for all of them.
#whole = affine_map<(d0) -> (d0)>
!a = !nd.tensor<["a"=3], f32, <>>
!terms = !nd.tensor<["a"=3], f32, <> partial sum over x>

// CHECK: nd.training {{.*}} recomputed = [#nd.recomputed<"layer" of 2 saves 12 for 9>]
nd.mesh ["x"=2]
nd.training minimize "loss" by "sgd" epochs 1 steps 0 {recompute = ["layer"]}
// CHECK-LABEL: spmd.program @step
spmd.program @step {
  %x = spmd.input "x" of !a : tensor<3xf32>
  %empty = tensor.empty() : tensor<3xf32>
  // CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<3xf32>)
  %h0 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %value = math.exp %element : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
  %y0 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%h0 : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %value = math.tanh %element : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[0]/"y">>[unknown])
  %h1 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%y0 : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %value = math.exp %element : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
  // CHECK: %[[SENT:.*]] = spmd.all_reduce
  %s1 = spmd.all_reduce %h1 from !terms to !a : tensor<3xf32> -> tensor<3xf32> loc(fused<#nd.origin<"layer"[1]/"s">>[unknown])
  %t1 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%s1 : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %value = math.tanh %element : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[1]/"t">>[unknown])
  %y1 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%t1 : tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %value = math.sqrt %element : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<"layer"[1]/"y">>[unknown])
  spmd.output "y" of !a, %y1 : tensor<3xf32>
  // The gradient reads h and t of the last iteration and h of the first. What h is made of
  // in the last one is the value of the first, which is kept.
  // CHECK: spmd.output "y"
  // CHECK: %[[AGAIN_H:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<3xf32>)
  // CHECK: math.exp
  // CHECK: %[[AGAIN_T:.*]] = linalg.generic {{.*}} ins(%[[SENT]] : tensor<3xf32>)
  // CHECK: math.tanh
  // CHECK: linalg.generic {{.*}} ins(%[[AGAIN_H]], %[[AGAIN_T]] :
  %g1 = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
      ins(%h1, %t1 : tensor<3xf32>, tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %other: f32, %out: f32):
    %value = arith.mulf %element, %other : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<backward "g">>[unknown])
  // CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<3xf32>)
  // CHECK: math.exp
  // CHECK: arith.mulf
  %g0 = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
      ins(%h0, %g1 : tensor<3xf32>, tensor<3xf32>) outs(%empty : tensor<3xf32>) {
  ^bb0(%element: f32, %other: f32, %out: f32):
    %value = arith.mulf %element, %other : f32
    linalg.yield %value : f32
  } -> tensor<3xf32> loc(fused<#nd.origin<backward "g">>[unknown])
  spmd.output "g" of !a, %g0 : tensor<3xf32>
}

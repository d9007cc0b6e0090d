// RUN: meshc-opt %s -spmd-gather-again -split-input-file | FileCheck %s

// What the backward phase reads of the first iteration is gathered again, in front of its
// first reader there, and so is what an elementwise operation makes of it; of the last one it
// is still there.
#whole = affine_map<(d0) -> (d0)>
!part = !nd.tensor<["a"=4], f32, <"a"@x>>
!whole = !nd.tensor<["a"=4], f32, <>>

nd.mesh ["x"=2]
nd.variable parameter @w0 : !part = #nd.fill<1.0>
nd.variable parameter @w1 : !part = #nd.fill<1.0>
nd.variable state @m : !part = #nd.fill<1.0>
// CHECK-LABEL: spmd.program @step
spmd.program @step {
  %x = spmd.input "x" of !whole : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  // CHECK: %[[R0:.*]] = spmd.read @w0
  %r0 = spmd.read @w0 : tensor<2xf32>
  %r1 = spmd.read @w1 : tensor<2xf32>
  %s = spmd.read @m : tensor<2xf32>
  // CHECK: %[[G0:.*]] = spmd.all_gather %[[R0]]
  %g0 = spmd.all_gather %r0 from !part to !whole : tensor<2xf32> -> tensor<4xf32>
  // CHECK: %[[G1:.*]] = spmd.all_gather
  %g1 = spmd.all_gather %r1 from !part to !whole : tensor<2xf32> -> tensor<4xf32>
  // Of what is no parameter there is one gather.
  // CHECK: %[[STATE:.*]] = spmd.all_gather
  %gs = spmd.all_gather %s from !part to !whole : tensor<2xf32> -> tensor<4xf32>
  // CHECK: %[[T0:.*]] = linalg.generic {{.*}} ins(%[[G0]] :
  %t0 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%g0 : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %v = math.tanh %e : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"t">>[unknown])
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[T0]], %[[STATE]] :
  %h0 = linalg.generic {indexing_maps = [#whole, #whole, #whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x, %t0, %gs : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %g: f32, %out: f32):
    %u = arith.mulf %e, %f : f32
    %v = arith.mulf %u, %g : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[G1]] :
  %h1 = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
      ins(%h0, %g1 : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %out: f32):
    %v = arith.mulf %e, %f : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
  spmd.output "y" of !whole, %h1 : tensor<4xf32>
  // CHECK: spmd.output "y"
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[G1]] :
  %b1 = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
      ins(%h1, %g1 : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %out: f32):
    %v = arith.mulf %e, %f : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "layer"[1]/"h">>[unknown])
  // CHECK: %[[AGAIN:.*]] = spmd.all_gather %[[R0]]
  // CHECK: %[[MADE:.*]] = linalg.generic {{.*}} ins(%[[AGAIN]] :
  // CHECK: math.tanh
  // CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[MADE]], %[[STATE]] :
  %b0 = linalg.generic {indexing_maps = [#whole, #whole, #whole, #whole],
      iterator_types = ["parallel"]}
      ins(%b1, %t0, %gs : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %g: f32, %out: f32):
    %u = arith.mulf %e, %f : f32
    %v = arith.mulf %u, %g : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "layer"[0]/"h">>[unknown])
  // Another reader has the same.
  // CHECK-NOT: spmd.all_gather
  // CHECK: linalg.generic {{.*}} ins(%[[AGAIN]] :
  %c0 = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
      ins(%g0 : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %v = math.exp %e : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "layer"[0]/"c">>[unknown])
  spmd.output "b" of !whole, %b0 : tensor<4xf32>
  spmd.output "c" of !whole, %c0 : tensor<4xf32>
}

// -----

// What the backward phase alone reads is gathered there; a parameter in no layer that the
// last reader of any reads is still there.
#whole = affine_map<(d0) -> (d0)>
!part = !nd.tensor<["a"=4], f32, <"a"@x>>
!whole = !nd.tensor<["a"=4], f32, <>>

nd.mesh ["x"=2]
nd.variable parameter @w0 : !part = #nd.fill<1.0>
nd.variable parameter @w1 : !part = #nd.fill<1.0>
// CHECK-LABEL: spmd.program @step
spmd.program @step {
  %x = spmd.input "x" of !whole : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %r0 = spmd.read @w0 : tensor<2xf32>
  %r1 = spmd.read @w1 : tensor<2xf32>
  // CHECK: %[[R0:.*]] = spmd.read @w0
  // CHECK: %[[R1:.*]] = spmd.read @w1
  // CHECK-NOT: spmd.all_gather %[[R0]]
  // CHECK: spmd.all_gather %[[R1]]
  %g0 = spmd.all_gather %r0 from !part to !whole : tensor<2xf32> -> tensor<4xf32>
  %g1 = spmd.all_gather %r1 from !part to !whole : tensor<2xf32> -> tensor<4xf32>
  %h = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
      ins(%x, %g1 : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %out: f32):
    %v = arith.mulf %e, %f : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<"h">>[unknown])
  spmd.output "y" of !whole, %h : tensor<4xf32>
  // CHECK: spmd.output "y"
  // CHECK-NOT: spmd.all_gather %[[R1]]
  // CHECK: spmd.all_gather %[[R0]]
  // CHECK-NOT: spmd.all_gather
  %b = linalg.generic {indexing_maps = [#whole, #whole, #whole, #whole],
      iterator_types = ["parallel"]}
      ins(%h, %g0, %g1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %g: f32, %out: f32):
    %u = arith.mulf %e, %f : f32
    %v = arith.mulf %u, %g : f32
    linalg.yield %v : f32
  } -> tensor<4xf32> loc(fused<#nd.origin<backward gradient "h">>[unknown])
  spmd.output "b" of !whole, %b : tensor<4xf32>
}

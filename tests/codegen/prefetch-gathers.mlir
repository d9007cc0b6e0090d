// RUN: meshc-opt %s -exec-prefetch-gathers | FileCheck %s
// RUN: meshc-opt %s -exec-prefetch-gathers=layers=2 | FileCheck %s --check-prefix=TWO
// RUN: meshc-opt %s -exec-prefetch-gathers=layers=0 | FileCheck %s --check-prefix=NONE

#whole = affine_map<(d0) -> (d0)>
!part = !nd.tensor<["a"=4], f32, <"a"@x>>
!whole = !nd.tensor<["a"=4], f32, <>>

nd.mesh ["x"=2]
nd.variable parameter @w0 : !part = #nd.fill<1.0>
nd.variable parameter @w1 : !part = #nd.fill<1.0>
nd.variable parameter @w2 : !part = #nd.fill<1.0>

// Each gather goes in front of the layer before the one that reads it, with the kernel that
// makes what it sends of a parameter. Of the first layer it stays in front of that. A sum in
// no iteration of the loop is of the iteration before it, and the tail is a layer of its own.
// CHECK-LABEL: exec.program @layers
// CHECK: exec.transfer(%[[W0:.*]]) {
// CHECK: %[[E1:.*]] = exec.kernel(
// CHECK: math.exp
// CHECK: exec.transfer(%[[E1]]) {
// CHECK: exec.kernel
// CHECK: exec.kernel
// CHECK: exec.transfer(
// CHECK: exec.kernel
// CHECK: exec.kernel
// CHECK-NOT: exec.transfer
// TWO-LABEL: exec.program @layers
// TWO: exec.transfer(
// TWO: math.exp
// TWO: exec.transfer(
// TWO: exec.transfer(
// TWO: exec.kernel
// TWO-NOT: exec.transfer
// TWO: spmd.output "y"
// NONE-LABEL: exec.program @layers
// NONE: exec.transfer(
// NONE: exec.kernel
// NONE: exec.kernel
// NONE: exec.kernel
// NONE: exec.transfer(
// NONE: exec.kernel
// NONE: exec.transfer(
// NONE: exec.kernel
exec.program @layers {
  %x = spmd.input "x" of !whole : tensor<4xf32>
  %w0 = spmd.read @w0 : tensor<2xf32>
  %w1 = spmd.read @w1 : tensor<2xf32>
  %w2 = spmd.read @w2 : tensor<2xf32>
  %g0 = exec.transfer(%w0) {
  ^bb0(%b: tensor<2xf32>):
    %z = spmd.all_gather %b from !part to !whole : tensor<2xf32> -> tensor<4xf32>
    exec.yield %z : tensor<4xf32>
  } : (tensor<2xf32>) -> tensor<4xf32>
  %h0 = exec.kernel(%x, %g0) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
        ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%ea: f32, %eb: f32, %out: f32):
      %m = arith.mulf %ea, %eb : f32
      linalg.yield %m : f32
    } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
    exec.yield %r : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
  %s0 = exec.kernel(%h0) {
  ^bb0(%a: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%ea: f32, %out: f32):
      %m = math.tanh %ea : f32
      linalg.yield %m : f32
    } -> tensor<4xf32> loc(fused<#nd.origin<"layer"/"s">>[unknown])
    exec.yield %r : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"/"s">>[unknown])
  %e1 = exec.kernel(%w1) {
  ^bb0(%a: tensor<2xf32>):
    %empty = tensor.empty() : tensor<2xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
    ^bb0(%e: f32, %out: f32):
      %m = math.exp %e : f32
      linalg.yield %m : f32
    } -> tensor<2xf32>
    exec.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  %g1 = exec.transfer(%e1) {
  ^bb0(%b: tensor<2xf32>):
    %z = spmd.all_gather %b from !part to !whole : tensor<2xf32> -> tensor<4xf32>
    exec.yield %z : tensor<4xf32>
  } : (tensor<2xf32>) -> tensor<4xf32>
  %h1 = exec.kernel(%s0, %g1) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
        ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%ea: f32, %eb: f32, %out: f32):
      %m = arith.mulf %ea, %eb : f32
      linalg.yield %m : f32
    } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
    exec.yield %r : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
  %g2 = exec.transfer(%w2) {
  ^bb0(%b: tensor<2xf32>):
    %z = spmd.all_gather %b from !part to !whole : tensor<2xf32> -> tensor<4xf32>
    exec.yield %z : tensor<4xf32>
  } : (tensor<2xf32>) -> tensor<4xf32>
  %y = exec.kernel(%h1, %g2) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
        ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%ea: f32, %eb: f32, %out: f32):
      %m = arith.mulf %ea, %eb : f32
      linalg.yield %m : f32
    } -> tensor<4xf32> loc(fused<#nd.origin<"y">>[unknown])
    exec.yield %r : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"y">>[unknown])
  spmd.output "y" of !whole, %y : tensor<4xf32>
}

// What the layer makes itself stays; what an earlier one has made goes behind that.
// CHECK-LABEL: exec.program @made
// CHECK: %[[H0:.*]] = exec.kernel
// CHECK-NOT: exec.transfer
// CHECK: %[[H1:.*]] = exec.kernel
// CHECK: exec.transfer(
// CHECK: %[[H2:.*]] = exec.kernel
// CHECK: exec.kernel
// CHECK: exec.transfer(
// CHECK: exec.kernel
exec.program @made {
  %x = spmd.input "x" of !part : tensor<2xf32>
  %h0 = exec.kernel(%x) {
  ^bb0(%a: tensor<2xf32>):
    %empty = tensor.empty() : tensor<2xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
    ^bb0(%e: f32, %out: f32):
      %m = math.exp %e : f32
      linalg.yield %m : f32
    } -> tensor<2xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
    exec.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#nd.origin<"layer"[0]/"h">>[unknown])
  %h1 = exec.kernel(%h0) {
  ^bb0(%a: tensor<2xf32>):
    %empty = tensor.empty() : tensor<2xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
    ^bb0(%e: f32, %out: f32):
      %m = math.exp %e : f32
      linalg.yield %m : f32
    } -> tensor<2xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
    exec.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#nd.origin<"layer"[1]/"h">>[unknown])
  %h2 = exec.kernel(%h1) {
  ^bb0(%a: tensor<2xf32>):
    %empty = tensor.empty() : tensor<2xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
    ^bb0(%e: f32, %out: f32):
      %m = math.exp %e : f32
      linalg.yield %m : f32
    } -> tensor<2xf32> loc(fused<#nd.origin<"layer"[2]/"h">>[unknown])
    exec.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#nd.origin<"layer"[2]/"h">>[unknown])
  %p2 = exec.kernel(%h2) {
  ^bb0(%a: tensor<2xf32>):
    %empty = tensor.empty() : tensor<2xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel"]}
        ins(%a : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
    ^bb0(%e: f32, %out: f32):
      %m = math.exp %e : f32
      linalg.yield %m : f32
    } -> tensor<2xf32> loc(fused<#nd.origin<"layer"[2]/"p">>[unknown])
    exec.yield %r : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#nd.origin<"layer"[2]/"p">>[unknown])
  %g1 = exec.transfer(%h1) {
  ^bb0(%b: tensor<2xf32>):
    %z = spmd.all_gather %b from !part to !whole : tensor<2xf32> -> tensor<4xf32>
    exec.yield %z : tensor<4xf32>
  } : (tensor<2xf32>) -> tensor<4xf32>
  %g2 = exec.transfer(%p2) {
  ^bb0(%b: tensor<2xf32>):
    %z = spmd.all_gather %b from !part to !whole : tensor<2xf32> -> tensor<4xf32>
    exec.yield %z : tensor<4xf32>
  } : (tensor<2xf32>) -> tensor<4xf32>
  %y = exec.kernel(%g1, %g2) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %empty = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel"]}
        ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%ea: f32, %eb: f32, %out: f32):
      %m = arith.mulf %ea, %eb : f32
      linalg.yield %m : f32
    } -> tensor<4xf32> loc(fused<#nd.origin<"layer"[2]/"y">>[unknown])
    exec.yield %r : tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(fused<#nd.origin<"layer"[2]/"y">>[unknown])
  spmd.output "y" of !whole, %y : tensor<4xf32>
}

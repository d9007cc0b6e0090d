// RUN: meshc-opt %s -exec-form-steps | FileCheck %s
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s --check-prefix=GPU
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt epilogues=bias" | FileCheck %s --check-prefix=BIAS

#a = affine_map<(a) -> (a)>
#rn = affine_map<(r, n) -> (r, n)>
#n = affine_map<(r, n) -> (n)>
#rk_n = affine_map<(r, n, k) -> (r, k)>
#kn_r = affine_map<(r, n, k) -> (k, n)>
#rn_k = affine_map<(r, n, k) -> (r, n)>

nd.mesh ["d"=2]
nd.variable parameter @w : !nd.tensor<["a"=6], f32, <>> = #nd.fill<1.0>

// Elementwise operations become one kernel, whose body has what it computes again;
// what nothing depends on goes, and what leaves the program follows the steps.
// CHECK-LABEL: exec.program @kernels {
// CHECK-NEXT:    %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[W:.*]] = spmd.read @w
// CHECK-NEXT:    %[[Y:.*]]:2 = exec.kernel(%[[X]], %[[W]]) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<6xf32>, %[[B:.*]]: tensor<6xf32>):
// CHECK-DAG:       %[[HALF:.*]] = arith.constant dense<5.000000e-01>
// CHECK-DAG:       %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// CHECK:           %[[SCALED:.*]] = linalg.generic {{.*}} ins(%[[SUM]], %[[HALF]] :
// CHECK:           exec.yield %[[SUM]], %[[SCALED]]
// CHECK-NOT:     math.tanh
// CHECK:         spmd.write @w, %[[Y]]#0
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]#1
spmd.program @kernels {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %w = spmd.read @w : tensor<6xf32>
  %half = arith.constant dense<0.5> : tensor<6xf32>
  %empty = tensor.empty() : tensor<6xf32>
  %sum = linalg.generic {indexing_maps = [#a, #a, #a], iterator_types = ["parallel"]}
      ins(%x, %w : tensor<6xf32>, tensor<6xf32>) outs(%empty : tensor<6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  spmd.write @w, %sum : tensor<6xf32>
  %dead = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
      ins(%sum : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %scaled = linalg.generic {indexing_maps = [#a, #a, #a], iterator_types = ["parallel"]}
      ins(%sum, %half : tensor<6xf32>, tensor<6xf32>) outs(%empty : tensor<6xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  spmd.output "y" of !nd.tensor<["a"=6], f32, <>>, %scaled : tensor<6xf32>
}

// A bias is part of the matmul's epilogue; relu is on GPUs, and a kernel elsewhere.
// CHECK-LABEL: exec.program @epilogues {
// CHECK:         %[[H:.*]] = exec.matmul %{{.*}}, %{{.*}} bias %{{.*}} {indexing_maps
// CHECK-NEXT:    exec.kernel(%[[H]]) {
// GPU-LABEL:   exec.program @epilogues {
// GPU:           exec.matmul %{{.*}}, %{{.*}} bias %{{.*}} activation relu {indexing_maps
// GPU-NOT:       exec.kernel
// GPU:           spmd.output
// BIAS-LABEL:  exec.program @epilogues {
// BIAS:          exec.matmul %{{.*}}, %{{.*}} bias %{{.*}} {indexing_maps
// BIAS-NEXT:     exec.kernel
spmd.program @epilogues {
  %x = spmd.input "x" of !nd.tensor<["r"=5, "k"=7], f32, <>> : tensor<5x7xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=7, "n"=16], f32, <>> : tensor<7x16xf32>
  %b = spmd.input "b" of !nd.tensor<["n"=16], f32, <>> : tensor<16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x16xf32>) -> tensor<5x16xf32>
  %p = linalg.generic {indexing_maps = [#rk_n, #kn_r, #rn_k], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x7xf32>, tensor<7x16xf32>) outs(%zeros : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %m = arith.mulf %s, %t : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  %h = linalg.generic {indexing_maps = [#rn, #n, #rn], iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<5x16xf32>, tensor<16xf32>) outs(%empty : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %r = arith.addf %s, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  %y = linalg.generic {indexing_maps = [#rn, #rn, #rn], iterator_types = ["parallel", "parallel"]}
      ins(%h, %zeros : tensor<5x16xf32>, tensor<5x16xf32>) outs(%empty : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %r = arith.maximumf %s, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  spmd.output "y" of !nd.tensor<["r"=5, "n"=16], f32, <>>, %y : tensor<5x16xf32>
}

// Each collective is a transfer of its own.
// CHECK-LABEL: exec.program @transfers {
// CHECK:         %[[S:.*]] = exec.transfer(%{{.*}}) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<2xf32>):
// CHECK-NEXT:      %[[R:.*]] = spmd.all_reduce %[[A]]
// CHECK-NEXT:      exec.yield %[[R]]
// CHECK:         spmd.output "s" of {{.*}}, %[[S]]
spmd.program @transfers {
  %x = spmd.input "x" of !nd.tensor<["b"=2], f32, <> partial sum over d> : tensor<2xf32>
  %s = spmd.all_reduce %x from !nd.tensor<["b"=2], f32, <> partial sum over d>
      to !nd.tensor<["b"=2], f32, <>> : tensor<2xf32> -> tensor<2xf32>
  spmd.output "s" of !nd.tensor<["b"=2], f32, <>>, %s : tensor<2xf32>
}

// A bias that stands behind the product is computed ahead of it, whatever it comes from:
// a slice is a place in memory, a sum a kernel, a transfer a wait.
// CHECK-LABEL: exec.program @bias_behind {
// CHECK:         %[[T:.*]] = exec.transfer
// CHECK:         %[[S:.*]] = exec.slice %[[T]] at 16 : tensor<3x16xf32> -> tensor<16xf32>
// CHECK:         %[[D:.*]] = exec.kernel(%[[S]]) {
// CHECK:         exec.matmul %{{.*}}, %{{.*}} bias %[[D]] {indexing_maps
// GPU-LABEL:   exec.program @bias_behind {
// GPU:           %[[S:.*]] = exec.slice
// GPU:           %[[D:.*]] = exec.kernel(%[[S]]) {
// GPU:           exec.matmul %{{.*}}, %{{.*}} bias %[[D]] activation relu {indexing_maps
// GPU-NOT:       exec.kernel
// GPU:           spmd.output
spmd.program @bias_behind {
  %x = spmd.input "x" of !nd.tensor<["r"=5, "k"=7], f32, <>> : tensor<5x7xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=7, "n"=16], f32, <>> : tensor<7x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<5x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x16xf32>) -> tensor<5x16xf32>
  %p = linalg.generic {indexing_maps = [#rk_n, #kn_r, #rn_k], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x7xf32>, tensor<7x16xf32>) outs(%zeros : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %m = arith.mulf %s, %t : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  %b = spmd.input "b" of !nd.tensor<["l"=3, "n"=16], f32, <> partial sum over d> : tensor<3x16xf32>
  %sum = spmd.all_reduce %b from !nd.tensor<["l"=3, "n"=16], f32, <> partial sum over d>
      to !nd.tensor<["l"=3, "n"=16], f32, <>> : tensor<3x16xf32> -> tensor<3x16xf32>
  %slice = spmd.view %sum ["l" = 1] from !nd.tensor<["l"=3, "n"=16], f32, <>>
      to !nd.tensor<["n"=16], f32, <>> : tensor<3x16xf32> -> tensor<16xf32>
  %none = tensor.empty() : tensor<16xf32>
  %twice = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
      ins(%slice : tensor<16xf32>) outs(%none : tensor<16xf32>) {
  ^bb0(%s: f32, %o: f32):
    %r = arith.addf %s, %s : f32
    linalg.yield %r : f32
  } -> tensor<16xf32>
  %h = linalg.generic {indexing_maps = [#rn, #n, #rn], iterator_types = ["parallel", "parallel"]}
      ins(%p, %twice : tensor<5x16xf32>, tensor<16xf32>) outs(%empty : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %r = arith.addf %s, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  %y = linalg.generic {indexing_maps = [#rn, #rn, #rn], iterator_types = ["parallel", "parallel"]}
      ins(%h, %zeros : tensor<5x16xf32>, tensor<5x16xf32>) outs(%empty : tensor<5x16xf32>) {
  ^bb0(%s: f32, %t: f32, %o: f32):
    %r = arith.maximumf %s, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x16xf32>
  spmd.output "y" of !nd.tensor<["r"=5, "n"=16], f32, <>>, %y : tensor<5x16xf32>
}

// What is of the forward phase comes first, even before a sum over devices of the backward
// phase that needs nothing of it.
// CHECK-LABEL: exec.program @phases {
// CHECK-DAG:     %[[X:.*]] = spmd.input "x"
// CHECK-DAG:     %[[Z:.*]] = spmd.input "z"
// CHECK:         exec.kernel(%[[X]]) {
// CHECK:         exec.transfer(%[[Z]]) {
spmd.program @phases {
  %z = spmd.input "z" of !nd.tensor<["a"=6], f32, <> partial sum over d> : tensor<6xf32>
  %g = spmd.all_reduce %z from !nd.tensor<["a"=6], f32, <> partial sum over d> to !nd.tensor<["a"=6], f32, <>> : tensor<6xf32> -> tensor<6xf32> loc(fused<#nd.origin<backward gradient "z">>["f.mesh":1:1])
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %empty = tensor.empty() : tensor<6xf32>
  %loss = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
      ins(%x : tensor<6xf32>) outs(%empty : tensor<6xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  spmd.output "loss" of !nd.tensor<["a"=6], f32, <>>, %loss : tensor<6xf32>
  spmd.output "g" of !nd.tensor<["a"=6], f32, <>>, %g : tensor<6xf32>
}

// A kernel that stores a view says so.
// CHECK-LABEL: exec.program @stores_a_view {
// CHECK:         exec.kernel(%{{.*}}) {
// CHECK:           linalg.generic {{.*}} attrs = {nd.remark = #nd.remark<stored_view>}
spmd.program @stores_a_view {
  %x = spmd.input "x" of !nd.tensor<["y"=8], f32, <>> : tensor<8xf32>
  %v = spmd.view %x ["y" = "row" + "dy"] from !nd.tensor<["y"=8], f32, <>> to !nd.tensor<["row"=6, "dy"=3], f32, <>> : tensor<8xf32> -> tensor<6x3xf32>
  spmd.output "v" of !nd.tensor<["row"=6, "dy"=3], f32, <>>, %v : tensor<6x3xf32>
}

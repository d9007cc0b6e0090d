// RUN: meshc-opt %s -exec-form-steps | FileCheck %s --check-prefixes=CHECK,ONEDNN
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s --check-prefixes=CHECK,CUBLASLT

// Tensors that no library takes as they are stored are copied.
nd.mesh ["d"=2]

// The batch is last in all three: each is copied with the batch first.
// CHECK-LABEL: exec.program @batch_last {
// CHECK-DAG:     %[[A:.*]] = exec.kernel(%[[X:.*]]) {
// CHECK-DAG:     %[[B:.*]] = exec.kernel(%[[W:.*]]) {
// CHECK:         %[[C:.*]] = exec.matmul %[[A]], %[[B]] {{.*}} : tensor<7x5x3xf32>, tensor<7x3x2xf32> -> tensor<7x5x2xf32>
// CHECK:         %[[Y:.*]] = exec.kernel(%[[C]]) {
// CHECK:         spmd.output "y" of {{.*}}, %[[Y]] : tensor<5x2x7xf32>
spmd.program @batch_last {
  %x = spmd.input "x" of !nd.tensor<["b"=5, "k"=3, "h"=7], f32, <>> : tensor<5x3x7xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=3, "e"=2, "h"=7], f32, <>> : tensor<3x2x7xf32>
  %zero = arith.constant dense<0.0> : tensor<5x2x7xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, e, h, k) -> (b, k, h)>,
                                        affine_map<(b, e, h, k) -> (k, e, h)>,
                                        affine_map<(b, e, h, k) -> (b, e, h)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x3x7xf32>, tensor<3x2x7xf32>) outs(%zero : tensor<5x2x7xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x2x7xf32>
  spmd.output "y" of !nd.tensor<["b"=5, "e"=2, "h"=7], f32, <>>, %y : tensor<5x2x7xf32>
}

// What is summed over lies in one order in x and in the other one in w: w is copied,
// so that both are one loop.
// CHECK-LABEL: exec.program @sums {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK-NEXT:    %[[B:.*]] = exec.kernel(%[[W]]) {
// CHECK:           linalg.generic {{.*}} attrs = {nd.remark = #nd.remark<library_copy>}
// CHECK:         exec.matmul %[[X]], %[[B]] {{.*}} : tensor<5x3x7xf32>, tensor<3x7x2xf32> -> tensor<5x2xf32>
spmd.program @sums {
  %x = spmd.input "x" of !nd.tensor<["b"=5, "k"=3, "h"=7], f32, <>> : tensor<5x3x7xf32>
  %w = spmd.input "w" of !nd.tensor<["e"=2, "h"=7, "k"=3], f32, <>> : tensor<2x7x3xf32>
  %zero = arith.constant dense<0.0> : tensor<5x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, e, h, k) -> (b, k, h)>,
                                        affine_map<(b, e, h, k) -> (e, h, k)>,
                                        affine_map<(b, e, h, k) -> (b, e)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<5x3x7xf32>, tensor<2x7x3xf32>) outs(%zero : tensor<5x2xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x2xf32>
  spmd.output "y" of !nd.tensor<["b"=5, "e"=2], f32, <>>, %y : tensor<5x2xf32>
}

// What is added to is copied, too.
// CHECK-LABEL: exec.program @adds {
// CHECK:         %[[Z:.*]] = spmd.input "z"
// CHECK:         %[[C:.*]] = exec.kernel(%[[Z]]) {
// CHECK:         exec.matmul %{{.*}}, %{{.*}} addend %[[C]] {{.*}} addend tensor<7x5x2xf32> -> tensor<7x5x2xf32>
spmd.program @adds {
  %x = spmd.input "x" of !nd.tensor<["b"=5, "k"=3, "h"=7], f32, <>> : tensor<5x3x7xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=3, "e"=2, "h"=7], f32, <>> : tensor<3x2x7xf32>
  %z = spmd.input "z" of !nd.tensor<["b"=5, "e"=2, "h"=7], f32, <>> : tensor<5x2x7xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, e, h, k) -> (b, k, h)>,
                                        affine_map<(b, e, h, k) -> (k, e, h)>,
                                        affine_map<(b, e, h, k) -> (b, e, h)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x3x7xf32>, tensor<3x2x7xf32>) outs(%z : tensor<5x2x7xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x2x7xf32>
  spmd.output "y" of !nd.tensor<["b"=5, "e"=2, "h"=7], f32, <>>, %y : tensor<5x2x7xf32>
}

// One copy serves all that read it.
// CHECK-LABEL: exec.program @twice {
// CHECK:         exec.matmul %[[A:[a-z0-9#]+]], %{{.*}} : tensor<7x5x3xf32>, tensor<7x3x2xf32> -> tensor<7x5x2xf32>
// CHECK:         exec.matmul %[[A]], %{{.*}} : tensor<7x5x3xf32>, tensor<7x3x2xf32> -> tensor<7x5x2xf32>
spmd.program @twice {
  %x = spmd.input "x" of !nd.tensor<["b"=5, "k"=3, "h"=7], f32, <>> : tensor<5x3x7xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=3, "e"=2, "h"=7], f32, <>> : tensor<3x2x7xf32>
  %v = spmd.input "v" of !nd.tensor<["k"=3, "e"=2, "h"=7], f32, <>> : tensor<3x2x7xf32>
  %zero = arith.constant dense<0.0> : tensor<5x2x7xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, e, h, k) -> (b, k, h)>,
                                        affine_map<(b, e, h, k) -> (k, e, h)>,
                                        affine_map<(b, e, h, k) -> (b, e, h)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<5x3x7xf32>, tensor<3x2x7xf32>) outs(%zero : tensor<5x2x7xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x2x7xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(b, e, h, k) -> (b, k, h)>,
                                        affine_map<(b, e, h, k) -> (k, e, h)>,
                                        affine_map<(b, e, h, k) -> (b, e, h)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : tensor<5x3x7xf32>, tensor<3x2x7xf32>) outs(%zero : tensor<5x2x7xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<5x2x7xf32>
  spmd.output "y" of !nd.tensor<["b"=5, "e"=2, "h"=7], f32, <>>, %y : tensor<5x2x7xf32>
  spmd.output "z" of !nd.tensor<["b"=5, "e"=2, "h"=7], f32, <>>, %z : tensor<5x2x7xf32>
}

// Every second of seven rows: a step goes beyond the next seven, which oneDNN does not
// take. A copy has them in the same order, without gaps. cuBLASLt reads them where they
// lie, as both do every second of eight.
// CHECK-LABEL: exec.program @strided {
// CHECK:         %[[X:.*]] = spmd.input "x"
// ONEDNN:        %[[A:.*]] = exec.kernel(%[[X]]) {
// ONEDNN-NOT:      exec.kernel
// ONEDNN:        exec.matmul %[[A]], %{{.*}} : tensor<2x4x3xf32>, tensor<3x5xf32> -> tensor<2x4x5xf32>
// CUBLASLT:      %[[A:.*]] = exec.slice %[[X]] at 0 strides [21, 6, 1] : tensor<2x7x3xf32> -> tensor<2x4x3xf32>
// CUBLASLT-NOT:  exec.kernel
// CUBLASLT:      exec.matmul %[[A]], %{{.*}} : tensor<2x4x3xf32>, tensor<3x5xf32> -> tensor<2x4x5xf32>
spmd.program @strided {
  %x = spmd.input "x" of !nd.tensor<["b"=2, "y"=7, "k"=3], f32, <>> : tensor<2x7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=3, "n"=5], f32, <>> : tensor<3x5xf32>
  %seen = spmd.view %x ["y" = 2 "row"]
      from !nd.tensor<["b"=2, "y"=7, "k"=3], f32, <>>
      to !nd.tensor<["b"=2, "row"=4, "k"=3], f32, <>> : tensor<2x7x3xf32> -> tensor<2x4x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, r, n, k) -> (b, r, k)>,
                                        affine_map<(b, r, n, k) -> (k, n)>,
                                        affine_map<(b, r, n, k) -> (b, r, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%seen, %w : tensor<2x4x3xf32>, tensor<3x5xf32>) outs(%zero : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<2x4x5xf32>
  spmd.output "y" of !nd.tensor<["b"=2, "row"=4, "n"=5], f32, <>>, %y : tensor<2x4x5xf32>
}

// CHECK-LABEL: exec.program @strided_evenly {
// CHECK-NOT:     exec.kernel
// CHECK:         exec.matmul %{{.*}}, %{{.*}} : tensor<2x4x3xf32>, tensor<3x5xf32> -> tensor<2x4x5xf32>
spmd.program @strided_evenly {
  %x = spmd.input "x" of !nd.tensor<["b"=2, "y"=8, "k"=3], f32, <>> : tensor<2x8x3xf32>
  %w = spmd.input "w" of !nd.tensor<["k"=3, "n"=5], f32, <>> : tensor<3x5xf32>
  %seen = spmd.view %x ["y" = 2 "row"]
      from !nd.tensor<["b"=2, "y"=8, "k"=3], f32, <>>
      to !nd.tensor<["b"=2, "row"=4, "k"=3], f32, <>> : tensor<2x8x3xf32> -> tensor<2x4x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2x4x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, r, n, k) -> (b, r, k)>,
                                        affine_map<(b, r, n, k) -> (k, n)>,
                                        affine_map<(b, r, n, k) -> (b, r, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%seen, %w : tensor<2x4x3xf32>, tensor<3x5xf32>) outs(%zero : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<2x4x5xf32>
  spmd.output "y" of !nd.tensor<["b"=2, "row"=4, "n"=5], f32, <>>, %y : tensor<2x4x5xf32>
}

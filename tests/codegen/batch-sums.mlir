// RUN: meshc-opt %s -exec-batch-sums | FileCheck %s
// RUN: meshc-opt %s -exec-batch-sums -exec-form-steps=library=cublaslt | FileCheck %s --check-prefix=STEPS
// RUN: meshc-opt %s -exec-batch-sums=max-bytes=1000 | FileCheck %s --check-prefix=NONE --implicit-check-not=32x16x24

#left = affine_map<(c, o, b, p) -> (b, c, p)>
#right = affine_map<(c, o, b, p) -> (b, o, p)>
#both = affine_map<(c, o, b, p) -> (c, o)>
nd.mesh ["m"=1] machine "h200"

// Images that channels lie between: one call, and a sum.
// CHECK-LABEL: spmd.program @images {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[Y:.*]] = spmd.input "y"
// CHECK:         %[[TERMS:.*]] = linalg.generic {{.*}}["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[Y]] : tensor<32x16x64xf32>, tensor<32x24x64xf32>) outs(%{{.*}} : tensor<32x16x24xf32>)
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}}["reduction", "parallel", "parallel"]} ins(%[[TERMS]] : tensor<32x16x24xf32>) outs(%{{.*}} : tensor<16x24xf32>)
// CHECK:         spmd.output "w" of {{.*}}, %[[SUM]]
// STEPS-LABEL: exec.program @images {
// STEPS:         %[[TERMS:.*]] = exec.matmul {{.*}} -> tensor<32x16x24xf32>
// STEPS-NEXT:    exec.kernel(%[[TERMS]])
// NONE-LABEL: spmd.program @images {
// NONE:         linalg.generic {{.*}}["parallel", "parallel", "reduction", "reduction"]}
spmd.program @images {
  %x = spmd.input "x" of !nd.tensor<["b"=32, "c"=16, "p"=64], f32, <>> : tensor<32x16x64xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=32, "o"=24, "p"=64], f32, <>> : tensor<32x24x64xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x24xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x24xf32>) -> tensor<16x24xf32>
  %w = linalg.generic {indexing_maps = [#left, #right, #both],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %y : tensor<32x16x64xf32>, tensor<32x24x64xf32>)
      outs(%init : tensor<16x24xf32>) {
  ^bb0(%a: f32, %e: f32, %o: f32):
    %m = arith.mulf %a, %e : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<16x24xf32>
  spmd.output "w" of !nd.tensor<["c"=16, "o"=24], f32, <>>, %w : tensor<16x24xf32>
}

// Two calls take no longer than a call and a sum; what lies as one is one call.
// CHECK-LABEL: spmd.program @others {
// CHECK-NOT:     "reduction", "parallel", "parallel"
// CHECK:         spmd.output
spmd.program @others {
  %x = spmd.input "x" of !nd.tensor<["b"=2, "c"=16, "p"=64], f32, <>> : tensor<2x16x64xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=2, "o"=24, "p"=64], f32, <>> : tensor<2x24x64xf32>
  %u = spmd.input "u" of !nd.tensor<["b"=32, "p"=64, "c"=16], f32, <>> : tensor<32x64x16xf32>
  %v = spmd.input "v" of !nd.tensor<["b"=32, "p"=64, "o"=24], f32, <>> : tensor<32x64x24xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x24xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x24xf32>) -> tensor<16x24xf32>
  %w = linalg.generic {indexing_maps = [#left, #right, #both],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %y : tensor<2x16x64xf32>, tensor<2x24x64xf32>)
      outs(%init : tensor<16x24xf32>) {
  ^bb0(%a: f32, %e: f32, %o: f32):
    %m = arith.mulf %a, %e : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<16x24xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(c, o, b, p) -> (b, p, c)>,
                                        affine_map<(c, o, b, p) -> (b, p, o)>, #both],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%u, %v : tensor<32x64x16xf32>, tensor<32x64x24xf32>)
      outs(%init : tensor<16x24xf32>) {
  ^bb0(%a: f32, %e: f32, %o: f32):
    %m = arith.mulf %a, %e : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<16x24xf32>
  spmd.output "w" of !nd.tensor<["c"=16, "o"=24], f32, <>>, %w : tensor<16x24xf32>
  spmd.output "z" of !nd.tensor<["c"=16, "o"=24], f32, <>>, %z : tensor<16x24xf32>
}

// The gradient of what is convolved: channels lie between the windows and the outputs that
// it sums over, in the weights alone. A copy of these is smaller than three products.
// CHECK-LABEL: spmd.program @channels_between
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK:         %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<3x7x5xf32>) outs(%{{.*}} : tensor<3x5x7xf32>)
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %[[COPY]] : tensor<64x3x5xf32>, tensor<3x5x7xf32>) outs(%{{.*}} : tensor<64x7xf32>)
// CHECK-NOT:     linalg.generic
spmd.program @channels_between {
  %g = spmd.input "g" of !nd.tensor<["p"=64, "d"=3, "o"=5], f32, <>> : tensor<64x3x5xf32>
  %w = spmd.input "w" of !nd.tensor<["d"=3, "c"=7, "o"=5], f32, <>> : tensor<3x7x5xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x7xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x7xf32>) -> tensor<64x7xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(p, c, d, o) -> (p, d, o)>,
                                        affine_map<(p, c, d, o) -> (d, c, o)>,
                                        affine_map<(p, c, d, o) -> (p, c)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%g, %w : tensor<64x3x5xf32>, tensor<3x7x5xf32>) outs(%init : tensor<64x7xf32>) {
  ^bb0(%a: f32, %e: f32, %o: f32):
    %m = arith.mulf %a, %e : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<64x7xf32>
  spmd.output "x" of !nd.tensor<["p"=64, "c"=7], f32, <>>, %x : tensor<64x7xf32>
}

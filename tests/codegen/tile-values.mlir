// RUN: meshc-opt %s "-exec-tile-values=tile-bytes=1024" | FileCheck %s
// RUN: meshc-opt %s "-exec-tile-values=tile-bytes=1024" -exec-form-steps | FileCheck %s --check-prefix=STEPS
// RUN: meshc-opt %s "-exec-tile-values=tile-bytes=40128" | FileCheck %s --check-prefix=SMALL --implicit-check-not=exec.loop

// A value of 16 tiles or more is tiled; of fewer it is not.
#rows = affine_map<(p, k, d) -> (p, d)>
#keys = affine_map<(p, k, d) -> (k, d)>
#pairs = affine_map<(p, k, d) -> (p, k)>
nd.mesh ["m"=1]

// What sums over the tiled dimension is carried from tile to tile, what has it is
// stacked; what another operation reads along another dimension is captured.
// CHECK-LABEL: spmd.program @both {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[SUM:.*]]:2 = exec.loop "tile" x 4 carries(%{{.*}}) slices(%[[X]]) captures(%[[X]]) {
// CHECK-NEXT:    ^bb0(%[[OLD:.*]]: tensor<128x2xf32>, %[[ROWS:.*]]: tensor<32x2xf32>, %[[ALL:.*]]: tensor<128x2xf32>):
// CHECK:           linalg.generic {{.*}} ins(%[[ROWS]], %[[ALL]] : tensor<32x2xf32>, tensor<128x2xf32>) outs(%{{.*}} : tensor<32x128xf32>)
// CHECK:           %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<32xf32>)
// CHECK:           %[[NEW:.*]] = linalg.generic {{.*}} outs(%[[OLD]] : tensor<128x2xf32>)
// CHECK:           exec.yield %[[NEW]], %[[Y]]
// CHECK:         spmd.output "y" of {{.*}}, %[[SUM]]#1
// CHECK:         spmd.output "z" of {{.*}}, %[[SUM]]#0
// The steps are formed inside of the loop: a matmul that adds to what there is.
// STEPS-LABEL: exec.program @both {
// STEPS:         exec.loop "tile" x 4
// STEPS-NEXT:    ^bb0(%[[OLD:.*]]: tensor<128x2xf32>, %[[ROWS:.*]]: tensor<32x2xf32>, %[[ALL:.*]]: tensor<128x2xf32>):
// STEPS-NEXT:      %[[S:.*]] = exec.matmul %[[ROWS]], %[[ALL]]
// STEPS:           exec.kernel(%[[S]])
// STEPS:           exec.matmul {{.*}} addend %[[OLD]]
// SMALL-LABEL: spmd.program @both {
spmd.program @both {
  %x = spmd.input "x" of !nd.tensor<["p"=128, "d"=2], f32, <>> : tensor<128x2xf32>
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<128x128xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<128x128xf32>) -> tensor<128x128xf32>
  %s = linalg.generic {indexing_maps = [#rows, #keys, #pairs],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %x : tensor<128x2xf32>, tensor<128x2xf32>) outs(%f0 : tensor<128x128xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<128x128xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(p, k) -> (p, k)>,
                                        affine_map<(p, k) -> (p, k)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<128x128xf32>) outs(%e0 : tensor<128x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<128x128xf32>
  %e1 = tensor.empty() : tensor<128xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<128xf32>) -> tensor<128xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(p, k) -> (p, k)>,
                                        affine_map<(p, k) -> (p)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<128x128xf32>) outs(%f1 : tensor<128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<128xf32>
  %e2 = tensor.empty() : tensor<128x2xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<128x2xf32>) -> tensor<128x2xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(k, d, p) -> (p, k)>,
                                        affine_map<(k, d, p) -> (p, d)>,
                                        affine_map<(k, d, p) -> (k, d)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<128x128xf32>, tensor<128x2xf32>) outs(%f2 : tensor<128x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<128x2xf32>
  spmd.output "y" of !nd.tensor<["p"=128], f32, <>>, %y : tensor<128xf32>
  spmd.output "z" of !nd.tensor<["k"=128, "d"=2], f32, <>>, %z : tensor<128x2xf32>
}

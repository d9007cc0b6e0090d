// RUN: meshc-opt %s -exec-form-steps | FileCheck %s
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s --check-prefix=GPU

// Convolutions of one dimension of space, and their gradients.
nd.mesh ["d"=2]

// A window that is summed is a convolution, which reads what is viewed.
// CHECK-DAG:   #[[SOURCE:.*]] = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 2 - 1, d3)>
// CHECK-DAG:   #[[WEIGHTS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>
// CHECK-DAG:   #[[DESTINATION:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: exec.program @forward {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK-NEXT:    %[[Y:.*]] = exec.conv destination %[[X]], %[[W]] {indexing_maps = [#[[SOURCE]], #[[WEIGHTS]], #[[DESTINATION]]]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]
// GPU-LABEL:   exec.program @forward {
// GPU:           %[[SEEN:.*]] = exec.kernel(
// GPU:           exec.matmul %[[SEEN]],
spmd.program @forward {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %seen = spmd.view %x ["y" = 2 "row" + "dy" - 1]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["row"=4, "dy"=3, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<4x3x3xf32>
  %zero = arith.constant dense<0.0> : tensor<4x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, k, w, c) -> (r, w, c)>,
                                        affine_map<(r, k, w, c) -> (w, c, k)>,
                                        affine_map<(r, k, w, c) -> (r, k)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%seen, %w : tensor<4x3x3xf32>, tensor<3x3x5xf32>) outs(%zero : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x5xf32>
  spmd.output "y" of !nd.tensor<["row"=4, "k"=5], f32, <>>, %y : tensor<4x5xf32>
}

// A quotient is the gradient of what is convolved: the result is the source. A
// window of the result is the gradient of the weights.
// CHECK-LABEL: exec.program @gradients {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK:         %[[G:.*]] = spmd.input "g"
// CHECK-NEXT:    exec.conv source %[[W]], %[[G]] {{{.*}}} : tensor<3x3x5xf32>, tensor<4x5xf32> -> tensor<7x3xf32>
// CHECK-NEXT:    exec.conv weights %[[X]], %[[G]] {{{.*}}} : tensor<7x3xf32>, tensor<4x5xf32> -> tensor<3x3x5xf32>
// CHECK-NEXT:    spmd.output
spmd.program @gradients {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %g = spmd.input "g" of !nd.tensor<["row"=4, "k"=5], f32, <>> : tensor<4x5xf32>
  %from = spmd.view %g ["row" = ("y" - "dy" + 1) / 2]
      from !nd.tensor<["row"=4, "k"=5], f32, <>>
      to !nd.tensor<["y"=7, "dy"=3, "k"=5], f32, <>>
      : tensor<4x5xf32> -> tensor<7x3x5xf32>
  %zero = arith.constant dense<0.0> : tensor<7x3xf32>
  %dx = linalg.generic {indexing_maps = [affine_map<(y, c, w, k) -> (y, w, k)>,
                                         affine_map<(y, c, w, k) -> (w, c, k)>,
                                         affine_map<(y, c, w, k) -> (y, c)>],
                        iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%from, %w : tensor<7x3x5xf32>, tensor<3x3x5xf32>) outs(%zero : tensor<7x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<7x3xf32>
  %seen = spmd.view %x ["y" = 2 "row" + "dy" - 1]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["row"=4, "dy"=3, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<4x3x3xf32>
  %none = arith.constant dense<0.0> : tensor<3x3x5xf32>
  %dw = linalg.generic {indexing_maps = [affine_map<(w, c, k, r) -> (r, w, c)>,
                                         affine_map<(w, c, k, r) -> (r, k)>,
                                         affine_map<(w, c, k, r) -> (w, c, k)>],
                        iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%seen, %g : tensor<4x3x3xf32>, tensor<4x5xf32>) outs(%none : tensor<3x3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<3x3x5xf32>
  spmd.output "dx" of !nd.tensor<["y"=7, "c"=3], f32, <>>, %dx : tensor<7x3xf32>
  spmd.output "dw" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>>, %dw : tensor<3x3x5xf32>
}

// A view that something else reads too is stored for that; rounded quotients are
// no convolution.
// CHECK-LABEL: exec.program @others {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-DAG:     exec.conv destination %[[X]],
// CHECK-DAG:     %[[UP:.*]] = exec.kernel(%[[X]])
// CHECK:         exec.matmul
// CHECK:         spmd.output "seen"
spmd.program @others {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %v = spmd.input "v" of !nd.tensor<["c"=3, "k"=5], f32, <>> : tensor<3x5xf32>
  %seen = spmd.view %x ["y" = "row" + "dy"]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["row"=5, "dy"=3, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<5x3x3xf32>
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, k, w, c) -> (r, w, c)>,
                                        affine_map<(r, k, w, c) -> (w, c, k)>,
                                        affine_map<(r, k, w, c) -> (r, k)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%seen, %w : tensor<5x3x3xf32>, tensor<3x3x5xf32>) outs(%zero : tensor<5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<5x5xf32>
  %up = spmd.view %x ["y" = floor("up" / 2)]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["up"=14, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<14x3xf32>
  %none = arith.constant dense<0.0> : tensor<14x5xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(u, k, c) -> (u, c)>,
                                        affine_map<(u, k, c) -> (c, k)>,
                                        affine_map<(u, k, c) -> (u, k)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%up, %v : tensor<14x3xf32>, tensor<3x5xf32>) outs(%none : tensor<14x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<14x5xf32>
  spmd.output "y" of !nd.tensor<["row"=5, "k"=5], f32, <>>, %y : tensor<5x5xf32>
  spmd.output "z" of !nd.tensor<["up"=14, "k"=5], f32, <>>, %z : tensor<14x5xf32>
  spmd.output "seen" of !nd.tensor<["row"=5, "dy"=3, "c"=3], f32, <>>, %seen : tensor<5x3x3xf32>
}

// In 16 bits the rounding of the sums is the convolution's.
// CHECK-LABEL: exec.program @narrow {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK-NEXT:    %[[Y:.*]] = exec.conv destination %[[X]], %[[W]] {{{.*}}} : tensor<7x3xbf16>, tensor<3x3x5xbf16> -> tensor<5x5xbf16>
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]
spmd.program @narrow {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], bf16, <>> : tensor<7x3xbf16>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], bf16, <>> : tensor<3x3x5xbf16>
  %seen = spmd.view %x ["y" = "row" + "dy"]
      from !nd.tensor<["y"=7, "c"=3], bf16, <>>
      to !nd.tensor<["row"=5, "dy"=3, "c"=3], bf16, <>>
      : tensor<7x3xbf16> -> tensor<5x3x3xbf16>
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(r, k, w, c) -> (r, w, c)>,
                                          affine_map<(r, k, w, c) -> (w, c, k)>,
                                          affine_map<(r, k, w, c) -> (r, k)>],
                         iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%seen, %w : tensor<5x3x3xbf16>, tensor<3x3x5xbf16>) outs(%zero : tensor<5x5xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %e = arith.extf %a : bf16 to f32
    %f = arith.extf %b : bf16 to f32
    %p = arith.mulf %e, %f : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<5x5xf32>
  %empty = tensor.empty() : tensor<5x5xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(r, k) -> (r, k)>, affine_map<(r, k) -> (r, k)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<5x5xf32>) outs(%empty : tensor<5x5xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<5x5xbf16>
  spmd.output "y" of !nd.tensor<["row"=5, "k"=5], bf16, <>>, %y : tensor<5x5xbf16>
}

// What a convolution reads through its window is itself a view, which is stored:
// the convolution reads what is stored.
// CHECK-LABEL: exec.program @behind_a_view {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK-NEXT:    %[[UP:.*]] = exec.kernel(%[[X]])
// CHECK:         exec.conv destination %[[UP]], %[[W]] {{{.*}}} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<5x5xf32>
spmd.program @behind_a_view {
  %x = spmd.input "x" of !nd.tensor<["x"=4, "c"=3], f32, <>> : tensor<4x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %up = spmd.view %x ["x" = floor("y" / 2)]
      from !nd.tensor<["x"=4, "c"=3], f32, <>>
      to !nd.tensor<["y"=7, "c"=3], f32, <>>
      : tensor<4x3xf32> -> tensor<7x3xf32>
  %seen = spmd.view %up ["y" = "row" + "dy"]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["row"=5, "dy"=3, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<5x3x3xf32>
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, k, w, c) -> (r, w, c)>,
                                        affine_map<(r, k, w, c) -> (w, c, k)>,
                                        affine_map<(r, k, w, c) -> (r, k)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%seen, %w : tensor<5x3x3xf32>, tensor<3x3x5xf32>) outs(%zero : tensor<5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<5x5xf32>
  spmd.output "y" of !nd.tensor<["row"=5, "k"=5], f32, <>>, %y : tensor<5x5xf32>
}

// The weights are a view, too, which is stored.
// CHECK-LABEL: exec.program @two_views {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[V:.*]] = spmd.input "v"
// CHECK-NEXT:    %[[W:.*]] = exec.kernel(%[[V]])
// CHECK:         exec.conv destination %[[X]], %[[W]] {{{.*}}} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<5x5xf32>
spmd.program @two_views {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %v = spmd.input "v" of !nd.tensor<["e"=2, "c"=3, "k"=5], f32, <>> : tensor<2x3x5xf32>
  %w = spmd.view %v ["e" = floor("dy" / 2)]
      from !nd.tensor<["e"=2, "c"=3, "k"=5], f32, <>>
      to !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>>
      : tensor<2x3x5xf32> -> tensor<3x3x5xf32>
  %seen = spmd.view %x ["y" = "row" + "dy"]
      from !nd.tensor<["y"=7, "c"=3], f32, <>>
      to !nd.tensor<["row"=5, "dy"=3, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<5x3x3xf32>
  %zero = arith.constant dense<0.0> : tensor<5x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, k, w, c) -> (r, w, c)>,
                                        affine_map<(r, k, w, c) -> (w, c, k)>,
                                        affine_map<(r, k, w, c) -> (r, k)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%seen, %w : tensor<5x3x3xf32>, tensor<3x3x5xf32>) outs(%zero : tensor<5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<5x5xf32>
  spmd.output "y" of !nd.tensor<["row"=5, "k"=5], f32, <>>, %y : tensor<5x5xf32>
}

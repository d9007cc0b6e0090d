// RUN: meshc-opt %s -exec-form-steps | FileCheck %s
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s

// What is but a place in memory: slices that lie in one piece, and stacks.
nd.mesh ["d"=2]

// A matmul of a slice reads it where it lies, and so does its bias.
// CHECK-LABEL: exec.program @layer {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.read @w
// CHECK:         %[[B:.*]] = spmd.read @b
// CHECK-DAG:     %[[W3:.*]] = exec.slice %[[W]] at 45 : tensor<4x3x5xf32> -> tensor<3x5xf32>
// CHECK-DAG:     %[[B3:.*]] = exec.slice %[[B]] at 15 : tensor<4x5xf32> -> tensor<5xf32>
// CHECK:         %[[Y:.*]] = exec.matmul %[[X]], %[[W3]] bias %[[B3]]
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]
nd.variable parameter @w : !nd.tensor<["layers"=4, "c"=3, "k"=5], f32, <>> = #nd.fill<1.0>
nd.variable parameter @b : !nd.tensor<["layers"=4, "k"=5], f32, <>> = #nd.fill<1.0>
spmd.program @layer {
  %x = spmd.input "x" of !nd.tensor<["n"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.read @w : tensor<4x3x5xf32>
  %b = spmd.read @b : tensor<4x5xf32>
  %w3 = spmd.view %w ["layers" = 3]
      from !nd.tensor<["layers"=4, "c"=3, "k"=5], f32, <>>
      to !nd.tensor<["c"=3, "k"=5], f32, <>>
      : tensor<4x3x5xf32> -> tensor<3x5xf32>
  %b3 = spmd.view %b ["layers" = 3]
      from !nd.tensor<["layers"=4, "k"=5], f32, <>>
      to !nd.tensor<["k"=5], f32, <>>
      : tensor<4x5xf32> -> tensor<5xf32>
  %zero = arith.constant dense<0.0> : tensor<7x5xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(n, k, c) -> (n, c)>,
                                        affine_map<(n, k, c) -> (c, k)>,
                                        affine_map<(n, k, c) -> (n, k)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w3 : tensor<7x3xf32>, tensor<3x5xf32>) outs(%zero : tensor<7x5xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %t = arith.mulf %a, %f : f32
    %r = arith.addf %o, %t : f32
    linalg.yield %r : f32
  } -> tensor<7x5xf32>
  %empty = tensor.empty() : tensor<7x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>,
                                        affine_map<(n, k) -> (k)>,
                                        affine_map<(n, k) -> (n, k)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p, %b3 : tensor<7x5xf32>, tensor<5xf32>) outs(%empty : tensor<7x5xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %r = arith.addf %a, %f : f32
    linalg.yield %r : f32
  } -> tensor<7x5xf32>
  spmd.output "y" of !nd.tensor<["n"=7, "k"=5], f32, <>>, %y : tensor<7x5xf32>
}

// Rows of the outermost dimension lie in one piece, some columns of each do not,
// nor does what is partly outside.
// CHECK-LABEL: exec.program @pieces {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-DAG:     %[[ROWS:.*]] = exec.slice %[[X]] at 6 : tensor<7x3xf32> -> tensor<4x3xf32>
// CHECK-DAG:     %[[COLUMNS:.*]] = exec.kernel(%[[X]])
// CHECK-DAG:     %[[SHIFTED:.*]] = exec.kernel(%[[X]])
// CHECK:         spmd.output "rows" of {{.*}}, %[[ROWS]]
spmd.program @pieces {
  %x = spmd.input "x" of !nd.tensor<["n"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %rows = spmd.view %x ["n" = "m" + 2]
      from !nd.tensor<["n"=7, "c"=3], f32, <>>
      to !nd.tensor<["m"=4, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<4x3xf32>
  %columns = spmd.view %x ["c" = "e" + 1]
      from !nd.tensor<["n"=7, "c"=3], f32, <>>
      to !nd.tensor<["n"=7, "e"=2], f32, <>>
      : tensor<7x3xf32> -> tensor<7x2xf32>
  %shifted = spmd.view %x ["n" = "m" + 5]
      from !nd.tensor<["n"=7, "c"=3], f32, <>>
      to !nd.tensor<["m"=4, "c"=3], f32, <>>
      : tensor<7x3xf32> -> tensor<4x3xf32>
  spmd.output "rows" of !nd.tensor<["m"=4, "c"=3], f32, <>>, %rows : tensor<4x3xf32>
  spmd.output "columns" of !nd.tensor<["n"=7, "e"=2], f32, <>>, %columns : tensor<7x2xf32>
  spmd.output "shifted" of !nd.tensor<["m"=4, "c"=3], f32, <>>, %shifted : tensor<4x3xf32>
}

// CHECK-LABEL: exec.program @stacked {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[A:.*]] = exec.kernel(%[[X]])
// CHECK:         %[[S:.*]] = exec.stack %[[A]], %[[X]] : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
// CHECK-NEXT:    spmd.output "s" of {{.*}}, %[[S]]
spmd.program @stacked {
  %x = spmd.input "x" of !nd.tensor<["k"=5], f32, <>> : tensor<5xf32>
  %empty = tensor.empty() : tensor<5xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>],
                       iterator_types = ["parallel"]}
      ins(%x : tensor<5xf32>) outs(%empty : tensor<5xf32>) {
  ^bb0(%e: f32, %o: f32):
    %r = math.exp %e : f32
    linalg.yield %r : f32
  } -> tensor<5xf32>
  %s = spmd.stack %a, %x : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
  spmd.output "s" of !nd.tensor<["t"=2, "k"=5], f32, <>>, %s : tensor<2x5xf32>
}

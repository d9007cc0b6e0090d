// RUN: meshc-opt %s -exec-form-steps | FileCheck %s
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s

// What is but a place in memory: slices and stacks.
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

// Matmuls read a slice in several pieces where it lies, a kernel computes it: the
// second of three matrices between each other's rows, and every second row of the
// third one's columns 1 to 6.
// CHECK-LABEL: exec.program @factors {
// CHECK:         %[[X:.*]] = exec.matmul
// CHECK-DAG:     %[[Q:.*]] = exec.slice %[[X]] at 7 strides [21, 1] : tensor<5x3x7xf32> -> tensor<5x7xf32>
// CHECK-DAG:     %[[K:.*]] = exec.slice %[[X]] at 15 strides [42, 1] : tensor<5x3x7xf32> -> tensor<3x6xf32>
// CHECK-DAG:     exec.matmul %[[Q]], %[[Q]]
// CHECK-DAG:     exec.matmul %[[K]], %[[K]]
// CHECK-DAG:     exec.kernel(%[[X]])
spmd.program @factors {
  %a = spmd.input "a" of !nd.tensor<["n"=5, "c"=4], f32, <>> : tensor<5x4xf32>
  %w = spmd.input "w" of !nd.tensor<["c"=4, "three"=3, "e"=7], f32, <>> : tensor<4x3x7xf32>
  %zero = arith.constant dense<0.0> : tensor<5x3x7xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(n, t, e, c) -> (n, c)>,
                                        affine_map<(n, t, e, c) -> (c, t, e)>,
                                        affine_map<(n, t, e, c) -> (n, t, e)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<5x4xf32>, tensor<4x3x7xf32>) outs(%zero : tensor<5x3x7xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x3x7xf32>
  %q = spmd.view %x ["three" = 1]
      from !nd.tensor<["n"=5, "three"=3, "e"=7], f32, <>>
      to !nd.tensor<["n"=5, "e"=7], f32, <>>
      : tensor<5x3x7xf32> -> tensor<5x7xf32>
  %k = spmd.view %x ["n" = 2"m", "three" = 2, "e" = "f" + 1]
      from !nd.tensor<["n"=5, "three"=3, "e"=7], f32, <>>
      to !nd.tensor<["m"=3, "f"=6], f32, <>>
      : tensor<5x3x7xf32> -> tensor<3x6xf32>
  %zero1 = arith.constant dense<0.0> : tensor<5x5xf32>
  %qq = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                        affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%q, %q : tensor<5x7xf32>, tensor<5x7xf32>) outs(%zero1 : tensor<5x5xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x5xf32>
  %zero2 = arith.constant dense<0.0> : tensor<3x3xf32>
  %kk = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                        affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%k, %k : tensor<3x6xf32>, tensor<3x6xf32>) outs(%zero2 : tensor<3x3xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<3x3xf32>
  %empty1 = tensor.empty() : tensor<5x7xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<5x7xf32>) outs(%empty1 : tensor<5x7xf32>) {
  ^bb0(%u: f32, %o: f32):
    %s = math.exp %u : f32
    linalg.yield %s : f32
  } -> tensor<5x7xf32>
  spmd.output "qq" of !nd.tensor<["n"=5, "m"=5], f32, <>>, %qq : tensor<5x5xf32>
  spmd.output "kk" of !nd.tensor<["n"=3, "m"=3], f32, <>>, %kk : tensor<3x3xf32>
  spmd.output "y" of !nd.tensor<["n"=5, "e"=7], f32, <>>, %y : tensor<5x7xf32>
}

// What no library takes where it lies is copied, and so is a small part of what
// would stay in memory for it alone; of a variable, which stays, it is read.
// CHECK-LABEL: exec.program @copied_factors {
// CHECK-DAG:     %[[A:.*]] = spmd.input "a"
// CHECK-DAG:     %[[V:.*]] = spmd.read @v
// CHECK-DAG:     %[[FROM_V:.*]] = exec.slice %[[V]] at 7 strides [21, 1]
// CHECK-DAG:     exec.matmul %[[FROM_V]], %[[FROM_V]]
// CHECK-DAG:     %[[COLUMNS:.*]] = exec.kernel(%[[A]])
// CHECK-DAG:     exec.matmul %[[COLUMNS]], %[[COLUMNS]]
// CHECK-DAG:     %[[X:.*]] = exec.kernel(%[[V]])
// CHECK-DAG:     %[[PART:.*]] = exec.kernel(%[[X]])
// CHECK-DAG:     exec.matmul %[[PART]], %[[PART]]
nd.variable parameter @v : !nd.tensor<["n"=5, "three"=3, "e"=7], f32, <>> = #nd.fill<1.0>
spmd.program @copied_factors {
  %a = spmd.input "a" of !nd.tensor<["n"=5, "e"=7, "two"=2], f32, <>> : tensor<5x7x2xf32>
  %var = spmd.read @v : tensor<5x3x7xf32>
  %from_v = spmd.view %var ["three" = 1]
      from !nd.tensor<["n"=5, "three"=3, "e"=7], f32, <>>
      to !nd.tensor<["n"=5, "e"=7], f32, <>>
      : tensor<5x3x7xf32> -> tensor<5x7xf32>
  %columns = spmd.view %a ["two" = 1]
      from !nd.tensor<["n"=5, "e"=7, "two"=2], f32, <>>
      to !nd.tensor<["n"=5, "e"=7], f32, <>>
      : tensor<5x7x2xf32> -> tensor<5x7xf32>
  %sums = arith.constant dense<0.0> : tensor<5x3x7xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (l, j, k)>, affine_map<(i, j, k, l) -> (i, j, k)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%var : tensor<5x3x7xf32>) outs(%sums : tensor<5x3x7xf32>) {
  ^bb0(%u: f32, %o: f32):
    %s = arith.addf %o, %u : f32
    linalg.yield %s : f32
  } -> tensor<5x3x7xf32>
  %part = spmd.view %x ["three" = 1]
      from !nd.tensor<["n"=5, "three"=3, "e"=7], f32, <>>
      to !nd.tensor<["n"=5, "e"=7], f32, <>>
      : tensor<5x3x7xf32> -> tensor<5x7xf32>
  %zero1 = arith.constant dense<0.0> : tensor<5x5xf32>
  %vv = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                        affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%from_v, %from_v : tensor<5x7xf32>, tensor<5x7xf32>) outs(%zero1 : tensor<5x5xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x5xf32>
  %zero2 = arith.constant dense<0.0> : tensor<5x5xf32>
  %cc = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                        affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%columns, %columns : tensor<5x7xf32>, tensor<5x7xf32>) outs(%zero2 : tensor<5x5xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x5xf32>
  %zero3 = arith.constant dense<0.0> : tensor<5x5xf32>
  %pp = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                        affine_map<(m, n, k) -> (n, k)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%part, %part : tensor<5x7xf32>, tensor<5x7xf32>) outs(%zero3 : tensor<5x5xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %t = arith.mulf %u, %v : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<5x5xf32>
  spmd.output "vv" of !nd.tensor<["n"=5, "m"=5], f32, <>>, %vv : tensor<5x5xf32>
  spmd.output "cc" of !nd.tensor<["n"=5, "m"=5], f32, <>>, %cc : tensor<5x5xf32>
  spmd.output "pp" of !nd.tensor<["n"=5, "m"=5], f32, <>>, %pp : tensor<5x5xf32>
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

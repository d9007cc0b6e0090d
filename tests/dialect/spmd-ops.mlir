// Every operation is printed as it is parsed, in its own form and the generic one.
// RUN: meshc-opt %s | meshc-opt | FileCheck %s
// RUN: meshc-opt %s -mlir-print-op-generic | meshc-opt | FileCheck %s

!whole = !nd.tensor<["a"=6, "b"=5], f32, <>>
!ax = !nd.tensor<["a"=6, "b"=5], f32, <"a"@x>>
!bx = !nd.tensor<["a"=6, "b"=5], f32, <"b"@x>>
!ay = !nd.tensor<["a"=6, "b"=5], f32, <"a"@y>>
!axy = !nd.tensor<["a"=6, "b"=5], f32, <"a"@x@y>>
!ayx = !nd.tensor<["a"=6, "b"=5], f32, <"a"@y@x>>
!sum = !nd.tensor<["a"=6, "b"=5], f32, <> partial sum over x>

nd.mesh ["x"=2, "y"=3, "z"=8]
nd.variable parameter @w : !ax = #nd.fill<1.0>

// CHECK-LABEL: spmd.program @border attributes {note = "kept"} {
// CHECK-NEXT:    %[[X:.*]] = spmd.input "x" of !a_at_x_by_b : tensor<3x5xf32>
// CHECK-NEXT:    spmd.input "i" of !a_i32 {index_bound = 9 : i64} : tensor<6xi32>
// CHECK-NEXT:    %[[W:.*]] = spmd.read @w : tensor<3x5xf32>
// CHECK-NEXT:    spmd.output "x" of !a_at_x_by_b, %[[X]] : tensor<3x5xf32>
// CHECK-NEXT:    spmd.write @w, %[[W]] : tensor<3x5xf32>
// CHECK-NEXT:    spmd.axis_index x
// CHECK-NEXT:    spmd.axis_index z:(2)4
spmd.program @border attributes {note = "kept"} {
  %x = spmd.input "x" of !ax : tensor<3x5xf32>
  %i = spmd.input "i" of !nd.tensor<["a"=6], i32, <>> {index_bound = 9 : i64} : tensor<6xi32>
  %w = spmd.read @w : tensor<3x5xf32>
  spmd.output "x" of !ax, %x : tensor<3x5xf32>
  spmd.write @w, %w : tensor<3x5xf32>
  %0 = spmd.axis_index x
  %1 = spmd.axis_index z:(2)4
}

// CHECK-LABEL: spmd.program @collectives
// CHECK:         spmd.all_reduce %{{.*}} from !a_by_b_sum_over_x to !a_by_b : tensor<6x5xf32> -> tensor<6x5xf32>
// CHECK-NEXT:    spmd.reduce_scatter %{{.*}} from !a_by_b_sum_over_x to !a_at_x_by_b : tensor<6x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    %[[AX:.*]] = spmd.slice %{{.*}} from !a_by_b to !a_at_x_by_b : tensor<6x5xf32> -> tensor<3x5xf32>
// CHECK-NEXT:    spmd.all_gather %[[AX]] from !a_at_x_by_b to !a_by_b : tensor<3x5xf32> -> tensor<6x5xf32>
// CHECK-NEXT:    spmd.all_to_all %[[AX]] from !a_at_x_by_b to !a_by_b_at_x : tensor<3x5xf32> -> tensor<6x3xf32>
// CHECK-NEXT:    spmd.exchange %[[AX]] from !a_at_x_by_b to !a_at_y_by_b {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = []>]} : tensor<3x5xf32> -> tensor<2x5xf32>
// CHECK:         spmd.permute %{{.*}} from !a_at_x_y_by_b to !a_at_y_x_by_b : tensor<1x5xf32> -> tensor<1x5xf32>
spmd.program @collectives {
  %p = spmd.input "p" of !sum : tensor<6x5xf32>
  %whole = spmd.input "whole" of !whole : tensor<6x5xf32>
  %0 = spmd.all_reduce %p from !sum to !whole : tensor<6x5xf32> -> tensor<6x5xf32>
  %1 = spmd.reduce_scatter %p from !sum to !ax : tensor<6x5xf32> -> tensor<3x5xf32>
  %2 = spmd.slice %whole from !whole to !ax : tensor<6x5xf32> -> tensor<3x5xf32>
  %3 = spmd.all_gather %2 from !ax to !whole : tensor<3x5xf32> -> tensor<6x5xf32>
  %4 = spmd.all_to_all %2 from !ax to !bx : tensor<3x5xf32> -> tensor<6x3xf32>
  %5 = spmd.exchange %2 from !ax to !ay {causes = [#nd.cause<kind = rule, rule = "r", consumer = <"c">, operand = <"o">, needed = "n", had = "h", spans = []>]} : tensor<3x5xf32> -> tensor<2x5xf32>
  %6 = spmd.slice %2 from !ax to !axy : tensor<3x5xf32> -> tensor<1x5xf32>
  %7 = spmd.permute %6 from !axy to !ayx : tensor<1x5xf32> -> tensor<1x5xf32>
}

// CHECK-LABEL: spmd.program @views
// CHECK:         spmd.view %{{.*}} ["a" = "d" + 2 "r" - 1] from !a_by_b_at_x to !r_by_d_by_b_at_x : tensor<6x3xf32> -> tensor<3x3x3xf32>
spmd.program @views {
  %x = spmd.input "x" of !bx : tensor<6x3xf32>
  %0 = spmd.view %x ["a" = 2 "r" + "d" - 1] from !bx
      to !nd.tensor<["r"=3, "d"=3, "b"=5], f32, <"b"@x>> : tensor<6x3xf32> -> tensor<3x3x3xf32>
}

// CHECK-LABEL: spmd.program @stacks
// CHECK:         spmd.stack %{{.*}}, %{{.*}} : tensor<6x3xf32>, tensor<6x3xf32> -> tensor<2x6x3xf32>
spmd.program @stacks {
  %x = spmd.input "x" of !bx : tensor<6x3xf32>
  %0 = spmd.stack %x, %x : tensor<6x3xf32>, tensor<6x3xf32> -> tensor<2x6x3xf32>
}

// CHECK-LABEL: spmd.program @puts
// CHECK:         spmd.put %{{.*}}[%{{.*}}] {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}]} : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x3xf32>
spmd.program @puts {
  %x = spmd.input "x" of !bx : tensor<6x3xf32>
  %i = spmd.input "i" of !nd.tensor<["a"=6], i32, <>> : tensor<6xi32>
  %0 = spmd.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>,
      affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]}
      : tensor<6x3xf32>, tensor<6xi32> -> tensor<7x3xf32>
}

// CHECK-LABEL: spmd.program @scalars
// CHECK:         spmd.erf_inv %{{.*}} : f32
// CHECK:         spmd.fold_in %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:    spmd.random_bits %{{.*}}, %{{.*}} : vector<4xi64>
spmd.program @scalars {
  %x = arith.constant 0.5 : f32
  %y = spmd.erf_inv %x : f32
  %s = arith.constant dense<7> : vector<4xi64>
  %one = arith.constant 1 : i64
  %f = spmd.fold_in %one, %one : i64
  %b = spmd.random_bits %s, %s : vector<4xi64>
}

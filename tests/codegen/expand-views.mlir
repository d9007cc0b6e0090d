// RUN: meshc-opt %s -exec-form-steps | FileCheck %s

// Views that split or merge dimensions, between kernels.

#whole = affine_map<(a, b) -> (a, b)>
#row = affine_map<(a, b) -> (b)>
#first = affine_map<(a, b) -> (a)>
#groups = affine_map<(a, g, c) -> (a, g, c)>
#group = affine_map<(a, g, c) -> (g, c)>
#line = affine_map<(a) -> (a)>
#lines = affine_map<(g, c) -> (g, c)>
#none = affine_map<(a) -> ()>

nd.mesh ["d"=1]
nd.variable parameter @w : !nd.tensor<["b"=12], f32, <>> = #nd.fill<1.0>

// Both sides are one kernel, along the dimensions that are split; a parameter that one
// side reads along the merged one is viewed where it lies.
// CHECK-LABEL: exec.program @split_and_merged {
// CHECK-DAG:     %[[X:.*]] = spmd.input "x"
// CHECK-DAG:     %[[G:.*]] = spmd.input "g"
// CHECK-DAG:     %[[W:.*]] = spmd.read @w
// CHECK-DAG:     %[[XS:.*]] = exec.slice %[[X]] at 0 : tensor<5x12xf32> -> tensor<5x3x4xf32>
// CHECK-DAG:     %[[WS:.*]] = exec.slice %[[W]] at 0 : tensor<12xf32> -> tensor<3x4xf32>
// CHECK:         %[[Y:.*]] = exec.kernel(%[[XS]], %[[WS]], %[[G]]) {
// CHECK-COUNT-3:   linalg.generic
// CHECK-NOT:     exec.kernel
// CHECK:         spmd.output "y" of {{.*}}, %[[Y]]
spmd.program @split_and_merged {
  %x = spmd.input "x" of !nd.tensor<["a"=5, "b"=12], f32, <>> : tensor<5x12xf32>
  %g = spmd.input "g" of !nd.tensor<["g"=3, "c"=4], f32, <>> : tensor<3x4xf32>
  %w = spmd.read @w : tensor<12xf32>
  %empty = tensor.empty() : tensor<5x12xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<5x12xf32>, tensor<12xf32>) outs(%empty : tensor<5x12xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<5x12xf32>
  %split = spmd.view %sum ["b" = 4 "g" + "c"]
      from !nd.tensor<["a"=5, "b"=12], f32, <>> to !nd.tensor<["a"=5, "g"=3, "c"=4], f32, <>>
      : tensor<5x12xf32> -> tensor<5x3x4xf32>
  %emptySplit = tensor.empty() : tensor<5x3x4xf32>
  %scaled = linalg.generic {indexing_maps = [#groups, #group, #groups], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%split, %g : tensor<5x3x4xf32>, tensor<3x4xf32>) outs(%emptySplit : tensor<5x3x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<5x3x4xf32>
  %merged = spmd.view %scaled ["g" = floor("b" / 4), "c" = "b" mod 4]
      from !nd.tensor<["a"=5, "g"=3, "c"=4], f32, <>> to !nd.tensor<["a"=5, "b"=12], f32, <>>
      : tensor<5x3x4xf32> -> tensor<5x12xf32>
  %zero = arith.constant 0.0 : f32
  %emptyRows = tensor.empty() : tensor<5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%emptyRows : tensor<5xf32>) -> tensor<5xf32>
  %y = linalg.generic {indexing_maps = [#whole, #first], iterator_types = ["parallel", "reduction"]}
      ins(%merged : tensor<5x12xf32>) outs(%zeros : tensor<5xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<5xf32>
  spmd.output "y" of !nd.tensor<["a"=5], f32, <>>, %y : tensor<5xf32>
}

// What becomes the new value of a variable, or an output, is computed in its place, not along
// dimensions that the variable has not; positions along a merged dimension are those
// of the split ones.
// CHECK-LABEL: exec.program @stored {
// CHECK-DAG:     %[[W:.*]] = spmd.read @w
// CHECK-DAG:     %[[WS:.*]] = exec.slice %[[W]] at 0 : tensor<12xf32> -> tensor<3x4xf32>
// CHECK:         %[[Y:.*]] = exec.kernel(%[[WS]]) {
// CHECK-DAG:       %[[G:.*]] = linalg.index 0
// CHECK-DAG:       %[[C:.*]] = linalg.index 1
// CHECK-DAG:       %[[M:.*]] = arith.muli %[[G]]
// CHECK:           arith.addi {{.*}}%[[M]]
// CHECK:           math.tanh
// CHECK:         %[[YS:.*]] = exec.slice %[[Y]] at 0 : tensor<3x4xf32> -> tensor<12xf32>
// CHECK:         %[[V:.*]] = exec.kernel(%[[YS]]) {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<12xf32>):
// CHECK:         spmd.write @w, %[[V]]
spmd.program @stored {
  %w = spmd.read @w : tensor<12xf32>
  %empty = tensor.empty() : tensor<12xf32>
  %ramp = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%w : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %r = arith.mulf %p, %k : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  %split = spmd.view %ramp ["b" = 4 "g" + "c"]
      from !nd.tensor<["b"=12], f32, <>> to !nd.tensor<["g"=3, "c"=4], f32, <>>
      : tensor<12xf32> -> tensor<3x4xf32>
  %emptySplit = tensor.empty() : tensor<3x4xf32>
  %y = linalg.generic {indexing_maps = [#lines, #lines], iterator_types = ["parallel", "parallel"]}
      ins(%split : tensor<3x4xf32>) outs(%emptySplit : tensor<3x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<3x4xf32>
  %merged = spmd.view %y ["g" = floor("b" / 4), "c" = "b" mod 4]
      from !nd.tensor<["g"=3, "c"=4], f32, <>> to !nd.tensor<["b"=12], f32, <>>
      : tensor<3x4xf32> -> tensor<12xf32>
  %v = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%merged : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.sqrt %p : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  spmd.write @w, %v : tensor<12xf32>
}

// What is equal stays apart: the backward phase computes again what it would keep.
// CHECK-LABEL: exec.program @computed_again {
// CHECK-COUNT-3: math.tanh
// CHECK-NOT:     math.tanh
spmd.program @computed_again {
  %x = spmd.input "x" of !nd.tensor<["b"=12], f32, <>> : tensor<12xf32>
  %empty = tensor.empty() : tensor<12xf32>
  %forward = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  %split = spmd.view %forward ["b" = 4 "g" + "c"]
      from !nd.tensor<["b"=12], f32, <>> to !nd.tensor<["g"=3, "c"=4], f32, <>>
      : tensor<12xf32> -> tensor<3x4xf32>
  %emptySplit = tensor.empty() : tensor<3x4xf32>
  %y = linalg.generic {indexing_maps = [#lines, #lines], iterator_types = ["parallel", "parallel"]}
      ins(%split : tensor<3x4xf32>) outs(%emptySplit : tensor<3x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<3x4xf32>
  spmd.output "y" of !nd.tensor<["g"=3, "c"=4], f32, <>>, %y : tensor<3x4xf32>
  %again = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  %z = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%again : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.sqrt %p : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  spmd.output "z" of !nd.tensor<["b"=12], f32, <>>, %z : tensor<12xf32>
  %more = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<12xf32>) outs(%empty : tensor<12xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.tanh %p : f32
    linalg.yield %r : f32
  } -> tensor<12xf32>
  spmd.output "more" of !nd.tensor<["b"=12], f32, <>>, %more : tensor<12xf32>
}

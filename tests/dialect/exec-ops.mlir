// Every operation is printed as it is parsed, in its own form and the generic one.
// RUN: meshc-opt %s | meshc-opt | FileCheck %s
// RUN: meshc-opt %s -mlir-print-op-generic | meshc-opt | FileCheck %s

!x = !nd.tensor<["a"=6, "b"=5], f32, <>>
!terms = !nd.tensor<["a"=6, "b"=5], f32, <> partial sum over d>
#element = affine_map<(a, b) -> (a, b)>
#lhs = affine_map<(a, c, b) -> (a, b)>
#rhs = affine_map<(a, c, b) -> (b, c)>
#result = affine_map<(a, c, b) -> (a, c)>
#source = affine_map<(row, k, dy, c) -> (2 * row + dy - 1, c)>
#weights = affine_map<(row, k, dy, c) -> (dy, c, k)>
#destination = affine_map<(row, k, dy, c) -> (row, k)>

nd.mesh ["d"=2]
nd.variable parameter @w : !x = #nd.fill<1.0>

// CHECK-DAG: #[[H_LOC:[a-z0-9]+]] = loc(fused<#nd.origin<"h">>[#{{.*}}])
// CHECK-DAG: #[[G_LOC:[a-z0-9]+]] = loc(fused<#nd.origin<"g">>[#{{.*}}])

// CHECK-LABEL: exec.program @kernels attributes {note = "kept"} {
// CHECK-NEXT:    %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[W:.*]] = spmd.read @w
// CHECK-NEXT:    %[[Y:.*]]:2 = exec.kernel(%[[X]], %[[W]]) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<6x5xf32>, %[[B:.*]]: tensor<6x5xf32>):
// CHECK:           %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]]
// CHECK:           exec.yield %[[S]], %{{.*}} : tensor<6x5xf32>, tensor<6x5xf32>
// CHECK-NEXT:    } : (tensor<6x5xf32>, tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<6x5xf32>)
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]#0
// CHECK-NEXT:    spmd.write @w, %[[Y]]#1
exec.program @kernels attributes {note = "kept"} {
  %x = spmd.input "x" of !x : tensor<6x5xf32>
  %w = spmd.read @w : tensor<6x5xf32>
  %y:2 = exec.kernel(%x, %w) {
  ^bb0(%a: tensor<6x5xf32>, %b: tensor<6x5xf32>):
    %empty = tensor.empty() : tensor<6x5xf32>
    %half = arith.constant dense<0.5> : tensor<6x5xf32>
    %s = linalg.generic {indexing_maps = [#element, #element, #element], iterator_types = ["parallel", "parallel"]}
        ins(%a, %b : tensor<6x5xf32>, tensor<6x5xf32>) outs(%empty : tensor<6x5xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %r = arith.addf %p, %q : f32
      linalg.yield %r : f32
    } -> tensor<6x5xf32>
    exec.yield %s, %half : tensor<6x5xf32>, tensor<6x5xf32>
  } : (tensor<6x5xf32>, tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<6x5xf32>)
  spmd.output "y" of !x, %y#0 : tensor<6x5xf32>
  spmd.write @w, %y#1 : tensor<6x5xf32>
}

// CHECK-LABEL: exec.program @groups {
// CHECK:         exec.group(%{{.*}}) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<2xf32>):
// CHECK-NEXT:      %[[ONE:.*]] = exec.kernel(%[[A]]) {
// CHECK:           %[[TWO:.*]] = exec.kernel(%[[A]]) {
// CHECK:           exec.yield %[[ONE]], %[[TWO]] : tensor<2xf32>, tensor<2xf32>
// CHECK-NEXT:    } : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
exec.program @groups {
  %x = spmd.input "x" of !nd.tensor<["a"=2], f32, <>> : tensor<2xf32>
  %y:2 = exec.group(%x) {
  ^bb0(%a: tensor<2xf32>):
    %one = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<1.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    %two = exec.kernel(%a) {
    ^bb0(%b: tensor<2xf32>):
      %c = arith.constant dense<2.0> : tensor<2xf32>
      exec.yield %c : tensor<2xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    exec.yield %one, %two : tensor<2xf32>, tensor<2xf32>
  } : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
}

// CHECK-LABEL: exec.program @transfers {
// CHECK:         exec.transfer(%[[X:.*]], %[[Y:.*]]) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<6x5xf32>, %[[B:.*]]: tensor<6x5xf32>):
// CHECK-NEXT:      %[[P:.*]] = spmd.all_reduce %[[A]]
// CHECK-NEXT:      %[[Q:.*]] = spmd.all_reduce %[[B]]
// CHECK-NEXT:      exec.yield %[[P]], %[[Q]]
exec.program @transfers {
  %x = spmd.input "x" of !terms : tensor<6x5xf32>
  %y = spmd.input "y" of !terms : tensor<6x5xf32>
  %z:2 = exec.transfer(%x, %y) {
  ^bb0(%a: tensor<6x5xf32>, %b: tensor<6x5xf32>):
    %p = spmd.all_reduce %a from !terms to !x : tensor<6x5xf32> -> tensor<6x5xf32>
    %q = spmd.all_reduce %b from !terms to !x : tensor<6x5xf32> -> tensor<6x5xf32>
    exec.yield %p, %q : tensor<6x5xf32>, tensor<6x5xf32>
  } : (tensor<6x5xf32>, tensor<6x5xf32>) -> (tensor<6x5xf32>, tensor<6x5xf32>)
}

// CHECK-LABEL: exec.program @matmuls {
// CHECK:         exec.matmul %[[A:.*]], %[[B:.*]] {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}]} : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
// CHECK:         exec.matmul %[[A]], %[[B]] addend %[[C:.*]] bias %[[D:.*]] {{{.*}}} : tensor<2x3xf32>, tensor<3x8xf32> addend tensor<2x8xf32> bias tensor<8xf32> -> tensor<2x8xf32>
// CHECK:         %[[H:.*]], %[[AUX:.*]] = exec.matmul %[[A]], %[[B]] bias %[[D]] activation gelu_tanh {aux_loc = #[[H_LOC]], {{.*}}} : {{.*}} -> tensor<2x8xf32> aux tensor<2x8xf32>
// CHECK:         %{{.*}}, %{{.*}} = exec.matmul %[[A]], %[[B]] activation gelu_tanh slope %[[AUX]] sums result {{{.*}}sum_loc = #[[G_LOC]]} : tensor<2x3xf32>, tensor<3x8xf32> slope tensor<2x8xf32> -> tensor<2x8xf32> sums tensor<8xf32>
exec.program @matmuls {
  %a = spmd.input "a" of !nd.tensor<["m"=2, "k"=3], f32, <>> : tensor<2x3xf32>
  %b = spmd.input "b" of !nd.tensor<["k"=3, "n"=8], f32, <>> : tensor<3x8xf32>
  %c = spmd.input "c" of !nd.tensor<["m"=2, "n"=8], f32, <>> : tensor<2x8xf32>
  %d = spmd.input "d" of !nd.tensor<["n"=8], f32, <>> : tensor<8xf32>
  %0 = exec.matmul %a, %b {indexing_maps = [#lhs, #rhs, #result]}
      : tensor<2x3xf32>, tensor<3x8xf32> -> tensor<2x8xf32>
  %1 = exec.matmul %a, %b addend %c bias %d {indexing_maps = [#lhs, #rhs, #result]}
      : tensor<2x3xf32>, tensor<3x8xf32> addend tensor<2x8xf32> bias tensor<8xf32> -> tensor<2x8xf32>
  %h, %aux = exec.matmul %a, %b bias %d activation gelu_tanh
      {aux_loc = loc(fused<#nd.origin<"h">>[unknown]), indexing_maps = [#lhs, #rhs, #result]}
      : tensor<2x3xf32>, tensor<3x8xf32> bias tensor<8xf32> -> tensor<2x8xf32> aux tensor<2x8xf32>
  %g, %sum = exec.matmul %a, %b activation gelu_tanh slope %aux sums result
      {indexing_maps = [#lhs, #rhs, #result], sum_loc = loc(fused<#nd.origin<"g">>[unknown])}
      : tensor<2x3xf32>, tensor<3x8xf32> slope tensor<2x8xf32> -> tensor<2x8xf32> sums tensor<8xf32>
}

// CHECK-LABEL: exec.program @convolutions {
// CHECK:         %[[Y:.*]] = exec.conv destination %[[X:.*]], %[[W:.*]] {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}]} : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT:    exec.conv source %[[W]], %[[Y]] {{{.*}}} : tensor<3x3x5xf32>, tensor<4x5xf32> -> tensor<7x3xf32>
// CHECK-NEXT:    exec.conv weights %[[X]], %[[Y]] {{{.*}}} : tensor<7x3xf32>, tensor<4x5xf32> -> tensor<3x3x5xf32>
exec.program @convolutions {
  %x = spmd.input "x" of !nd.tensor<["y"=7, "c"=3], f32, <>> : tensor<7x3xf32>
  %w = spmd.input "w" of !nd.tensor<["dy"=3, "c"=3, "k"=5], f32, <>> : tensor<3x3x5xf32>
  %y = exec.conv destination %x, %w {indexing_maps = [#source, #weights, #destination]}
      : tensor<7x3xf32>, tensor<3x3x5xf32> -> tensor<4x5xf32>
  %dx = exec.conv source %w, %y {indexing_maps = [#source, #weights, #destination]}
      : tensor<3x3x5xf32>, tensor<4x5xf32> -> tensor<7x3xf32>
  %dw = exec.conv weights %x, %y {indexing_maps = [#source, #weights, #destination]}
      : tensor<7x3xf32>, tensor<4x5xf32> -> tensor<3x3x5xf32>
}

// CHECK-LABEL: exec.program @nested {
// CHECK:         %[[L:.*]]:2 = exec.loop "i" x 3 reverse carries(%[[S:.*]]) slices(%[[X:.*]]) captures(%[[S]]) {
// CHECK-NEXT:    ^bb0(%[[H:.*]]: tensor<7xf32>, %[[R:.*]]: tensor<5x7xf32>, %[[W:.*]]: tensor<7xf32>):
// CHECK-NEXT:      %[[M:.*]] = exec.loop "j" x 5 carries(%[[H]]) slices(%[[R]]) {
// CHECK:             exec.yield %{{.*}} : tensor<7xf32>
// CHECK-NEXT:      } : (tensor<7xf32>, tensor<5x7xf32>) -> tensor<7xf32>
// CHECK-NEXT:      exec.yield %[[M]], %[[W]] : tensor<7xf32>, tensor<7xf32>
// CHECK-NEXT:    } : (tensor<7xf32>, tensor<3x5x7xf32>, tensor<7xf32>) -> (tensor<7xf32>, tensor<3x7xf32>)
exec.program @nested {
  %x = spmd.input "x" of !nd.tensor<["a"=3, "b"=5, "c"=7], f32, <>> : tensor<3x5x7xf32>
  %s = spmd.input "s" of !nd.tensor<["c"=7], f32, <>> : tensor<7xf32>
  %last, %all = exec.loop "i" x 3 reverse carries(%s) slices(%x) captures(%s) {
  ^bb0(%h: tensor<7xf32>, %r: tensor<5x7xf32>, %w: tensor<7xf32>):
    %m = exec.loop "j" x 5 carries(%h) slices(%r) {
    ^bb0(%g: tensor<7xf32>, %t: tensor<7xf32>):
      exec.yield %t : tensor<7xf32>
    } : (tensor<7xf32>, tensor<5x7xf32>) -> tensor<7xf32>
    exec.yield %m, %w : tensor<7xf32>, tensor<7xf32>
  } : (tensor<7xf32>, tensor<3x5x7xf32>, tensor<7xf32>) -> (tensor<7xf32>, tensor<3x7xf32>)
  spmd.output "last" of !nd.tensor<["c"=7], f32, <>>, %last : tensor<7xf32>
  spmd.output "all" of !nd.tensor<["a"=3, "c"=7], f32, <>>, %all : tensor<3x7xf32>
}

// CHECK-LABEL: exec.program @factor {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[COLUMNS:.*]] = exec.slice %[[X]] at 1 strides [5, 1] : tensor<6x5xf32> -> tensor<6x3xf32>
// CHECK-NEXT:    exec.matmul %[[COLUMNS]], %[[COLUMNS]]
exec.program @factor {
  %x = spmd.input "x" of !x : tensor<6x5xf32>
  %columns = exec.slice %x at 1 strides [5, 1] : tensor<6x5xf32> -> tensor<6x3xf32>
  %y = exec.matmul %columns, %columns
      {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                        affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>]}
      : tensor<6x3xf32>, tensor<6x3xf32> -> tensor<6x6xf32>
  spmd.output "y" of !nd.tensor<["r"=6, "s"=6], f32, <>>, %y : tensor<6x6xf32>
}

// CHECK-LABEL: exec.program @put {
// CHECK:         exec.put %{{.*}}[%{{.*}}] {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}]} : tensor<6x5xf32>, tensor<6xi32> -> tensor<7x5xf32>
exec.program @put {
  %x = spmd.input "x" of !x : tensor<6x5xf32>
  %i = spmd.input "i" of !nd.tensor<["a"=6], i32, <>> : tensor<6xi32>
  %y = exec.put %x[%i] {indexing_maps = [affine_map<(v, b, a) -> (a, b)>,
      affine_map<(v, b, a) -> (a)>, affine_map<(v, b, a) -> (v, b)>]}
      : tensor<6x5xf32>, tensor<6xi32> -> tensor<7x5xf32>
  spmd.output "y" of !nd.tensor<["v"=7, "b"=5], f32, <>>, %y : tensor<7x5xf32>
}

// CHECK-LABEL: exec.program @parts {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[ROW:.*]] = exec.slice %[[X]] at 5 : tensor<6x5xf32> -> tensor<5xf32>
// CHECK-NEXT:    %[[ROWS:.*]] = exec.stack %[[ROW]], %[[ROW]] : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[ROWS]]
exec.program @parts {
  %x = spmd.input "x" of !x : tensor<6x5xf32>
  %row = exec.slice %x at 5 : tensor<6x5xf32> -> tensor<5xf32>
  %rows = exec.stack %row, %row : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
  spmd.output "y" of !nd.tensor<["r"=2, "b"=5], f32, <>>, %rows : tensor<2x5xf32>
}

// RUN: meshc-opt %s -spmd-eliminate-equal | FileCheck %s

#whole = affine_map<(d0) -> (d0)>

// Bodies count: %b is %a again, %c has another constant, %d another operation,
// %e another element type. Attributes of the author stay, none is added.
// CHECK-LABEL: spmd.program @bodies
// CHECK:         %[[EMPTY:.*]] = tensor.empty() : tensor<3xf32>
// CHECK-NOT:     tensor.empty() : tensor<3xf32>
// CHECK:         %[[A:.*]] = linalg.generic
// CHECK-NOT:     spmd.body
// CHECK:           arith.constant 1.0
// CHECK:         %[[C:.*]] = linalg.generic
// CHECK:           arith.constant 2.0
// CHECK:         %[[D:.*]] = linalg.generic
// CHECK:           arith.mulf
// CHECK:         %[[E:.*]] = linalg.generic
// CHECK-SAME:      {kept = 7 : i64}
// CHECK:         spmd.output "a" of {{.*}}, %[[A]]
// CHECK-NEXT:    spmd.output "b" of {{.*}}, %[[A]]
// CHECK-NEXT:    spmd.output "c" of {{.*}}, %[[C]]
// CHECK-NEXT:    spmd.output "d" of {{.*}}, %[[D]]
// CHECK-NEXT:    spmd.output "e" of {{.*}}, %[[E]]
spmd.program @bodies {
  %x = spmd.input "x" of !nd.tensor<["a"=3], f32, <>> : tensor<3xf32>
  %first = tensor.empty() : tensor<3xf32>
  %a = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%first : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %value = arith.addf %element, %one : f32
    linalg.yield %value : f32
  } -> tensor<3xf32>
  %second = tensor.empty() : tensor<3xf32>
  %b = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%second : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %value = arith.addf %element, %one : f32
    linalg.yield %value : f32
  } -> tensor<3xf32>
  %c = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%first : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %two = arith.constant 2.0 : f32
    %value = arith.addf %element, %two : f32
    linalg.yield %value : f32
  } -> tensor<3xf32>
  %d = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%first : tensor<3xf32>) {
  ^bb0(%element: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %value = arith.mulf %element, %one : f32
    linalg.yield %value : f32
  } -> tensor<3xf32>
  %other = tensor.empty() : tensor<3xf64>
  %e = linalg.generic {indexing_maps = [#whole, #whole],
      iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%other : tensor<3xf64>) attrs = {kept = 7 : i64} {
  ^bb0(%element: f32, %out: f64):
    %value = arith.extf %element : f32 to f64
    linalg.yield %value : f64
  } -> tensor<3xf64>
  spmd.output "a" of !nd.tensor<["a"=3], f32, <>>, %a : tensor<3xf32>
  spmd.output "b" of !nd.tensor<["a"=3], f32, <>>, %b : tensor<3xf32>
  spmd.output "c" of !nd.tensor<["a"=3], f32, <>>, %c : tensor<3xf32>
  spmd.output "d" of !nd.tensor<["a"=3], f32, <>>, %d : tensor<3xf32>
  spmd.output "e" of !nd.tensor<["a"=3], f64, <>>, %e : tensor<3xf64>
}

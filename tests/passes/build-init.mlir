// RUN: meshc-opt %s -nd-build-init | FileCheck %s

// Keys are FNV-1a of the names: its published value for "foobar" is
// 0x85944171f73967e8, -8821353812377114648 as a signed number.
// CHECK-LABEL: nd.program @init
// CHECK:         %[[SEED:.*]] = nd.input "random seed" : !scalar_i64
// CHECK-NEXT:    %[[W:.*]] = nd.random normal(1.000000e+00, 5.000000e-02) key -8821353812377114648 seed %[[SEED]] : (!scalar_i64) -> !a_by_b
// CHECK-NEXT:    nd.write @foobar, %[[W]]
// CHECK-NEXT:    %[[V:.*]] = nd.random uniform(-1.000000e+00, 1.000000e+00) key -5808556873153909620 seed %[[SEED]] : (!scalar_i64) -> !a_f64
// CHECK-NEXT:    nd.write @a, %[[V]]
// CHECK-NEXT:    %[[B:.*]] = nd.constant(5.000000e-01 : f32) : !b
// CHECK-NEXT:    nd.write @bias, %[[B]]
// CHECK-NEXT:    %[[N:.*]] = nd.constant(3 : i32) : !scalar_i32
// CHECK-NEXT:    nd.write @count, %[[N]]
// CHECK-LABEL: nd.program @eval
module {
  nd.variable parameter @foobar : !nd.tensor<["a"=2, "b"=3], f32> = #nd.random<normal, 1.0, 0.05>
  nd.variable parameter @a : !nd.tensor<["a"=2], f64> = #nd.random<uniform, -1.0, 1.0>
  nd.variable parameter @bias : !nd.tensor<["b"=3], f32> = #nd.fill<0.5>
  nd.variable state @count : !nd.tensor<[], i32> = #nd.fill<3.0>
  nd.program @eval {
    %w = nd.read @bias : !nd.tensor<["b"=3], f32>
    nd.output "w", %w : !nd.tensor<["b"=3], f32>
  }
}

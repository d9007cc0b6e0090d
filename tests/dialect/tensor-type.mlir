// The type is printed as it is parsed, and its alias says what is in it.
// RUN: meshc-opt %s | meshc-opt | FileCheck %s

// CHECK-DAG: !scalar = !nd.tensor<[], f32>
// CHECK-DAG: !a_f16 = !nd.tensor<["a"=1], f16>
// CHECK-DAG: !a_bf16 = !nd.tensor<["a"=2], bf16>
// CHECK-DAG: !a_f64 = !nd.tensor<["a"=3], f64>
// CHECK-DAG: !a_i1 = !nd.tensor<["a"=5], i1>
// CHECK-DAG: !a_ui8 = !nd.tensor<["a"=4], ui8>
// CHECK-DAG: !a_i8 = !nd.tensor<["a"=4], i8>
// CHECK-DAG: !a_i16 = !nd.tensor<["a"=4], i16>
// CHECK-DAG: !a_i32 = !nd.tensor<["a"=7], i32>
// CHECK-DAG: !a_i64 = !nd.tensor<["a"=9223372036854775807], i64>
// CHECK-DAG: !a_by_b = !nd.tensor<["a"=2, "b"=12], f32, <>>
// CHECK-DAG: !a_at_x_by_b = !nd.tensor<["a"=2, "b"=12], f32, <"a"@x>>
// CHECK-DAG: !a_at_y_by_b_at_x = !nd.tensor<["a"=2, "b"=12], f32, <"a"@y, "b"@x>>
// CHECK-DAG: !a_by_b_at_y_x = !nd.tensor<["a"=2, "b"=12], f32, <"b"@y@x>>
// CHECK-DAG: !a_at_z1x2_by_b_at_z2x4 = !nd.tensor<["a"=2, "b"=12], f32, <"a"@z:(1)2, "b"@z:(2)4>>
// CHECK-DAG: !a_by_b_at_y_sum_over_x = !nd.tensor<["a"=2, "b"=12], f32, <"b"@y> partial sum over x>
// CHECK-DAG: !a_by_b_max_over_x_y = !nd.tensor<["a"=2, "b"=12], f32, <> partial max over (x, y)>
// CHECK-DAG: !a_by_b_i32_min_over_z2x4 = !nd.tensor<["a"=2, "b"=12], i32, <> partial min over z:(2)4>
// CHECK-DAG: !nd.tensor<["key pos"=4], f32, <"key pos"@"two words">>
// CHECK-DAG: !nd.tensor<["y"=9, "c"=2], f32, <"y" by 2 "row"=5@x + [-1, 1], "c"@z:(1)2>>
// CHECK-DAG: !nd.tensor<["y"=9], f32, <"y" by "row"=7@y@x + [0, 2]> partial sum over z>
// CHECK-DAG: !nd.tensor<["y"=9], f32, <"y" by -1 "y"=9@x + [-1, 1] mod 9>>
// CHECK-DAG: !nd.tensor<["y"=9], f32, <"y" + [-1, 3]>>
// CHECK-DAG: !nd.tensor<["y"=9], f32, <"y" by 3 "up"=8@x + [-2, 1] / 2>>
nd.mesh ["x"=2, "y"=3, "z"=8, "two words"=2]
nd.program @types {
  %0 = nd.input "0" : !nd.tensor<[], f32>
  %1 = nd.input "1" : !nd.tensor<["a"=1], f16>
  %2 = nd.input "2" : !nd.tensor<["a"=2], bf16>
  %3 = nd.input "3" : !nd.tensor<["a"=3], f64>
  %4 = nd.input "4" : !nd.tensor<["a"=5], i1>
  %5 = nd.input "5" : !nd.tensor<["a"=7], i32>
  %6 = nd.input "6" : !nd.tensor<["a"=9223372036854775807], i64>
  %7 = nd.input "7" : !nd.tensor<["a"=2, "b"=12], f32, <>>
  %8 = nd.input "8" : !nd.tensor<["a"=2, "b"=12], f32, <"a"@x>>
  %9 = nd.input "9" : !nd.tensor<["a"=2, "b"=12], f32, <"a"@y, "b"@x>>
  %10 = nd.input "10" : !nd.tensor<["a"=2, "b"=12], f32, <"b"@y@x>>
  %11 = nd.input "11" : !nd.tensor<["a"=2, "b"=12], f32, <"a"@z:(1)2, "b"@z:(2)4>>
  %12 = nd.input "12" : !nd.tensor<["a"=2, "b"=12], f32, <"b"@y> partial sum over x>
  %13 = nd.input "13" : !nd.tensor<["a"=2, "b"=12], f32, <> partial max over (x, y)>
  %14 = nd.input "14" : !nd.tensor<["a"=2, "b"=12], i32, <> partial min over z:(2)4>
  %15 = nd.input "15" : !nd.tensor<["key pos"=4], f32, <"key pos"@"two words">>
  %16 = nd.input "16" : !nd.tensor<["y"=9, "c"=2], f32, <"y" by 2 "row"=5@x + [-1, 1], "c"@z:(1)2>>
  %17 = nd.input "17" : !nd.tensor<["y"=9], f32, <"y" by "row"=7@y@x + [0, 2]> partial sum over z>
  %ring = nd.input "ring" : !nd.tensor<["y"=9], f32, <"y" by -1 "y"=9@x + [-1, 1] mod 9>>
  %read = nd.input "read" : !nd.tensor<["y"=9], f32, <"y" + [-1, 3]>>
  %19 = nd.input "19" : !nd.tensor<["a"=4], ui8>
  %20 = nd.input "20" : !nd.tensor<["a"=4], i8>
  %21 = nd.input "21" : !nd.tensor<["a"=4], i16>
  %18 = nd.input "18" : !nd.tensor<["y"=9], f32, <"y" by 3 "up"=8@x + [-2, 1] / 2>>
}

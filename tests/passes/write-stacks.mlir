// RUN: meshc-opt %s -nd-write-stacks | FileCheck %s

!c = !nd.tensor<["c"=4], f32, <"c"@m>>
!part = !nd.tensor<["c"=4], f32, <"c"@m> partial sum over d>
!t3 = !nd.tensor<["t"=3, "c"=4], f32, <"c"@m>>
!t10 = !nd.tensor<["t"=10, "c"=4], f32, <"t"@d, "c"@m>>
!terms = !nd.tensor<["t"=2, "c"=4], f32, <"c"@m> partial sum over d>
!whole = !nd.tensor<["t"=2, "c"=4], f32, <"c"@m>>
!b = !nd.tensor<["b"=2, "c"=4], f32, <"b"@d, "c"@m>>
!cb = !nd.tensor<["c"=4, "b"=2], f32, <"c"@m, "b"@d>>
!tbc = !nd.tensor<["t"=2, "b"=2, "c"=4], f32, <"b"@d, "c"@m>>

nd.mesh ["d"=2, "m"=2]

// Up to eight tensors are one choice by position.
// CHECK-LABEL: nd.program @three
// CHECK-NOT:     nd.view
// CHECK-COUNT-2: nd.select
// CHECK-NOT:     nd.select
// CHECK:         nd.output "s", %{{.*}} : !t_by_c_at_m
nd.program @three {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !c
  %s = nd.stack %x, %y, %x along "t" : (!c, !c, !c) -> !t3
  nd.output "s", %s : !t3
}

// Ten are two choices, put one after the other: no tensor is read for more
// than eight others. What is put together on the way is not split along the
// dimension, the result is.
// CHECK-LABEL: nd.program @ten
// CHECK-DAG:     nd.view %{{.*}} ["t of 8" = "t"] : (!t_of_8_by_c_at_m) -> !t_at_d_by_c_at_m
// CHECK-DAG:     nd.view %{{.*}} ["t of 2" = "t" - 8] : (!t_of_2_by_c_at_m) -> !t_at_d_by_c_at_m
// CHECK:         nd.output "s", %{{.*}} : !t_at_d_by_c_at_m
nd.program @ten {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !c
  %s = nd.stack %x, %y, %x, %x, %y, %x, %x, %y, %x, %y along "t" : (!c, !c, !c, !c, !c, !c, !c, !c, !c, !c) -> !t10
  nd.output "s", %s : !t10
}

// Terms stay terms: what says which is chosen is complete.
// CHECK-LABEL: nd.program @terms
// CHECK:         nd.broadcast %{{.*}} : (!c_at_m_sum_over_d) -> !t_by_c_at_m_sum_over_d
// CHECK:         nd.iota : !t_i32
// CHECK:         nd.select %{{.*}} : (!t_i1_{{[0-9]+}}, !t_by_c_at_m_sum_over_d, !t_by_c_at_m_sum_over_d) -> !t_by_c_at_m_sum_over_d
nd.program @terms {
  %x = nd.input "x" : !nd.tensor<["b"=2, "c"=4], f32, <"b"@d, "c"@m>>
  %p = nd.reduce sum %x : (!b) -> !part
  %s = nd.stack %p, %p along "t" : (!part, !part) -> !terms
  %w = nd.reshard %s : !terms -> !whole
  nd.output "s", %w : !whole
}

// Operands may be stored in any order.
// CHECK-LABEL: nd.program @orders
// CHECK-DAG:     nd.broadcast %{{.*}} : (!b_at_d_by_c_at_m) -> !t_by_b_at_d_by_c_at_m
// CHECK-DAG:     nd.broadcast %{{.*}} : (!c_at_m_by_b_at_d) -> !t_by_b_at_d_by_c_at_m
nd.program @orders {
  %x = nd.input "x" : !b
  %y = nd.input "y" : !cb
  %s = nd.stack %x, %y along "t" : (!b, !cb) -> !tbc
  nd.output "s", %s : !tbc
}

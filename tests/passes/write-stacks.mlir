// RUN: meshc-opt %s -nd-write-stacks | FileCheck %s

!c = !nd.tensor<["c"=4], f32, <"c"@m>>
!part = !nd.tensor<["c"=4], f32, <"c"@m> partial sum over d>
!t3 = !nd.tensor<["t"=3, "c"=4], f32, <"t"@d, "c"@m>>
!whole3 = !nd.tensor<["t"=3, "c"=4], f32, <"c"@m>>
!later3 = !nd.tensor<["c"=4, "t"=3], f32, <"c"@m>>
!t10 = !nd.tensor<["t"=10, "c"=4], f32, <"t"@d, "c"@m>>
!terms = !nd.tensor<["c"=4, "t"=2], f32, <"c"@m> partial sum over d>
!whole = !nd.tensor<["c"=4, "t"=2], f32, <"c"@m>>
!b = !nd.tensor<["b"=2, "c"=4], f32, <"b"@d, "c"@m>>
!cb = !nd.tensor<["c"=4, "b"=2], f32, <"c"@m, "b"@d>>
!btc = !nd.tensor<["b"=2, "t"=2, "c"=4], f32, <"b"@d, "c"@m>>

nd.mesh ["d"=2, "m"=2]

// Up to eight tensors are one choice by position.
// CHECK-LABEL: nd.program @three
// CHECK-NOT:     nd.view
// CHECK-COUNT-2: nd.select
// CHECK-NOT:     nd.select
// CHECK:         nd.output "s", %{{.*}} : !t_at_d_by_c_at_m
nd.program @three {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !c
  %s = nd.stack %x, %y, %x along "t" : (!c, !c, !c) -> !t3
  nd.output "s", %s : !t3
}

// Along a dimension that is whole and the first one in memory they lie one after
// the other already.
// CHECK-LABEL: nd.program @stays
// CHECK:         nd.stack
// CHECK-NOT:     nd.select
nd.program @stays {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !c
  %s = nd.stack %x, %y, %x along "t" : (!c, !c, !c) -> !whole3
  nd.output "s", %s : !whole3
}

// Behind another dimension they do not.
// CHECK-LABEL: nd.program @behind
// CHECK-NOT:     nd.stack
// CHECK-COUNT-2: nd.select
nd.program @behind {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !c
  %s = nd.stack %x, %y, %x along "t" : (!c, !c, !c) -> !later3
  nd.output "s", %s : !later3
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
// CHECK:         nd.broadcast %{{.*}} : (!c_at_m_sum_over_d) -> !c_at_m_by_t_sum_over_d
// CHECK:         nd.iota : !t_i32
// CHECK:         nd.select %{{.*}} : (!t_i1_{{[0-9]+}}, !c_at_m_by_t_sum_over_d, !c_at_m_by_t_sum_over_d) -> !c_at_m_by_t_sum_over_d
nd.program @terms {
  %x = nd.input "x" : !nd.tensor<["b"=2, "c"=4], f32, <"b"@d, "c"@m>>
  %p = nd.reduce sum %x : (!b) -> !part
  %s = nd.stack %p, %p along "t" : (!part, !part) -> !terms
  %w = nd.reshard %s : !terms -> !whole
  nd.output "s", %w : !whole
}

// Operands may be stored in any order.
// CHECK-LABEL: nd.program @orders
// CHECK-DAG:     nd.broadcast %{{.*}} : (!b_at_d_by_c_at_m) -> !b_at_d_by_t_by_c_at_m
// CHECK-DAG:     nd.broadcast %{{.*}} : (!c_at_m_by_b_at_d) -> !b_at_d_by_t_by_c_at_m
nd.program @orders {
  %x = nd.input "x" : !b
  %y = nd.input "y" : !cb
  %s = nd.stack %x, %y along "t" : (!b, !cb) -> !btc
  nd.output "s", %s : !btc
}

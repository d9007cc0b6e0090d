// RUN: meshc-opt %s -nd-map-loops | FileCheck %s

!c = !nd.tensor<["c"=2], f32>
!d = !nd.tensor<["d"=5], f32>
!cd = !nd.tensor<["c"=2, "d"=5], f32>
!mc = !nd.tensor<["m"=3, "c"=2], f32>
!cm = !nd.tensor<["c"=2, "m"=3], f32>
!md = !nd.tensor<["m"=3, "d"=5], f32>
!tc = !nd.tensor<["t"=7, "c"=2], f32>
!mtc = !nd.tensor<["m"=3, "t"=7, "c"=2], f32>
!i = !nd.tensor<[], i32>
!mi = !nd.tensor<["m"=3], i32>

// Sliced, stacked and summed values, the position, and what is captured.
// CHECK-LABEL: nd.program @one
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[W:.*]] = nd.input "w"
// CHECK-NEXT:    %[[T:.*]] = nd.iota : !m_i32
// CHECK-NEXT:    %[[Y:.*]] = nd.einsum %[[X]], %[[W]] : (!m_by_c, !c_by_d) -> !m_by_d
// CHECK-NEXT:    %[[F:.*]] = nd.cast %[[T]] : (!m_i32) -> !m
// CHECK-NEXT:    %[[Z:.*]] = nd.mul %[[Y]], %[[F]] : (!m_by_d, !m) -> !m_by_d
// CHECK-NEXT:    %[[S:.*]] = nd.reduce sum %[[Z]] : (!m_by_d) -> !d
// CHECK-NEXT:    nd.output "all", %[[Y]]
// CHECK-NEXT:    nd.output "sum", %[[S]]
nd.program @one {
  %x = nd.input "x" : !mc
  %w = nd.input "w" : !cd
  %r:2 = nd.loop "m"=3 slices(%x) : (!mc) -> (!md, !d) {
  ^bb0(%t: !i, %s: !c):
    %y = nd.einsum %s, %w : (!c, !cd) -> !d
    %f = nd.cast %t : (!i) -> !nd.tensor<[], f32>
    %z = nd.mul %y, %f : (!d, !nd.tensor<[], f32>) -> !d
    nd.yield stacks(%y : !d) sums(%z : !d)
  }
  nd.output "all", %r#0 : !md
  nd.output "sum", %r#1 : !d
}

// A slice of another order is stored in the dimension's; what does not vary is
// computed once and repeated.
// CHECK-LABEL: nd.program @order_and_repetition
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[C:.*]] = nd.input "c"
// CHECK-NEXT:    %[[M:.*]] = nd.reduce sum %[[X]] : (!c_by_m) -> !m_by_c
// CHECK-NEXT:    %[[N:.*]] = nd.neg %[[C]] : (!c) -> !c
// CHECK-NEXT:    %[[S:.*]] = nd.add %[[N]], %[[M]] : (!c, !m_by_c) -> !m_by_c
// CHECK-NEXT:    %[[R:.*]] = nd.broadcast %[[N]] : (!c) -> !m_by_c
// CHECK-NEXT:    nd.output "sums", %[[S]]
// CHECK-NEXT:    nd.output "same", %[[R]]
nd.program @order_and_repetition {
  %x = nd.input "x" : !cm
  %c = nd.input "c" : !c
  %r:2 = nd.loop "m"=3 slices(%x) : (!cm) -> (!mc, !mc) {
  ^bb0(%t: !i, %s: !c):
    %n = nd.neg %c : (!c) -> !c
    %a = nd.add %n, %s : (!c, !c) -> !c
    nd.yield stacks(%a, %n : !c, !c)
  }
  nd.output "sums", %r#0 : !mc
  nd.output "same", %r#1 : !mc
}

// Elements that are for data have no sum, not even of one term.
// CHECK-LABEL: nd.program @order_of_data
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[M:.*]] = nd.broadcast %[[X]] : (!c_by_m_ui8) -> !m_by_c_ui8
// CHECK-NEXT:    nd.output "all", %[[M]]
nd.program @order_of_data {
  %x = nd.input "x" : !nd.tensor<["c"=2, "m"=3], ui8>
  %r = nd.loop "m"=3 slices(%x) : (!nd.tensor<["c"=2, "m"=3], ui8>) -> !nd.tensor<["m"=3, "c"=2], ui8> {
  ^bb0(%t: !i, %s: !nd.tensor<["c"=2], ui8>):
    nd.yield stacks(%s : !nd.tensor<["c"=2], ui8>)
  }
  nd.output "all", %r : !nd.tensor<["m"=3, "c"=2], ui8>
}

// A loop inside that carries stays a loop, on all positions at once.
// CHECK-LABEL: nd.program @carries_inside
// CHECK:         %[[H:.*]] = nd.broadcast %{{.*}} : (!c) -> !m_by_c
// CHECK-NEXT:    %[[R:.*]]:2 = nd.loop "t"=7 carries(%[[H]]) slices(%{{.*}}) : (!m_by_c, !m_by_t_by_c) -> (!m_by_c, !t_by_m_by_c) {
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32, %[[A:.*]]: !m_by_c, %[[S:.*]]: !m_by_c):
// CHECK-NEXT:      %[[N:.*]] = nd.add %[[A]], %[[S]] : (!m_by_c, !m_by_c) -> !m_by_c
// CHECK-NEXT:      nd.yield carries(%[[N]] : !m_by_c) stacks(%[[N]] : !m_by_c)
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[ALL:.*]] = nd.reduce sum %[[R]]#1 : (!t_by_m_by_c) -> !m_by_t_by_c
// CHECK-NEXT:    nd.output "last", %[[R]]#0
// CHECK-NEXT:    nd.output "all", %[[ALL]]
nd.program @carries_inside {
  %x = nd.input "x" : !mtc
  %h = nd.input "h" : !c
  %r:2 = nd.loop "m"=3 slices(%x) : (!mtc) -> (!mc, !mtc) {
  ^bb0(%m: !i, %s: !tc):
    %k:2 = nd.loop "t"=7 carries(%h) slices(%s) : (!c, !tc) -> (!c, !tc) {
    ^bb0(%t: !i, %a: !c, %u: !c):
      %n = nd.add %a, %u : (!c, !c) -> !c
      nd.yield carries(%n : !c) stacks(%n : !c)
    }
    nd.yield stacks(%k#0, %k#1 : !c, !tc)
  }
  nd.output "last", %r#0 : !mc
  nd.output "all", %r#1 : !mtc
}

// One that carries stays, and one inside it that does not is mapped.
// CHECK-LABEL: nd.program @carries_outside
// CHECK:         nd.loop "t"=7
// CHECK-NOT:     nd.loop
// CHECK:           nd.mul %{{.*}} : (!m_by_c, !c) -> !m_by_c
// CHECK-NEXT:      nd.reduce sum %{{.*}} : (!m_by_c) -> !c
// CHECK-NEXT:      nd.yield
nd.program @carries_outside {
  %x = nd.input "x" : !mc
  %h = nd.input "h" : !c
  %r = nd.loop "t"=7 carries(%h) : (!c) -> !c {
  ^bb0(%t: !i, %a: !c):
    %k = nd.loop "m"=3 slices(%x) : (!mc) -> !c {
    ^bb0(%m: !i, %s: !c):
      %n = nd.mul %s, %a : (!c, !c) -> !c
      nd.yield sums(%n : !c)
    }
    nd.yield carries(%k : !c)
  }
  nd.output "last", %r : !c
}

// What depends on the position has the dimension already: names would clash.
// CHECK-LABEL: nd.program @clash
// CHECK:         nd.loop "m"
nd.program @clash {
  %x = nd.input "x" : !mc
  %r = nd.loop "m"=3 slices(%x) : (!mc) -> !nd.tensor<["m"=3, "c"=2], f32> {
  ^bb0(%m: !i, %s: !c):
    %n = nd.mul %x, %s : (!mc, !c) -> !mc
    %o = nd.reduce sum %n : (!mc) -> !c
    nd.yield stacks(%o : !c)
  }
  nd.output "r", %r : !mc
}

// What does not may have it.
// CHECK-LABEL: nd.program @no_clash
// CHECK-NOT:     nd.loop
nd.program @no_clash {
  %x = nd.input "x" : !mc
  %r = nd.loop "m"=3 slices(%x) : (!mc) -> !mc {
  ^bb0(%m: !i, %s: !c):
    %o = nd.reduce sum %x : (!mc) -> !c
    %n = nd.mul %o, %s : (!c, !c) -> !c
    nd.yield stacks(%n : !c)
  }
  nd.output "r", %r : !mc
}

// A constraint on a value of one position does not say where the dimension
// lies.
// CHECK-LABEL: nd.program @constrained
// CHECK:         nd.loop "m"
nd.program @constrained {
  %x = nd.input "x" : !mc
  %r = nd.loop "m"=3 slices(%x) : (!mc) -> !mc {
  ^bb0(%m: !i, %s: !c):
    %n = nd.reshard %s : !c -> !nd.tensor<["c"=2], f32, <>>
    %o = nd.neg %n : (!nd.tensor<["c"=2], f32, <>>) -> !c
    nd.yield stacks(%o : !c)
  }
  nd.output "r", %r : !mc
}

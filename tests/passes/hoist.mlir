// RUN: meshc-opt %s -nd-hoist | FileCheck %s

!c = !nd.tensor<["c"=2], f32>
!d = !nd.tensor<["d"=5], f32>
!cd = !nd.tensor<["c"=2, "d"=5], f32>
!tc = !nd.tensor<["t"=3, "c"=2], f32>
!td = !nd.tensor<["t"=3, "d"=5], f32>
!mtc = !nd.tensor<["m"=7, "t"=3, "c"=2], f32>
!mcd = !nd.tensor<["m"=7, "c"=2, "d"=5], f32>
!i = !nd.tensor<[], i32>

// What depends on nothing of the loop goes out, what depends on that, too;
// what is carried stays.
// CHECK-LABEL: nd.program @invariants
// CHECK:         %[[W:.*]] = nd.input "w"
// CHECK-NEXT:    %[[N:.*]] = nd.neg %[[W]]
// CHECK-NEXT:    %[[E:.*]] = nd.exp %[[N]]
// CHECK-NEXT:    nd.loop
// CHECK:           nd.mul %{{.*}}, %[[E]]
// CHECK-NEXT:      nd.yield
nd.program @invariants {
  %h = nd.input "h" : !c
  %w = nd.input "w" : !c
  %r = nd.loop "t"=3 carries(%h) : (!c) -> !c {
  ^bb0(%t: !i, %x: !c):
    %n = nd.neg %w : (!c) -> !c
    %e = nd.exp %n : (!c) -> !c
    %y = nd.mul %x, %e : (!c, !c) -> !c
    nd.yield carries(%y : !c)
  }
  nd.output "r", %r : !c
}

// The sum of two einsums: of slices, of a carried value, of one that is stacked
// already, and of one from outside. A sum of other terms stays.
// CHECK-LABEL: nd.program @sums
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK:         %[[W:.*]] = nd.input "w"
// CHECK:         %[[H:.*]] = nd.input "h"
// CHECK-NEXT:    %[[L:.*]]:4 = nd.loop "t"=3 carries(%[[H]]) slices(%[[X]]) : {{.*}} -> (!d, !t_by_d, !t_by_d, !c)
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32, %[[C:.*]]: !d, %[[S:.*]]: !c):
// CHECK-NEXT:      %[[P:.*]] = nd.einsum %[[S]], %[[W]]
// CHECK-NEXT:      %[[NEXT:.*]] = nd.add %[[C]], %[[P]]
// CHECK-NEXT:      nd.yield carries(%[[NEXT]] : !d) stacks(%[[NEXT]], %[[C]] : !d, !d) sums(%[[S]] : !c)
// CHECK:         %[[A:.*]] = nd.einsum %[[X]], %[[L]]#2 : (!t_by_c, !t_by_d) -> !c_by_d
// CHECK-NEXT:    %[[B:.*]] = nd.einsum %[[L]]#1, %[[X]], %[[W]] : (!t_by_d, !t_by_c, !c_by_d) -> !c_by_d
// CHECK-NEXT:    %[[SUM:.*]] = nd.add %[[A]], %[[B]]
// CHECK-NEXT:    nd.output "last", %[[L]]#0
// CHECK-NEXT:    nd.output "all", %[[L]]#1
// CHECK-NEXT:    nd.output "sum", %[[SUM]]
// CHECK-NEXT:    nd.output "slices", %[[L]]#3
nd.program @sums {
  %x = nd.input "x" : !tc
  %w = nd.input "w" : !cd
  %h = nd.input "h" : !d
  %r:4 = nd.loop "t"=3 carries(%h) slices(%x) : (!d, !tc) -> (!d, !td, !cd, !c) {
  ^bb0(%t: !i, %c: !d, %s: !c):
    %p = nd.einsum %s, %w : (!c, !cd) -> !d
    %next = nd.add %c, %p : (!d, !d) -> !d
    %a = nd.einsum %s, %c : (!c, !d) -> !cd
    %b = nd.einsum %next, %s, %w : (!d, !c, !cd) -> !cd
    %both = nd.add %a, %b : (!cd, !cd) -> !cd
    nd.yield carries(%next : !d) stacks(%next : !d) sums(%both, %s : !cd, !c)
  }
  nd.output "last", %r#0 : !d
  nd.output "all", %r#1 : !td
  nd.output "sum", %r#2 : !cd
  nd.output "slices", %r#3 : !c
}

// Terms that are read otherwise, that have the dimension, or that are of windows.
// CHECK-LABEL: nd.program @sums_that_stay
// CHECK:         nd.loop {{.*}} -> (!c_by_d, !c_by_d, !c_by_d, !c_by_d)
// CHECK:           nd.yield carries(%{{.*}} : !c_by_d) sums(%{{.*}}, %{{.*}}, %{{.*}} : !c_by_d, !c_by_d, !c_by_d)
nd.program @sums_that_stay {
  %x = nd.input "x" : !tc
  %w = nd.input "w" : !td
  %d = nd.input "d" : !d
  %h = nd.input "h" : !cd
  %r:4 = nd.loop "t"=3 carries(%h) slices(%x) : (!cd, !tc) -> (!cd, !cd, !cd, !cd) {
  ^bb0(%t: !i, %c: !cd, %s: !c):
    %read = nd.einsum %s, %d : (!c, !d) -> !cd
    %next = nd.add %read, %c : (!cd, !cd) -> !cd
    %clash = nd.einsum %s, %w : (!c, !td) -> !cd
    %v = nd.view %s ["c" = "c" + "k" - 1] : (!c) -> !nd.tensor<["c"=2, "k"=3], f32>
    %windows = nd.einsum %v, %d : (!nd.tensor<["c"=2, "k"=3], f32>, !d) -> !cd
    nd.yield carries(%next : !cd) sums(%read, %clash, %windows : !cd, !cd, !cd)
  }
  nd.output "next", %r#0 : !cd
  nd.output "read", %r#1 : !cd
  nd.output "clash", %r#2 : !cd
  nd.output "windows", %r#3 : !cd
}

// Of a loop in a loop: what both share goes out of both, and the inner sum is a
// term of the outer one.
// CHECK-LABEL: nd.program @nested
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[D:.*]] = nd.input "d"
// CHECK-NEXT:    %[[N:.*]] = nd.neg %[[D]]
// CHECK-NEXT:    %[[R:.*]] = nd.einsum %[[X]], %[[N]] : (!m_by_t_by_c, !d) -> !c_by_d
// CHECK-NEXT:    nd.output "r", %[[R]]
nd.program @nested {
  %x = nd.input "x" : !mtc
  %d = nd.input "d" : !d
  %r = nd.loop "m"=7 slices(%x) : (!mtc) -> !cd {
  ^bb0(%m: !i, %o: !tc):
    %sum = nd.loop "t"=3 slices(%o) : (!tc) -> !cd {
    ^bb0(%t: !i, %s: !c):
      %n = nd.neg %d : (!d) -> !d
      %e = nd.einsum %s, %n : (!c, !d) -> !cd
      nd.yield sums(%e : !cd)
    }
    nd.yield sums(%sum : !cd)
  }
  nd.output "r", %r : !cd
}

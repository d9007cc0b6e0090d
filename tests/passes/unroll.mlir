// RUN: meshc-opt %s -nd-unroll -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=NAMES
// RUN: meshc-opt %s -nd-unroll | FileCheck %s

!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
!i = !nd.tensor<[], i32>
!s = !nd.tensor<[], f32>

// Carried, sliced, stacked and summed values, and one from outside.
// CHECK-LABEL: nd.program @one_loop
// CHECK:         %[[X:.*]] = nd.input "x"
// CHECK-NEXT:    %[[H:.*]] = nd.input "h"
// CHECK-NEXT:    %[[B:.*]] = nd.input "b"
// CHECK-NEXT:    %[[S:.*]]:3 = nd.unstack %[[X]] along "time" : (!time_by_c) -> (!c, !c, !c)
// CHECK-NEXT:    %[[A0:.*]] = nd.add %[[H]], %[[S]]#0
// CHECK-NEXT:    %[[B0:.*]] = nd.mul %[[A0]], %[[B]]
// CHECK-NEXT:    %[[A1:.*]] = nd.add %[[B0]], %[[S]]#1
// CHECK-NEXT:    %[[B1:.*]] = nd.mul %[[A1]], %[[B]]
// CHECK-NEXT:    %[[SUM:.*]] = nd.add %[[A0]], %[[A1]]
// CHECK-NEXT:    %[[A2:.*]] = nd.add %[[B1]], %[[S]]#2
// CHECK-NEXT:    %[[B2:.*]] = nd.mul %[[A2]], %[[B]]
// CHECK-NEXT:    %[[ALL:.*]] = nd.add %[[SUM]], %[[A2]]
// CHECK-NEXT:    %[[STACKED:.*]] = nd.stack %[[B0]], %[[B1]], %[[B2]] along "time" : (!c, !c, !c) -> !time_by_c
// CHECK-NEXT:    nd.output "last", %[[B2]]
// CHECK-NEXT:    nd.output "all", %[[STACKED]]
// CHECK-NEXT:    nd.output "sum", %[[ALL]]
// CHECK-NOT:     nd.loop
nd.program @one_loop {
  %x = nd.input "x" : !xc
  %h = nd.input "h" : !c
  %b = nd.input "b" : !c
  %r:3 = nd.loop "time"=3 carries(%h) slices(%x) : (!c, !xc) -> (!c, !xc, !c) {
  ^bb0(%t: !i, %before: !c, %s: !c):
    %a = nd.add %before, %s : (!c, !c) -> !c
    %n = nd.mul %a, %b : (!c, !c) -> !c
    nd.yield carries(%n : !c) stacks(%n : !c) sums(%a : !c)
  }
  nd.output "last", %r#0 : !c
  nd.output "all", %r#1 : !xc
  nd.output "sum", %r#2 : !c
}

// Carried values change places: each iteration reads what the one before left.
// CHECK-LABEL: nd.program @exchange
// CHECK:         %[[P:.*]] = nd.input "p"
// CHECK-NEXT:    %[[Q:.*]] = nd.input "q"
// CHECK-NEXT:    nd.output "p", %[[Q]]
// CHECK-NEXT:    nd.output "q", %[[P]]
nd.program @exchange {
  %p = nd.input "p" : !s
  %q = nd.input "q" : !s
  %r:2 = nd.loop "time"=5 carries(%p, %q) : (!s, !s) -> (!s, !s) {
  ^bb0(%t: !i, %a: !s, %b: !s):
    nd.yield carries(%b, %a : !s, !s)
  }
  nd.output "p", %r#0 : !s
  nd.output "q", %r#1 : !s
}

// From the last position to the first; stacked values lie at their positions.
// CHECK-LABEL: nd.program @reverse
// CHECK:         %[[H:.*]] = nd.input "h"
// CHECK-NEXT:    %[[S:.*]]:3 = nd.unstack
// CHECK-NEXT:    %[[A2:.*]] = nd.add %[[H]], %[[S]]#2
// CHECK-NEXT:    %[[A1:.*]] = nd.add %[[A2]], %[[S]]#1
// CHECK-NEXT:    %[[A0:.*]] = nd.add %[[A1]], %[[S]]#0
// CHECK-NEXT:    nd.stack %[[A0]], %[[A1]], %[[A2]] along "time"
// CHECK-NEXT:    nd.output "last", %[[A0]]
nd.program @reverse {
  %x = nd.input "x" : !xc
  %h = nd.input "h" : !c
  %r:2 = nd.loop "time"=3 reverse carries(%h) slices(%x) : (!c, !xc) -> (!c, !xc) {
  ^bb0(%t: !i, %before: !c, %s: !c):
    %a = nd.add %before, %s : (!c, !c) -> !c
    nd.yield carries(%a : !c) stacks(%a : !c)
  }
  nd.output "last", %r#0 : !c
  nd.output "all", %r#1 : !xc
}

// The position is a constant; inner loops are written out in each iteration.
// CHECK-LABEL: nd.program @nested
// CHECK-COUNT-6: nd.add
// CHECK-NOT:     nd.add
// CHECK:         nd.stack %{{[^,]*}}, %{{[^,]*}} along "outer" : (!scalar_i32, !scalar_i32)
// NAMES-LABEL: nd.program @nested
// NAMES-DAG:     loc(fused<#nd.origin<"outer"[0]/"inner"[0]/"sum">>
// NAMES-DAG:     loc(fused<#nd.origin<"outer"[0]/"inner"[2]/"sum">>
// NAMES-DAG:     loc(fused<#nd.origin<"outer"[1]/"inner"[2]/"sum">>
nd.program @nested {
  %z = nd.constant(0 : i32) : !i
  %r = nd.loop "outer"=2 : () -> !nd.tensor<["outer"=2], i32> {
  ^bb0(%o: !i):
    %k = nd.loop "inner"=3 carries(%o) : (!i) -> !i {
    ^bb0(%j: !i, %sum: !i):
      %n = nd.add %sum, %j : (!i, !i) -> !i loc(fused<#nd.origin<"outer"/"inner"/"sum">>[unknown])
      nd.yield carries(%n : !i)
    } loc(fused<#nd.origin<"outer"/"inner">>[unknown])
    nd.yield stacks(%k : !i)
  } loc(fused<#nd.origin<"outer">>[unknown])
  nd.output "r", %r : !nd.tensor<["outer"=2], i32>
}

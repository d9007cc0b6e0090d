// Loops and stacks are printed as they are parsed, in both forms.
// RUN: meshc-opt %s | meshc-opt | FileCheck %s
// RUN: meshc-opt %s -mlir-print-op-generic | meshc-opt | FileCheck %s

!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
!cx = !nd.tensor<["c"=2, "time"=3], f32>

// CHECK-LABEL: nd.program @loops
// CHECK:         %[[R:.*]]:3 = nd.loop "time"=3 carries(%{{.*}}) slices(%{{.*}}, %{{.*}}) : (!c, !time_by_c, !c_by_time) -> (!c, !time_by_c, !c) {
// CHECK-NEXT:    ^bb0(%[[T:.*]]: !scalar_i32, %[[H:.*]]: !c, %[[S:.*]]: !c, %[[U:.*]]: !c):
// CHECK-NEXT:      nd.yield carries(%[[S]] : !c) stacks(%[[H]] : !c) sums(%[[U]] : !c)
// CHECK:         nd.loop "time"=3 : () -> () {
// CHECK-NEXT:    ^bb0(%{{.*}}: !scalar_i32):
// CHECK-NEXT:      nd.yield{{$}}
nd.program @loops {
  %x = nd.input "x" : !xc
  %y = nd.input "y" : !cx
  %h = nd.input "h" : !c
  %r:3 = nd.loop "time"=3 carries(%h) slices(%x, %y) : (!c, !xc, !cx) -> (!c, !xc, !c) {
  ^bb0(%t: !i, %a: !c, %s: !c, %u: !c):
    nd.yield carries(%s : !c) stacks(%a : !c) sums(%u : !c)
  }
  nd.loop "time"=3 : () -> () {
  ^bb0(%t: !i):
    nd.yield
  }
}

// CHECK-LABEL: nd.program @stacks
// CHECK:         %[[S:.*]]:3 = nd.unstack %{{.*}} along "time" : (!c_by_time) -> (!c, !c, !c)
// CHECK-NEXT:    nd.stack %[[S]]#2, %[[S]]#0 along "pair" : (!c, !c) -> !pair_by_c
nd.program @stacks {
  %y = nd.input "y" : !cx
  %s:3 = nd.unstack %y along "time" : (!cx) -> (!c, !c, !c)
  %p = nd.stack %s#2, %s#0 along "pair" : (!c, !c) -> !nd.tensor<["pair"=2, "c"=2], f32>
}

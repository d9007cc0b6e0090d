// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The constraints of nd.loop, nd.yield, nd.stack and nd.unstack.

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c1_lacks_dim {
  %h = nd.input "h" : !c
  // expected-error @below {{'nd.loop' op (C1) a sliced operand has no dimension "time" of 3: '!nd.tensor<["c"=2], f32>'}}
  nd.loop "time"=3 slices(%h) : (!c) -> () {
  ^bb0(%t: !i, %s: !c):
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c1_other_size {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.loop' op (C1) a sliced operand has no dimension "time" of 4}}
  nd.loop "time"=4 slices(%x) : (!xc) -> () {
  ^bb0(%t: !i, %s: !c):
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c2_number {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.loop' op (C2) the region has 1 arguments, expected 2}}
  nd.loop "time"=3 slices(%x) : (!xc) -> () {
  ^bb0(%t: !i):
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c2_position {
  // expected-error @below {{'nd.loop' op (C2) argument 0 of the region is '!nd.tensor<[], f32>', expected '!nd.tensor<[], i32>'}}
  nd.loop "time"=3 : () -> () {
  ^bb0(%t: !s):
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c2_slice {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.loop' op (C2) argument 1 of the region is '!nd.tensor<["time"=3, "c"=2], f32>', expected '!nd.tensor<["c"=2], f32>'}}
  nd.loop "time"=3 slices(%x) : (!xc) -> () {
  ^bb0(%t: !i, %s: !xc):
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c3_end {
  // expected-error @below {{'nd.loop' op (C3) the region does not end with nd.yield}}
  nd.loop "time"=3 : () -> () {
  ^bb0(%t: !i):
    %z = nd.constant(0 : i32) : !i
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c3_carried {
  %h = nd.input "h" : !c
  // expected-error @below {{'nd.loop' op (C3) the carried types are '!nd.tensor<[], i32>', expected '!nd.tensor<["c"=2], f32>'}}
  %r = nd.loop "time"=3 carries(%h) : (!c) -> !c {
  ^bb0(%t: !i, %a: !c):
    nd.yield carries(%t : !i)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c3_number {
  %h = nd.input "h" : !c
  // expected-error @below {{'nd.loop' op (C3) the carried types are , expected}}
  %r = nd.loop "time"=3 carries(%h) : (!c) -> !c {
  ^bb0(%t: !i, %a: !c):
    nd.yield sums(%a : !c)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c4_stacked {
  // expected-error @below {{'nd.loop' op (C4) the results are '!nd.tensor<[], i32>', expected '!nd.tensor<["time"=3], i32>'}}
  %r = nd.loop "time"=3 : () -> !i {
  ^bb0(%t: !i):
    nd.yield stacks(%t : !i)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c4_order {
  %h = nd.input "h" : !c
  // expected-error @below {{'nd.loop' op (C4) the results are}}
  %r = nd.loop "time"=3 : () -> !nd.tensor<["c"=2, "time"=3], f32> {
  ^bb0(%t: !i):
    nd.yield stacks(%h : !c)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c5_stacked {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.loop' op (C5) a stacked value has dimension "time" of the loop}}
  %r = nd.loop "time"=3 : () -> !xc {
  ^bb0(%t: !i):
    nd.yield stacks(%x : !xc)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c5_carried {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.loop' op (C5) a carried value has dimension "time" of the loop}}
  %r = nd.loop "time"=3 carries(%x) : (!xc) -> !xc {
  ^bb0(%t: !i, %a: !xc):
    nd.yield carries(%a : !xc)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c6_border {
  nd.loop "time"=3 : () -> () {
  ^bb0(%t: !i):
    // expected-error @below {{'nd.input' op (C6) cannot be in a loop}}
    %x = nd.input "x" : !xc
    nd.yield
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @c6_sum {
  %p = nd.input "p" : !nd.tensor<[], i1>
  // expected-error @below {{'nd.loop' op (C6) booleans are not summed}}
  %r = nd.loop "time"=3 : () -> !nd.tensor<[], i1> {
  ^bb0(%t: !i):
    nd.yield sums(%p : !nd.tensor<[], i1>)
  }
}

// -----

!i = !nd.tensor<[], i32>
nd.program @c6_sum_of_data {
  %p = nd.input "p" : !nd.tensor<[], ui8>
  // expected-error @below {{'nd.loop' op (C6) data are not summed}}
  %r = nd.loop "time"=3 : () -> !nd.tensor<[], ui8> {
  ^bb0(%t: !i):
    nd.yield sums(%p : !nd.tensor<[], ui8>)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @yield_elsewhere {
  // expected-error @below {{'nd.yield' op expects parent op 'nd.loop'}}
  nd.yield
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @stack_c1_nothing {
  // expected-error @below {{'nd.stack' op (C1) there is nothing to stack}}
  %r = nd.stack along "pair" : () -> !c
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @stack_c1_dim {
  %x = nd.input "x" : !c
  // expected-error @below {{'nd.stack' op (C1) the operands have dimension "c"}}
  %r = nd.stack %x, %x along "c" : (!c, !c) -> !c
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @stack_c1_types {
  %x = nd.input "x" : !c
  %y = nd.input "y" : !s
  // expected-error @below {{'nd.stack' op (C1) operands are '!nd.tensor<["c"=2], f32>' and '!nd.tensor<[], f32>'}}
  %r = nd.stack %x, %y along "pair" : (!c, !s) -> !nd.tensor<["pair"=2, "c"=2], f32>
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @stack_c2 {
  %x = nd.input "x" : !c
  // expected-error @below {{'nd.stack' op (C2) the result is}}
  %r = nd.stack %x, %x along "pair" : (!c, !c) -> !nd.tensor<["pair"=3, "c"=2], f32>
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @unstack_c1_dim {
  %x = nd.input "x" : !c
  // expected-error @below {{'nd.unstack' op (C1) the operand has no dimension "time"}}
  %r = nd.unstack %x along "time" : (!c) -> !c
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @unstack_c1_number {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.unstack' op (C1) there are 2 results, expected 3}}
  %r:2 = nd.unstack %x along "time" : (!xc) -> (!c, !c)
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
!c = !nd.tensor<["c"=2], f32>
!xc = !nd.tensor<["time"=3, "c"=2], f32>
nd.program @unstack_c2 {
  %x = nd.input "x" : !xc
  // expected-error @below {{'nd.unstack' op (C2) a result is '!nd.tensor<[], f32>', expected '!nd.tensor<["c"=2], f32>'}}
  %r:3 = nd.unstack %x along "time" : (!xc) -> (!c, !s, !c)
}

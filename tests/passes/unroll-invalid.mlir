// RUN: meshc-opt %s -nd-unroll=max-operations=30 -split-input-file -verify-diagnostics

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
nd.program @too_long {
  %x = nd.input "x" : !s
  // expected-error @below {{the loop over "time" is written out, which makes more than 30 operations: 16 iterations of 2 operations; loops that run as loops are not built yet}}
  %r = nd.loop "time"=16 carries(%x) : (!s) -> !s {
  ^bb0(%t: !i, %a: !s):
    %b = nd.add %a, %x : (!s, !s) -> !s
    nd.yield carries(%b : !s)
  }
}

// -----

!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
nd.program @nested {
  %x = nd.input "x" : !s
  // expected-error @below {{3 iterations of 14 operations}}
  %r = nd.loop "time"=3 carries(%x) : (!s) -> !s {
  ^bb0(%t: !i, %a: !s):
    %b = nd.loop "layer"=6 carries(%a) : (!s) -> !s {
    ^bb0(%u: !i, %c: !s):
      %d = nd.add %c, %x : (!s, !s) -> !s
      nd.yield carries(%d : !s)
    }
    nd.yield carries(%b : !s)
  }
}

// -----

// Neither counted nor built one by one.
!s = !nd.tensor<[], f32>
!i = !nd.tensor<[], i32>
nd.program @endless {
  %x = nd.input "x" : !s
  // expected-error @below {{1099511627776 iterations of 1 operation;}}
  %r = nd.loop "time"=1099511627776 carries(%x) : (!s) -> !s {
  ^bb0(%t: !i, %a: !s):
    nd.yield carries(%a : !s)
  }
}

// RUN: meshc-opt %s -nd-check-layout -verify-diagnostics -split-input-file

// Equal splits of different tensors are legal.
nd.mesh ["a"=2]
nd.rule "m -> a"
nd.rule "k -> a"
nd.program @forward {
  %x = nd.input "x" : !nd.tensor<["m"=4, "n"=3], f32>
  %y = nd.input "y" : !nd.tensor<["n"=3, "k"=6], f32>
}

// -----

nd.mesh ["a"=2]
// expected-note@+1 {{"m" is split by this rule}}
nd.rule "m -> a"
// expected-note@+1 {{"k" is split by this rule}}
nd.rule "k -> a"
nd.program @forward {
  // expected-error@+1 {{of one tensor are split over one axis, "a"}}
  %x = nd.input "x" : !nd.tensor<["m"=4, "k"=6], f32>
}

// -----

nd.mesh ["a"=2, "b"=3]
// expected-note@+1 {{"in" is split by this rule}}
nd.rule "in -> (b, a)"
// expected-note@+1 {{"out" is split by this rule}}
nd.rule "out -> a"
// expected-error@+1 {{of one tensor are split over one axis, "a"}}
nd.variable parameter @w : !nd.tensor<["in"=4, "out"=6], f32> = #nd.fill<1.0 : f64>

// -----

// What the optimizer would keep of a parameter, though it keeps nothing.
nd.mesh ["x"=2]
// expected-note @below {{"a" is split by this rule}}
nd.rule "a -> x"
// expected-note @below {{"b" is split by this rule}}
nd.rule "state: b -> x"
// expected-error @below {{dimensions "a" and "b" of one tensor are split over one axis, "x"}}
nd.variable parameter @w : !nd.tensor<["a"=4, "b"=6], f32> = #nd.fill<1.0>

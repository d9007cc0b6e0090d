// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{(C1) a parameter has float elements, found 'i32'}}
nd.variable parameter @c1_integers : !nd.tensor<["a"=2], i32> = #nd.fill<1.0>

// -----

// expected-error @below {{(C2) the initialiser must be #nd.fill or #nd.random}}
nd.variable parameter @c2_other_attribute : !nd.tensor<["a"=2], f32> = 1.0

// -----

// expected-error @below {{(C2) random initialisers need float elements}}
nd.variable state @c2_random_integers : !nd.tensor<["a"=2], i32> = #nd.random<uniform, 0.0, 1.0>

// -----

// expected-error @below {{(C3) integers are filled with an integer, found 5.000000e-01 : f64}}
nd.variable state @c3_fraction : !nd.tensor<["a"=2], i64> = #nd.fill<0.5>

// -----

// expected-error @below {{(C3) integers are filled with an integer, found 0x7FF8000000000000 : f64}}
nd.variable state @c3_nan : !nd.tensor<["a"=2], i64> = #nd.fill<0x7FF8000000000000 : f64>

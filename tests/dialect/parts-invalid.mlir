// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// Steps of parts: what they are made of, leave and draw.

nd.mesh ["x"=2]
// expected-error @below {{'nd.variable' op (C4) only what is in_step is left as terms, found '!nd.tensor<["a"=4], f32, <> partial sum over x>'}}
nd.variable parameter @c4_terms : !nd.tensor<["a"=4], f32, <> partial sum over x> = #nd.fill<1.0>

// -----

// expected-error @below {{'nd.training' op (C1) a step has a part at least, found 0}}
nd.training minimize "loss" by "sgd" epochs 5 steps 0 {parts = 0 : i64}

// -----

nd.program @c4_part_of_64_bits {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  // expected-error @below {{'nd.random' op (C4) the part is a scalar of i32, found '!nd.tensor<[], i64>'}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed part %seed of 2 along ["a"] : (!nd.tensor<[], i64>, !nd.tensor<[], i64>) -> !nd.tensor<["a"=2], f32>
}

// -----

nd.program @c4_no_parts {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  %part = nd.input "part" : !nd.tensor<[], i32>
  // expected-error @below {{'nd.random' op (C4) there is a part at least}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed part %part of 0 along ["a"] : (!nd.tensor<[], i64>, !nd.tensor<[], i32>) -> !nd.tensor<["a"=2], f32>
}

// -----

nd.program @c4_positions_that_do_not_count {
  %seed = nd.input "seed" : !nd.tensor<["a"=2], i64>
  %part = nd.input "part" : !nd.tensor<[], i32>
  // expected-error @below {{'nd.random' op (C4) positions of dimension "a" do not count}}
  %0 = nd.random uniform(0.0, 1.0) key 1 seed %seed part %part of 2 along ["a"] order ["b"] : (!nd.tensor<["a"=2], i64>, !nd.tensor<[], i32>) -> !nd.tensor<["a"=2, "b"=3], f32>
}

// -----

nd.program @c4_part_without_dimensions {
  %seed = nd.input "seed" : !nd.tensor<[], i64>
  %part = nd.input "part" : !nd.tensor<[], i32>
  // expected-error @below {{'nd.random' op (C4) a part and the dimensions that have its positions go together}}
  %0 = "nd.random"(%seed, %part) <{distribution = #nd<distribution uniform>, key = 1 : i64, first = 0.0 : f64, second = 1.0 : f64, order = ["a"]}> : (!nd.tensor<[], i64>, !nd.tensor<[], i32>) -> !nd.tensor<["a"=2], f32>
}

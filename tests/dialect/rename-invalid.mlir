// RUN: meshc-opt %s -split-input-file -verify-diagnostics

nd.program @c1_nothing_to_rename {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.rename' op (C1) "from" are dimensions of the input, each once, one for each of "to"}}
  %0 = nd.rename %a "k" -> "n" : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["n"=2], f32>
}

// -----

nd.program @c1_two_names {
  %a = nd.input "a" : !nd.tensor<["m"=2, "n"=2], f32>
  // expected-error @below {{'nd.rename' op (C1) "from" are dimensions of the input, each once, one for each of "to"}}
  %0 = nd.rename %a "m" -> "k", "m" -> "l" : (!nd.tensor<["m"=2, "n"=2], f32>) -> !nd.tensor<["k"=2, "n"=2], f32>
}

// -----

nd.program @c2_name_is_taken {
  %a = nd.input "a" : !nd.tensor<["m"=2, "n"=2], f32>
  // expected-error @below {{'nd.rename' op (C2) the result is the input's type with these names changed, found '!nd.tensor<["n"=2], f32>'}}
  %0 = nd.rename %a "m" -> "n" : (!nd.tensor<["m"=2, "n"=2], f32>) -> !nd.tensor<["n"=2], f32>
}

// -----

nd.program @c2_resizes {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  // expected-error @below {{'nd.rename' op (C2) the result is the input's type with these names changed, found '!nd.tensor<["n"=3], f32>'}}
  %0 = nd.rename %a "m" -> "n" : (!nd.tensor<["m"=2], f32>) -> !nd.tensor<["n"=3], f32>
}

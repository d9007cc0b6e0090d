// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// What computes takes no elements that are for data.

nd.program @neg_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], ui8>
  // expected-error @below {{'nd.neg' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.neg %a : (!nd.tensor<["m"=2], ui8>) -> !nd.tensor<["m"=2], ui8>
}

// -----

nd.program @abs_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i8>
  // expected-error @below {{'nd.abs' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.abs %a : (!nd.tensor<["m"=2], i8>) -> !nd.tensor<["m"=2], i8>
}

// -----

nd.program @sign_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i16>
  // expected-error @below {{'nd.sign' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.sign %a : (!nd.tensor<["m"=2], i16>) -> !nd.tensor<["m"=2], i16>
}

// -----

nd.program @add_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], ui8>
  // expected-error @below {{'nd.add' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.add %a, %a : (!nd.tensor<["m"=2], ui8>, !nd.tensor<["m"=2], ui8>) -> !nd.tensor<["m"=2], ui8>
}

// -----

nd.program @sub_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i8>
  // expected-error @below {{'nd.sub' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.sub %a, %a : (!nd.tensor<["m"=2], i8>, !nd.tensor<["m"=2], i8>) -> !nd.tensor<["m"=2], i8>
}

// -----

nd.program @mul_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i16>
  // expected-error @below {{'nd.mul' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.mul %a, %a : (!nd.tensor<["m"=2], i16>, !nd.tensor<["m"=2], i16>) -> !nd.tensor<["m"=2], i16>
}

// -----

nd.program @div_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], ui8>
  // expected-error @below {{'nd.div' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.div %a, %a : (!nd.tensor<["m"=2], ui8>, !nd.tensor<["m"=2], ui8>) -> !nd.tensor<["m"=2], ui8>
}

// -----

nd.program @minimum_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i8>
  // expected-error @below {{'nd.minimum' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.minimum %a, %a : (!nd.tensor<["m"=2], i8>, !nd.tensor<["m"=2], i8>) -> !nd.tensor<["m"=2], i8>
}

// -----

nd.program @maximum_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i16>
  // expected-error @below {{'nd.maximum' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.maximum %a, %a : (!nd.tensor<["m"=2], i16>, !nd.tensor<["m"=2], i16>) -> !nd.tensor<["m"=2], i16>
}

// -----

nd.program @reduce_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], ui8>
  // expected-error @below {{'nd.reduce' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.reduce max %a : (!nd.tensor<["m"=2], ui8>) -> !nd.tensor<[], ui8>
}

// -----

nd.program @arg_reduce_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i16>
  // expected-error @below {{'nd.arg_reduce' op operand #0 must be tensor of elements that are computed with}}
  %0 = nd.arg_reduce max %a over "m" : (!nd.tensor<["m"=2], i16>) -> !nd.tensor<[], i32>
}

// -----

nd.program @einsum_of_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], i8>
  // expected-error @below {{'nd.einsum' op operand #0 must be variadic of tensor of floats}}
  %0 = nd.einsum %a : (!nd.tensor<["m"=2], i8>) -> !nd.tensor<[], i8>
}

// -----

// An index is converted first: positions are computed with.
nd.program @gather_at_data {
  %a = nd.input "a" : !nd.tensor<["m"=2], f32>
  %i = nd.input "i" : !nd.tensor<["b"=3], ui8>
  // expected-error @below {{'nd.gather' op operand #1 must be tensor of integers that are computed with}}
  %0 = nd.gather %a[%i] over "m" : (!nd.tensor<["m"=2], f32>, !nd.tensor<["b"=3], ui8>) -> !nd.tensor<["b"=3], f32>
}

// -----

nd.program @iota_of_data {
  // expected-error @below {{'nd.iota' op (C1) the result has one dimension and integer or float elements that are computed with}}
  %0 = nd.iota : !nd.tensor<["a"=2], ui8>
}

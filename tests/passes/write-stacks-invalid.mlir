// RUN: meshc-opt %s -nd-write-stacks -verify-diagnostics

nd.program @no_sharding {
  %x = nd.input "x" : !nd.tensor<["c"=2], f32>
  // expected-error @below {{'nd.stack' op has no sharding (nd-assign-shardings gives it one)}}
  %s = nd.stack %x, %x along "t" : (!nd.tensor<["c"=2], f32>, !nd.tensor<["c"=2], f32>) -> !nd.tensor<["t"=2, "c"=2], f32>
  nd.output "s", %s : !nd.tensor<["t"=2, "c"=2], f32>
}

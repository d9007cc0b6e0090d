// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// (C1)
// expected-error @+1 {{only of a named value is there something}}
module attributes {nd.a = #nd.origin<gradient "">} {}

// -----

// (C2)
// expected-error @+1 {{state, and nothing else, has a name of its own}}
module attributes {nd.a = #nd.origin<state "" of "w">} {}

// -----

// (C1)
// expected-error @+1 {{only of a named value is there something}}
module attributes {nd.a = #nd.origin<copy "">} {}

// -----

// expected-error @+1 {{'nd.remark' is a #nd.remark, found "copy"}}
module attributes {nd.remark = "copy"} {}

// -----

// expected-error @+1 {{an iteration is no value}}
module attributes {nd.a = #nd.origin<"layer"[3]>} {}

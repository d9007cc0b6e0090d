// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{an iteration is no value}}
module attributes {nd.a = #nd.origin<"layer"[3]>} {}

// -----

// expected-error @+1 {{only of a named value is there something}}
module attributes {nd.a = #nd.origin<gradient "">} {}

// -----

// expected-error @+1 {{state, and nothing else, has a name of its own}}
module attributes {nd.a = #nd.origin<state "" of "w">} {}

// -----

// expected-error @+1 {{a scope has a name}}
module attributes {nd.a = #nd.scope<""[2]>} {}

// -----

// expected-error @+1 {{iterations count from 0, found -2}}
module attributes {nd.a = #nd.scope<"layer"[-2]>} {}

// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// (C1)
// expected-error @+1 {{a scope has a name}}
module attributes {nd.a = #nd.scope<""[2]>} {}

// -----

// (C2)
// expected-error @+1 {{iterations count from 0, found -2}}
module attributes {nd.a = #nd.scope<"layer"[-2]>} {}

// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The table of the layout.

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C1) the mesh has no axis "z"}}
nd.rule ["a"] -> ["x", "z"]

// -----

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C1) axis "x" is named twice}}
nd.rule ["a"] -> ["x", "x"]

// -----

nd.mesh ["x"=2, "y"=3]
nd.rule ["a"] -> ["x"]
nd.rule of params ["a"] -> ["y"]
// expected-error @below {{'nd.rule' op (C2) dimension "a" has another rule}}
nd.rule ["b", "a"] -> ["y"]

// -----

nd.mesh ["x"=2, "y"=3]
nd.rule of state [] -> ["x"]
// expected-error @below {{'nd.rule' op (C2) its role has another rule for all tensors}}
nd.rule of state [] -> ["y"]

// -----

nd.mesh ["x"=2]
nd.rule ["a"] -> ["x"]
// expected-error @below {{'nd.rule' op (C3) it has neither a role nor dimensions}}
nd.rule [] -> ["x"]

// -----

nd.mesh ["x"=2]
nd.rule for "g" ["a"] -> ["x"]
nd.rule for "h" ["a"] -> ["x"]
// expected-error @below {{'nd.rule' op (C2) dimension "a" has another rule}}
nd.rule for "h" ["a"] -> []

// -----

nd.mesh ["x"=2]
nd.rule ["a"] -> ["x"]
// expected-error @below {{'nd.rule' op (C4) a rule for values has a role}}
nd.rule of params for "h" ["a"] -> []

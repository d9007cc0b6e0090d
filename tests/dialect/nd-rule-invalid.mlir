// RUN: meshc-opt %s -split-input-file -verify-diagnostics

// The table of the layout.

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C2) the mesh has no axis "z"}}
nd.rule "a -> (x, z)"

// -----

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C2) axis "x" is named twice}}
nd.rule "a -> (x, x)"

// -----

nd.mesh ["x"=2, "y"=3]
nd.rule "a -> x"
nd.rule "params: a -> y"
// expected-error @below {{'nd.rule' op (C3) dimension "a" has another rule}}
nd.rule "(b, a) -> y"

// -----

nd.mesh ["x"=2, "y"=3]
nd.rule "state: * -> x"
// expected-error @below {{'nd.rule' op (C3) its role has another rule for all tensors}}
nd.rule "state: * -> y"

// -----

nd.mesh ["x"=2]
nd.rule "a -> x"
// expected-error @below {{'nd.rule' op (C1) is no rule: "*" stands behind a role}}
nd.rule "* -> x"

// -----

nd.mesh ["x"=2]
nd.rule "\22g\22: a -> x"
nd.rule "\22h\22: a -> x"
// expected-error @below {{'nd.rule' op (C3) dimension "a" has another rule}}
nd.rule "\22h\22: a -> ()"

// -----

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C1) is no rule: a layout has no rules for "weights"}}
nd.rule "weights: a -> x"

// -----

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C1) is no rule: expected "->" after the dimension}}
nd.rule "a x"

// -----

nd.mesh ["x"=2]
// expected-error @below {{'nd.rule' op (C1) is no rule: expected the end}}
nd.rule "a -> x b -> x"

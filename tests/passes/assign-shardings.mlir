// RUN: meshc-opt %s -nd-assign-shardings -split-input-file | FileCheck %s

// The table: inputs, variables, outputs and what lies between have the sharding
// of their dimensions, whether the sizes divide (3 over 2, 5 over 3) or not.
// CHECK:       !a_at_x_by_b_at_y = !nd.tensor<["a"=3, "b"=5], f32, <"a"@x, "b"@y>>
// CHECK-LABEL: nd.rule "a -> x"
// CHECK:       nd.variable parameter @w : !b_at_y =
// CHECK:       nd.program @table
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !a_at_x_by_b_at_y
// CHECK-NEXT:    %[[W:.*]] = nd.read @w : !b_at_y
// CHECK-NEXT:    %[[Y:.*]] = nd.mul %[[X]], %[[W]] : {{.*}} -> !a_at_x_by_b_at_y
// CHECK-NEXT:    nd.output "y", %[[Y]] : !a_at_x_by_b_at_y
// CHECK-NEXT:    %[[NEXT:.*]] = nd.neg %[[W]] : (!b_at_y) -> !b_at_y
// CHECK-NEXT:    nd.write @w, %[[NEXT]] : !b_at_y
nd.mesh ["x"=2, "y"=3]
nd.rule "a -> x"
nd.rule "b -> y"
nd.variable parameter @w : !nd.tensor<["b"=5], f32> = #nd.fill<1.0>
nd.program @table {
  %x = nd.input "x" : !nd.tensor<["a"=3, "b"=5], f32>
  %w = nd.read @w : !nd.tensor<["b"=5], f32>
  %y = nd.mul %x, %w : (!nd.tensor<["a"=3, "b"=5], f32>, !nd.tensor<["b"=5], f32>) -> !nd.tensor<["a"=3, "b"=5], f32>
  nd.output "y", %y : !nd.tensor<["a"=3, "b"=5], f32>
  %next = nd.neg %w : (!nd.tensor<["b"=5], f32>) -> !nd.tensor<["b"=5], f32>
  nd.write @w, %next : !nd.tensor<["b"=5], f32>
}

// -----

// No rule: everything is whole everywhere, and nothing moves.
// CHECK-LABEL: nd.program @no_rules
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !a
// CHECK-NEXT:    %[[S:.*]] = nd.reduce sum %[[X]] : (!a) -> !scalar
// CHECK-NEXT:    nd.output "y", %[[S]] : !scalar
nd.mesh ["x"=2]
nd.program @no_rules {
  %x = nd.input "x" : !nd.tensor<["a"=3], f32>
  %s = nd.reduce sum %x : (!nd.tensor<["a"=3], f32>) -> !nd.tensor<[], f32>
  nd.output "y", %s : !nd.tensor<[], f32>
}

// -----

// A dimension over two axes, major first; its sum is pending over both and is
// completed over both at once.
// CHECK:       !a_at_y_x_by_b = !nd.tensor<["a"=7, "b"=2], f32, <"a"@y@x>>
// CHECK-LABEL: nd.program @two_axes
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !a_at_y_x_by_b
// CHECK-NEXT:    %[[S:.*]] = nd.reduce sum %[[X]] : (!a_at_y_x_by_b) -> !b_sum_over_x_y
// CHECK-NEXT:    %[[Y:.*]] = nd.reshard %[[S]] {{.*}} : !b_sum_over_x_y -> !b
// CHECK-NEXT:    nd.output "y", %[[Y]] : !b
nd.mesh ["x"=2, "y"=3]
nd.rule "a -> (y, x)"
nd.program @two_axes {
  %x = nd.input "x" : !nd.tensor<["a"=7, "b"=2], f32>
  %s = nd.reduce sum %x : (!nd.tensor<["a"=7, "b"=2], f32>) -> !nd.tensor<["b"=2], f32>
  nd.output "y", %s : !nd.tensor<["b"=2], f32>
}

// -----

// The user's constraint is the sharding of a value, here with "b" kept whole, and
// of what is computed from it element by element; the output lies by the table.
// CHECK-LABEL: nd.program @constraint
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !a_at_x_by_b_at_y
// CHECK-NEXT:    %[[C:.*]] = nd.reshard %[[X]] {{.*}}rule = "constraint on \22c\22", consumer = <"c">, operand = <"x">{{.*}} : !a_at_x_by_b_at_y -> !a_at_x_by_b
// CHECK-NEXT:    %[[E:.*]] = nd.exp %[[C]] : (!a_at_x_by_b) -> !a_at_x_by_b
// CHECK-NEXT:    nd.reshard %[[E]] {{.*}}rule = "layout rule \22b\22 -> \22y\22", consumer = <"y">, operand = <"e">{{.*}} : !a_at_x_by_b -> !a_at_x_by_b_at_y
nd.mesh ["x"=2, "y"=3]
nd.rule "a -> x"
nd.rule "b -> y"
nd.program @constraint {
  %x = nd.input "x" : !nd.tensor<["a"=3, "b"=5], f32> loc(fused<#nd.origin<"x">>["c.mesh":5:1])
  %c = nd.reshard %x : !nd.tensor<["a"=3, "b"=5], f32> -> !nd.tensor<["a"=3, "b"=5], f32, <"a"@x>> loc(fused<#nd.origin<"c">>["c.mesh":6:1])
  %e = nd.exp %c : (!nd.tensor<["a"=3, "b"=5], f32, <"a"@x>>) -> !nd.tensor<["a"=3, "b"=5], f32> loc(fused<#nd.origin<"e">>["c.mesh":7:1])
  nd.output "y", %e : !nd.tensor<["a"=3, "b"=5], f32>
}

// -----

// A constraint that says what is so anyway leaves nothing behind.
// CHECK-LABEL: nd.program @constraint_that_holds
// CHECK-NOT:     nd.reshard
nd.mesh ["x"=2]
nd.rule "a -> x"
nd.program @constraint_that_holds {
  %x = nd.input "x" : !nd.tensor<["a"=3], f32>
  %c = nd.reshard %x : !nd.tensor<["a"=3], f32> -> !nd.tensor<["a"=3], f32, <"a"@x>>
  nd.output "y", %c : !nd.tensor<["a"=3], f32, <"a"@x>>
}

// -----

// Two dimensions of an operation on one axis, though no tensor has both: the
// one that moves fewer bytes keeps it. "m" is long, so the small %w is gathered.
// CHECK-LABEL: nd.program @iteration_split
// CHECK-NEXT:    %[[U:.*]] = nd.input "u" : !m_at_x_by_k
// CHECK-NEXT:    %[[W:.*]] = nd.input "w" : !k_by_n_at_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[W]] {{.*}}rule = "dimensions \22m\22 and \22n\22 share axis \22x\22", consumer = <"h">, operand = <"w">, needed = "replicated", had = "<n@x>"{{.*}}alternative = "\22n\22 keeps axis \22x\22"{{.*}} : !k_by_n_at_x -> !k_by_n
// CHECK-NEXT:    nd.einsum %[[U]], %[[WHOLE]] : (!m_at_x_by_k, !k_by_n) -> !m_at_x_by_n
nd.mesh ["x"=2]
nd.rule "m -> x"
nd.rule "n -> x"
nd.program @iteration_split {
  %u = nd.input "u" : !nd.tensor<["m"=300, "k"=5], f32> loc(fused<#nd.origin<"u">>["c.mesh":5:1])
  %w = nd.input "w" : !nd.tensor<["k"=5, "n"=7], f32> loc(fused<#nd.origin<"w">>["c.mesh":6:1])
  %h = nd.einsum %u, %w : (!nd.tensor<["m"=300, "k"=5], f32>, !nd.tensor<["k"=5, "n"=7], f32>) -> !nd.tensor<["m"=300, "n"=7], f32> loc(fused<#nd.origin<"h">>["c.mesh":7:1])
  %s = nd.reduce sum %h : (!nd.tensor<["m"=300, "n"=7], f32>) -> !nd.tensor<["m"=300], f32>
  nd.output "y", %s : !nd.tensor<["m"=300], f32>
}

// -----

// The same where %w is the large one.
// CHECK-LABEL: nd.program @iteration_split_other_way
// CHECK:         %[[U:.*]] = nd.input "u" : !m_at_x_by_k
// CHECK:         %[[WHOLE:.*]] = nd.reshard %[[U]] {{.*}} : !m_at_x_by_k -> !m_by_k
// CHECK-NEXT:    nd.einsum %[[WHOLE]], %{{.*}} : (!m_by_k, !k_by_n_at_x) -> !m_by_n_at_x
nd.mesh ["x"=2]
nd.rule "m -> x"
nd.rule "n -> x"
nd.program @iteration_split_other_way {
  %u = nd.input "u" : !nd.tensor<["m"=7, "k"=500], f32>
  %w = nd.input "w" : !nd.tensor<["k"=500, "n"=300], f32>
  %h = nd.einsum %u, %w : (!nd.tensor<["m"=7, "k"=500], f32>, !nd.tensor<["k"=500, "n"=300], f32>) -> !nd.tensor<["m"=7, "n"=300], f32>
  %s = nd.reduce sum %h : (!nd.tensor<["m"=7, "n"=300], f32>) -> !nd.tensor<["n"=300], f32>
  nd.output "y", %s : !nd.tensor<["n"=300], f32>
}

// -----

// A renamed dimension is another dimension: the keys of a sequence are gathered
// because no rule names them.
// CHECK-LABEL: nd.program @renamed
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !pos_at_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[X]] {{.*}}rule = "no layout rule for \22key_pos\22"{{.*}} : !pos_at_x -> !pos
// CHECK-NEXT:    nd.rename %[[WHOLE]] "pos" -> "key_pos" : (!pos) -> !key_pos
nd.mesh ["x"=2]
nd.rule "pos -> x"
nd.program @renamed {
  %x = nd.input "x" : !nd.tensor<["pos"=3], f32>
  %r = nd.rename %x "pos" -> "key_pos" : (!nd.tensor<["pos"=3], f32>) -> !nd.tensor<["key_pos"=3], f32>
  nd.output "y", %r : !nd.tensor<["key_pos"=3], f32>
}

// -----

// Terms move through what is linear and are completed where they are needed
// whole: the sum of two scaled contractions is reduced once.
// CHECK-LABEL: nd.program @terms_are_added_first
// CHECK:         %[[P:.*]] = nd.einsum {{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    %[[Q:.*]] = nd.einsum {{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    %[[HALF:.*]] = nd.constant(5.000000e-01 : f32) : !scalar
// CHECK-NEXT:    %[[SCALED:.*]] = nd.mul %[[P]], %[[HALF]] : (!m_by_n_sum_over_x, !scalar) -> !m_by_n_sum_over_x
// CHECK-NEXT:    %[[NEG:.*]] = nd.neg %[[Q]] : (!m_by_n_sum_over_x) -> !m_by_n_sum_over_x
// CHECK-NEXT:    %[[SUM:.*]] = nd.add %[[SCALED]], %[[NEG]] : {{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[SUM]] {{.*}}rule = "contraction over split dimensions \22k\22, \22l\22"{{.*}} : !m_by_n_sum_over_x -> !m_by_n
// CHECK-NEXT:    nd.exp %[[WHOLE]] : (!m_by_n) -> !m_by_n
// CHECK-NOT:     nd.reshard
nd.mesh ["x"=2]
nd.rule "k -> x"
nd.rule "l -> x"
nd.program @terms_are_added_first {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=4], f32>
  %b = nd.input "b" : !nd.tensor<["k"=4, "n"=5], f32>
  %c = nd.input "c" : !nd.tensor<["m"=3, "l"=7], f32>
  %d = nd.input "d" : !nd.tensor<["l"=7, "n"=5], f32>
  %p = nd.einsum %a, %b : (!nd.tensor<["m"=3, "k"=4], f32>, !nd.tensor<["k"=4, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %q = nd.einsum %c, %d : (!nd.tensor<["m"=3, "l"=7], f32>, !nd.tensor<["l"=7, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %half = nd.constant(0.5 : f32) : !nd.tensor<[], f32>
  %scaled = nd.mul %p, %half : (!nd.tensor<["m"=3, "n"=5], f32>, !nd.tensor<[], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %negated = nd.neg %q : (!nd.tensor<["m"=3, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %sum = nd.add %scaled, %negated : (!nd.tensor<["m"=3, "n"=5], f32>, !nd.tensor<["m"=3, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  %e = nd.exp %sum : (!nd.tensor<["m"=3, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32>
  nd.output "y", %e : !nd.tensor<["m"=3, "n"=5], f32>
}

// -----

// A residual: ((whole + p) + q) is regrouped, so that p + q is completed once.
// CHECK-LABEL: nd.program @residual
// CHECK-DAG:     %[[R:.*]] = nd.input "r" : !m
// CHECK-DAG:     %[[P:.*]] = nd.reduce sum %{{.*}} : (!m_by_k_at_x) -> !m_sum_over_x
// CHECK-DAG:     %[[Q:.*]] = nd.reduce sum %{{.*}} : (!m_by_l_at_x) -> !m_sum_over_x
// CHECK:         %[[PQ:.*]] = nd.add %[[P]], %[[Q]] : (!m_sum_over_x, !m_sum_over_x) -> !m_sum_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[PQ]]
// CHECK-NEXT:    nd.add %[[R]], %[[WHOLE]]
// CHECK-NOT:     nd.reshard
nd.mesh ["x"=2]
nd.rule "k -> x"
nd.rule "l -> x"
nd.program @residual {
  %r = nd.input "r" : !nd.tensor<["m"=3], f32>
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=5], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3, "l"=7], f32>
  %p = nd.reduce sum %a : (!nd.tensor<["m"=3, "k"=5], f32>) -> !nd.tensor<["m"=3], f32>
  %1 = nd.add %r, %p : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  %q = nd.reduce sum %b : (!nd.tensor<["m"=3, "l"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %2 = nd.add %1, %q : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  nd.output "y", %2 : !nd.tensor<["m"=3], f32>
}

// -----

// Terms over different axes are completed where they part: only what both have
// pending could be added first.
// CHECK-LABEL: nd.program @terms_over_different_axes
// CHECK-DAG:     %[[P:.*]] = nd.reduce sum %{{.*}} : (!m_by_k_at_x) -> !m_sum_over_x
// CHECK-DAG:     %[[Q:.*]] = nd.reduce sum %{{.*}} : (!m_by_l_at_y) -> !m_sum_over_y
// CHECK-DAG:     %[[PW:.*]] = nd.reshard %[[P]] {{.*}} : !m_sum_over_x -> !m
// CHECK-DAG:     %[[QW:.*]] = nd.reshard %[[Q]] {{.*}} : !m_sum_over_y -> !m
// CHECK:         nd.add %[[PW]], %[[QW]] : (!m, !m) -> !m
nd.mesh ["x"=2, "y"=3]
nd.rule "k -> x"
nd.rule "l -> y"
nd.program @terms_over_different_axes {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=5], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3, "l"=7], f32>
  %p = nd.reduce sum %a : (!nd.tensor<["m"=3, "k"=5], f32>) -> !nd.tensor<["m"=3], f32>
  %q = nd.reduce sum %b : (!nd.tensor<["m"=3, "l"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %s = nd.add %p, %q : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  nd.output "y", %s : !nd.tensor<["m"=3], f32>
}

// -----

// What is needed split over the axis of its terms is completed and split in one
// step.
// CHECK-LABEL: nd.program @completed_and_split
// CHECK:         %[[S:.*]] = nd.reduce sum %{{.*}} : (!b_at_x_by_c) -> !c_sum_over_x
// CHECK-NEXT:    %[[C:.*]] = nd.reshard %[[S]] {{.*}} : !c_sum_over_x -> !c_at_x
// CHECK-NEXT:    nd.rename %[[C]] "c" -> "d" : (!c_at_x) -> !d_at_x
nd.mesh ["x"=2]
nd.rule "b -> x"
nd.rule "d -> x"
nd.program @completed_and_split {
  %a = nd.input "a" : !nd.tensor<["b"=4, "c"=6], f32>
  %s = nd.reduce sum %a : (!nd.tensor<["b"=4, "c"=6], f32>) -> !nd.tensor<["c"=6], f32>
  %d = nd.rename %s "c" -> "d" : (!nd.tensor<["c"=6], f32>) -> !nd.tensor<["d"=6], f32>
  nd.output "y", %d : !nd.tensor<["d"=6], f32>
}

// -----

// Several readers share one completion, and its causes name each of them.
// CHECK-LABEL: nd.program @one_completion_for_all
// CHECK:         %[[S:.*]] = nd.reduce sum %{{.*}} : (!a_at_x_by_b) -> !b_sum_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[S]] {causes = [#nd.cause<{{.*}}consumer = <"e">{{.*}}>, #nd.cause<{{.*}}consumer = <"t">{{.*}}>]}
// CHECK-NEXT:    nd.exp %[[WHOLE]]
// CHECK-NEXT:    nd.tanh %[[WHOLE]]
// CHECK-NOT:     nd.reshard
nd.mesh ["x"=2]
nd.rule "a -> x"
nd.program @one_completion_for_all {
  %a = nd.input "a" : !nd.tensor<["a"=3, "b"=5], f32>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=3, "b"=5], f32>) -> !nd.tensor<["b"=5], f32>
  %e = nd.exp %s : (!nd.tensor<["b"=5], f32>) -> !nd.tensor<["b"=5], f32> loc(fused<#nd.origin<"e">>["c.mesh":1:1])
  %t = nd.tanh %s : (!nd.tensor<["b"=5], f32>) -> !nd.tensor<["b"=5], f32> loc(fused<#nd.origin<"t">>["c.mesh":2:1])
  nd.output "y", %e : !nd.tensor<["b"=5], f32>
  nd.output "z", %t : !nd.tensor<["b"=5], f32>
}

// -----

// A maximum over a split dimension leaves terms of its own kind; nothing linear
// may take them.
// CHECK-LABEL: nd.program @maximum
// CHECK:         %[[M:.*]] = nd.reduce max %{{.*}} : (!a_at_x_by_b) -> !b_max_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[M]] {{.*}}rule = "reduction over split dimension \22a\22"{{.*}} : !b_max_over_x -> !b
// CHECK-NEXT:    nd.neg %[[WHOLE]] : (!b) -> !b
nd.mesh ["x"=2]
nd.rule "a -> x"
nd.program @maximum {
  %a = nd.input "a" : !nd.tensor<["a"=3, "b"=5], f32>
  %m = nd.reduce max %a : (!nd.tensor<["a"=3, "b"=5], f32>) -> !nd.tensor<["b"=5], f32>
  %n = nd.neg %m : (!nd.tensor<["b"=5], f32>) -> !nd.tensor<["b"=5], f32>
  nd.output "y", %n : !nd.tensor<["b"=5], f32>
}

// -----

// A scalar leaves as its terms: adding them up is the reader's work.
// CHECK-LABEL: nd.program @scalar_output
// CHECK:         %[[S:.*]] = nd.reduce sum %{{.*}} : (!a_at_x) -> !scalar_sum_over_x
// CHECK-NEXT:    nd.output "y", %[[S]] : !scalar_sum_over_x
nd.mesh ["x"=2]
nd.rule "a -> x"
nd.program @scalar_output {
  %a = nd.input "a" : !nd.tensor<["a"=3], f32>
  %s = nd.reduce sum %a : (!nd.tensor<["a"=3], f32>) -> !nd.tensor<[], f32>
  nd.output "y", %s : !nd.tensor<[], f32>
}

// -----

// Causes hold the spans of the reader, the producer and the rules behind them,
// and the cost of the best other way.
// CHECK-DAG:   #[[AT:.*]] = loc("c.mesh":4:5)
// CHECK-DAG:   #[[RULE:.*]] = loc("c.mesh":2:3)
// CHECK-DAG:   #[[READER:.*]] = loc("c.mesh":7:5)
// CHECK-DAG:   #[[H:.*]] = loc(fused<#nd.origin<"h">>[#[[AT]]])
// CHECK-DAG:   #[[E:.*]] = loc(fused<#nd.origin<"e">>[#[[READER]]])
// CHECK-LABEL: nd.program @causes
// CHECK:         nd.reshard %{{.*}} {causes = [#nd.cause<kind = contraction, rule = "contraction over split dimension \22k\22", consumer = <"e">, operand = <"h">, needed = "replicated", had = "<> partial sum over x", spans = [#[[E]], #[[H]], #[[RULE]]], alternative = "{{.*}}", alternativeUs = {{.*}}, chosenUs = {{.*}}>]}
nd.mesh ["x"=2]
nd.rule "k -> x" loc("c.mesh":2:3)
nd.program @causes {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=4], f32>
  %b = nd.input "b" : !nd.tensor<["k"=4, "n"=5], f32>
  %h = nd.einsum %a, %b : (!nd.tensor<["m"=3, "k"=4], f32>, !nd.tensor<["k"=4, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32> loc(fused<#nd.origin<"h">>["c.mesh":4:5])
  %e = nd.exp %h : (!nd.tensor<["m"=3, "n"=5], f32>) -> !nd.tensor<["m"=3, "n"=5], f32> loc(fused<#nd.origin<"e">>["c.mesh":7:5])
  nd.output "y", %e : !nd.tensor<["m"=3, "n"=5], f32>
}

// -----

// Ten axes that three dimensions claim: 3^10 ways to settle are not all tried.
// The largest operand keeps its split, by which it needs not be gathered.
// CHECK-LABEL: nd.program @many_contested_axes
// CHECK:         nd.einsum {{.*}} : (!m, !n_at_a0_a1_a2_a3_a4_a5_a6_a7_a8_a9, !k)
nd.mesh ["a0"=2, "a1"=2, "a2"=2, "a3"=2, "a4"=2, "a5"=2, "a6"=2, "a7"=2, "a8"=2, "a9"=2]
nd.rule "m -> (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9)"
nd.rule "n -> (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9)"
nd.rule "k -> (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9)"
nd.program @many_contested_axes {
  %x = nd.input "x" : !nd.tensor<["m"=2048], f32>
  %y = nd.input "y" : !nd.tensor<["n"=4194304], f32>
  %z = nd.input "z" : !nd.tensor<["k"=4096], f32>
  %s = nd.einsum %x, %y, %z : (!nd.tensor<["m"=2048], f32>, !nd.tensor<["n"=4194304], f32>, !nd.tensor<["k"=4096], f32>) -> !nd.tensor<[], f32>
  nd.output "s", %s : !nd.tensor<[], f32>
}

// -----

// A sum that is regrouped is a term of two others that are regrouped too: terms
// over both axes are added first in each of the three.
// CHECK-LABEL: nd.program @sum_in_sums
// CHECK:         %[[PT:.*]] = nd.add {{.*}} -> !m_sum_over_x_y
// CHECK:         %[[PTX:.*]] = nd.reshard %[[PT]] {{.*}} -> !m_sum_over_x
// CHECK:         %[[INNER:.*]] = nd.add %{{.*}}, %[[PTX]]
// CHECK:         %[[UV3:.*]] = nd.add {{.*}} -> !m_sum_over_x_y
// CHECK:         %[[UVX3:.*]] = nd.reshard %[[UV3]] {{.*}} -> !m_sum_over_x
// CHECK:         %[[Y3:.*]] = nd.add %[[INNER]], %[[UVX3]]
// CHECK:         nd.reshard %[[Y3]] {{.*}} -> !m{{$}}
// CHECK:         %[[UV5:.*]] = nd.add {{.*}} -> !m_sum_over_x_y
// CHECK:         %[[UVX5:.*]] = nd.reshard %[[UV5]] {{.*}} -> !m_sum_over_x
// CHECK:         %[[Y5:.*]] = nd.add %[[INNER]], %[[UVX5]]
// CHECK:         nd.reshard %[[Y5]] {{.*}} -> !m{{$}}
nd.mesh ["x"=2, "y"=3]
nd.rule "k -> (x, y)"
nd.rule "l -> x"
nd.program @sum_in_sums {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=7], f32>
  %p = nd.reduce sum %a : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3, "l"=5], f32>
  %q = nd.reduce sum %b : (!nd.tensor<["m"=3, "l"=5], f32>) -> !nd.tensor<["m"=3], f32>
  %c = nd.input "c" : !nd.tensor<["m"=3, "k"=7], f32>
  %t = nd.reduce sum %c : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %1 = nd.add %p, %q : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  %2 = nd.add %1, %t : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  %d3 = nd.input "d3" : !nd.tensor<["m"=3, "k"=7], f32>
  %u3 = nd.reduce sum %d3 : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %e3 = nd.input "e3" : !nd.tensor<["m"=3, "k"=7], f32>
  %v3 = nd.reduce sum %e3 : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %3 = nd.add %2, %u3 : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  %4 = nd.add %3, %v3 : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  nd.output "y3", %4 : !nd.tensor<["m"=3], f32>
  %d5 = nd.input "d5" : !nd.tensor<["m"=3, "k"=7], f32>
  %u5 = nd.reduce sum %d5 : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %e5 = nd.input "e5" : !nd.tensor<["m"=3, "k"=7], f32>
  %v5 = nd.reduce sum %e5 : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %5 = nd.add %2, %u5 : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  %6 = nd.add %5, %v5 : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["m"=3], f32>
  nd.output "y5", %6 : !nd.tensor<["m"=3], f32>
}

// -----

// The terms of all that is stacked pass it: one sum, of the stack. Where one of
// them has no terms, each is completed by itself.
// CHECK-LABEL: nd.program @stack_of_terms
// CHECK:         %[[P:.*]] = nd.reduce sum
// CHECK:         %[[Q:.*]] = nd.reduce sum
// CHECK:         %[[S:.*]] = nd.stack %[[P]], %[[Q]], %[[P]] along "t" : {{.*}} -> !t_by_m_sum_over_x
// CHECK-NEXT:    %[[W:.*]] = nd.reshard %[[S]]
// CHECK-NEXT:    nd.output "s", %[[W]]
// CHECK-LABEL: nd.program @stack_of_terms_and_others
// CHECK:         %[[P:.*]] = nd.reduce sum
// CHECK-NEXT:    %[[W:.*]] = nd.reshard %[[P]]
// CHECK:         nd.stack %[[W]], %{{.*}} along "t" : {{.*}} -> !t_by_m
nd.mesh ["x"=2]
nd.rule "k -> x"
nd.program @stack_of_terms {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=7], f32>
  %p = nd.reduce sum %a : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3, "k"=7], f32>
  %q = nd.reduce sum %b : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %s = nd.stack %p, %q, %p along "t" : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["t"=3, "m"=3], f32>
  nd.output "s", %s : !nd.tensor<["t"=3, "m"=3], f32>
}
nd.program @stack_of_terms_and_others {
  %a = nd.input "a" : !nd.tensor<["m"=3, "k"=7], f32>
  %p = nd.reduce sum %a : (!nd.tensor<["m"=3, "k"=7], f32>) -> !nd.tensor<["m"=3], f32>
  %b = nd.input "b" : !nd.tensor<["m"=3], f32>
  %s = nd.stack %p, %b along "t" : (!nd.tensor<["m"=3], f32>, !nd.tensor<["m"=3], f32>) -> !nd.tensor<["t"=2, "m"=3], f32>
  nd.output "s", %s : !nd.tensor<["t"=2, "m"=3], f32>
}

// -----

// On GPUs gradients that are stacked for an update are completed one by one, each as
// soon as it is there; together where latency is most of what a sum takes.
// CHECK-LABEL: nd.program @stack_for_an_update
// CHECK:         %[[P:.*]] = nd.reduce sum
// CHECK-NEXT:    %[[P_WHOLE:.*]] = nd.reshard %[[P]]
// CHECK:         %[[Q:.*]] = nd.reduce sum
// CHECK-NEXT:    %[[Q_WHOLE:.*]] = nd.reshard %[[Q]]
// CHECK:         nd.stack %[[P_WHOLE]], %[[Q_WHOLE]] along "t" : {{.*}} -> !t_by_long
// CHECK-LABEL: nd.program @short_stack_for_an_update
// CHECK:         nd.stack %{{.*}} along "t" : {{.*}} -> !t_by_m_sum_over_x
// CHECK-NEXT:    nd.reshard
// CHECK-NOT:     nd.reshard
!long = !nd.tensor<["long"=1000003], f32>
!long_terms = !nd.tensor<["long"=1000003, "k"=7], f32>
!long_stack = !nd.tensor<["t"=2, "long"=1000003], f32>
!short = !nd.tensor<["m"=3], f32>
!short_terms = !nd.tensor<["m"=3, "k"=7], f32>
!short_stack = !nd.tensor<["t"=2, "m"=3], f32>
nd.mesh ["x"=2] machine "h100"
nd.rule "k -> x"
nd.program @stack_for_an_update {
  %a = nd.input "a" : !long_terms
  %b = nd.input "b" : !long_terms
  %p = nd.reduce sum %a : (!long_terms) -> !long loc(fused<#nd.origin<backward "p">>[unknown])
  %q = nd.reduce sum %b : (!long_terms) -> !long loc(fused<#nd.origin<backward "q">>[unknown])
  %s = nd.stack %p, %q along "t" : (!long, !long) -> !long_stack loc(fused<#nd.origin<backward "s">>[unknown])
  %u = nd.neg %s : (!long_stack) -> !long_stack loc(fused<#nd.origin<update "u">>[unknown])
  nd.output "u", %u : !long_stack
}
nd.program @short_stack_for_an_update {
  %a = nd.input "a" : !short_terms
  %b = nd.input "b" : !short_terms
  %p = nd.reduce sum %a : (!short_terms) -> !short loc(fused<#nd.origin<backward "p">>[unknown])
  %q = nd.reduce sum %b : (!short_terms) -> !short loc(fused<#nd.origin<backward "q">>[unknown])
  %s = nd.stack %p, %q along "t" : (!short, !short) -> !short_stack loc(fused<#nd.origin<backward "s">>[unknown])
  %u = nd.neg %s : (!short_stack) -> !short_stack loc(fused<#nd.origin<update "u">>[unknown])
  nd.output "u", %u : !short_stack
}

// -----

// Blocks of a split loop read a window of the dimension: each device gets its
// block and what the window reaches beyond it. With a stride, and where the
// window would be as large as the dimension, which is gathered then. Quotients are
// windows where blocks begin at whole positions: blocks of 4 do by 2, of 5 not.
// CHECK:       !y_by_c = !nd.tensor<["y"=7, "c"=2], f32, <>>
// CHECK-LABEL: nd.program @window
// CHECK:         nd.reshard {{.*}}rule = "window {{.*}} = dy + row - 1 of layout rule {{.*}}", {{.*}}needed = "<y by row@m + [-1, 1]>"{{.*}} : !y_at_m_by_c -> !y_window_at_m_by_c
// CHECK-NEXT:    nd.view {{.*}} : (!y_window_at_m_by_c) -> !row_at_m_by_dy_by_c
// CHECK-LABEL: nd.program @window_of_stride_2
// CHECK:         nd.reshard {{.*}}needed = "<y by 2 row@m + [-1, 1]>"
// CHECK-LABEL: nd.program @window_as_large_as_the_dimension
// CHECK:         nd.reshard {{.*}} : {{.*}} -> !y_by_c
// CHECK-LABEL: nd.program @quotients
// CHECK:         nd.reshard {{.*}}needed = "<y by row@m + [0, 1] / 2>"
// CHECK-LABEL: nd.program @quotients_between_positions
// CHECK:         nd.reshard {{.*}} : {{.*}} -> !y_by_c
nd.mesh ["m"=3]
nd.rule "row -> m"
nd.rule "y -> m"
nd.program @window {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %0 = nd.view %x ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7, "c"=2], f32>) -> !nd.tensor<["row"=7, "dy"=3, "c"=2], f32>
  nd.output "o", %0 : !nd.tensor<["row"=7, "dy"=3, "c"=2], f32>
}
nd.program @window_of_stride_2 {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %0 = nd.view %x ["y" = 2 "row" + "dy" - 1] : (!nd.tensor<["y"=7, "c"=2], f32>) -> !nd.tensor<["row"=4, "dy"=3, "c"=2], f32>
  nd.output "o", %0 : !nd.tensor<["row"=4, "dy"=3, "c"=2], f32>
}
nd.program @window_as_large_as_the_dimension {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %0 = nd.view %x ["y" = "row" + "dy" - 2] : (!nd.tensor<["y"=7, "c"=2], f32>) -> !nd.tensor<["row"=7, "dy"=5, "c"=2], f32>
  nd.output "o", %0 : !nd.tensor<["row"=7, "dy"=5, "c"=2], f32>
}
nd.program @quotients {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %0 = nd.view %x ["y" = ("row" - "dy" + 1) / 2] : (!nd.tensor<["y"=7, "c"=2], f32>) -> !nd.tensor<["row"=12, "dy"=3, "c"=2], f32>
  nd.output "o", %0 : !nd.tensor<["row"=12, "dy"=3, "c"=2], f32>
}
nd.program @quotients_between_positions {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=2], f32>
  %0 = nd.view %x ["y" = ("row" - "dy" + 1) / 2] : (!nd.tensor<["y"=7, "c"=2], f32>) -> !nd.tensor<["row"=13, "dy"=3, "c"=2], f32>
  nd.output "o", %0 : !nd.tensor<["row"=13, "dy"=3, "c"=2], f32>
}

// -----

// Windows go around a ring and backwards. What is read of a dimension that no loop
// splits comes alone, but for readers that together take all of it.
// CHECK-LABEL: nd.program @ring
// CHECK:         nd.reshard {{.*}}needed = "<y by y@m + [-1, 0] % 7>"
// CHECK-LABEL: nd.program @backwards
// CHECK:         nd.reshard {{.*}}needed = "<y by -1 y@m + [6, 6]>"
// CHECK-LABEL: nd.program @few
// CHECK-DAG:     nd.reshard {{.*}}kind = window{{.*}}needed = "<y + [3, 3]>"
// CHECK-DAG:     nd.reshard {{.*}}needed = "<y + [1, 2]>"
// CHECK-LABEL: nd.program @many
// CHECK:         nd.reshard {{.*}}needed = "replicated"
// CHECK-NOT:     nd.reshard
nd.mesh ["m"=3]
nd.rule "y -> m"
nd.program @ring {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32>
  %0 = nd.view %x ["y" = ("y" + "dy" - 1) mod 7] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["y"=7, "dy"=2], f32>
  nd.output "o", %0 : !nd.tensor<["y"=7, "dy"=2], f32>
}
nd.program @backwards {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32>
  %0 = nd.view %x ["y" = -"y" + 6] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["y"=7], f32>
  nd.output "o", %0 : !nd.tensor<["y"=7], f32>
}
nd.program @few {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32>
  %0 = nd.view %x ["y" = 3] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<[], f32>
  %1 = nd.view %x ["y" = "k" + 1] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["k"=2], f32>
  %2 = nd.neg %x : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["y"=7], f32>
  nd.output "o", %0 : !nd.tensor<[], f32>
  nd.output "p", %1 : !nd.tensor<["k"=2], f32>
  nd.output "q", %2 : !nd.tensor<["y"=7], f32>
}
nd.program @many {
  %x = nd.input "x" : !nd.tensor<["y"=7], f32>
  %0 = nd.view %x ["y" = "k"] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["k"=4], f32>
  %1 = nd.view %x ["y" = "k" + 3] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["k"=4], f32>
  nd.output "o", %0 : !nd.tensor<["k"=4], f32>
  nd.output "p", %1 : !nd.tensor<["k"=4], f32>
}

// -----

// Pending sums pass a window, whose zeros outside the dimension are no terms of
// them; pending maxima are completed before it.
// CHECK-LABEL: nd.program @window_of_terms
// CHECK:         %[[P:.*]] = nd.reduce max %{{.*}} -> !y_at_m_max_over_k
// CHECK-NEXT:    nd.reshard %[[P]] {{.*}} -> !y_window_at_m
nd.mesh ["m"=3, "k"=2]
nd.rule "row -> m"
nd.rule "y -> m"
nd.rule "c -> k"
nd.program @window_of_terms {
  %x = nd.input "x" : !nd.tensor<["y"=7, "c"=5], f32>
  %m = nd.reduce max %x : (!nd.tensor<["y"=7, "c"=5], f32>) -> !nd.tensor<["y"=7], f32>
  %0 = nd.view %m ["y" = "row" + "dy" - 1] : (!nd.tensor<["y"=7], f32>) -> !nd.tensor<["row"=7, "dy"=3], f32>
  %1 = nd.reduce max %0 : (!nd.tensor<["row"=7, "dy"=3], f32>) -> !nd.tensor<["row"=7], f32>
  nd.output "o", %1 : !nd.tensor<["row"=7], f32>
}

// -----

// Digits have the axes of the number, and the number those of its digits: a
// device has one head and half of its elements, which are its block of both.
// CHECK-LABEL: nd.program @digits
// CHECK-NEXT:    %[[X:.*]] = nd.input "x" : !h_at_a_by_d_at_c
// CHECK-NEXT:    %[[N:.*]] = nd.view %[[X]] ["d" = "n" mod 4, "h" = floor("n" / 4)] : {{.*}} -> !n_at_a_c
// CHECK-NEXT:    %[[Y:.*]] = nd.view %[[N]] ["n" = "d" + 4 "h"] : {{.*}} -> !h_at_a_by_d_at_c
// CHECK-NEXT:    nd.output "y", %[[Y]] : !h_at_a_by_d_at_c
nd.mesh ["a"=3, "c"=2]
nd.rule "n -> (a, c)"
nd.rule "h -> a"
nd.rule "d -> c"
nd.program @digits {
  %x = nd.input "x" : !nd.tensor<["h"=3, "d"=4], f32>
  %0 = nd.view %x ["d" = "n" mod 4, "h" = floor("n" / 4)] : (!nd.tensor<["h"=3, "d"=4], f32>) -> !nd.tensor<["n"=12], f32>
  %1 = nd.view %0 ["n" = "d" + 4 "h"] : (!nd.tensor<["n"=12], f32>) -> !nd.tensor<["h"=3, "d"=4], f32>
  nd.output "y", %1 : !nd.tensor<["h"=3, "d"=4], f32>
}

// RUN: meshc-opt %s -nd-assign-shardings | FileCheck %s

// What terms travel as where some of a sum are narrower than the sum.

!a = !nd.tensor<["m"=3, "k"=4], bf16>
!b = !nd.tensor<["k"=4, "n"=5], bf16>
!c = !nd.tensor<["k"=4, "l"=5], bf16>
!narrow = !nd.tensor<["m"=3, "n"=5], bf16>
!renamed = !nd.tensor<["m"=3, "l"=5], bf16>
!wide = !nd.tensor<["m"=3, "n"=5], f32>
!wide_renamed = !nd.tensor<["m"=3, "l"=5], f32>
!rows = !nd.tensor<["m"=3], f32>
nd.mesh ["x"=2]
nd.rule "k -> x"

// Three widened contractions, one under another name: added in f32, rounded once,
// completed in bf16.
// CHECK-LABEL: nd.program @added_in_f32
// CHECK-COUNT-2: nd.add {{.*}} -> !m_by_n_sum_over_x
// CHECK:         %[[ROUNDED:.*]] = nd.cast %{{.*}} : (!m_by_n_sum_over_x) -> !m_by_n_bf16_sum_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[ROUNDED]] {{.*}} : !m_by_n_bf16_sum_over_x -> !m_by_n_bf16
// CHECK-NEXT:    %[[WIDE:.*]] = nd.cast %[[WHOLE]] : (!m_by_n_bf16) -> !m_by_n
// CHECK-NEXT:    nd.exp %[[WIDE]]
// CHECK-NEXT:    nd.reduce sum %[[WIDE]]
// CHECK-NOT:     nd.reshard
nd.program @added_in_f32 {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %c = nd.input "c" : !c
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.einsum %a, %c : (!a, !c) -> !renamed
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %r = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %wq = nd.cast %q : (!renamed) -> !wide_renamed
  %wr = nd.cast %r : (!narrow) -> !wide
  %n = nd.rename %wq "l" -> "n" : (!wide_renamed) -> !wide
  %s = nd.add %wp, %n : (!wide, !wide) -> !wide loc(fused<#nd.origin<backward "s">>[unknown])
  %t = nd.add %s, %wr : (!wide, !wide) -> !wide loc(fused<#nd.origin<backward "t">>[unknown])
  %e = nd.exp %t : (!wide) -> !wide
  %u = nd.reduce sum %t : (!wide) -> !rows
  nd.output "e", %e : !wide
  nd.output "u", %u : !rows
}

// Beside a complete value: the two are added first.
// CHECK-LABEL: nd.program @beside_what_is_complete
// CHECK:         %[[SUM:.*]] = nd.add %{{.*}} -> !m_by_n_sum_over_x
// CHECK:         %[[ROUNDED:.*]] = nd.cast %[[SUM]] : (!m_by_n_sum_over_x) -> !m_by_n_bf16_sum_over_x
// CHECK-NEXT:    %[[WHOLE:.*]] = nd.reshard %[[ROUNDED]]
// CHECK-NEXT:    %[[WIDE:.*]] = nd.cast %[[WHOLE]] : (!m_by_n_bf16) -> !m_by_n
// CHECK-NEXT:    nd.add %{{.*}}, %[[WIDE]] : (!m_by_n, !m_by_n) -> !m_by_n
// CHECK-NOT:     nd.reshard
nd.program @beside_what_is_complete {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %w = nd.input "w" : !wide
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %wq = nd.cast %q : (!narrow) -> !wide
  %s = nd.add %w, %wp : (!wide, !wide) -> !wide loc(fused<#nd.origin<backward "s">>[unknown])
  %t = nd.add %s, %wq : (!wide, !wide) -> !wide loc(fused<#nd.origin<backward "t">>[unknown])
  nd.output "t", %t : !wide
}

// In the forward phase the sum travels in f32: what fits there may not fit 16 bits.
// CHECK-LABEL: nd.program @forward
// CHECK:         %[[SUM:.*]] = nd.add %{{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    nd.reshard %[[SUM]] {{.*}} : !m_by_n_sum_over_x -> !m_by_n
// CHECK-NOT:     nd.reshard
nd.program @forward {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %wq = nd.cast %q : (!narrow) -> !wide
  %s = nd.add %wp, %wq : (!wide, !wide) -> !wide
  nd.output "s", %s : !wide
}

// What is stacked or chosen from is no sum: each travels as it is.
// CHECK-LABEL: nd.program @stacked
// CHECK-COUNT-2: nd.reshard %{{.*}} : !m_by_n_bf16_sum_over_x -> !m_by_n_bf16
// CHECK-NOT:     nd.reshard
// CHECK:         nd.stack
nd.program @stacked {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %wq = nd.cast %q : (!narrow) -> !wide
  %s = nd.stack %wp, %wq along "t" : (!wide, !wide) -> !nd.tensor<["t"=2, "m"=3, "n"=5], f32>
  nd.output "s", %s : !nd.tensor<["t"=2, "m"=3, "n"=5], f32>
}

// Alone it travels as it is, before it is widened.
// CHECK-LABEL: nd.program @alone
// CHECK:         %[[WHOLE:.*]] = nd.reshard %{{.*}} : !m_by_n_bf16_sum_over_x -> !m_by_n_bf16
// CHECK-NEXT:    nd.cast %[[WHOLE]] : (!m_by_n_bf16) -> !m_by_n
// CHECK-NOT:     nd.reshard
nd.program @alone {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %w = nd.input "w" : !wide
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %s = nd.add %wp, %w : (!wide, !wide) -> !wide
  nd.output "s", %s : !wide
}

// A term of f32 is rounded for nobody: the sum travels in f32, once.
// CHECK-LABEL: nd.program @with_a_wide_term
// CHECK:         %[[SUM:.*]] = nd.add %{{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    nd.reshard %[[SUM]] {{.*}} : !m_by_n_sum_over_x -> !m_by_n
// CHECK-NOT:     nd.reshard
// CHECK-NOT:     nd.cast
nd.program @with_a_wide_term {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %v = nd.input "v" : !nd.tensor<["m"=3, "n"=5, "k"=4], f32>
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.reduce sum %v : (!nd.tensor<["m"=3, "n"=5, "k"=4], f32>) -> !wide
  %wp = nd.cast %p : (!narrow) -> !wide
  %s = nd.add %wp, %q : (!wide, !wide) -> !wide
  nd.output "s", %s : !wide
}

// A sum in f32 that is rounded afterwards is completed in f32.
// CHECK-LABEL: nd.program @rounded_once
// CHECK:         %[[WHOLE:.*]] = nd.reshard %{{.*}} : !m_by_n_sum_over_x -> !m_by_n
// CHECK-NEXT:    nd.cast %[[WHOLE]] : (!m_by_n) -> !m_by_n_bf16
nd.program @rounded_once {
  %v = nd.input "v" : !nd.tensor<["m"=3, "n"=5, "k"=4], f32>
  %q = nd.reduce sum %v : (!nd.tensor<["m"=3, "n"=5, "k"=4], f32>) -> !wide
  %n = nd.cast %q : (!wide) -> !narrow
  nd.output "n", %n : !narrow
}

// What is read in bf16 too is completed for both readers.
// CHECK-LABEL: nd.program @read_narrow_too
// CHECK:         %[[P:.*]] = nd.reshard %{{.*}} : !m_by_n_bf16_sum_over_x -> !m_by_n_bf16
// CHECK:         nd.cast %[[P]]
// CHECK:         %[[Q:.*]] = nd.reshard %{{.*}} : !m_by_n_bf16_sum_over_x -> !m_by_n_bf16
// CHECK:         nd.mul %[[P]], %[[P]]
// CHECK-NOT:     nd.reshard
nd.program @read_narrow_too {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %q = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wq = nd.cast %q : (!narrow) -> !wide
  %s = nd.add %wp, %wq : (!wide, !wide) -> !wide
  %m = nd.mul %p, %p : (!narrow, !narrow) -> !narrow
  nd.output "s", %s : !wide
  nd.output "m", %m : !narrow
}

// What an update reads is rounded for nobody.
// CHECK-LABEL: nd.program @for_the_update
// CHECK:         %[[SUM:.*]] = nd.add %{{.*}} -> !m_by_n_sum_over_x
// CHECK-NEXT:    nd.reshard %[[SUM]] {{.*}} : !m_by_n_sum_over_x -> !m_by_n
// CHECK-NOT:     nd.reshard
nd.program @for_the_update {
  %a = nd.input "a" : !a
  %b = nd.input "b" : !b
  %bb = nd.mul %b, %b : (!b, !b) -> !b
  %p = nd.einsum %a, %b : (!a, !b) -> !narrow
  %q = nd.einsum %a, %bb : (!a, !b) -> !narrow
  %wp = nd.cast %p : (!narrow) -> !wide
  %wq = nd.cast %q : (!narrow) -> !wide
  %s = nd.add %wp, %wq : (!wide, !wide) -> !wide loc(fused<#nd.origin<backward "s">>[unknown])
  %u = nd.neg %s : (!wide) -> !wide loc(fused<#nd.origin<update "u">>[unknown])
  nd.output "u", %u : !wide
}

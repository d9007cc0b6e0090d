// RUN: meshc-opt %s -split-input-file -nd-shrink-residuals | FileCheck %s

!rc = !nd.tensor<["row"=2, "col"=3], f32>
!r = !nd.tensor<["row"=2], f32>

// The backward phase reads p s for e; the forward phase still reads e.
// CHECK-LABEL: nd.program @softmax
// CHECK:         %[[E:.*]] = nd.exp
// CHECK:         %[[S:.*]] = nd.reduce sum %[[E]]
// CHECK:         %[[P:.*]] = nd.div %[[E]], %[[S]]
// CHECK:         nd.neg %[[E]]
// CHECK:         %[[AGAIN:.*]] = nd.mul %[[P]], %[[S]]
// CHECK:         nd.mul %[[AGAIN]], %[[AGAIN]]
// CHECK:         nd.neg %[[AGAIN]]
module {
  nd.program @softmax {
    %x = nd.input "x" : !rc
    %e = nd.exp %x : (!rc) -> !rc
    %s = nd.reduce sum %e : (!rc) -> !r
    %p = nd.div %e, %s : (!rc, !r) -> !rc
    %f = nd.neg %e : (!rc) -> !rc
    %g = nd.mul %e, %e : (!rc, !rc) -> !rc loc(fused<#nd.origin<backward "g">>[unknown])
    %h = nd.neg %e : (!rc) -> !rc loc(fused<#nd.origin<backward "h">>[unknown])
    nd.output "p", %p : !rc
    nd.output "f", %f : !rc
    nd.output "g", %g : !rc
    nd.output "h", %h : !rc
  }
}

// -----

// The quotient is read behind the constraint that alone reads it.
// CHECK-LABEL: nd.program @constrained
// CHECK:         %[[S:.*]] = nd.reduce sum
// CHECK:         %[[P:.*]] = nd.div %{{.*}}, %[[S]]
// CHECK:         %[[R:.*]] = nd.reshard %[[P]]
// CHECK:         %[[AGAIN:.*]] = nd.mul %[[R]], %[[S]]
// CHECK:         nd.neg %[[AGAIN]]
!rc = !nd.tensor<["row"=2, "col"=3], f32>
!r = !nd.tensor<["row"=2], f32>
!lies = !nd.tensor<["row"=2, "col"=3], f32, <"row"@x>>
module {
  nd.mesh ["x"=2]
  nd.program @constrained {
    %x = nd.input "x" : !rc
    %e = nd.exp %x : (!rc) -> !rc
    %s = nd.reduce sum %e : (!rc) -> !r
    %p = nd.div %e, %s : (!rc, !r) -> !rc
    %l = nd.reshard %p : !rc -> !lies
    %h = nd.neg %e : (!rc) -> !rc loc(fused<#nd.origin<backward "h">>[unknown])
    nd.output "p", %l : !lies
    nd.output "h", %h : !rc
  }
}

// -----

!rc = !nd.tensor<["row"=2, "col"=3], f32>
!r = !nd.tensor<["row"=2], f32>

// A maximum is no sum, a root no exponential: their products with the quotient
// may be 0 times infinity where the dividend is finite.
// CHECK-LABEL: nd.program @not_softmax
// CHECK:         %[[E:.*]] = nd.exp
// CHECK:         %[[ROOT:.*]] = nd.sqrt
// CHECK:         nd.mul %[[E]], %[[ROOT]]
module {
  nd.program @not_softmax {
    %x = nd.input "x" : !rc
    %e = nd.exp %x : (!rc) -> !rc
    %m = nd.reduce max %e : (!rc) -> !r
    %p = nd.div %e, %m : (!rc, !r) -> !rc
    %root = nd.sqrt %x : (!rc) -> !rc
    %s = nd.reduce sum %root : (!rc) -> !r
    %q = nd.div %root, %s : (!rc, !r) -> !rc
    %g = nd.mul %e, %root : (!rc, !rc) -> !rc loc(fused<#nd.origin<backward "g">>[unknown])
    nd.output "p", %p : !rc
    nd.output "q", %q : !rc
    nd.output "g", %g : !rc
  }
}

// -----

!rc = !nd.tensor<["row"=2, "col"=3], f32>
!rc16 = !nd.tensor<["row"=2, "col"=3], bf16>
!rr16 = !nd.tensor<["row"=2], bf16>

// The product keeps 16 bits of h, so the negation reads these; of g nothing is
// kept in 16 bits; the parameter stays in any case.
// CHECK-LABEL: nd.program @rounded
// CHECK:         %[[W:.*]] = nd.read @w
// CHECK:         %[[H:.*]] = nd.exp
// CHECK:         %[[H16:.*]] = nd.cast %[[H]]
// CHECK:         %[[G:.*]] = nd.tanh
// CHECK:         nd.neg %[[H]]
// CHECK:         nd.einsum %[[H16]]
// CHECK:         %[[WIDE:.*]] = nd.cast %[[H16]] : (!row_by_col_bf16) -> !row_by_col
// CHECK:         nd.neg %[[WIDE]]
// CHECK:         nd.neg %[[G]]
// CHECK:         nd.neg %[[W]]
module {
  nd.variable parameter @w : !rc = #nd.fill<1.0>
  nd.program @rounded {
    %x = nd.input "x" : !rc
    %w = nd.read @w : !rc
    %w16 = nd.cast %w : (!rc) -> !rc16
    %h = nd.exp %x : (!rc) -> !rc
    %h16 = nd.cast %h : (!rc) -> !rc16
    %g = nd.tanh %x : (!rc) -> !rc
    %g16 = nd.cast %g : (!rc) -> !rc16
    %forward = nd.neg %h : (!rc) -> !rc
    %product = nd.einsum %h16, %w16 : (!rc16, !rc16) -> !rr16 loc(fused<#nd.origin<backward "product">>[unknown])
    %a = nd.neg %h : (!rc) -> !rc loc(fused<#nd.origin<backward "a">>[unknown])
    %b = nd.neg %g : (!rc) -> !rc loc(fused<#nd.origin<backward "b">>[unknown])
    %c = nd.neg %w : (!rc) -> !rc loc(fused<#nd.origin<backward "c">>[unknown])
    nd.output "forward", %forward : !rc
    nd.output "product", %product : !rr16
    nd.output "g16", %g16 : !rc16
    nd.output "a", %a : !rc
    nd.output "b", %b : !rc
    nd.output "c", %c : !rc
  }
}

// RUN: meshc-opt %s -exec-form-steps | FileCheck %s
// RUN: meshc-opt %s "-exec-form-steps=library=cublaslt" | FileCheck %s

// A put is a step of its own, behind the kernels that compute what it adds up.
nd.mesh ["d"=2]

// CHECK-DAG:   #[[INPUT:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG:   #[[INDEX:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG:   #[[SUM:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: exec.program @put {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK-NEXT:    %[[I:.*]] = spmd.input "i"
// CHECK-NEXT:    %[[TWICE:.*]] = exec.kernel(%[[X]])
// CHECK:         %[[Y:.*]] = exec.put %[[TWICE]][%[[I]]] {indexing_maps = [#[[INPUT]], #[[INDEX]], #[[SUM]]]} : tensor<7x3xbf16>, tensor<7xi32> -> tensor<5x3xf32>
// CHECK-NEXT:    spmd.output "y" of {{.*}}, %[[Y]]
spmd.program @put {
  %x = spmd.input "x" of !nd.tensor<["t"=7, "c"=3], bf16, <>> : tensor<7x3xbf16>
  %i = spmd.input "i" of !nd.tensor<["t"=7], i32, <>> : tensor<7xi32>
  %empty = tensor.empty() : tensor<7x3xbf16>
  %twice = linalg.generic {indexing_maps = [affine_map<(t, c) -> (t, c)>,
                                            affine_map<(t, c) -> (t, c)>],
                           iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<7x3xbf16>) outs(%empty : tensor<7x3xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    %s = arith.addf %a, %a : bf16
    linalg.yield %s : bf16
  } -> tensor<7x3xbf16>
  %y = spmd.put %twice[%i] {indexing_maps = [affine_map<(v, c, t) -> (t, c)>,
      affine_map<(v, c, t) -> (t)>, affine_map<(v, c, t) -> (v, c)>]}
      : tensor<7x3xbf16>, tensor<7xi32> -> tensor<5x3xf32>
  spmd.output "y" of !nd.tensor<["v"=5, "c"=3], f32, <>>, %y : tensor<5x3xf32>
}

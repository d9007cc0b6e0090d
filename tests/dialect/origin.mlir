// RUN: meshc-opt %s | meshc-opt | FileCheck %s

// What an operation is for, from every field of it; what has no name has a phase at most.
// CHECK: nd.origins = [
// CHECK-SAME: #nd.origin<"h">,
// CHECK-SAME: #nd.origin<"layer"[3]/"attn"/"scores">,
// CHECK-SAME: #nd.origin<inside "outer"[0]/"inner"[12]/"sum">,
// CHECK-SAME: #nd.origin<backward inside gradient "b1"/"h">,
// CHECK-SAME: #nd.origin<copy "h">,
// CHECK-SAME: #nd.origin<padded "h">,
// CHECK-SAME: #nd.origin<backward sums gradient "w">,
// CHECK-SAME: #nd.origin<update gathered "w" as "bf16">,
// CHECK-SAME: #nd.origin<order "w">,
// CHECK-SAME: #nd.origin<update updated "w">,
// CHECK-SAME: #nd.origin<update state "adam/m" of "layer"/"w">,
// CHECK-SAME: #nd.origin<"w" as "bf16">,
// CHECK-SAME: #nd.origin<backward>,
// CHECK-SAME: #nd.scope<"layer"[3]/"attn">,
// CHECK-SAME: #nd.scope<"layer"[3]>
module attributes {nd.origins = [
  #nd.origin<"h">,
  #nd.origin<"layer"[3]/"attn"/"scores">,
  #nd.origin<inside "outer"[0]/"inner"[12]/"sum">,
  #nd.origin<backward inside gradient "b1"/"h">,
  #nd.origin<copy "h">,
  #nd.origin<padded "h">,
  #nd.origin<backward sums gradient "w">,
  #nd.origin<update gathered "w" as "bf16">,
  #nd.origin<order "w">,
  #nd.origin<update updated "w">,
  #nd.origin<update state "adam/m" of "layer"/"w">,
  #nd.origin<"w" as "bf16">,
  #nd.origin<backward>,
  #nd.scope<"layer"[3]/"attn">,
  #nd.scope<"layer"[3]>
]} {}

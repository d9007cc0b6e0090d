// RUN: meshc-opt %s -exec-pad-matmuls | FileCheck %s
// RUN: meshc-opt %s -exec-pad-matmuls -exec-form-steps=library=cublaslt | FileCheck %s --check-prefix=STEPS
// RUN: meshc-opt %s -exec-pad-matmuls=multiple=16 | FileCheck %s --check-prefix=SIXTEEN
// RUN: meshc-opt %s "-exec-pad-matmuls=multiple=8 always=true" | FileCheck %s --check-prefix=ALWAYS
// RUN: meshc-opt %s -exec-pad-matmuls=multiple=1 | FileCheck %s --check-prefix=ANY --implicit-check-not=spmd.view

#left = affine_map<(r, c, k) -> (r, k)>
#right = affine_map<(r, c, k) -> (k, c)>
#across = affine_map<(r, c, k) -> (c, k)>
#result = affine_map<(r, c, k) -> (r, c)>
#whole = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
nd.mesh ["m"=1] machine "h200"

// Words that are odd in number: what is converted is padded where it is read, the
// library rounds its result before anything is left out of that, and what gathers
// reads the longer one.
// CHECK-LABEL: spmd.program @words {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK:         %[[PADDED:.*]] = spmd.view %[[W]] ["d0" = "d0'"] {{.*}} : tensor<517x512xf32> -> tensor<520x512xf32>
// CHECK:         %[[NARROW:.*]] = linalg.generic {{.*}} ins(%[[PADDED]] : tensor<520x512xf32>) outs(%{{.*}} : tensor<520x512xbf16>)
// CHECK:         %[[PRODUCT:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[NARROW]] : tensor<8192x512xbf16>, tensor<520x512xbf16>) outs(%{{.*}} : tensor<8192x520xf32>)
// CHECK:         %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]] : tensor<8192x520xf32>) outs(%{{.*}} : tensor<8192x520xbf16>)
// CHECK:         %[[KEPT:.*]] = spmd.view %[[ROUNDED]] ["d1" = "d1'"] {{.*}} : tensor<8192x520xbf16> -> tensor<8192x517xbf16>
// CHECK:         tensor.extract %[[ROUNDED]]
// CHECK:         spmd.output "y" of {{.*}}, %[[KEPT]]
// STEPS-LABEL: exec.program @words {
// STEPS:         exec.matmul {{.*}} : tensor<8192x512xbf16>, tensor<520x512xbf16> -> tensor<8192x520xbf16>
// SIXTEEN-LABEL: spmd.program @words {
// SIXTEEN:       linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8192x512xbf16>, tensor<528x512xbf16>)
// ANY-LABEL: spmd.program @words {
// ANY:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8192x512xbf16>, tensor<517x512xbf16>)
spmd.program @words {
  %x = spmd.input "x" of !nd.tensor<["r"=8192, "k"=512], bf16, <>> : tensor<8192x512xbf16>
  %w = spmd.input "w" of !nd.tensor<["c"=517, "k"=512], f32, <>> : tensor<517x512xf32>
  %label = spmd.input "label" of !nd.tensor<["r"=8192], i32, <>> : tensor<8192xi32>
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<517x512xbf16>
  %n = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<517x512xf32>) outs(%e0 : tensor<517x512xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<517x512xbf16>
  %e1 = tensor.empty() : tensor<8192x517xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8192x517xf32>) -> tensor<8192x517xf32>
  %p = linalg.generic {indexing_maps = [#left, #across, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %n : tensor<8192x512xbf16>, tensor<517x512xbf16>)
      outs(%f1 : tensor<8192x517xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<8192x517xf32>
  %e2 = tensor.empty() : tensor<8192x517xbf16>
  %y = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<8192x517xf32>) outs(%e2 : tensor<8192x517xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<8192x517xbf16>
  %e3 = tensor.empty() : tensor<8192xbf16>
  %z = linalg.generic {indexing_maps = [affine_map<(r) -> (r)>, affine_map<(r) -> (r)>],
                       iterator_types = ["parallel"]}
      ins(%label : tensor<8192xi32>) outs(%e3 : tensor<8192xbf16>) {
  ^bb0(%l: i32, %o: bf16):
    %i = linalg.index 0 : index
    %j = arith.index_cast %l : i32 to index
    %r = tensor.extract %y[%i, %j] : tensor<8192x517xbf16>
    linalg.yield %r : bf16
  } -> tensor<8192xbf16>
  spmd.output "y" of !nd.tensor<["r"=8192, "c"=517], bf16, <>>, %y : tensor<8192x517xbf16>
  spmd.output "z" of !nd.tensor<["r"=8192], bf16, <>>, %z : tensor<8192xbf16>
}

// What is summed along odd numbers is padded in both factors, once for two readers;
// the result stays. What is odd in the result is left out.
// CHECK-LABEL: spmd.program @gradients {
// CHECK:         %[[G:.*]] = spmd.input "g"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[LONG:.*]] = spmd.view %[[G]] ["d1" = "d1'"]
// CHECK:         %[[WORDS:.*]] = spmd.view %[[W]] ["d0" = "d0'"]
// CHECK:         %[[DX:.*]] = linalg.generic {{.*}} ins(%[[LONG]], %[[WORDS]] : tensor<8192x520xbf16>, tensor<520x512xbf16>) outs(%{{.*}} : tensor<8192x512xf32>)
// CHECK-NOT:     spmd.view
// CHECK:         %[[DW:.*]] = linalg.generic {{.*}} ins(%[[LONG]], %[[X]] : tensor<8192x520xbf16>, tensor<8192x512xbf16>) outs(%{{.*}} : tensor<520x512xf32>)
// CHECK:         %[[KEPT:.*]] = spmd.view %[[DW]] ["d0" = "d0'"]
// CHECK:         spmd.output "dx" of {{.*}}, %[[DX]]
// CHECK:         spmd.output "dw" of {{.*}}, %[[KEPT]]
// The part of a gradient lies where it is.
// STEPS-LABEL: exec.program @gradients {
// STEPS:         %[[DW:.*]] = exec.matmul {{.*}} -> tensor<520x512xf32>
// STEPS:         exec.slice %[[DW]] at 0 : tensor<520x512xf32> -> tensor<517x512xf32>
spmd.program @gradients {
  %g = spmd.input "g" of !nd.tensor<["r"=8192, "c"=517], bf16, <>> : tensor<8192x517xbf16>
  %w = spmd.input "w" of !nd.tensor<["c"=517, "k"=512], bf16, <>> : tensor<517x512xbf16>
  %x = spmd.input "x" of !nd.tensor<["r"=8192, "k"=512], bf16, <>> : tensor<8192x512xbf16>
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8192x512xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8192x512xf32>) -> tensor<8192x512xf32>
  %dx = linalg.generic {indexing_maps = [#left, #right, #result],
                        iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%g, %w : tensor<8192x517xbf16>, tensor<517x512xbf16>)
      outs(%f0 : tensor<8192x512xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<8192x512xf32>
  %e1 = tensor.empty() : tensor<517x512xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<517x512xf32>) -> tensor<517x512xf32>
  %dw = linalg.generic {indexing_maps = [affine_map<(c, k, r) -> (r, c)>,
                                         affine_map<(c, k, r) -> (r, k)>,
                                         affine_map<(c, k, r) -> (c, k)>],
                        iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%g, %x : tensor<8192x517xbf16>, tensor<8192x512xbf16>)
      outs(%f1 : tensor<517x512xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<517x512xf32>
  spmd.output "dx" of !nd.tensor<["r"=8192, "k"=512], f32, <>>, %dx : tensor<8192x512xf32>
  spmd.output "dw" of !nd.tensor<["c"=517, "k"=512], f32, <>>, %dw : tensor<517x512xf32>
}

// A factor that a loop captures is padded ahead of it, once for all iterations.
// CHECK-LABEL: spmd.program @tiles {
// CHECK:         %[[X:.*]] = spmd.input "x"
// CHECK:         %[[W:.*]] = spmd.input "w"
// CHECK:         %[[PADDED:.*]] = spmd.view %[[W]] ["d1" = "d1'"]
// CHECK:         exec.loop "tile" x 4 slices(%[[X]]) captures(%[[PADDED]]) {
// CHECK-NEXT:    ^bb0(%[[ROWS:.*]]: tensor<8192x512xbf16>, %[[INSIDE:.*]]: tensor<512x520xbf16>):
// CHECK:           %[[Y:.*]] = linalg.generic {{.*}} ins(%[[ROWS]], %[[INSIDE]] : tensor<8192x512xbf16>, tensor<512x520xbf16>)
// CHECK:           %[[KEPT:.*]] = spmd.view %[[Y]]
// CHECK:           exec.yield %[[KEPT]]
spmd.program @tiles {
  %x = spmd.input "x" of !nd.tensor<["r"=32768, "k"=512], bf16, <>> : tensor<32768x512xbf16>
  %w = spmd.input "w" of !nd.tensor<["k"=512, "c"=517], bf16, <>> : tensor<512x517xbf16>
  %y = exec.loop "tile" x 4 slices(%x) captures(%w) {
  ^bb0(%t: tensor<8192x512xbf16>, %v: tensor<512x517xbf16>):
    %zero = arith.constant 0.0 : f32
    %e0 = tensor.empty() : tensor<8192x517xf32>
    %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8192x517xf32>) -> tensor<8192x517xf32>
    %p = linalg.generic {indexing_maps = [#left, #right, #result],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%t, %v : tensor<8192x512xbf16>, tensor<512x517xbf16>)
        outs(%f0 : tensor<8192x517xf32>) {
    ^bb0(%a: bf16, %b: bf16, %o: f32):
      %aa = arith.extf %a : bf16 to f32
      %bb = arith.extf %b : bf16 to f32
      %m = arith.mulf %aa, %bb : f32
      %r = arith.addf %o, %m : f32
      linalg.yield %r : f32
    } -> tensor<8192x517xf32>
    exec.yield %p : tensor<8192x517xf32>
  } : (tensor<32768x512xbf16>, tensor<512x517xbf16>) -> tensor<32768x517xf32>
  spmd.output "y" of !nd.tensor<["r"=32768, "c"=517], f32, <>>, %y : tensor<32768x517xf32>
}

// What kernels compute on the way to 16 bits is padded in 16 bits: they would write it as
// f32 else.
// CHECK-LABEL: spmd.program @computed {
// CHECK:         %[[NARROW:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<512x517xbf16>)
// CHECK:         spmd.view %[[NARROW]] ["d1" = "d1'"] {{.*}} : tensor<512x517xbf16> -> tensor<512x520xbf16>
spmd.program @computed {
  %x = spmd.input "x" of !nd.tensor<["r"=8192, "k"=512], bf16, <>> : tensor<8192x512xbf16>
  %w = spmd.input "w" of !nd.tensor<["k"=512, "c"=517], f32, <>> : tensor<512x517xf32>
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<512x517xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<512x517xf32>) outs(%e0 : tensor<512x517xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<512x517xf32>
  %e1 = tensor.empty() : tensor<512x517xbf16>
  %n = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<512x517xf32>) outs(%e1 : tensor<512x517xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = arith.truncf %a : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<512x517xbf16>
  %e2 = tensor.empty() : tensor<8192x517xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<8192x517xf32>) -> tensor<8192x517xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %n : tensor<8192x512xbf16>, tensor<512x517xbf16>)
      outs(%f2 : tensor<8192x517xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<8192x517xf32>
  spmd.output "y" of !nd.tensor<["r"=8192, "c"=517], f32, <>>, %y : tensor<8192x517xf32>
}

// Few terms take less time than copies of what is longer; the library is as fast
// with factors of f32; a size of two loops may be one for it.
// CHECK-LABEL: spmd.program @others {
// CHECK-NOT:     spmd.view
// ALWAYS-LABEL: spmd.program @others {
// ALWAYS:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8192x64xbf16>, tensor<64x520xbf16>)
// ALWAYS:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8192x512xf32>, tensor<512x517xf32>)
// ALWAYS:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<33x257x512xbf16>, tensor<512x512xbf16>)
spmd.program @others {
  %x = spmd.input "x" of !nd.tensor<["r"=8192, "k"=64], bf16, <>> : tensor<8192x64xbf16>
  %w = spmd.input "w" of !nd.tensor<["k"=64, "c"=517], bf16, <>> : tensor<64x517xbf16>
  %u = spmd.input "u" of !nd.tensor<["r"=8192, "k"=512], f32, <>> : tensor<8192x512xf32>
  %v = spmd.input "v" of !nd.tensor<["k"=512, "c"=517], f32, <>> : tensor<512x517xf32>
  %s = spmd.input "s" of !nd.tensor<["a"=33, "b"=257, "k"=512], bf16, <>> : tensor<33x257x512xbf16>
  %t = spmd.input "t" of !nd.tensor<["k"=512, "c"=512], bf16, <>> : tensor<512x512xbf16>
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8192x517xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8192x517xf32>) -> tensor<8192x517xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8192x64xbf16>, tensor<64x517xbf16>)
      outs(%f0 : tensor<8192x517xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<8192x517xf32>
  %z = linalg.generic {indexing_maps = [#left, #right, #result],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%u, %v : tensor<8192x512xf32>, tensor<512x517xf32>)
      outs(%f0 : tensor<8192x517xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<8192x517xf32>
  %e1 = tensor.empty() : tensor<33x257x512xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<33x257x512xf32>) -> tensor<33x257x512xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(a, b, c, k) -> (a, b, k)>,
                                        affine_map<(a, b, c, k) -> (k, c)>,
                                        affine_map<(a, b, c, k) -> (a, b, c)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%s, %t : tensor<33x257x512xbf16>, tensor<512x512xbf16>)
      outs(%f1 : tensor<33x257x512xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %aa = arith.extf %a : bf16 to f32
    %bb = arith.extf %b : bf16 to f32
    %m = arith.mulf %aa, %bb : f32
    %r = arith.addf %o, %m : f32
    linalg.yield %r : f32
  } -> tensor<33x257x512xf32>
  spmd.output "y" of !nd.tensor<["r"=8192, "c"=517], f32, <>>, %y : tensor<8192x517xf32>
  spmd.output "z" of !nd.tensor<["r"=8192, "c"=517], f32, <>>, %z : tensor<8192x517xf32>
  spmd.output "q" of !nd.tensor<["a"=33, "b"=257, "c"=512], f32, <>>, %q : tensor<33x257x512xf32>
}

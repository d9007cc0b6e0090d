// RUN: meshc-opt %s -exec-group-kernels -verify-diagnostics

#a = affine_map<(a) -> (a)>

nd.mesh ["d"=1]

exec.program @lengths {
  %x = spmd.input "x" of !nd.tensor<["a"=6], f32, <>> : tensor<6xf32>
  %y = spmd.input "y" of !nd.tensor<["b"=5], f32, <>> : tensor<5xf32>
  // expected-error @below {{the operations of a kernel do not fit one loop nest}}
  %0:2 = exec.kernel(%x, %y) {
  ^bb0(%p: tensor<6xf32>, %q: tensor<5xf32>):
    %long = tensor.empty() : tensor<6xf32>
    %r = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%p : tensor<6xf32>) outs(%long : tensor<6xf32>) {
    ^bb0(%e: f32, %o: f32):
      %v = math.exp %e : f32
      linalg.yield %v : f32
    } -> tensor<6xf32>
    %short = tensor.empty() : tensor<5xf32>
    %s = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel"]}
        ins(%q : tensor<5xf32>) outs(%short : tensor<5xf32>) {
    ^bb0(%e: f32, %o: f32):
      %v = math.exp %e : f32
      linalg.yield %v : f32
    } -> tensor<5xf32>
    exec.yield %r, %s : tensor<6xf32>, tensor<5xf32>
  } : (tensor<6xf32>, tensor<5xf32>) -> (tensor<6xf32>, tensor<5xf32>)
  spmd.output "x" of !nd.tensor<["a"=6], f32, <>>, %0#0 : tensor<6xf32>
  spmd.output "y" of !nd.tensor<["b"=5], f32, <>>, %0#1 : tensor<5xf32>
}

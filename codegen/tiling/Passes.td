// What is done to one device's program before its steps are formed.

#ifndef MESHC_CODEGEN_TILING_PASSES
#define MESHC_CODEGEN_TILING_PASSES

include "mlir/Pass/PassBase.td"

def TileValues : Pass<"exec-tile-values", "::mlir::ModuleOp"> {
  let summary = "Computes large values a tile at a time";
  let description = [{
    Large values, of 16 tiles and more, that operations of a device pass among
    themselves alone, such as attention's scores and weights, are computed a tile
    at a time, in loops: what goes in and out is small, and no more than a tile of
    the others is in memory (codegen/tiling/README.md).

    Needs:  programs as spmd-partition leaves them.
    Leaves: an exec.loop, of such operations, in the place of each group of them.

    Before:
    ```mlir
    nd.mesh ["d"=1]
    spmd.program @p {
      %q = spmd.input "q" of !nd.tensor<["p"=128, "d"=2], f32, <>> : tensor<128x2xf32>
      %k = spmd.input "k" of !nd.tensor<["k"=16, "d"=2], f32, <>> : tensor<16x2xf32>
      %zero = arith.constant 0.0 : f32
      %e0 = tensor.empty() : tensor<128x16xf32>
      %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<128x16xf32>) -> tensor<128x16xf32>
      %s = linalg.generic {indexing_maps = [affine_map<(p, k, d) -> (p, d)>,
                                            affine_map<(p, k, d) -> (k, d)>,
                                            affine_map<(p, k, d) -> (p, k)>],
                           iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%q, %k : tensor<128x2xf32>, tensor<16x2xf32>) outs(%f0 : tensor<128x16xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %m = arith.mulf %a, %b : f32
        %r = arith.addf %o, %m : f32
        linalg.yield %r : f32
      } -> tensor<128x16xf32>
      %e1 = tensor.empty() : tensor<128xf32>
      %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<128xf32>) -> tensor<128xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(p, k) -> (p, k)>,
                                            affine_map<(p, k) -> (p)>],
                           iterator_types = ["parallel", "reduction"]}
          ins(%s : tensor<128x16xf32>) outs(%f1 : tensor<128xf32>) {
      ^bb0(%a: f32, %o: f32):
        %e = math.exp %a : f32
        %r = arith.addf %o, %e : f32
        linalg.yield %r : f32
      } -> tensor<128xf32>
      spmd.output "y" of !nd.tensor<["p"=128], f32, <>>, %y : tensor<128xf32>
    }
    ```
    After, with `tile-bytes=512`:
    ```mlir
    nd.mesh ["d"=1]
    spmd.program @p {
      %q = spmd.input "q" of !nd.tensor<["p"=128, "d"=2], f32, <>> : tensor<128x2xf32>
      %k = spmd.input "k" of !nd.tensor<["k"=16, "d"=2], f32, <>> : tensor<16x2xf32>
      %y = exec.loop "tile" x 4 slices(%q) captures(%k) {
      ^bb0(%t: tensor<32x2xf32>, %c: tensor<16x2xf32>):
        %zero = arith.constant 0.0 : f32
        %e0 = tensor.empty() : tensor<32x16xf32>
        %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<32x16xf32>) -> tensor<32x16xf32>
        %s = linalg.generic {indexing_maps = [#rows, #keys, #pairs],
                             iterator_types = ["parallel", "parallel", "reduction"]}
            ins(%t, %c : tensor<32x2xf32>, tensor<16x2xf32>) outs(%f0 : tensor<32x16xf32>) {
        ^bb0(%a: f32, %b: f32, %o: f32):
          %m = arith.mulf %a, %b : f32
          %r = arith.addf %o, %m : f32
          linalg.yield %r : f32
        } -> tensor<32x16xf32>
        %none = arith.constant 0.0 : f32
        %e1 = tensor.empty() : tensor<32xf32>
        %f1 = linalg.fill ins(%none : f32) outs(%e1 : tensor<32xf32>) -> tensor<32xf32>
        %sums = linalg.generic {indexing_maps = [#whole, #row],
                             iterator_types = ["parallel", "reduction"]}
            ins(%s : tensor<32x16xf32>) outs(%f1 : tensor<32xf32>) {
        ^bb0(%a: f32, %o: f32):
          %e = math.exp %a : f32
          %r = arith.addf %o, %e : f32
          linalg.yield %r : f32
        } -> tensor<32xf32>
        exec.yield %sums : tensor<32xf32>
      } : (tensor<128x2xf32>, tensor<16x2xf32>) -> tensor<128xf32>
      spmd.output "y" of !nd.tensor<["p"=128], f32, <>>, %y : tensor<128xf32>
    }
    ```
  }];
  let options = [
    Option<"tileBytes", "tile-bytes", "int64_t", "4194304",
           "bytes of a large value at a time, about">,
  ];
  let dependentDialects = ["::meshc::steps::ExecDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif

#ifndef MESHC_RUNTIME_CPU_MATMUL_H
#define MESHC_RUNTIME_CPU_MATMUL_H

/// Matrix products on strided views, prepared at load time.
///
/// A product c[batch.., m, n] (+)= activation(a b + bias) is first brought to
/// few dimensions: batch dimensions that are contiguous with one another, with
/// m or with n are merged. f32 then goes to oneDNN in place, through at most
/// two batch dimensions; batch dimensions beyond those, or which push oneDNN
/// off its fast paths, become a loop around it. So do 16-bit floats where the
/// library has fast kernels for them on this processor; where it has not, they
/// are multiplied as f32, block by block (TiledMatmul.h). Their products are
/// added up in f32 either way. What oneDNN has only its reference
/// implementation for otherwise (f64, integers, views without a unit stride)
/// goes to the blocked loops of BlockedMatmul.h.
/// A contracted dimension that is long is several products whose results are
/// added up in blocks (TiledMatmul.h).
///
/// A product is cut into pieces that different threads may run. The cut depends
/// on the shape and on the number given as `pieces`, never on the number of
/// threads that run, so results are the same bits on any number of threads.

#include "runtime/exec/Error.h"
#include "runtime/exec/MatmulShape.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace meshc::runtime {

struct MatmulOperands {
  const void *a = nullptr;
  const void *b = nullptr;
  void *c = nullptr;
  const void *bias = nullptr; ///< null where the shape has none
};

/// A product ready to run.
class Matmul {
public:
  virtual ~Matmul() = default;

  /// Prepares a product for `workers` threads, cut into about `pieces` pieces.
  /// Errors: ErrorCode::Internal where oneDNN refuses a product it should have.
  static Result<std::unique_ptr<Matmul>> create(const MatmulShape &shape,
                                                int64_t pieces, int workers);

  virtual int64_t getNumPieces() const = 0;
  /// Bytes of scratch memory, 64-byte aligned, that run() needs.
  virtual uint64_t getScratchBytes() const = 0;
  /// Runs piece `piece` on the calling thread, which is number `worker`; no two
  /// threads may use one number at once.
  virtual Status run(int64_t piece, const MatmulOperands &operands, int worker,
                     void *scratch) = 0;
  /// Which implementation: "brg:avx512_core", "gemm:jit", "blocked",
  /// "widened", ...
  virtual const char *getImplementation() const = 0;
};

/// Makes oneDNN use the calling thread alone for what this thread creates and
/// runs: threads are the executor's business.
void useOneMatmulThread();

/// Where operands should start for oneDNN's sake, in bytes behind a multiple of
/// 64. Its kernels without AVX-512 read the right operand in place if it is
/// aligned to 32 bytes, at a stride of whole rows, and pack it if it is not.
///
/// Source: 256x512x2048, row-major, one thread of an AMD EPYC (Zen 3), oneDNN
/// 2.6.3: 63 GFLOP/s aligned, 88 with the right operand moved by 16 bytes;
/// moving the other operands changes nothing.
uint64_t getMatmulSkew();

} // namespace meshc::runtime

#endif

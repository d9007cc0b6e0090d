#ifndef MESHC_RUNTIME_CPU_CONVOLUTION_H
#define MESHC_RUNTIME_CPU_CONVOLUTION_H

/// Convolutions by oneDNN, prepared at load time.
///
/// The library is fast where channels are last in dense tensors and it chooses
/// the order of the weights itself. So weights are always reordered, which
/// costs little, and source and destination where their channels are not last,
/// or where a part of the source is not used.
///
/// bf16 goes to the library as copies in f32, which a result is rounded from.
/// Source: 64 channels, 3x3, 32x32, one thread of a Xeon with AVX512_BF16,
/// oneDNN 2.6.3: 85 to 90 GFLOP/s in bf16, 130 to 175 in f32.
///
/// A convolution is cut into pieces that different threads may run: of the
/// batch, or of the outputs where weights are computed, which are sums over the
/// batch. The cut depends on the sizes and on the number given as `pieces`,
/// never on the number of threads that run, so results are the same bits on any
/// number of threads. A batch of one image is one piece.
///
/// Weights are sums over the batch and all positions of the destination, which
/// the library adds up almost one after the other. So it is called for as many
/// images, or rows of one image, as have `longestConvolution` positions, and
/// these sums are added up in blocks (SumBlock.h).

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"

#include <cstdint>
#include <memory>

namespace meshc::runtime {

/// Positions of the destination of one call that computes weights. A call for
/// 1024 takes as long for each as one for 16384.
/// Source: error of sums of 0.1f with oneDNN 2.6.3 ("jit:avx512_core"), in
/// units of 2^-24: 1085 of 8192 positions, 2589 of 16384.
inline constexpr int64_t longestConvolution = 1024;

/// Element types of a convolution's operands: f32, or bf16, whose products add
/// up in f32.
struct ConvolutionElements {
  exec::ElementType factor = exec::ElementType::f32; ///< of both that are given
  exec::ElementType result = exec::ElementType::f32; ///< f32, or the same

  /// Bytes of an element of `tensor` where `computed` is what is computed.
  int64_t getBytes(exec::ConvolutionTensor tensor,
                   exec::ConvolutionTensor computed) const;
};

/// Where the tensors of a convolution lie; one of them is written.
struct ConvolutionOperands {
  std::byte *source = nullptr;
  std::byte *weights = nullptr;
  std::byte *destination = nullptr;
};

/// Which operand of a convolution's command is which.
ConvolutionOperands getConvolutionOperands(exec::ConvolutionTensor result,
                                           void *const *operands);

/// A convolution ready to run.
class Convolution {
public:
  virtual ~Convolution() = default;

  /// Prepares a convolution for `workers` threads, cut into about `pieces`
  /// pieces.
  /// Errors: ErrorCode::Internal where oneDNN refuses it.
  static Result<std::unique_ptr<Convolution>>
  create(const exec::ConvolutionT &shape, ConvolutionElements elements,
         int64_t pieces, int workers);

  virtual int64_t getNumPieces() const = 0;
  /// Bytes of scratch memory, 64-byte aligned, that run() needs.
  virtual uint64_t getScratchBytes() const = 0;
  /// Runs piece `piece` on the calling thread, which is number `worker`; no two
  /// threads may use one number at once.
  virtual Status run(int64_t piece, const ConvolutionOperands &operands,
                     int worker, void *scratch) = 0;
  /// Which implementation: "brgconv:avx512_core", "gemm:jit", ...
  virtual const char *getImplementation() const = 0;
};

} // namespace meshc::runtime

#endif

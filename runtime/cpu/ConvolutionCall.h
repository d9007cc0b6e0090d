#ifndef MESHC_RUNTIME_CPU_CONVOLUTIONCALL_H
#define MESHC_RUNTIME_CPU_CONVOLUTIONCALL_H

/// One call of oneDNN's convolution, and the copies around it.

#include "runtime/cpu/Convolution.h"

#include <dnnl.hpp>

#include <string>
#include <vector>

namespace meshc::runtime {

/// Bytes of scratch memory, up to where the next part of it begins.
inline uint64_t alignScratch(uint64_t bytes) {
  constexpr uint64_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

/// What lies where in one of the three tensors of a call.
struct ConvolutionView {
  dnnl::memory::dims sizes, strides;
  int64_t offset = 0; ///< elements in front of the part that is used
};

struct ConvolutionProblem;

/// A tensor as the program has it and as the library's convolution wants it.
class CallTensor {
public:
  CallTensor(const ConvolutionView &view, exec::ElementType element,
             const dnnl::memory::desc &inside, bool isResult);

  /// Bytes of scratch memory for a copy of it; 0: it is used where it lies.
  uint64_t getCopyBytes() const {
    return reorder ? alignScratch(inside.get_size()) : 0;
  }
  uint64_t getReorderScratchBytes() const { return reorderScratchBytes; }
  /// Bytes in front of the part that is used.
  int64_t getOffsetBytes() const;
  bool isCopied() const { return bool(reorder); }

  ConvolutionView view;
  exec::ElementType element; ///< as the program has it
  dnnl::memory::desc outside, inside;
  dnnl::reorder reorder;

private:
  uint64_t reorderScratchBytes = 0;
};

/// One call of oneDNN's convolution, with the memory objects of each worker.
class ConvolutionCall {
public:
  /// With `order`, the weights lie so inside the library. Throws dnnl::error
  /// where oneDNN refuses it.
  ConvolutionCall(const exec::ConvolutionT &shape, ConvolutionElements elements,
                  int64_t batch, int64_t outputs, int workers,
                  const dnnl::memory::desc *order = nullptr);

  const dnnl::memory::desc &getWeightsOrder() const {
    return tensors[1].inside;
  }

  uint64_t getScratchBytes() const;
  /// Bytes of the result as the library writes it.
  uint64_t getResultBytes() const { return tensors[result].inside.get_size(); }

  /// Computes the result; with `into`, there, as the library has it.
  dnnl_status_t run(const ConvolutionOperands &operands, int worker,
                    std::byte *scratch, std::byte *into = nullptr);
  /// Writes a result as the library has it, at `from`, to `operands`.
  dnnl_status_t writeResult(const ConvolutionOperands &operands,
                            std::byte *from, int worker, std::byte *scratch);

  std::string implementation;

private:
  struct Worker {
    dnnl::stream stream;
    dnnl::memory outside[3], inside[3], scratch, reorderScratch[3];
  };

  /// False where there is none but the library's reference loops.
  bool prepare(const ConvolutionProblem &problem,
               const dnnl::memory::desc *descriptors);
  dnnl_status_t copy(size_t tensor, std::byte *outside, std::byte *inside,
                     Worker &worker, std::byte *scratch);

  // Tensors are numbered source, weights, destination.
  size_t result;
  ConvolutionElements elements;
  std::vector<CallTensor> tensors;
  dnnl::primitive primitive;
  dnnl::memory::desc libraryScratch;
  uint64_t scratchBytes = 0; ///< of the library
  std::vector<Worker> workers;
};

} // namespace meshc::runtime

#endif

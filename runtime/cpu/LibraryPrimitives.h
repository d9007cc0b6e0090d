#ifndef MESHC_RUNTIME_CPU_LIBRARYPRIMITIVES_H
#define MESHC_RUNTIME_CPU_LIBRARYPRIMITIVES_H

#include "runtime/cpu/Convolution.h"
#include "runtime/cpu/Matmul.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace meshc::runtime {

/// The products and convolutions of an executable; equal ones are created once.
class LibraryPrimitives {
public:
  LibraryPrimitives(int64_t pieces, int workers)
      : pieces(pieces), workers(workers) {}

  Result<Matmul *> get(const MatmulShape &shape);
  Result<Convolution *> get(const exec::ConvolutionT &shape,
                            ConvolutionElements elements);
  uint64_t getScratchBytes() const { return scratchBytes; }

private:
  int64_t pieces;
  int workers;
  uint64_t scratchBytes = 0;
  std::map<MatmulShape, std::unique_ptr<Matmul>> products;
  /// By all numbers of the command.
  std::map<std::vector<int64_t>, std::unique_ptr<Convolution>> convolutions;
};

} // namespace meshc::runtime

#endif

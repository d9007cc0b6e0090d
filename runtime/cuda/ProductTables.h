#ifndef MESHC_RUNTIME_CUDA_PRODUCTTABLES_H
#define MESHC_RUNTIME_CUDA_PRODUCTTABLES_H

#include "runtime/cuda/library/Driver.h"

#include <vector>

namespace meshc::runtime::cuda {

/// The tables of all products that cuBLASLt computes by address, in the GPU's
/// memory: addresses are known when a program is loaded.
class ProductTables {
public:
  /// They go to `memory`, which begins with the first that is reserved.
  void place(DevicePointer memory) { address = memory; }
  /// Where a table of `bytes` will be; it is of zeros until it is set.
  DevicePointer reserve(uint64_t bytes);
  void set(DevicePointer table, const std::vector<uint64_t> &addresses);
  uint64_t getBytes() const { return words.size() * sizeof(uint64_t); }
  /// Copies all of them; nothing can be reserved afterwards.
  Status upload(const Driver &driver, Stream stream) const;

private:
  DevicePointer address = 0;
  std::vector<uint64_t> words;
};

} // namespace meshc::runtime::cuda

#endif

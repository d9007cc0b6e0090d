#ifndef MESHC_RUNTIME_CUDA_UNSUPPORTEDPRODUCTS_H
#define MESHC_RUNTIME_CUDA_UNSUPPORTEDPRODUCTS_H

#include "runtime/exec/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime::cuda {

/// The products of an executable that cuBLASLt cannot compute, as one error:
/// who compiles a model anew for a library wants to know all of them.
class UnsupportedProducts {
public:
  /// `reason` says what the product is and what is wrong with it, `error` also
  /// which command has it. Commands with one reason have the same product.
  void add(const std::string &reason, Error error);
  /// Errors: UnsupportedOnGpu where there is one.
  Status check() const;

private:
  struct Product {
    std::string reason;
    Error error; ///< of the first command
    int64_t commands = 0;
  };
  std::vector<Product> products;
};

} // namespace meshc::runtime::cuda

#endif

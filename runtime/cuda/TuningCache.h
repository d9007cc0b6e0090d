#ifndef MESHC_RUNTIME_CUDA_TUNINGCACHE_H
#define MESHC_RUNTIME_CUDA_TUNINGCACHE_H

/// What was measured of products, kept from run to run: a file `matmuls` in
/// MESHC_CACHE_DIR, else below XDG_CACHE_HOME or ~/.cache in the folder
/// `meshc`.
///
/// The file has a line for each product:
///
///   CHECKSUM CANDIDATES CHOSEN FIRST_US CHOSEN_US PRODUCT
///
/// where PRODUCT names the GPU, the way of measuring, the library's version and
/// the product, and
/// CHECKSUM is of the rest of the line (FNV-1a, 64 bits). Lines whose checksum
/// is another one are damaged: they are left out when the file is written next.
/// Writers take turns by a lock, add to what they find then, and replace the
/// file as a whole, so that readers see all of it or all of an earlier one.

#include "runtime/exec/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace meshc::runtime::cuda {

struct MatmulChoice {
  uint64_t candidates = 0; ///< that the library offered
  uint64_t chosen = 0;     ///< number of the fastest; 0 is the library's first
  double firstMicroseconds = 0;
  double chosenMicroseconds = 0;
};

using MatmulChoices = std::map<std::string, MatmulChoice>;

/// The file's path. Errors: WrongInput where no folder can be told.
Result<std::string> getTuningCachePath();

/// Reads a file; nothing where there is none. `damaged` counts lines that
/// cannot be read. Errors: CannotRead.
Result<MatmulChoices> readTuningCache(const std::string &path, size_t &damaged);

/// Adds to a file what was measured, in place of earlier lines of the same
/// products. Makes the folder if there is none. Errors: CannotWrite.
Status addToTuningCache(const std::string &path, const MatmulChoices &choices);

} // namespace meshc::runtime::cuda

#endif

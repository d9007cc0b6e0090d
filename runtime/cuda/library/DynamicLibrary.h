#ifndef MESHC_RUNTIME_CUDA_LIBRARY_DYNAMICLIBRARY_H
#define MESHC_RUNTIME_CUDA_LIBRARY_DYNAMICLIBRARY_H

/// Libraries of NVIDIA that are looked for when a program needs them, so that
/// everything is built, and most of it runs, on machines without them.

#include "runtime/exec/Error.h"

#include <span>
#include <string>

namespace meshc::runtime::cuda {

/// A shared library in this process; it stays until the process ends, as the
/// libraries of CUDA have threads and exit handlers of their own.
class DynamicLibrary {
public:
  /// Opens the first of `names` that is found: in the folder that
  /// MESHC_CUDA_LIBRARIES names and nowhere else if it is set, else wherever
  /// the system looks, then in $CUDA_HOME and in /usr/local/cuda.
  /// Errors: MissingGpuLibrary, with what is there but cannot be loaded; `note`
  /// says what the library is for and where it comes from.
  static Result<DynamicLibrary> open(std::span<const char *const> names,
                                     std::string note);

  const std::string &getPath() const { return path; }
  /// Address of a symbol. Errors: OldGpuLibrary.
  Result<void *> find(const char *symbol) const;

private:
  DynamicLibrary(void *library, std::string path)
      : library(library), path(std::move(path)) {}

  void *library;
  std::string path;
};

} // namespace meshc::runtime::cuda

#endif

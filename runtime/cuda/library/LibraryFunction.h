#ifndef MESHC_RUNTIME_CUDA_LIBRARY_LIBRARYFUNCTION_H
#define MESHC_RUNTIME_CUDA_LIBRARY_LIBRARYFUNCTION_H

#include "runtime/cuda/library/DynamicLibrary.h"
#include "runtime/exec/Error.h"

namespace meshc::runtime::cuda {

/// A function of a library that returns a status, 0 for success. Called as it
/// is, it gives an error for every other status, with the function's name and
/// the library's own words; call() gives the status itself. `Library` says how
/// its errors read: static Error describe(const char *symbol, int status).
template <typename Library, typename... Args> class LibraryFunction {
public:
  explicit LibraryFunction(const char *symbol) : symbol(symbol) {}

  Status operator()(Args... args) const {
    const int status = pointer(args...);
    return status == 0 ? Status::success()
                       : Status(Library::describe(symbol, status));
  }
  int call(Args... args) const { return pointer(args...); }

  Status resolve(const DynamicLibrary &library) {
    Result<void *> address = library.find(symbol);
    if (!address)
      return address.getError();
    pointer = reinterpret_cast<int (*)(Args...)>(*address);
    return Status::success();
  }

  const char *const symbol;

private:
  int (*pointer)(Args...) = nullptr;
};

} // namespace meshc::runtime::cuda

/// Returns the error of a Status or Result from the calling function.
#define MESHC_RETURN_IF_ERROR(EXPRESSION)                                      \
  if (auto outcome = (EXPRESSION); !outcome)                                   \
  return outcome.getError()

#endif

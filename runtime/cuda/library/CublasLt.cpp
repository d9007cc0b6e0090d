#include "runtime/cuda/library/CublasLt.h"

#include <fmt/format.h>

#include <vector>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

static CublasLt &getInstance() {
  static CublasLt library;
  return library;
}

std::string cuda::getCublasLtVersionText(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100,
                     version % 100);
}

Error CublasLt::describe(const char *symbol, int status) {
  const char *text = getInstance().getStatusString(status);
  return {ErrorCode::GpuCallFailed,
          fmt::format("{} failed: {} (status {})", symbol,
                      text ? text : "unknown status", status),
          ""};
}

/// Opens the library of the latest CUDA that `driver` runs, if there is one.
static Result<DynamicLibrary> openLatest(const Driver *driver) {
  struct Release {
    int major; ///< of CUDA
    const char *name;
  };
  // What is called is the same in both.
  static constexpr Release releases[] = {{13, "libcublasLt.so.13"},
                                         {12, "libcublasLt.so.12"}};
  // A library runs on every driver of its major version and on later ones.
  // Source: CUDA Compatibility, minor version compatibility.
  std::vector<const char *> names;
  for (const Release &release : releases)
    if (!driver || release.major <= driver->version / 1000)
      names.push_back(release.name);
  Result<DynamicLibrary> library = DynamicLibrary::open(
      names, "matrix products on GPUs need it; it is part of the CUDA toolkit "
             "(package libcublas) and of most frameworks");
  if (library)
    return library;
  for (const Release &release : releases) {
    if (!driver || release.major <= driver->version / 1000)
      continue;
    const char *later[] = {release.name};
    if (Result<DynamicLibrary> found = DynamicLibrary::open(later, ""); found)
      return Error{ErrorCode::OldGpuLibrary,
                   fmt::format("{}; '{}' needs a driver of CUDA {}.0 or later, "
                               "found {}",
                               library.getError().message, found->getPath(),
                               release.major, getVersionText(driver->version)),
                   "install a later driver, or the library of an earlier CUDA"};
  }
  return library;
}

Result<const CublasLt *> CublasLt::load(const Driver *driver) {
  CublasLt &cublas = getInstance();
  Result<DynamicLibrary> library = openLatest(driver);
  if (!library)
    return library.getError();
  cublas.path = library->getPath();
  Result<void *> status = library->find("cublasLtGetStatusString");
  if (!status)
    return status.getError();
  cublas.getStatusString = reinterpret_cast<const char *(*)(int)>(*status);
  Result<void *> version = library->find("cublasLtGetVersion");
  if (!version)
    return version.getError();
  cublas.version = reinterpret_cast<size_t (*)()>(*version)();
  if (cublas.version < minCublasLtVersion)
    return Error{ErrorCode::OldGpuLibrary,
                 fmt::format("'{}' is cuBLASLt {}, expected at least {}",
                             cublas.path,
                             getCublasLtVersionText(cublas.version),
                             getCublasLtVersionText(minCublasLtVersion)),
                 "install the library of CUDA 12 or later"};
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  MESHC_RETURN_IF_ERROR(cublas.NAME.resolve(*library));
#include "runtime/cuda/library/CublasLtFunctions.def"
  return &cublas;
}

Result<const CublasLt *> CublasLt::get(const Driver *driver) {
  static const Result<const CublasLt *> loaded = load(driver);
  return loaded;
}

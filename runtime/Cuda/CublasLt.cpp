#include "runtime/Cuda/CublasLt.h"

#include <fmt/format.h>

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

Result<const CublasLt *> CublasLt::load() {
  CublasLt &cublas = getInstance();
  // What is called is the same in both.
  static constexpr const char *names[] = {"libcublasLt.so.13",
                                          "libcublasLt.so.12"};
  Result<DynamicLibrary> library = DynamicLibrary::open(
      names, "matrix products on GPUs need it; it is part of the CUDA toolkit "
             "(package libcublas) and of most frameworks");
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
#include "runtime/Cuda/CublasLtFunctions.def"
  return &cublas;
}

Result<const CublasLt *> CublasLt::find() {
  static const Result<const CublasLt *> loaded = load();
  return loaded;
}

Result<const CublasLt *> CublasLt::get(const Driver &driver) {
  const Result<const CublasLt *> loaded = find();
  if (!loaded)
    return loaded;
  // A library runs on every driver of its major version and on later ones.
  // Source: CUDA Compatibility, minor version compatibility.
  const int major = int((*loaded)->version / 10000);
  if (driver.version / 1000 < major)
    return Error{ErrorCode::OldGpuLibrary,
                 fmt::format("'{}' needs a driver of CUDA {}.0 or later, "
                             "found {}",
                             (*loaded)->path, major,
                             getVersionText(driver.version)),
                 "install a later driver, or the library of an earlier CUDA"};
  return loaded;
}

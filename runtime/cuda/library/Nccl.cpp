#include "runtime/cuda/library/Nccl.h"

#include <fmt/format.h>

#include <string_view>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

static Nccl &getInstance() {
  static Nccl library;
  return library;
}

std::string cuda::getNcclVersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100,
                     version % 100);
}

Error Nccl::describe(const char *symbol, int status) {
  const Nccl &nccl = getInstance();
  const char *text = nccl.getErrorString(status);
  const char *last = nccl.getLastError(nullptr);
  // Any call may be the one that finds out that another process is gone.
  Error error{status == ncclRemoteError ? ErrorCode::CommunicationFailed
                                        : ErrorCode::GpuCallFailed,
              fmt::format("{} failed: {}{}{} (status {})", symbol,
                          text ? text : "unknown status",
                          last && *last ? ": " : "", last ? last : "", status),
              ""};
  // There is no status for it: it is an error of CUDA with one of these texts.
  // Source: ncclCudaMalloc in alloc.h and CUDACHECK in checks.h of NCCL 2.28.
  const std::string_view words = last ? last : "";
  if (status == ncclUnhandledCudaError &&
      (words.find("out of memory") != words.npos ||
       words.find("Failed to CUDA") != words.npos)) {
    error.code = ErrorCode::DoesNotFit;
    error.note = "NCCL takes memory beside that of the plan, less with a lower "
                 "NCCL_MAX_CTAS";
  }
  return error;
}

Result<const Nccl *> Nccl::load() {
  Nccl &nccl = getInstance();
  static constexpr const char *names[] = {"libnccl.so.2"};
  Result<DynamicLibrary> library = DynamicLibrary::open(
      names, "GPUs of several processes need it to communicate; it is NVIDIA's "
             "package libnccl2 and part of most frameworks");
  if (!library)
    return library.getError();
  nccl.path = library->getPath();
  auto find = [&](const char *symbol, auto &pointer) {
    Result<void *> address = library->find(symbol);
    if (!address)
      return Status(address.getError());
    pointer =
        reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(*address);
    return Status::success();
  };
  int (*getVersion)(int *) = nullptr;
  MESHC_RETURN_IF_ERROR(find("ncclGetErrorString", nccl.getErrorString));
  MESHC_RETURN_IF_ERROR(find("ncclGetVersion", getVersion));
  if (const int status = getVersion(&nccl.version))
    return Error{
        ErrorCode::GpuCallFailed,
        fmt::format("ncclGetVersion failed: {}", nccl.getErrorString(status)),
        ""};
  if (nccl.version < minNcclVersion)
    return Error{ErrorCode::OldGpuLibrary,
                 fmt::format("'{}' is NCCL {}, expected at least {}", nccl.path,
                             getNcclVersionText(nccl.version),
                             getNcclVersionText(minNcclVersion)),
                 "install a later package libnccl2"};
  MESHC_RETURN_IF_ERROR(find("ncclGetLastError", nccl.getLastError));
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  MESHC_RETURN_IF_ERROR(nccl.NAME.resolve(*library));
#include "runtime/cuda/library/NcclFunctions.def"
  return &nccl;
}

Result<const Nccl *> Nccl::get() {
  static const Result<const Nccl *> loaded = load();
  return loaded;
}

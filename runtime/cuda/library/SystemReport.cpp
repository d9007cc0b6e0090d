#include "runtime/cuda/library/SystemReport.h"

#include "runtime/cuda/library/CublasLt.h"
#include "runtime/cuda/library/Gpu.h"
#include "runtime/cuda/library/Nccl.h"

#include <fmt/format.h>

#include <vector>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

static std::string formatLine(const std::string &subject,
                              const std::string &text) {
  return fmt::format("{:<9} {}\n", subject, text);
}

static std::string formatError(const Error &error) {
  return error.note.empty() ? error.message
                            : fmt::format("{}; {}", error.message, error.note);
}

static double toGiB(uint64_t bytes) { return double(bytes) / (1 << 30); }

static std::string describeGpu(const Driver &driver, int ordinal,
                               const exec::ExecutableT *executable) {
  Result<GpuProperties> properties = getProperties(driver, ordinal);
  if (!properties)
    return formatError(properties.getError());
  std::string text =
      fmt::format("{}, sm_{}{}, {} multiprocessors, {:.1f} GiB",
                  properties->name, properties->major, properties->minor,
                  properties->multiprocessors, toGiB(properties->memoryBytes));
  // How much is free is asked of the GPU itself.
  Result<std::unique_ptr<Gpu>> gpu = Gpu::open(driver, ordinal);
  if (!gpu)
    return text + ", cannot be used: " + formatError(gpu.getError());
  size_t freeBytes = 0;
  size_t totalBytes = 0;
  Status asked = driver.memGetInfo(&freeBytes, &totalBytes);
  text += asked ? fmt::format(", {:.1f} GiB free", toGiB(freeBytes))
                : ", " + formatError(asked.getError());
  if (!executable)
    return text;
  Status loaded = (*gpu)->load(*executable);
  if (!loaded)
    return text + "; " + formatError(loaded.getError());
  const std::string &complaint = (*gpu)->getImageComplaint();
  return text + "; " +
         (complaint.empty() ? "runs " + (*gpu)->getImageName() : complaint);
}

/// The GPUs whose memory a GPU can reach.
static std::string describePeers(const Driver &driver, int ordinal, int count) {
  std::vector<int> reached;
  for (int other = 0; other < count; ++other) {
    DeviceHandle from = 0;
    DeviceHandle to = 0;
    int can = 0;
    if (other == ordinal)
      continue;
    Status asked = driver.deviceGet(&from, ordinal);
    if (asked)
      asked = driver.deviceGet(&to, other);
    if (asked)
      asked = driver.deviceCanAccessPeer(&can, from, to);
    if (!asked)
      return formatError(asked.getError());
    if (can)
      reached.push_back(other);
  }
  return reached.empty() ? "no other GPU"
                         : fmt::format("GPU {}", fmt::join(reached, ", "));
}

std::string cuda::reportSystem(const exec::ExecutableT *executable) {
  std::string report;
  const Result<const Driver *> driver = Driver::get();
  report += formatLine("driver",
                       driver ? fmt::format("CUDA {}, {}",
                                            getVersionText((*driver)->version),
                                            (*driver)->path)
                              : formatError(driver.getError()));
  const Result<const CublasLt *> cublas =
      CublasLt::get(driver ? *driver : nullptr);
  report += formatLine(
      "cuBLASLt",
      cublas ? fmt::format("{}, {}", getCublasLtVersionText((*cublas)->version),
                           (*cublas)->path)
             : formatError(cublas.getError()));
  const Result<const Nccl *> nccl = Nccl::get();
  report += formatLine(
      "NCCL", nccl ? fmt::format("{}, {}", getNcclVersionText((*nccl)->version),
                                 (*nccl)->path)
                   : formatError(nccl.getError()));
  if (!driver)
    return report + formatLine("GPUs", "unknown without a driver");
  const Result<int> count = countGpus(**driver);
  if (!count)
    return report + formatLine("GPUs", formatError(count.getError()));
  if (*count == 0)
    return report + formatLine("GPUs", "none");
  for (int ordinal = 0; ordinal < *count; ++ordinal)
    report += formatLine(fmt::format("GPU {}", ordinal),
                         describeGpu(**driver, ordinal, executable));
  for (int ordinal = 0; ordinal<*count && * count> 1; ++ordinal)
    report += formatLine("peers",
                         fmt::format("GPU {} reaches {}", ordinal,
                                     describePeers(**driver, ordinal, *count)));
  return report;
}

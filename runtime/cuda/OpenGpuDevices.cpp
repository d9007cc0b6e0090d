#include "runtime/cuda/CudaDevices.h"
#include "runtime/devices/OpenDevices.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <cassert>

using namespace meshc;
using namespace meshc::runtime;

Result<std::unique_ptr<DeviceSet>>
runtime::openGpuDevices(const DeviceRequest &request) {
  assert(request.executable.data.target == exec::Target::cuda);
  cuda::CudaOptions options;
  options.kernels = request.kernels;
  options.devicesPerGpu = request.gpus.devicesPerGpu.value_or(1);
  options.usesGraphs = request.gpus.usesGraphs;
  options.checksCommands = request.gpus.checksCommands;
  options.tunesMatmuls = request.gpus.tunesMatmuls;
  options.peers = request.peers;
  if (request.gpus.stallSeconds)
    options.deadline = std::chrono::seconds(*request.gpus.stallSeconds);
  if (request.ranks) {
    options.localRank = request.ranks->getLocalRank();
    options.numLocalRanks = request.ranks->getNumLocalRanks();
  }
  Result<std::unique_ptr<cuda::CudaDevices>> opened =
      cuda::CudaDevices::create(request.executable, options);
  if (!opened)
    return opened.getError();
  const bool isFirst = !request.ranks || request.ranks->isFirst();
  for (const std::string &report :
       {(*opened)->getImageComplaint(), (*opened)->getBatchReport(),
        (*opened)->getTuningReport()})
    if (isFirst && !report.empty())
      printMessage(fmt::format("meshc: {}\n", report));
  return std::unique_ptr<DeviceSet>(std::move(*opened));
}

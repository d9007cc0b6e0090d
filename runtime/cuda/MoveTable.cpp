#include "runtime/cuda/MoveTable.h"

#include "runtime/exec/GpuKernels.h"

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

Result<MoveLaunch> MoveTable::add(exec::ReduceKind reduce,
                                  exec::ElementType element,
                                  std::span<const MoveList::Box> boxes) {
  MoveLaunch launch;
  Result<MoveList::Pieces> pieces = moves.add(boxes);
  if (!pieces)
    return pieces.getError();
  launch.pieces = *pieces;
  if (launch.pieces.count == 0)
    return launch;
  Result<KernelHandle> kernel = gpu.getKernel(
      getMoveKernelName(reduce, element, launch.pieces.areWide), 0);
  if (!kernel)
    return kernel.getError();
  launch.kernel = *kernel;
  return launch;
}

Result<std::vector<MoveLaunch>>
MoveTable::add(exec::ElementType element, std::span<const MoveBatch> batches) {
  std::vector<MoveLaunch> launches;
  for (const MoveBatch &batch : batches) {
    Result<MoveLaunch> launch = add(batch.reduce, element, batch.boxes);
    if (!launch)
      return launch.getError();
    launches.push_back(*launch);
  }
  return launches;
}

Status MoveTable::upload(DevicePointer memory, Stream stream) {
  if (getBytes() == 0)
    return Status::success();
  address = memory;
  const Driver &driver = gpu.getDriver();
  const std::vector<uint64_t> words = moves.getWords(memory);
  MESHC_RETURN_IF_ERROR(
      driver.memcpyHtoDAsync(memory, words.data(), getBytes(), stream));
  return driver.streamSynchronize(stream);
}

Status MoveTable::launch(const MoveLaunch &launch, Stream stream) const {
  if (launch.pieces.count == 0)
    return Status::success();
  DevicePointer pieces = address + launch.pieces.offset;
  void *parameters[] = {&pieces};
  return gpu.getDriver().launchKernel(launch.kernel, launch.pieces.count, 1, 1,
                                      moveKernelThreads, 1, 1, 0, stream,
                                      parameters, nullptr);
}

Status MoveTable::launch(std::span<const MoveLaunch> launches,
                         Stream stream) const {
  for (const MoveLaunch &one : launches)
    MESHC_RETURN_IF_ERROR(launch(one, stream));
  return Status::success();
}

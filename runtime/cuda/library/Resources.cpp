#include "runtime/cuda/library/Resources.h"

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

Result<DeviceMemory> cuda::allocate(const Driver &driver, uint64_t bytes) {
  DevicePointer pointer = 0;
  MESHC_RETURN_IF_ERROR(driver.memAlloc(&pointer, bytes));
  return DeviceMemory(driver, pointer);
}

Result<PinnedMemory> cuda::allocatePinned(const Driver &driver,
                                          uint64_t bytes) {
  void *pointer = nullptr;
  MESHC_RETURN_IF_ERROR(driver.memHostAlloc(&pointer, bytes, 0));
  return PinnedMemory(driver, pointer);
}

Result<OwnedStream> cuda::makeStream(const Driver &driver, int priority) {
  Stream stream = nullptr;
  MESHC_RETURN_IF_ERROR(
      driver.streamCreate(&stream, streamNonBlocking, priority));
  return OwnedStream(driver, stream);
}

Result<OwnedEvent> cuda::makeEvent(const Driver &driver, bool hasTime) {
  Event event = nullptr;
  MESHC_RETURN_IF_ERROR(
      driver.eventCreate(&event, hasTime ? 0 : eventDisableTiming));
  return OwnedEvent(driver, event);
}

Result<OwnedGraphExecutable>
cuda::recordGraph(const Driver &driver, Stream stream,
                  const std::function<Status()> &issue) {
  MESHC_RETURN_IF_ERROR(driver.streamBeginCapture(stream, captureThreadLocal));
  Status issued = issue();
  // The capture ends in any case; what failed first is what is reported.
  Graph recorded = nullptr;
  Status ended = driver.streamEndCapture(stream, &recorded);
  OwnedGraph owner(driver, recorded);
  MESHC_RETURN_IF_ERROR(issued);
  MESHC_RETURN_IF_ERROR(ended);
  GraphExecutable executable = nullptr;
  // Else all nodes have the priority of the stream that the graph is launched
  // in, not of those that they were recorded in.
  MESHC_RETURN_IF_ERROR(
      driver.graphInstantiate(&executable, recorded, graphUsesNodePriorities));
  return OwnedGraphExecutable(driver, executable);
}

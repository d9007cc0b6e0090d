#ifndef MESHC_RUNTIME_CUDA_LIBRARY_RESOURCES_H
#define MESHC_RUNTIME_CUDA_LIBRARY_RESOURCES_H

/// Things of the driver that are given back when their owner ends.

#include "runtime/cuda/library/Driver.h"

#include <functional>
#include <utility>

namespace meshc::runtime::cuda {

/// Owns a handle; `Release` is the member of Driver that gives it back. What
/// that says is not asked: nobody could act on it, and after a failed run every
/// call fails.
template <typename Handle, auto Release> class Owned {
public:
  Owned() = default;
  Owned(const Driver &driver, Handle handle)
      : driver(&driver), handle(handle) {}
  Owned(Owned &&other) noexcept
      : driver(other.driver), handle(std::exchange(other.handle, Handle())) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(driver, other.driver);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (handle)
      (driver->*Release).call(handle);
  }

  Handle get() const { return handle; }
  explicit operator bool() const { return bool(handle); }

private:
  const Driver *driver = nullptr;
  Handle handle{};
};

using DeviceMemory = Owned<DevicePointer, &Driver::memFree>;
using PinnedMemory = Owned<void *, &Driver::memFreeHost>;
using OwnedStream = Owned<Stream, &Driver::streamDestroy>;
using OwnedEvent = Owned<Event, &Driver::eventDestroy>;
using OwnedModule = Owned<Module, &Driver::moduleUnload>;
using OwnedGraph = Owned<Graph, &Driver::graphDestroy>;
using OwnedGraphExecutable =
    Owned<GraphExecutable, &Driver::graphExecutableDestroy>;

/// Memory of the current device. Errors: DoesNotFit.
Result<DeviceMemory> allocate(const Driver &driver, uint64_t bytes);
/// Memory of the host that devices copy from and to at full speed.
Result<PinnedMemory> allocatePinned(const Driver &driver, uint64_t bytes);
Result<OwnedStream> makeStream(const Driver &driver, int priority);
/// `hasTime`: for eventElapsedTime.
Result<OwnedEvent> makeEvent(const Driver &driver, bool hasTime = false);
/// Makes a graph of what `issue` enqueues on `stream` and on those that join
/// it. Errors: that of `issue`, or what the driver has against the graph.
Result<OwnedGraphExecutable> recordGraph(const Driver &driver, Stream stream,
                                         const std::function<Status()> &issue);

} // namespace meshc::runtime::cuda

#endif

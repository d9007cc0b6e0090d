#ifndef MESHC_RUNTIME_DEVICES_DEVICESET_H
#define MESHC_RUNTIME_DEVICES_DEVICESET_H

/// The devices on which an executable runs, whatever they are: what sessions,
/// data and training know of them.
///
/// Every device of the mesh has one arena with the buffers of the executable.
/// A process may have all devices or a part of them; the processes of one run
/// make the same calls in the same order, so that a block of any device can be
/// read in all of them.

#include "runtime/devices/Profile.h"
#include "runtime/devices/RunTrace.h"
#include "runtime/exec/Error.h"
#include "runtime/exec/Executable.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace meshc::runtime {

class DeviceSet {
public:
  virtual ~DeviceSet() = default;

  const Executable &getExecutable() const { return executable; }
  /// Whether this process has the device.
  virtual bool isLocal(int64_t device) const = 0;

  /// Runs a program of the executable on all devices; complete when it returns.
  virtual Status run(const exec::ProgramT &program) = 0;

  /// Has the first `bytes` of a buffer of a device written by `fill`, which
  /// gets memory of the host, aligned to 64 bytes; it may be the buffer itself.
  /// What `fill` leaves out (padding) is undefined afterwards. Does nothing
  /// where the device is another process's.
  virtual Status write(int64_t device, int buffer, uint64_t bytes,
                       const std::function<void(std::byte *)> &fill) = 0;
  /// How many blocks may be filled at once: so deep may a `fill` call write().
  virtual int64_t getMaxOpenWrites() const = 0;
  /// Hands bytes [offset, offset + bytes) of a buffer of a device of this
  /// process to `take`, in memory of the host that stays for the call; it may
  /// be the buffer itself. Other processes have no part in it.
  virtual Status
  readLocal(int64_t device, int buffer, uint64_t offset, uint64_t bytes,
            const std::function<void(const std::byte *)> &take) = 0;
  /// The first `bytes` of a buffer of a device, valid until the next call of
  /// any method.
  virtual Result<const std::byte *> read(int64_t device, int buffer,
                                         uint64_t bytes) = 0;

  /// What the first process says, in all of them.
  virtual Result<uint8_t> decide(uint8_t mine) { return mine; }

  /// Bytes of memory of a device of this process.
  virtual uint64_t getBytesPerDevice() const {
    return executable.data.arena_bytes;
  }
  /// Host threads that execute kernels; 0 where devices do.
  virtual int getNumThreads() const = 0;
  /// Where the time went in all runs since the last resetProfile().
  virtual Profile getProfile() = 0;
  /// With `timesCommands`, following runs are timed command by command, which
  /// slows GPUs down; without, only those report commands that do so anyway.
  virtual void resetProfile(bool timesCommands) = 0;
  /// Has each of the following runs that succeeds replace what is in `trace`;
  /// null: nothing is kept. GPUs get their commands one by one in such a run,
  /// not as a graph.
  virtual void traceRuns(RunTrace *trace) = 0;

  /// Called for every command that a device of this process has executed, with
  /// its number in the program: its results are there, and nothing that
  /// overwrites them has begun. By one thread at a time, which may call
  /// readLocal() of that device and nothing else.
  using EndObserver = std::function<void(int64_t device, size_t command)>;
  /// For the following runs; null for none. Commands go one by one where that
  /// takes it, which slows GPUs down.
  virtual void observeEnds(EndObserver observer) = 0;

protected:
  explicit DeviceSet(const Executable &executable) : executable(executable) {}

  const Executable &executable;
};

} // namespace meshc::runtime

#endif

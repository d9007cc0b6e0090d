#ifndef MESHC_RUNTIME_SAMPLES_PREFETCH_H
#define MESHC_RUNTIME_SAMPLES_PREFETCH_H

#include "runtime/devices/DeviceSet.h"
#include "runtime/samples/Dataset.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace meshc::runtime {

/// Feeds one run after the other. A thread reads and converts the blocks of
/// this process's devices for the next run while a program runs on those
/// before; what is left to do between two runs is to copy them.
///
///   feed(0)  run 0         feed(1)  run 1
///            reads those of 1       reads those of 2
class Prefetch {
public:
  /// Gives the samples of run `number`, as many as a run takes.
  using Order = std::function<void(int64_t number, std::span<int64_t> samples)>;

  /// Runs [first, end) of a program that has the inputs; both have to stay.
  /// Reading begins at once.
  Prefetch(const Dataset &dataset, DeviceSet &devices, int64_t first,
           int64_t end, Order order);
  ~Prefetch();
  Prefetch(const Prefetch &) = delete;
  Prefetch &operator=(const Prefetch &) = delete;

  /// Writes what the next run takes into the devices. Errors: as of
  /// Dataset::fill.
  Status feed();
  /// For how long the last feed() has waited for that; 0 where it was there.
  double getSecondsWaited() const { return secondsWaited; }

private:
  /// The part of an input on a device.
  struct Block {
    size_t input;
    int64_t device;
    std::vector<std::byte> bytes;
  };

  void read();
  Status readRun(int64_t number);

  const Dataset &dataset;
  DeviceSet &devices;
  const int64_t end;
  const Order order;
  std::vector<int64_t> samples;
  std::vector<Block> blocks; ///< the reader's until it is ready, else feed()'s
  double secondsWaited = 0;

  std::mutex mutex; // of what follows
  std::condition_variable changed;
  int64_t next; ///< the run whose samples blocks have or get
  bool isReady = false, isStopped = false;
  Status status = Status::success(); ///< of reading it
  std::thread thread;
};

} // namespace meshc::runtime

#endif

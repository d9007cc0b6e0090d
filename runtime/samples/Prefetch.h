#ifndef MESHC_RUNTIME_SAMPLES_PREFETCH_H
#define MESHC_RUNTIME_SAMPLES_PREFETCH_H

#include "runtime/devices/DeviceSet.h"
#include "runtime/samples/Dataset.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace meshc::runtime {

/// Feeds one batch after the other. A thread reads and converts the blocks of
/// this process's devices for the next batch while the program runs on the one
/// before; what is left to do between two runs is to copy them.
///
///   feed(0)  run 0         feed(1)  run 1
///            reads batch 1          reads batch 2
class Prefetch {
public:
  /// Gives the samples of batch `number`, as many as a batch has.
  using Order = std::function<void(int64_t number, std::span<int64_t> samples)>;

  /// Batches [first, end) of the inputs; both have to stay. Reading begins at
  /// once.
  Prefetch(const Dataset &dataset, DeviceSet &devices, int64_t first,
           int64_t end, Order order);
  ~Prefetch();
  Prefetch(const Prefetch &) = delete;
  Prefetch &operator=(const Prefetch &) = delete;

  /// Writes the next batch into the devices. Errors: as of Dataset::fill.
  Status feed();
  /// For how long the last feed() has waited for the batch; 0 where it was
  /// there.
  double getSecondsWaited() const { return secondsWaited; }

private:
  /// The part of an input on a device.
  struct Block {
    size_t input;
    int64_t device;
    std::vector<std::byte> bytes;
  };

  void read();
  Status readBatch(int64_t number);

  const Dataset &dataset;
  DeviceSet &devices;
  const int64_t end;
  const Order order;
  std::vector<int64_t> samples;
  std::vector<Block> blocks; ///< the reader's until it is ready, else feed()'s
  double secondsWaited = 0;

  std::mutex mutex; // of what follows
  std::condition_variable changed;
  int64_t next; ///< the batch that blocks have or get
  bool isReady = false, isStopped = false;
  Status status = Status::success(); ///< of reading it
  std::thread thread;
};

} // namespace meshc::runtime

#endif

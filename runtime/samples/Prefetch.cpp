#include "runtime/samples/Prefetch.h"

#include "runtime/io/FileErrors.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include <pthread.h>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

Prefetch::Prefetch(const Dataset &dataset, DeviceSet &devices, int64_t first,
                   int64_t end, Order order)
    : dataset(dataset), devices(devices), end(end), order(std::move(order)),
      samples(size_t(dataset.getRunSize())), next(first) {
  if (first >= end)
    return;
  const int64_t numDevices = devices.getExecutable().mesh.getNumDevices();
  for (size_t input = 0; input < dataset.getNumInputs(); ++input) {
    const exec::TensorLayoutT &layout = *dataset.getInput(input).layout;
    const int64_t bytes =
        getLocalElements(layout) * getElementBytes(layout.element);
    for (int64_t device = 0; device < numDevices; ++device)
      if (devices.isLocal(device))
        blocks.push_back(
            {input, device, std::vector<std::byte>(size_t(bytes))});
  }
  // Signals are for the thread that reads them (StopSignals).
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { read(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Prefetch::~Prefetch() {
  {
    const std::lock_guard lock(mutex);
    isStopped = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

Status Prefetch::readRun(int64_t number) {
  order(number, samples);
  for (Block &block : blocks) {
    Status filled = dataset.fill(block.input, devices.getExecutable().mesh,
                                 block.device, samples, block.bytes.data());
    if (!filled)
      return filled;
  }
  return Status::success();
}

void Prefetch::read() {
  std::unique_lock lock(mutex);
  while (!isStopped && next < end && status) {
    const int64_t number = next;
    lock.unlock();
    Status done = Status::success();
    try {
      done = readRun(number);
    } catch (const std::exception &) {
      // It would end the process; who waits for it says what it is.
      done = getCaughtError();
    }
    lock.lock();
    status = std::move(done);
    isReady = true;
    changed.notify_all();
    changed.wait(lock, [&] { return isStopped || !isReady; });
  }
}

Status Prefetch::feed() {
  std::unique_lock lock(mutex);
  secondsWaited = 0;
  if (!isReady) {
    const Clock::time_point start = Clock::now();
    changed.wait(lock, [&] { return isReady; });
    secondsWaited = std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (!status)
    return status;
  for (const Block &block : blocks) {
    Status written = devices.write(
        block.device, dataset.getInput(block.input).buffer, block.bytes.size(),
        [&](std::byte *target) {
          std::memcpy(target, block.bytes.data(), block.bytes.size());
        });
    if (!written)
      return written;
  }
  ++next;
  isReady = false;
  changed.notify_all();
  return Status::success();
}

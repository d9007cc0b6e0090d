#include "runtime/samples/DataCheck.h"

#include "runtime/io/FileErrors.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include <pthread.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// What a thread reads at a time: enough for files of numbers to be read in few
/// calls, little enough for threads to share images.
constexpr int64_t chunkBytes = int64_t(1) << 20;

/// The samples of one input, which threads share. They take chunks in order, so
/// when one meets an error all those before it are taken: of all errors the one
/// with the least number is the first there is.
class InputCheck {
public:
  InputCheck(const Dataset &dataset, size_t input, int64_t first, int64_t end)
      : dataset(dataset), input(input), end(end),
        chunk(std::max<int64_t>(
            1,
            chunkBytes / std::max<int64_t>(1, dataset.getSampleBytes(input)))),
        next(first), done(0) {}

  /// Takes chunks until there are none. `tell` is told of each.
  template <typename Tell> void run(Tell &&tell) {
    std::vector<std::byte> room;
    while (!isStopped) {
      const int64_t begin = next.fetch_add(chunk);
      if (begin >= end)
        return;
      const int64_t last = std::min(begin + chunk, end);
      if (Status read = readSamples(begin, last - begin, room); !read)
        return fail(begin, read.getError());
      done += last - begin;
      tell(done.load());
    }
  }

  Status getStatus() const {
    return error ? Status(error->second) : Status::success();
  }

private:
  Status readSamples(int64_t first, int64_t count,
                     std::vector<std::byte> &room) const {
    try {
      return dataset.readSamples(input, first, count, room);
    } catch (const std::exception &) {
      return getCaughtError();
    }
  }

  void fail(int64_t sample, Error what) {
    isStopped = true;
    const std::lock_guard lock(mutex);
    if (!error || sample < error->first)
      error = {sample, std::move(what)};
  }

  const Dataset &dataset;
  const size_t input;
  const int64_t end;
  const int64_t chunk; ///< samples
  std::atomic<int64_t> next, done;
  std::atomic<bool> isStopped{false};
  std::mutex mutex; // of the error
  std::optional<std::pair<int64_t, Error>> error;
};

} // namespace

Status runtime::checkSamples(const Dataset &dataset, int64_t first, int64_t end,
                             int threads, const ByteListener &listener) {
  uint64_t all = 0, before = 0;
  std::vector<uint64_t> sampleBytes;
  for (size_t input = 0; input < dataset.getNumInputs(); ++input) {
    sampleBytes.push_back(uint64_t(dataset.getSampleBytes(input)));
    all += sampleBytes.back() * uint64_t(end - first);
  }
  for (size_t input = 0; input < dataset.getNumInputs(); ++input) {
    InputCheck check(dataset, input, first, end);
    // Signals are for the thread that reads them (StopSignals).
    sigset_t signals, previous;
    sigfillset(&signals);
    pthread_sigmask(SIG_SETMASK, &signals, &previous);
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < threads; ++i)
        others.emplace_back([&] { check.run([](int64_t) {}); });
      pthread_sigmask(SIG_SETMASK, &previous, nullptr);
      check.run([&](int64_t done) {
        if (listener)
          listener(before + uint64_t(done) * sampleBytes[input], all);
      });
    }
    if (Status read = check.getStatus(); !read)
      return read;
    before += sampleBytes[input] * uint64_t(end - first);
  }
  return Status::success();
}

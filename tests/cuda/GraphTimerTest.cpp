#include "runtime/cuda/GraphTimer.h"
#include "runtime/cuda/library/Gpu.h"
#include "tests/cuda/CudaTesting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;

namespace {

/// A stream, and how often something was enqueued on it.
struct Work {
  static std::string
  run(const std::function<std::string(Work &, const Driver &)> &body) {
    return runEmulated({}, [&]() -> std::string {
      Result<const Driver *> driver = Driver::get();
      if (!driver)
        return driver.getError().message;
      Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
      Result<OwnedStream> stream = makeStream(**driver, 0);
      Result<DeviceMemory> memory = allocate(**driver, 256);
      if (!gpu || !stream || !memory)
        return "cannot begin";
      Work work{stream->get(), memory->get()};
      return body(work, **driver);
    });
  }

  Status issue(const Driver &driver) {
    ++issued;
    return driver.memsetD8Async(memory, 1, 16, stream);
  }

  Stream stream;
  DevicePointer memory;
  int issued = 0;
};

TEST(GraphTimerTest, records_as_often_as_it_is_told) {
  EXPECT_EQ(Work::run([](Work &work, const Driver &driver) -> std::string {
              Result<GraphTimer> timer = GraphTimer::create(
                  driver, work.stream, [&] { return work.issue(driver); }, 5);
              if (!timer)
                return timer.getError().message;
              Result<double> time = timer->measure();
              if (!time || !timer->measure())
                return "cannot measure";
              return fmt::format("{} {}", work.issued, *time > 0);
            }),
            "6 true");
}

TEST(GraphTimerTest, records_short_work_often) {
  // A call of some microseconds, and some that are to take 0.5 ms at least; a
  // machine with much else to do may once take longer for the former.
  EXPECT_EQ(Work::run([](Work &work, const Driver &driver) -> std::string {
              int most = 0;
              for (int trial = 0; trial < 10; ++trial) {
                work.issued = 0;
                Result<GraphTimer> timer = GraphTimer::create(
                    driver, work.stream, [&] { return work.issue(driver); });
                if (!timer)
                  return timer.getError().message;
                if (work.issued > 5 + 1000)
                  return fmt::format("{} calls", work.issued);
                most = std::max(most, work.issued);
              }
              return most >= 5 + 10 ? "" : fmt::format("{} calls", most);
            }),
            "");
}

TEST(GraphTimerTest, a_call_that_fails_ends_the_recording) {
  EXPECT_EQ(Work::run([](Work &work, const Driver &driver) -> std::string {
              Result<GraphTimer> timer = GraphTimer::create(
                  driver, work.stream,
                  [&]() -> Status {
                    MESHC_RETURN_IF_ERROR(work.issue(driver));
                    if (work.issued == 3)
                      return Error{ErrorCode::GpuCallFailed, "the third", ""};
                    return Status::success();
                  },
                  4);
              if (timer)
                return "it works";
              // No capture is open.
              Status done = driver.streamSynchronize(work.stream);
              return timer.getError().message +
                     (done ? ", then none" : done.getError().message);
            }),
            "the third, then none");
}

} // namespace

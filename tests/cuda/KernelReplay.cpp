/// Runs the kernel tests that codegen_kernel_tests wrote for a machine with a
/// GPU: meshc_kernel_replay FOLDER [--deadline SECONDS] [GoogleTest's flags].
/// See kernel_case.fbs.
///
/// Every case is a test. Its program runs three times: command by command, as
/// its graph is recorded, and as that graph; every time the outputs must be
/// what the interpreter computed, and inputs what they were. The kernels that
/// move data are compared bit for bit with the same moves on the CPU, products
/// of cuBLASLt with sums in f64.
///
/// A test that takes longer than the deadline ends the process by SIGALRM. Exit
/// code 77: there is no GPU, and nothing ran. 78: what failed left the GPU's
/// context unusable, as a wrong address does, and later tests did not run.

#include "runtime/cpu/Executor.h"
#include "runtime/cuda/CudaDevices.h"
#include "runtime/cuda/Peers.h"
#include "runtime/exec/HalfFloats.h"
#include "tests/cuda/ProductReplay.h"
#include "tests/cuda/kernel_case_generated.h"
#include "tests/runtime/ProgramBuilder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using meshc::test::KernelCaseT;

namespace {

namespace fs = std::filesystem;
using Devices = Result<std::unique_ptr<cuda::CudaDevices>>;

std::string toText(const Error &error) {
  return error.note.empty() ? error.message : error.message + "; " + error.note;
}

std::unique_ptr<KernelCaseT> readCase(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!meshc::test::VerifyKernelCaseBuffer(verifier))
    return nullptr;
  return meshc::test::UnPackKernelCase(data);
}

//===-- Cases -------------------------------------------------------------===//

double getFloat(exec::ElementType element, const std::byte *place) {
  auto load = [&]<typename T>(T value) {
    std::memcpy(&value, place, sizeof(T));
    return value;
  };
  switch (element) {
  case exec::ElementType::f32:
    return double(load(float()));
  case exec::ElementType::f64:
    return load(double());
  case exec::ElementType::bf16:
    return double(load(BFloat16()).toFloat());
  case exec::ElementType::f16:
    return double(load(Float16()).toFloat());
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    break;
  }
  ADD_FAILURE() << "floats are expected of " << getName(element);
  return NAN;
}

int64_t getInteger(exec::ElementType element, const std::byte *place) {
  int64_t value = 0;
  // The low bytes come first.
  std::memcpy(&value, place, size_t(getElementBytes(element)));
  switch (element) {
  case exec::ElementType::i8:
    return int8_t(value);
  case exec::ElementType::i16:
    return int16_t(value);
  case exec::ElementType::i32:
    return int32_t(value);
  default: // the others are whole, or without a sign
    return value;
  }
}

bool isClose(double found, double expected, double distance) {
  if (std::isnan(expected))
    return std::isnan(found);
  if (std::isinf(expected))
    return found == expected;
  return std::abs(found - expected) <= distance;
}

/// The first difference of a buffer's content from what is expected; empty:
/// none.
std::string compare(const meshc::test::CaseOutputT &output,
                    const std::byte *data, double tolerance) {
  const auto element = exec::ElementType(output.element);
  const int64_t size = getElementBytes(element);
  double largest = 0;
  for (double number : output.floats)
    if (std::isfinite(number))
      largest = std::max(largest, std::abs(number));
  for (size_t i = 0; i < output.floats.size(); ++i) {
    const double found = getFloat(element, data + int64_t(i) * size);
    if (!isClose(found, output.floats[i], tolerance * largest + FLT_MIN))
      return fmt::format("{} at {}: found {}, expected {} within {}",
                         output.name, i, found, output.floats[i],
                         tolerance * largest + FLT_MIN);
  }
  for (size_t i = 0; i < output.integers.size(); ++i) {
    const int64_t found = getInteger(element, data + int64_t(i) * size);
    if (found != output.integers[i])
      return fmt::format("{} at {}: found {}, expected {}", output.name, i,
                         found, output.integers[i]);
  }
  return "";
}

/// Sets every buffer to NaN (-1 of integers), and the inputs.
Status fill(DeviceSet &devices, const KernelCaseT &entry) {
  const auto &buffers = devices.getExecutable().data.buffers;
  for (size_t b = 0; b < buffers.size(); ++b)
    MESHC_RETURN_IF_ERROR(
        devices.write(0, int(b), buffers[b]->bytes, [&](std::byte *target) {
          std::memset(target, 0xff, buffers[b]->bytes);
        }));
  for (const auto &input : entry.inputs)
    MESHC_RETURN_IF_ERROR(devices.write(
        0, input->buffer, input->data.size(), [&](std::byte *target) {
          std::memcpy(target, input->data.data(), input->data.size());
        }));
  return Status::success();
}

/// Runs the program once and compares; empty: all is as expected.
std::string runOnce(DeviceSet &devices, const KernelCaseT &entry) {
  if (Status ran = devices.run(*devices.getExecutable().data.programs.front());
      !ran)
    return toText(ran.getError());
  for (const auto &output : entry.outputs) {
    const auto element = exec::ElementType(output->element);
    const size_t count =
        std::max(output->floats.size(), output->integers.size());
    Result<const std::byte *> data = devices.read(
        0, output->buffer, count * uint64_t(getElementBytes(element)));
    if (!data)
      return toText(data.getError());
    if (std::string text = compare(*output, *data, entry.tolerance);
        !text.empty())
      return text;
  }
  for (const auto &input : entry.inputs) {
    Result<const std::byte *> data =
        devices.read(0, input->buffer, input->data.size());
    if (!data)
      return toText(data.getError());
    if (std::memcmp(*data, input->data.data(), input->data.size()) != 0)
      return "the input '" + input->name + "' was overwritten";
  }
  return "";
}

class CaseTest : public ::testing::Test {
public:
  explicit CaseTest(fs::path path) : path(std::move(path)) {}

  void TestBody() override {
    const std::unique_ptr<KernelCaseT> entry = readCase(path);
    ASSERT_TRUE(entry) << path << " is damaged";
    Result<Executable> executable = Executable::load(entry->executable);
    ASSERT_TRUE(executable) << executable.getError().message;
    cuda::CudaOptions options;
    options.devicesPerGpu = executable->getNumDevices();
    Devices devices = cuda::CudaDevices::create(*executable, options);
    if (!devices && devices.getError().code == ErrorCode::UnsupportedOnGpu)
      GTEST_SKIP() << toText(devices.getError());
    ASSERT_TRUE(devices) << toText(devices.getError());
    Status filled = fill(**devices, *entry);
    ASSERT_TRUE(filled) << toText(filled.getError());
    for (int run = 0; run < 3; ++run)
      ASSERT_EQ(runOnce(**devices, *entry), "") << "run " << run;
  }

private:
  fs::path path;
};

//===-- Moves -------------------------------------------------------------===//

using Axes = std::vector<std::pair<std::string, int64_t>>;

struct MoveOptions {
  exec::ElementType element;
  layout::ReduceKind kind;
  Axes axes;
  uint64_t seed;
};

/// Collectives between random shardings and a transposing copy, a program each.
class MoveTest : public ::testing::Test {
public:
  /// Without `peers` the devices share the GPU.
  MoveTest(fs::path images, MoveOptions options, cuda::Peers *peers = nullptr)
      : peers(peers), images(std::move(images)), options(std::move(options)),
        random(this->options.seed), builder(this->options.axes) {}

  void TestBody() override;

private:
  static constexpr int64_t elements = 840;

  int64_t draw(int64_t count) { return int64_t(random() % uint64_t(count)); }
  layout::Sharding drawSharding(bool mayBePartial);
  void addPrograms();
  /// The same random numbers in both.
  void fill(DeviceSet &expected, DeviceSet &found);
  void compare(DeviceSet &expected, DeviceSet &found);

  cuda::Peers *peers;
  fs::path images;
  MoveOptions options;
  std::mt19937_64 random;
  ProgramBuilder builder;
};

layout::Sharding MoveTest::drawSharding(bool mayBePartial) {
  layout::Sharding sharding;
  sharding.dims.resize(3);
  for (size_t axis = 0; axis < options.axes.size(); ++axis) {
    const layout::AxisRef ref{int32_t(axis), 1, options.axes[axis].second};
    if (mayBePartial && options.kind != layout::ReduceKind::None &&
        draw(2) == 0) {
      sharding.partialAxes.push_back(ref);
      sharding.partialKind = options.kind;
    } else if (int64_t place = draw(4); place < 3) {
      sharding.dims[size_t(place)].push_back(ref);
    }
  }
  return sharding;
}

void MoveTest::addPrograms() {
  const int64_t bytes = elements * getElementBytes(options.element);
  const int from = builder.addBuffer("from", bytes);
  const int to = builder.addBuffer("to", bytes);
  for (int number = 0; number < 6; ++number) {
    // Even blocks and uneven ones, which have padding.
    const std::vector<int64_t> sizes = number % 2
                                           ? std::vector<int64_t>{8, 15, 7}
                                           : std::vector<int64_t>{12, 12, 4};
    builder.beginProgram(fmt::format("collective {}", number));
    builder.addCollective(
        exec::CollectiveKind::exchange,
        makeLayout(options.element, sizes, drawSharding(true)), from,
        makeLayout(options.element, sizes, drawSharding(draw(4) == 0)), to);
  }
  builder.beginProgram("copy");
  builder.addCopy(builder.view(from, options.element, {21, 40}, {40, 1}),
                  builder.view(to, options.element, {21, 40}, {1, 21}));
}

void MoveTest::fill(DeviceSet &expected, DeviceSet &found) {
  auto write = [&](std::byte *target) {
    auto set = [&]<typename T>(T, auto make) {
      for (int64_t i = 0; i < elements; ++i) {
        const T value = T(make());
        std::memcpy(target + i * int64_t(sizeof(T)), &value, sizeof(T));
      }
    };
    auto number = [&] { return float(draw(1 << 20)) * 0x1p-17f - 4; };
    auto integer = [&] { return draw(2001) - 1000; };
    switch (options.element) {
    case exec::ElementType::f32:
      return set(float(), number);
    case exec::ElementType::f64:
      return set(double(), number);
    case exec::ElementType::bf16:
      return set(BFloat16(), [&] { return BFloat16::round(number()); });
    case exec::ElementType::f16:
      return set(Float16(), [&] { return Float16::round(number()); });
    case exec::ElementType::i32:
      return set(int32_t(), integer);
    case exec::ElementType::i64:
      return set(int64_t(), integer);
    case exec::ElementType::boolean:
      return set(uint8_t(), [&] { return draw(2); });
    case exec::ElementType::u8: // blocks hold it as i8
    case exec::ElementType::i8:
      return set(int8_t(), integer);
    case exec::ElementType::i16:
      return set(int16_t(), integer);
    }
  };
  const auto &buffers = expected.getExecutable().data.buffers;
  for (int64_t device = 0; device < expected.getExecutable().getNumDevices();
       ++device)
    for (size_t b = 0; b < buffers.size(); ++b) {
      const std::mt19937_64 start = random;
      Status written = expected.write(device, int(b), buffers[b]->bytes, write);
      ASSERT_TRUE(written) << toText(written.getError());
      random = start;
      written = found.write(device, int(b), buffers[b]->bytes, write);
      ASSERT_TRUE(written) << toText(written.getError());
    }
}

void MoveTest::compare(DeviceSet &expected, DeviceSet &found) {
  const auto &buffers = expected.getExecutable().data.buffers;
  const int64_t size = getElementBytes(options.element);
  for (int64_t device = 0; device < expected.getExecutable().getNumDevices();
       ++device)
    for (size_t b = 0; b < buffers.size(); ++b) {
      Result<const std::byte *> x =
          expected.read(device, int(b), buffers[b]->bytes);
      ASSERT_TRUE(x) << toText(x.getError());
      Result<const std::byte *> y =
          found.read(device, int(b), buffers[b]->bytes);
      ASSERT_TRUE(y) << toText(y.getError());
      for (int64_t i = 0; i < elements; ++i)
        ASSERT_EQ(std::memcmp(*x + i * size, *y + i * size, size_t(size)), 0)
            << "device " << device << ", buffer '" << buffers[b]->name
            << "', element " << i;
    }
}

void MoveTest::TestBody() {
  const std::unique_ptr<KernelCaseT> entry = readCase(images);
  ASSERT_TRUE(entry) << images << " is damaged";
  addPrograms();
  exec::ExecutableT &data = builder.get();
  data.target = exec::Target::cuda;
  data.images =
      std::move(exec::UnPackExecutable(entry->executable.data())->images);
  const Executable executable = builder.finish();
  Result<std::unique_ptr<Executor>> cpu = Executor::create(executable, {}, 1);
  ASSERT_TRUE(cpu) << toText(cpu.getError());
  cuda::CudaOptions cudaOptions;
  cudaOptions.devicesPerGpu = executable.getNumDevices();
  cudaOptions.peers = peers;
  Devices gpu = cuda::CudaDevices::create(executable, cudaOptions);
  if (!gpu && peers && gpu.getError().code == ErrorCode::MissingGpuLibrary)
    GTEST_SKIP() << toText(gpu.getError());
  ASSERT_TRUE(gpu) << toText(gpu.getError());
  for (const auto &program : executable.data.programs) {
    SCOPED_TRACE(program->name);
    fill(**cpu, **gpu);
    for (DeviceSet *set : {static_cast<DeviceSet *>(cpu->get()),
                           static_cast<DeviceSet *>(gpu->get())}) {
      Status ran = set->run(*program);
      ASSERT_TRUE(ran) << toText(ran.getError());
    }
    compare(**cpu, **gpu);
  }
}

/// The one process of a run: what is read back goes through NCCL all the same.
class OneRank : public cuda::Peers {
public:
  int64_t getRank() const override { return 0; }
  int64_t getNumRanks() const override { return 1; }
  Result<std::string> shareFirst(const std::string &,
                                 const std::string &value) override {
    return value;
  }
  Status check() override { return Status::success(); }
};

//===-- All ---------------------------------------------------------------===//

/// The images are unpacked without a check of their own: the emitter's file.
void registerMoves(const fs::path &path) {
  const Axes meshes[] = {{{"x", 2}}, {{"x", 2}, {"y", 3}}, {{"x", 8}}};
  for (exec::ElementType element : exec::EnumValuesElementType())
    for (layout::ReduceKind kind :
         {layout::ReduceKind::None, layout::ReduceKind::Sum,
          layout::ReduceKind::Max, layout::ReduceKind::Min}) {
      const bool isSum = kind == layout::ReduceKind::Sum;
      const bool isOrder =
          kind == layout::ReduceKind::Max || kind == layout::ReduceKind::Min;
      // Operands hold u8 as i8.
      if (element == exec::ElementType::u8 ||
          (element == exec::ElementType::boolean && isSum) ||
          (isForData(element) && isOrder))
        continue;
      for (size_t mesh = 0; mesh < std::size(meshes); ++mesh) {
        const MoveOptions options{element, kind, meshes[mesh], mesh + 1};
        ::testing::RegisterTest(
            "Moves",
            fmt::format("{}_{}_{}", getName(element),
                        exec::EnumNameReduceKind(exec::ReduceKind(int(kind))),
                        mesh)
                .c_str(),
            nullptr, nullptr, __FILE__, __LINE__,
            [path, options]() -> ::testing::Test * {
              return new MoveTest(path, options);
            });
      }
    }
}

/// NCCL with one rank: a communicator is made, broadcasts and is closed.
void registerNccl(const fs::path &path) {
  ::testing::RegisterTest(
      "Nccl", "one_rank", nullptr, nullptr, __FILE__, __LINE__,
      [path]() -> ::testing::Test * {
        static OneRank peers;
        return new MoveTest(
            path,
            {exec::ElementType::f32, layout::ReduceKind::Sum, {{"x", 1}}, 1},
            &peers);
      });
}

/// Registers a test per file; returns how many.
size_t registerTests(const fs::path &folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry &file : fs::directory_iterator(folder))
    if (file.path().extension() == ".case")
      paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path &path : paths) {
    if (path.stem() == "moves") {
      registerMoves(path);
      registerNccl(path);
      continue;
    }
    ::testing::RegisterTest(
        "Kernels", path.stem().c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [path]() -> ::testing::Test * { return new CaseTest(path); });
  }
  return paths.size();
}

/// The GPU that all tests use. It stays open, so that its context does.
Result<std::unique_ptr<cuda::Gpu>> openGpu() {
  Result<const cuda::Driver *> driver = cuda::Driver::get();
  if (!driver)
    return driver.getError();
  Result<int> count = cuda::countGpus(**driver);
  if (!count)
    return count.getError();
  if (*count == 0)
    return Error{ErrorCode::TooFewGpus, "this machine has no GPU", ""};
  return cuda::Gpu::open(**driver, 0);
}

/// Ends the process where going on makes no sense.
class Watch : public ::testing::EmptyTestEventListener {
public:
  /// `seconds` for each test; 0: any time.
  Watch(const cuda::Driver &driver, unsigned seconds)
      : driver(driver), seconds(seconds) {}

  /// The signal ends a process that waits for the GPU, too.
  void OnTestStart(const ::testing::TestInfo &) override { alarm(seconds); }

  void OnTestEnd(const ::testing::TestInfo &info) override {
    alarm(0);
    if (!info.result()->Failed())
      return;
    Status usable = check();
    if (usable)
      return;
    fmt::print("the GPU's context is lost: {}\n", toText(usable.getError()));
    std::fflush(stdout);
    std::_Exit(78);
  }

private:
  Status check() {
    Result<cuda::OwnedStream> stream = cuda::makeStream(driver, 0);
    return stream ? driver.streamSynchronize(stream->get()) : stream.getError();
  }

  const cuda::Driver &driver;
  unsigned seconds;
};

} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool hasDeadline =
      argc == 4 && std::string_view(argv[2]) == "--deadline";
  const int seconds = hasDeadline ? std::atoi(argv[3]) : 0;
  if (argc != 2 && seconds <= 0) {
    fmt::print(stderr, "usage: meshc_kernel_replay FOLDER [--deadline SECONDS] "
                       "[--gtest_...]\n");
    return 2;
  }
  std::error_code error;
  if (!fs::is_directory(argv[1], error) || registerTests(argv[1]) == 0) {
    fmt::print(stderr, "'{}' has no kernel cases\n", argv[1]);
    return 1;
  }
  const Result<std::unique_ptr<cuda::Gpu>> gpu = openGpu();
  if (!gpu) {
    fmt::print("skipped: {}\n", toText(gpu.getError()));
    return 77;
  }
  fmt::print("{}\n", (*gpu)->getProperties().toString());
  registerProducts();
  // GoogleTest owns it.
  ::testing::UnitTest::GetInstance()->listeners().Append(
      new Watch((*gpu)->getDriver(), unsigned(seconds)));
  return RUN_ALL_TESTS();
}

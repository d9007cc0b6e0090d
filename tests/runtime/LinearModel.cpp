#include "tests/runtime/LinearModel.h"

#include "runtime/samples/Idx.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/syscall.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

int test::stepsToInterrupt = 0;
int test::stepsToNan = 0;
size_t test::bytesBelowStackChanged = 0;
std::atomic<int> test::updatesOpenToSignals = 0;

namespace {

constexpr int64_t batch = LinearModel::batch;
constexpr int64_t features = LinearModel::features;

/// w = something that depends on the seed.
void initialise(void *const *operands, const int64_t *, int64_t begin,
                int64_t end) {
  const auto *seed = static_cast<const int64_t *>(operands[0]);
  auto *w = static_cast<float *>(operands[1]);
  for (int64_t i = begin; i < end; ++i)
    w[i] = 0.1f * float(*seed % 10) + 0.01f * float(i);
}

/// residual = prediction - y.
void subtract(void *const *operands, const int64_t *, int64_t begin,
              int64_t end) {
  const auto *prediction = static_cast<const float *>(operands[0]);
  const auto *y = static_cast<const int32_t *>(operands[1]);
  auto *residual = static_cast<float *>(operands[2]);
  for (int64_t i = begin; i < end; ++i)
    residual[i] = prediction[i] - float(y[i]);
}

/// This device's terms of loss and accuracy.
template <int64_t devices>
void measure(void *const *operands, const int64_t *, int64_t, int64_t) {
  const auto *residual = static_cast<const float *>(operands[0]);
  float loss = 0;
  float hits = 0;
  for (int64_t i = 0; i < batch / devices; ++i) {
    loss += residual[i] * residual[i];
    hits += std::abs(residual[i]) < 0.5f ? 1 : 0;
  }
  *static_cast<float *>(operands[1]) = loss / batch;
  *static_cast<float *>(operands[2]) = hits / batch;
}

void scaleGradient(void *const *operands, const int64_t *, int64_t begin,
                   int64_t end) {
  auto *gradient = static_cast<float *>(operands[0]);
  for (int64_t i = begin; i < end; ++i)
    gradient[i] *= 2.0f / batch;
}

/// SIGINT to this thread, as it comes in the middle of a product that keeps
/// data below the stack pointer. Gives how many of these bytes it changed.
[[gnu::noinline, gnu::no_sanitize("address", "thread", "undefined")]] size_t
interruptProduct() {
  // Farther from the stack pointer than the 128 bytes that the system spares.
  constexpr size_t distance = 8192, size = 7168;
  constexpr unsigned char pattern = 0x5a;
  const long process = getpid(), thread = gettid();
  auto *data =
      static_cast<volatile unsigned char *>(__builtin_frame_address(0)) -
      distance;
  for (size_t i = 0; i < size; ++i)
    data[i] = pattern;
  // Not by a call, which would use the stack itself.
  long result = SYS_tgkill;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(process), "S"(thread), "d"(long(SIGINT))
               : "rcx", "r11", "memory");
  size_t changed = 0;
  for (size_t i = 0; i < size; ++i)
    changed += data[i] != pattern;
  return changed;
}

void update(void *const *operands, const int64_t *coordinates, int64_t begin,
            int64_t end) {
  const auto *gradient = static_cast<const float *>(operands[0]);
  auto *w = static_cast<float *>(operands[1]);
  for (int64_t i = begin; i < end; ++i)
    w[i] -= 0.3f * gradient[i];
  if (coordinates[0] == 0 && stepsToNan > 0 && --stepsToNan == 0)
    w[begin] = std::nanf("");
  const bool isMain = gettid() == getpid();
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (!isMain && !sigismember(&blocked, SIGINT))
    ++updatesOpenToSignals;
  if (coordinates[0] != 0 || stepsToInterrupt == 0 || --stepsToInterrupt > 0)
    return;
  if (isMain)
    bytesBelowStackChanged = interruptProduct();
  else
    kill(getpid(), SIGINT);
}

const meshcKernelEntry kernels[] = {
    {"initialise", initialise},        {"subtract", subtract},
    {"measure1", measure<1>},          {"measure2", measure<2>},
    {"measure3", measure<3>},          {"measure4", measure<4>},
    {"scale_gradient", scaleGradient}, {"update", update},
};

} // namespace

std::span<const meshcKernelEntry> LinearModel::getKernels() { return kernels; }

std::vector<uint8_t> LinearModel::makeProgram(int64_t devices,
                                              const std::string &suffix) {
  using exec::ElementType;
  ProgramBuilder builder({{"data", devices}});
  const exec::AxisRef data = builder.axis(0);
  const int64_t rows = batch / devices;
  exec::TensorLayoutT seed = makeLayout(ElementType::i64, {});
  exec::TensorLayoutT x = makeLayout(
      ElementType::f32, {{"batch", batch, {data}}, {"feature", features}});
  exec::TensorLayoutT y =
      makeLayout(ElementType::i32, {{"batch", batch, {data}}});
  exec::TensorLayoutT residuals =
      makeLayout(ElementType::f32, {{"batch", batch, {data}}});
  exec::TensorLayoutT w = makeLayout(ElementType::f32, {{"feature", features}});
  exec::TensorLayoutT partialW = makeLayout(
      ElementType::f32, {{"feature", features}}, exec::ReduceKind::sum, {data});
  exec::TensorLayoutT partialScalar =
      makeLayout(ElementType::f32, {}, exec::ReduceKind::sum, {data});

  const int seedBuffer = builder.addBuffer("seed", seed);
  const int xBuffer = builder.addBuffer("x", x);
  const int yBuffer = builder.addBuffer("y", y);
  const int wBuffer = builder.addBuffer("w", w);
  const int prediction = builder.addBuffer("prediction", rows * 4);
  const int residual = builder.addBuffer("residual", rows * 4);
  const int loss = builder.addBuffer("loss", 4);
  const int accuracy = builder.addBuffer("accuracy", 4);
  const int gradient = builder.addBuffer("gradient", features * 4);
  builder.addVariable("w", w, wBuffer);
  // State: a block for each device.
  builder.addVariable("residual",
                      makeLayout(ElementType::f32, {{"batch", batch, {data}}}),
                      residual, exec::BufferRole::state);

  auto vector = [&](int buffer, int64_t size) {
    return builder.view(buffer, ElementType::f32, {size});
  };
  auto scalar = [&](int buffer) {
    return builder.view(buffer, ElementType::f32, {});
  };
  auto addMatmul = [&](int64_t m, int64_t k, std::vector<int64_t> aStrides,
                       int right, int result) {
    exec::MatmulT matmul;
    matmul.m = m;
    matmul.n = 1;
    matmul.k = k;
    matmul.a_strides = std::move(aStrides);
    matmul.b_strides = {1, 1};
    matmul.c_strides = {1, 1};
    builder.addMatmul(matmul, list(builder.view(xBuffer, ElementType::f32,
                                                {m, k}, matmul.a_strides),
                                   vector(right, k), vector(result, m)));
  };
  auto addForward = [&] {
    builder.addInput("x", x, xBuffer);
    builder.addInput("y", y, yBuffer, labels);
    builder.addOutput("loss", partialScalar, loss);
    builder.addOutput("accuracy", partialScalar, accuracy);
    addMatmul(rows, features, {features, 1}, wBuffer, prediction);
    builder.addKernel("subtract", rows,
                      list(vector(prediction, rows),
                           builder.view(yBuffer, ElementType::i32, {rows}),
                           vector(residual, rows)),
                      1);
    builder.addKernel(
        "measure" + std::to_string(devices), 1,
        list(vector(residual, rows), scalar(loss), scalar(accuracy)), 2);
  };
  auto addGradient = [&] {
    addMatmul(features, rows, {1, features}, residual, gradient);
    builder.addKernel("scale_gradient", features,
                      list(vector(gradient, features)), 1);
  };

  builder.beginProgram("init");
  builder.setSeed(seed, seedBuffer);
  builder.addKernel("initialise", features,
                    list(builder.view(seedBuffer, ElementType::i64, {}),
                         vector(wBuffer, features)),
                    1);
  builder.beginProgram("step");
  addForward();
  addGradient();
  builder.addCollective(exec::CollectiveKind::all_reduce, partialW, gradient, w,
                        gradient);
  builder.addKernel("update", features,
                    list(vector(gradient, features), vector(wBuffer, features)),
                    1);
  builder.beginProgram("eval");
  addForward();
  builder.addOutput("residual", residuals, residual);
  builder.beginProgram("gradient");
  addForward();
  builder.addOutput("residual", residuals, residual);
  addGradient();
  builder.addOutput("grad:w", partialW, gradient);

  exec::ExecutableT &executable = builder.get();
  executable.model = "linear";
  for (const char *input : {"x", "y"}) {
    auto source = std::make_unique<exec::DataSourceT>();
    source->input = input;
    source->train = std::string("train-") + input + suffix;
    source->test = std::string("test-") + input + suffix;
    executable.data.push_back(std::move(source));
  }
  executable.training = std::make_unique<exec::TrainingT>();
  executable.training->minimize = "loss";
  executable.training->epochs = 30;
  executable.sample_dim = "batch";
  builder.addWaits();
  return builder.serialize();
}

TemporaryFolder::TemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "meshc-test-XXXXXX").string();
  path = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path); }

void test::writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string test::readBytes(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string test::makeIdx(const std::vector<int64_t> &sizes,
                          const std::string &elements, char type) {
  std::string text = {0, 0, type, char(sizes.size())};
  for (int64_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8)
      text += char(size >> shift);
  return text + elements;
}

std::string test::compress(const std::string &bytes) {
  std::string result(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(
      deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef *>(result.data());
  stream.avail_out = uInt(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

void test::writeLinearData(const TemporaryFolder &folder, int64_t trainSamples,
                           int64_t testSamples) {
  uint32_t state = 1;
  auto write = [&](const std::string &split, int64_t samples) {
    std::string x, y;
    for (int64_t i = 0; i < samples; ++i) {
      double label = 0;
      for (int64_t j = 0; j < features; ++j) {
        state = state * 1664525 + 1013904223;
        const auto value =
            std::bit_cast<uint32_t>(float(double(state >> 24) / 255));
        for (int shift : {24, 16, 8, 0})
          x += char(value >> shift);
        label += (j == 1 ? 4 : 2) * double(state >> 24) / 255;
      }
      y += char(std::lround(label));
    }
    writeBytes(folder / (split + "-x"), makeIdx({samples, features}, x, 0x0d));
    // One of the two in gzip.
    writeBytes(folder / (split + "-y"), compress(makeIdx({samples}, y)));
  };
  write("train", trainSamples);
  write("test", testSamples);
}

void test::splitLinearData(const TemporaryFolder &folder,
                           const std::vector<int64_t> &counts) {
  for (const char *name : {"train-x", "train-y"}) {
    const IdxFile file = *readIdx(folder / name);
    std::filesystem::remove(folder / name);
    const size_t width = file.data.size() / size_t(file.getNumItems());
    const char *next = reinterpret_cast<const char *>(file.data.data());
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<int64_t> sizes = file.sizes;
      sizes[0] = counts[i];
      const size_t bytes = size_t(counts[i]) * width;
      writeBytes(folder / (name + std::to_string(i)),
                 makeIdx(sizes, std::string(next, bytes), char(file.type)));
      next += bytes;
    }
  }
}

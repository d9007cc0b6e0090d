#include "tests/cuda/RandomProgram.h"

#include "tests/cuda/ImageKernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;
constexpr int numBuffers = 6;

void mix(void *const *operands, const int64_t *coordinates, int64_t begin,
         int64_t end) {
  const auto *a = static_cast<const float *>(operands[0]);
  const auto *b = static_cast<const float *>(operands[1]);
  auto *to = static_cast<float *>(operands[2]);
  for (int64_t i = begin; i < end; ++i)
    to[i] = mixElement(a[i], b[i], i, coordinates[0]);
}

void reverse(void *const *operands, const int64_t *, int64_t begin,
             int64_t end) {
  const auto *from = static_cast<const float *>(operands[0]);
  auto *to = static_cast<float *>(operands[1]);
  for (int64_t i = begin; i < end; ++i)
    to[i] = from[i / 64 * 64 + 63 - i % 64];
}

void stray(void *const *, const int64_t *, int64_t, int64_t) {}

const meshcKernelEntry kernels[] = {
    {"mix", mix}, {"reverse", reverse}, {"stray", stray}};

class Generator {
public:
  Generator(uint64_t seed, const RandomOptions &options)
      : options(options), random(seed), builder(options.axes) {}

  Executable generate();

private:
  int64_t draw(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  /// Another buffer than those given.
  int drawBuffer(const std::set<int> &others) {
    for (;;)
      if (int buffer = int(draw(numBuffers)); !others.count(buffer))
        return buffer;
  }
  std::unique_ptr<exec::OperandT> view(int buffer) {
    return builder.view(buffer, f32, {mixElements});
  }
  /// Sets queue and waits of a command that reads and writes these.
  void finish(exec::CommandT &command, std::set<int> reads,
              std::set<int> writes);
  void addMix(int a, int b, int to);
  void addKernel();
  void addCopy();
  void addProduct();
  void addCollective();
  void addTransfer();
  layout::Sharding drawSharding(layout::ReduceKind kind);
  void drawWindows(const std::vector<int64_t> &sizes, layout::Sharding &target);

  const RandomOptions &options;
  std::mt19937_64 random;
  ProgramBuilder builder;
  std::vector<std::set<int>> reads;
  std::vector<std::set<int>> writes;
};

bool overlap(const std::set<int> &x, const std::set<int> &y) {
  return std::any_of(x.begin(), x.end(),
                     [&](int buffer) { return y.count(buffer) > 0; });
}

void Generator::finish(exec::CommandT &command, std::set<int> commandReads,
                       std::set<int> commandWrites) {
  command.queue = exec::Queue(draw(2));
  for (size_t j = 0; j < writes.size(); ++j)
    if (overlap(commandReads, writes[j]) || overlap(commandWrites, writes[j]) ||
        overlap(commandWrites, reads[j]))
      command.waits.push_back(int(j));
  reads.push_back(std::move(commandReads));
  writes.push_back(std::move(commandWrites));
}

void Generator::addMix(int a, int b, int to) {
  exec::CommandT &command = builder.addKernel(
      "mix", mixElements, list(view(a), view(b), view(to)), 1);
  finish(command, {a, b}, {to});
}

void Generator::addKernel() {
  const int a = int(draw(numBuffers));
  if (draw(3) > 0)
    return addMix(a, int(draw(numBuffers)), int(draw(numBuffers)));
  const int to = drawBuffer({a});
  exec::CommandT &command =
      builder.addKernel("reverse", 832, list(view(a), view(to)), 1);
  finish(command, {a}, {to});
}

void Generator::addCopy() {
  struct Form {
    std::vector<int64_t> shape, from, to;
  };
  const Form forms[] = {
      {{840}, {1}, {1}},
      {{20, 42}, {42, 1}, {42, 1}},
      {{20, 30}, {42, 1}, {30, 1}},
      {{21, 40}, {40, 1}, {1, 21}},
      {{3, 4, 5}, {200, 30, 2}, {20, 5, 1}},
      {{2, 3, 7}, {100, 20, 1}, {200, 7, 1}},
      {{5, 6}, {0, 1}, {6, 1}},
      {{}, {}, {}},
  };
  const Form &form = forms[draw(std::size(forms))];
  const int from = int(draw(numBuffers));
  const int to = drawBuffer({from});
  const uint64_t offset = form.shape.size() == 1 ? 0 : uint64_t(draw(5)) * 4;
  exec::CommandT &command =
      builder.addCopy(builder.view(from, f32, form.shape, form.from),
                      builder.view(to, f32, form.shape, form.to,
                                   form.shape.size() < 3 ? 0 : offset));
  finish(command, {from}, {to});
}

void Generator::addProduct() {
  const int a = int(draw(numBuffers));
  const int b = drawBuffer({a});
  const int c = drawBuffer({a, b});
  // Factors are small, so that the product is exact.
  addMix(a, b, a);
  addMix(b, a, b);
  exec::MatmulT matmul;
  matmul.m = 6;
  matmul.n = 14;
  matmul.k = 10;
  switch (draw(5)) {
  case 0:
    matmul.a_strides = {10, 1};
    matmul.b_strides = {14, 1};
    matmul.c_strides = {14, 1};
    break;
  case 1: // both factors transposed
    matmul.a_strides = {1, 6};
    matmul.b_strides = {1, 10};
    matmul.c_strides = {14, 1};
    break;
  case 2: // columns of the result are contiguous
    matmul.a_strides = {10, 1};
    matmul.b_strides = {14, 1};
    matmul.c_strides = {1, 6};
    break;
  case 3: // two batch dimensions, the inner one between m and k
    matmul.batch = {2, 3};
    matmul.a_strides = {180, 10, 30, 1};
    matmul.b_strides = {140, 0, 14, 1};
    matmul.c_strides = {252, 14, 42, 1};
    break;
  case 4: // rows further apart than they are long
    matmul.batch = {3};
    matmul.a_strides = {100, 12, 1};
    matmul.b_strides = {280, 1, 20};
    matmul.c_strides = {100, 16, 1};
    break;
  }
  std::vector<std::unique_ptr<exec::OperandT>> operands;
  operands.push_back(view(a));
  operands.push_back(view(b));
  std::set<int> read = {a, b};
  matmul.has_bias = matmul.c_strides.back() == 1 && draw(2) == 0;
  if (matmul.has_bias) {
    operands.push_back(builder.view(a, f32, {14}));
    matmul.activation =
        draw(2) ? exec::Activation::relu : exec::Activation::none;
  }
  matmul.accumulate =
      matmul.activation == exec::Activation::none && draw(3) == 0;
  if (matmul.accumulate) {
    addMix(c, a, c);
    read.insert(c);
  }
  operands.push_back(view(c));
  finish(builder.addMatmul(matmul, std::move(operands)), read, {c});
}

layout::Sharding Generator::drawSharding(layout::ReduceKind kind) {
  layout::Sharding sharding;
  sharding.dims.resize(3);
  for (size_t axis = 0; axis < options.axes.size(); ++axis) {
    const layout::AxisRef ref{int32_t(axis), 1, options.axes[axis].second};
    const int64_t place = draw(5);
    if (place < 3)
      sharding.dims[size_t(place)].push_back(ref);
    else if (place == 3 && kind != layout::ReduceKind::None) {
      sharding.partialAxes.push_back(ref);
      sharding.partialKind = kind;
    }
  }
  return sharding;
}

/// Of dimensions that are split, where blocks do not become too large.
void Generator::drawWindows(const std::vector<int64_t> &sizes,
                            layout::Sharding &target) {
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (target.dims[dim].empty() || draw(4) == 0)
      continue;
    layout::Sharding trial = target;
    trial.windows.resize(sizes.size());
    layout::Window window{"w", 1 + draw(sizes[dim]), 1 + draw(2)};
    window.low = draw(6) - 4;
    window.high = window.low + draw(3);
    trial.windows[dim] = window;
    int64_t elements = 1;
    for (int64_t size : layout::getLocalShape(sizes, trial))
      elements *= size;
    if (elements <= mixElements)
      target = std::move(trial);
  }
}

void Generator::addCollective() {
  const int from = int(draw(numBuffers));
  const layout::ReduceKind kinds[] = {
      layout::ReduceKind::Sum, layout::ReduceKind::Sum, layout::ReduceKind::Max,
      layout::ReduceKind::Min};
  const layout::ReduceKind kind = kinds[draw(4)];
  const std::vector<int64_t> sizes = options.isEven
                                         ? std::vector<int64_t>{12, 12, 4}
                                         : std::vector<int64_t>{8, 15, 7};
  const layout::Sharding source = drawSharding(kind);
  layout::Sharding target =
      drawSharding(draw(4) == 0 ? kind : layout::ReduceKind::None);
  const bool inPlace = draw(4) == 0;
  if (inPlace)
    target.dims = source.dims, target.partialAxes.clear(),
    target.partialKind = layout::ReduceKind::None;
  const int to = inPlace ? from : drawBuffer({from});
  if (options.hasWindows && !inPlace) {
    // What is outside is 0: another kind of identity there is none.
    target.partialAxes.clear(), target.partialKind = layout::ReduceKind::None;
    drawWindows(sizes, target);
  }
  addMix(from, from, from);
  exec::CommandT &command = builder.addCollective(
      exec::CollectiveKind::exchange, makeLayout(f32, sizes, source), from,
      makeLayout(f32, sizes, target), to);
  finish(command, {from}, {to});
}

/// Two or three collectives over the same axes, of one kind.
void Generator::addTransfer() {
  std::vector<layout::AxisRef> axes;
  layout::Sharding others;
  others.dims.resize(3);
  for (size_t axis = 0; axis < options.axes.size(); ++axis) {
    const layout::AxisRef ref{int32_t(axis), 1, options.axes[axis].second};
    if (axis == 0 || draw(2))
      axes.push_back(ref);
    else if (const int64_t place = draw(4); place < 3)
      others.dims[size_t(place)].push_back(ref);
  }
  const int64_t kind = draw(3); // all_reduce, reduce_scatter, all_gather
  std::set<int> read, written;
  exec::CommandT *command = nullptr;
  std::vector<int> sources;
  const int64_t members = 2 + draw(2);
  while (int64_t(sources.size()) < members)
    sources.push_back(drawBuffer({sources.begin(), sources.end()}));
  for (int from : sources)
    addMix(from, from, from);
  read.insert(sources.begin(), sources.end());
  for (int from : sources) {
    const std::vector<int64_t> sizes =
        options.isEven ? std::vector<int64_t>{12, 12, 4}
                       : std::vector<int64_t>{2 + draw(7), 15, 1 + draw(7)};
    layout::Sharding source = others, target = others;
    const size_t place = size_t(draw(3));
    if (kind < 2) {
      source.partialAxes = axes;
      source.partialKind = layout::ReduceKind::Sum;
    }
    if (kind == 1)
      target.dims[place].insert(target.dims[place].end(), axes.begin(),
                                axes.end());
    if (kind == 2)
      source.dims[place].insert(source.dims[place].end(), axes.begin(),
                                axes.end());
    int to = from;
    if (kind > 0 || draw(2)) {
      std::set<int> taken = read;
      taken.insert(written.begin(), written.end());
      to = drawBuffer(taken);
    }
    written.insert(to);
    const exec::TensorLayoutT before = makeLayout(f32, sizes, source);
    const exec::TensorLayoutT after = makeLayout(f32, sizes, target);
    if (command)
      builder.addMember(*command, before, from, after, to);
    else
      command = &builder.addCollective(exec::CollectiveKind::exchange, before,
                                       from, after, to);
  }
  finish(*command, read, written);
}

Executable Generator::generate() {
  for (int i = 0; i < numBuffers; ++i)
    builder.addBuffer("b" + std::to_string(i), mixElements * 4);
  builder.beginProgram("p");
  while (int64_t(writes.size()) < options.commands) {
    const int64_t choice = draw(8);
    if (choice < 3)
      addKernel();
    else if (choice < 5)
      addCopy();
    else if (choice == 5 && options.hasProducts)
      addProduct();
    else if (choice > 5 && options.hasCollectives)
      options.hasTransfers &&draw(3) == 0 ? addTransfer() : addCollective();
  }
  addHostImage(builder.get());
  return builder.finish();
}

} // namespace

Executable test::makeRandomProgram(uint64_t seed,
                                   const RandomOptions &options) {
  return Generator(seed, options).generate();
}

std::span<const meshcKernelEntry> test::getRandomKernels() { return kernels; }

void test::addHostImage(exec::ExecutableT &data) {
  data.target = exec::Target::cuda;
  auto image = std::make_unique<exec::GpuImageT>();
  image->architecture = "host";
  image->kind = exec::ImageKind::host;
  std::ifstream file(MESHC_CUDA_TEST_IMAGE, std::ios::binary);
  image->data.assign(std::istreambuf_iterator<char>(file), {});
  data.images.push_back(std::move(image));
  for (const auto &program : data.programs)
    for (const auto &command : program->commands) {
      exec::KernelT *kernel = command->action.AsKernel();
      if (!kernel)
        continue;
      auto launch = std::make_unique<exec::LaunchT>();
      launch->symbol = kernel->symbol;
      launch->block = 64;
      launch->grid = std::max<int64_t>(1, (kernel->extent + 63) / 64);
      launch->shared_bytes = 64 * 4;
      kernel->launches.push_back(std::move(launch));
    }
}

static std::string describe(const Error &error) {
  return fmt::format("{}: {}", int(error.code), error.message);
}

std::string test::compareRuns(DeviceSet &expected, DeviceSet &found, int runs) {
  const Executable &executable = expected.getExecutable();
  const int64_t devices = executable.getNumDevices();
  for (DeviceSet *set : {&expected, &found})
    for (int64_t device = 0; device < devices; ++device)
      for (size_t b = 0; b < executable.data.buffers.size(); ++b) {
        Status written =
            set->write(device, int(b), executable.data.buffers[b]->bytes,
                       [&](std::byte *target) {
                         auto *values = reinterpret_cast<float *>(target);
                         for (int64_t i = 0; i < mixElements; ++i)
                           values[i] =
                               float((i * int64_t(b + 3) + device) % 9 - 4);
                       });
        if (!written)
          return describe(written.getError());
      }
  for (int run = 0; run < runs; ++run) {
    for (DeviceSet *set : {&expected, &found})
      if (Status ran = set->run(*set->getExecutable().data.programs[0]); !ran)
        return describe(ran.getError());
    for (int64_t device = 0; device < devices; ++device)
      for (size_t b = 0; b < executable.data.buffers.size(); ++b) {
        const uint64_t bytes = executable.data.buffers[b]->bytes;
        Result<const std::byte *> x = expected.read(device, int(b), bytes);
        Result<const std::byte *> y = found.read(device, int(b), bytes);
        if (!y)
          return describe(y.getError());
        for (uint64_t i = 0; i < bytes; i += 4) {
          float values[2];
          std::memcpy(&values[0], *x + i, 4);
          std::memcpy(&values[1], *y + i, 4);
          if (std::memcmp(&values[0], &values[1], 4) != 0)
            return fmt::format("run {}, device {}, buffer {}, element {}: "
                               "expected {}, found {}",
                               run, device, b, i / 4, values[0], values[1]);
        }
      }
  }
  return "";
}

// How fast the products of plans are on this machine's GPU with the algorithm
// that cuBLASLt names first, which is what executables use, and with the
// fastest of all that it offers:
//
//   meshc-gpu-matmuls [--candidates 64] [--iterations 0] [--rounds 5]
//                     [--skip 0] PLAN...
//
// A PLAN is what `meshc plan --target cuda` leaves for `meshc explain`, a file
// "last-plan-..." in MESHC_CACHE_DIR. Prints a line of JSON for every different
// product of their training steps as soon as it is measured, always in the same
// order; `skip` leaves out the first ones, which were measured before.
//
// All algorithms are timed in turns, `iterations` products at a time in a
// graph, or as many as keep the host out of it for 0, and the median of
// `rounds` counts. Operands are random: on a GPU the power that a product
// takes, and so its clock, depends on the numbers. They are the same in all
// calls, so what fits into the caches is there.

#include "runtime/cuda/GraphTimer.h"
#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/library/Gpu.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/MatmulOperands.h"
#include "runtime/io/File.h"
#include "runtime/io/Json.h"
#include "runtime/ranks/Ranks.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {

struct Options {
  int candidates = 64;
  int iterations = 0;
  int rounds = 5;
  size_t skip = 0;
  std::vector<std::string> plans;
};

/// A product and how many like it a training step has.
struct Product {
  const exec::ExecutableT *executable;
  const exec::CommandT *command;
  MatmulPlan plan;
  int64_t count = 0;
};

/// Milliseconds of a call with each algorithm, the library's favourite first;
/// negative where the library then refuses it.
using Times = std::vector<double>;

//===-- Products ----------------------------------------------------------===//

/// What the library does besides multiplying.
std::vector<std::string> getEnding(const exec::MatmulT &matmul) {
  std::vector<std::string> parts;
  auto add = [&](bool has, std::string name) {
    if (has)
      parts.push_back(std::move(name));
  };
  add(matmul.has_bias, "bias");
  add(matmul.accumulate, "accumulate");
  add(matmul.has_addend, "addend");
  add(matmul.activation != exec::Activation::none,
      std::string(matmul.is_gradient ? "gradient of " : "") +
          exec::EnumNameActivation(matmul.activation));
  add(matmul.has_aux, "aux");
  add(matmul.column_sum != exec::ColumnSum::none, "column sums");
  return parts;
}

const exec::OperandT &getResult(const exec::CommandT &command) {
  const int place = getOperandOrder(*command.action.AsMatmul()).c;
  return *command.operands[size_t(place)];
}

std::string getKey(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  return fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {}", matmul.m, matmul.n, matmul.k,
      fmt::join(matmul.batch, ","), fmt::join(matmul.a_strides, ","),
      fmt::join(matmul.b_strides, ","), fmt::join(matmul.c_strides, ","),
      fmt::join(getEnding(matmul), ","), int(matmul.column_sum),
      int(command.operands.front()->element), int(getResult(command).element));
}

/// Adds the products of the training step. Errors: see planMatmul.
Status addProducts(const Executable &executable,
                   std::map<std::string, Product> &products) {
  const exec::ProgramT *step = executable.findProgram("step");
  if (!step)
    return Error{ErrorCode::UnknownProgram, "the plan has no training step",
                 ""};
  for (const auto &command : step->commands) {
    if (command->action.type != exec::Action::Matmul)
      continue;
    Result<MatmulPlan> plan = planMatmul(*command);
    if (!plan)
      return plan.getError();
    auto [entry, isNew] = products.try_emplace(
        getKey(*command),
        Product{&executable.data, command.get(), std::move(*plan)});
    ++entry->second.count;
  }
  return Status::success();
}

//===-- Operands ----------------------------------------------------------===//

/// Random numbers in [-1, 1) of a type, repeated to `bytes`.
std::vector<std::byte> makeNumbers(exec::ElementType element, uint64_t bytes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const uint64_t size = uint64_t(getElementBytes(element));
  std::vector<std::byte> numbers(std::min<uint64_t>(bytes, size << 20));
  for (uint64_t place = 0; place + size <= numbers.size(); place += size) {
    auto store = [&](auto value) {
      std::memcpy(numbers.data() + place, &value, sizeof(value));
    };
    const float number = uniform(random);
    switch (element) {
    case exec::ElementType::f32:
      store(number);
      break;
    case exec::ElementType::f64:
      store(double(number));
      break;
    case exec::ElementType::bf16:
      store(BFloat16::round(number));
      break;
    case exec::ElementType::f16:
      store(Float16::round(number));
      break;
    case exec::ElementType::i32: // the bits that relu leaves behind
      store(uint32_t(random()));
      break;
    case exec::ElementType::i64:
    case exec::ElementType::boolean:
    case exec::ElementType::u8:
    case exec::ElementType::i8:
    case exec::ElementType::i16:
      break; // planMatmul refuses them
    }
  }
  return numbers;
}

/// An operand in memory of its own, aligned as in the program.
class Operand {
public:
  static Result<Operand> create(const Driver &driver,
                                const exec::ExecutableT &executable,
                                const exec::OperandT &operand, Stream stream) {
    const exec::BufferT &buffer = *executable.buffers[size_t(operand.buffer)];
    const uint64_t shift = buffer.offset % alignment;
    Result<DeviceMemory> memory = allocate(driver, shift + buffer.bytes);
    if (!memory)
      return memory.getError();
    Operand result;
    result.memory = std::move(*memory);
    const DevicePointer start = result.memory.get() + shift;
    result.address = start + operand.offset;
    const std::vector<std::byte> numbers =
        makeNumbers(operand.element, buffer.bytes);
    for (uint64_t begin = 0; begin < buffer.bytes; begin += numbers.size())
      MESHC_RETURN_IF_ERROR(driver.memcpyHtoDAsync(
          start + begin, numbers.data(),
          std::min<uint64_t>(numbers.size(), buffer.bytes - begin), stream));
    MESHC_RETURN_IF_ERROR(driver.streamSynchronize(stream));
    return result;
  }

  DevicePointer address = 0;

private:
  /// What the driver's allocations are multiples of.
  static constexpr uint64_t alignment = 256;
  DeviceMemory memory;
};

//===-- Measurement -------------------------------------------------------===//

class Measurement {
public:
  static Result<Measurement> create(Gpu &gpu, const Options &options);
  Result<Times> run(const Product &product, bool hasTables);

private:
  Measurement(Gpu &gpu, const Options &options) : gpu(gpu), options(options) {}

  Gpu &gpu;
  const Options &options;
  std::unique_ptr<MatmulCalls> calls;
  DeviceMemory workspace;
  OwnedStream stream;
};

Result<Measurement> Measurement::create(Gpu &gpu, const Options &options) {
  Measurement made(gpu, options);
  const Driver &driver = gpu.getDriver();
  Result<std::unique_ptr<MatmulCalls>> calls =
      MatmulCalls::create(driver, options.candidates);
  if (!calls)
    return calls.getError();
  made.calls = std::move(*calls);
  Result<DeviceMemory> workspace = allocate(driver, matmulWorkspaceBytes);
  if (!workspace)
    return workspace.getError();
  made.workspace = std::move(*workspace);
  Result<OwnedStream> stream = makeStream(driver, 0);
  if (!stream)
    return stream.getError();
  made.stream = std::move(*stream);
  return made;
}

Result<Times> Measurement::run(const Product &product, bool hasTables) {
  std::vector<Operand> operands;
  for (const auto &operand : product.command->operands) {
    Result<Operand> made = Operand::create(gpu.getDriver(), *product.executable,
                                           *operand, stream.get());
    if (!made)
      return made.getError();
    operands.push_back(std::move(*made));
  }
  const MatmulOperandOrder order =
      getOperandOrder(*product.command->action.AsMatmul());
  auto get = [&](int place) {
    return place < 0 ? 0 : operands[size_t(place)].address;
  };
  MatmulPlan plan = product.plan;
  plan.hasTables = hasTables;
  DeviceMemory tables;
  if (hasTables) {
    Result<DeviceMemory> allocated =
        allocate(gpu.getDriver(), getTableBytes(plan));
    if (!allocated)
      return allocated.getError();
    tables = std::move(*allocated);
  }
  const MatmulPointers pointers{get(0),
                                get(1),
                                get(order.c),
                                get(std::max(order.bias, order.sums)),
                                get(order.aux),
                                get(order.addend),
                                hasTables ? tables.get() : 0};
  Result<MatmulCall *> call = calls->prepare(plan, pointers);
  if (!call)
    return call.getError();
  if (hasTables) {
    // The library may have refused them.
    if (!plan.hasTables)
      return Times();
    const std::vector<uint64_t> addresses =
        MatmulCalls::makeTables(plan, pointers);
    MESHC_RETURN_IF_ERROR(gpu.getDriver().memcpyHtoDAsync(
        tables.get(), addresses.data(), getTableBytes(plan), stream.get()));
    MESHC_RETURN_IF_ERROR(gpu.getDriver().streamSynchronize(stream.get()));
  }
  std::vector<std::optional<GraphTimer>> timers;
  for (size_t i = 0; i < calls->getNumCandidates(**call); ++i) {
    MatmulCalls::choose(**call, i);
    Result<GraphTimer> timer = GraphTimer::create(
        gpu.getDriver(), stream.get(),
        [&] {
          return calls->run(plan, **call, pointers, workspace.get(),
                            stream.get());
        },
        options.iterations);
    if (!timer && i == 0)
      return timer.getError();
    timers.emplace_back();
    if (timer)
      timers.back() = std::move(*timer);
  }
  MatmulCalls::choose(**call, 0);
  // The first round warms up.
  std::vector<std::vector<double>> rounds(timers.size());
  for (int round = 0; round <= options.rounds; ++round)
    for (size_t i = 0; i < timers.size(); ++i) {
      if (!timers[i])
        continue;
      Result<double> time = timers[i]->measure();
      if (!time)
        return time.getError();
      if (round > 0)
        rounds[i].push_back(*time * 1e-3);
    }
  Times times;
  for (std::vector<double> &times_ : rounds) {
    std::nth_element(times_.begin(), times_.begin() + times_.size() / 2,
                     times_.end());
    times.push_back(times_.empty() ? -1 : times_[times_.size() / 2]);
  }
  return times;
}

/// `separate`: a call for each batch, where one by address has taken `times`.
void print(const Product &product, const Times &times, const Times &separate) {
  const exec::MatmulT &matmul = *product.command->action.AsMatmul();
  size_t best = 0;
  int64_t failed = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    failed += times[i] < 0;
    if (times[i] >= 0 && times[i] < times[best])
      best = i;
  }
  fmt::print(
      "{{\"name\": {}, \"element\": \"{}\", \"result\": \"{}\", \"m\": {}, "
      "\"n\": {}, \"k\": {}, \"batch\": [{}], \"calls\": {}, \"ending\": "
      "\"{}\", \"per_step\": {}, "
      "\"candidates\": {}, \"failed\": {}, \"chosen_ms\": {:.6f}, "
      "\"best_ms\": {:.6f}, \"best_rank\": {}, \"separate_ms\": {}, "
      "\"chosen_gflops\": {:.1f}}}\n",
      toJson(product.command->name),
      getName(product.command->operands.front()->element),
      getName(getResult(*product.command).element), matmul.m, matmul.n,
      matmul.k, fmt::join(matmul.batch, ", "),
      separate.empty() ? product.plan.calls.size() : size_t(1),
      fmt::join(getEnding(matmul), ", "), product.count, times.size(), failed,
      times[0], times[best], best,
      separate.empty() ? "null" : fmt::format("{:.6f}", separate[0]),
      double(product.command->flops) / times[0] / 1e6);
  std::fflush(stdout);
}

Status measure(const Options &options) {
  std::vector<std::unique_ptr<Executable>> executables;
  std::map<std::string, Product> products;
  for (const std::string &path : options.plans) {
    Result<std::vector<std::byte>> bytes = readFile(path);
    if (!bytes)
      return bytes.getError();
    Result<Executable> executable = Executable::load(
        {reinterpret_cast<const uint8_t *>(bytes->data()), bytes->size()});
    if (!executable)
      return executable.getError();
    executables.push_back(std::make_unique<Executable>(std::move(*executable)));
    MESHC_RETURN_IF_ERROR(addProducts(*executables.back(), products));
  }
  Result<const Driver *> driver = Driver::get();
  if (!driver)
    return driver.getError();
  Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
  if (!gpu)
    return gpu.getError();
  Result<Measurement> measurement = Measurement::create(**gpu, options);
  if (!measurement)
    return measurement.getError();
  size_t number = 0;
  for (const auto &[key, product] : products) {
    if (number++ < options.skip)
      continue;
    Result<Times> separate = measurement->run(product, false);
    if (!separate)
      return separate.getError();
    Times byAddress;
    if (product.plan.hasTables) {
      Result<Times> times = measurement->run(product, true);
      if (!times)
        return times.getError();
      byAddress = std::move(*times);
    }
    if (byAddress.empty())
      print(product, *separate, {});
    else
      print(product, byAddress, *separate);
  }
  return Status::success();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Products of plans on a GPU: cuBLASLt's first algorithm beside "
               "its fastest."};
  Options options;
  const auto positive = CLI::Range(1, 1 << 20);
  app.add_option("--candidates", options.candidates, "algorithms at most")
      ->check(positive);
  app.add_option("--iterations", options.iterations,
                 "products timed together; 0: many enough")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--rounds", options.rounds, "times of each; the median counts")
      ->check(positive);
  app.add_option("--skip", options.skip, "products at the beginning");
  app.add_option("plans", options.plans, "files of meshc plan --target cuda")
      ->required();
  CLI11_PARSE(app, argc, argv);
  if (Status measured = measure(options); !measured) {
    printError(measured.getError());
    return int(getExitCode(measured.getError().code));
  }
  return 0;
}

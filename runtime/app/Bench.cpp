#include "runtime/app/Bench.h"

#include "runtime/exec/kinds/CommandKind.h"
#include "runtime/io/Json.h"
#include "runtime/io/StandardStreams.h"

#include <Random123/philox.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string_view>

using namespace meshc;
using namespace meshc::runtime;

/// FNV-1a, 64 bits: the same on every machine, unlike std::hash.
static uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

/// Two independent uniform numbers for each index.
static std::array<uint64_t, 2> draw(uint64_t key, uint64_t stream,
                                    uint64_t index) {
  r123::Philox4x32 philox;
  r123::Philox4x32::ctr_type counter = {{uint32_t(index), uint32_t(index >> 32),
                                         uint32_t(stream),
                                         uint32_t(stream >> 32)}};
  r123::Philox4x32::key_type words = {{uint32_t(key), uint32_t(key >> 32)}};
  r123::Philox4x32::ctr_type random = philox(counter, words);
  return {random[0] | uint64_t(random[1]) << 32, random[2] | uint64_t(random[3])
                                                                 << 32};
}

HostArray runtime::makeRandomInput(const exec::PortT &port, int64_t seed) {
  HostArray array{port.layout->element, getSizes(*port.layout), {}};
  const int64_t count = array.getNumElements();
  const int64_t bytes = getElementBytes(array.element);
  array.data.resize(size_t(count * bytes));
  const uint64_t stream = hashName(port.name);
  auto fill = [&]<typename T>(auto &&makeValue) {
    const int64_t drawn = std::min(count, maxRandomElements);
    for (int64_t i = 0; i < drawn; ++i) {
      const T value = T(makeValue(draw(uint64_t(seed), stream, uint64_t(i))));
      std::memcpy(array.data.data() + i * bytes, &value, sizeof(T));
    }
    for (int64_t i = drawn; i < count; i += drawn)
      std::memcpy(array.data.data() + i * bytes, array.data.data(),
                  size_t(std::min(drawn, count - i) * bytes));
  };
  auto normal = [](std::array<uint64_t, 2> random) {
    // Box, Muller 1958; the first number is in (0, 1].
    const double u = (double(random[0] >> 11) + 1) * 0x1p-53;
    const double v = double(random[1] >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  };
  // Integers without a bound stay small, so that sums of them do.
  const uint64_t bound =
      port.index_bound > 0 ? uint64_t(port.index_bound) : 1000;
  auto integer = [&](std::array<uint64_t, 2> random) {
    return random[0] % bound;
  };
  // Data without a bound are all that there can be: nothing sums them.
  auto datum = [&](std::array<uint64_t, 2> random) {
    return port.index_bound > 0 ? random[0] % bound : random[0];
  };
  switch (array.element) {
  case exec::ElementType::f32:
    fill.template operator()<float>(normal);
    return array;
  case exec::ElementType::f64:
    fill.template operator()<double>(normal);
    return array;
  case exec::ElementType::i32:
    fill.template operator()<int32_t>(integer);
    return array;
  case exec::ElementType::i64:
    fill.template operator()<int64_t>(integer);
    return array;
  case exec::ElementType::boolean:
    fill.template operator()<uint8_t>(
        [](std::array<uint64_t, 2> random) { return random[0] & 1; });
    return array;
  case exec::ElementType::u8:
    fill.template operator()<uint8_t>(datum);
    return array;
  case exec::ElementType::i8:
    fill.template operator()<int8_t>(datum);
    return array;
  case exec::ElementType::i16:
    fill.template operator()<int16_t>(datum);
    return array;
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // checkExecutable refuses ports of these types
}

/// Members of a JSON object: where the workers' time goes, in milliseconds of a
/// step that add up to its time times the threads, and the costliest commands.
static std::string describeProfile(const Profile &profile, int64_t numDevices) {
  constexpr size_t maxCommands = 10;
  auto perRun = [&](double seconds) {
    return seconds * 1e3 / double(profile.runs);
  };
  std::string text = ", \"worker_ms\": {";
  for (size_t kind = 1; kind < profile.seconds.size(); ++kind)
    text += fmt::format("\"{}\": {:.4f}, ", getKind(exec::Action(kind)).name,
                        perRun(profile.seconds[kind]));
  text += fmt::format("\"idle\": {:.4f}}}, \"costliest\": [",
                      perRun(profile.idleSeconds));
  for (size_t i = 0; i < std::min(maxCommands, profile.commands.size()); ++i) {
    const CommandTime &time = profile.commands[i];
    text += fmt::format(
        "{}{{\"name\": {}, \"kind\": \"{}\", \"phase\": "
        "\"{}\", \"line\": {}, \"bytes\": {:.0f}, "
        "\"worker_ms\": {:.4f}, "
        "\"gflops_per_thread\": {:.1f}, "
        "\"gbytes_per_s_per_thread\": {:.1f}}}",
        i == 0 ? "" : ", ", toJson(time.command->name),
        getKind(*time.command).name, exec::EnumNamePhase(time.command->phase),
        time.command->span ? time.command->span->line() : 0,
        double(time.command->bytes) * double(numDevices), perRun(time.seconds),
        double(time.command->flops) * double(numDevices) *
            double(profile.runs) / time.seconds / 1e9,
        double(time.command->bytes) * double(numDevices) *
            double(profile.runs) / time.seconds / 1e9);
  }
  return text + "]";
}

Status runtime::runBench(Session &session, const BenchRequest &request) {
  Result<const exec::ProgramT *> step = session.getStep();
  if (!step)
    return step.getError();
  const exec::ExecutableT &data = session.getExecutable().data;
  const exec::PortT *loss =
      data.training ? findPort((*step)->outputs, data.training->minimize)
                    : nullptr;
  if (!loss || getGlobalElements(*loss->layout) != 1)
    return Error{ErrorCode::NothingToDo,
                 "this executable minimises no output, so it has no loss to "
                 "report",
                 ""};
  if (Status set = session.set(request.settings); !set)
    return set;
  constexpr int64_t warmUpSteps = StepTracer::warmUpSteps;
  const int64_t timedSteps = warmUpSteps + request.steps;
  Result<StepTracer> tracer =
      StepTracer::createAt(session, **step, request.trace, timedSteps);
  if (!tracer)
    return tracer.getError();
  Status ready = session.initialise(request.seed);
  for (const auto &input : (*step)->inputs)
    if (ready)
      ready = session.setInput(**step, input->name,
                               makeRandomInput(*input, request.seed),
                               "random data");
  auto runStep = [&](int64_t number) {
    Status ran = Status::success();
    for (int64_t part = 0; part + 1 < data.training->parts && ran; ++part)
      ran = session.runPart(number + 1, part);
    return ran ? tracer->run(number) : ran;
  };
  for (int64_t i = 0; i < warmUpSteps && ready; ++i)
    ready = runStep(i);
  if (!ready)
    return ready;

  session.getDevices().resetProfile(request.profile);
  std::vector<double> milliseconds;
  for (int64_t i = warmUpSteps; i < timedSteps; ++i) {
    auto start = std::chrono::steady_clock::now();
    Status ran = runStep(i);
    if (!ran)
      return ran;
    milliseconds.push_back(std::chrono::duration<double, std::milli>(
                               std::chrono::steady_clock::now() - start)
                               .count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const size_t middle = milliseconds.size() / 2;
  const double median =
      milliseconds.size() % 2 == 1
          ? milliseconds[middle]
          : (milliseconds[middle - 1] + milliseconds[middle]) / 2;
  Result<HostArray> value = session.read(*loss);
  if (!value)
    return value.getError();
  std::string line = fmt::format(
      "{{\"step_ms_median\": {:.4f}, \"step_ms_min\": {:.4f}, \"compile_s\": "
      "{:.3f}, \"peak_bytes_per_device\": {}, \"threads\": {}, \"devices\": "
      "{}, \"loss\": {}",
      median, milliseconds.front(), request.compileSeconds,
      session.getDevices().getBytesPerDevice(),
      session.getDevices().getNumThreads(),
      session.getExecutable().getNumDevices(), toJson(getScalar(*value)));
  if (request.profile)
    line += describeProfile(session.getDevices().getProfile(),
                            session.getExecutable().getNumDevices());
  // The loss and the times are those of the steps that were asked for.
  const int64_t traced = request.trace.path.empty() ? 0 : request.trace.steps;
  for (int64_t i = timedSteps; i < timedSteps + traced; ++i)
    if (Status ran = runStep(i); !ran)
      return ran;
  if (session.isFirst())
    printOutput(line + "}\n");
  return Status::success();
}

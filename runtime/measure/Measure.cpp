#include "runtime/measure/Measure.h"

#include "runtime/cpu/CommandList.h"
#include "runtime/cpu/Executor.h"
#include "runtime/cpu/FlushToZero.h"
#include "runtime/io/Json.h"
#include "runtime/plans/CpuPieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

static double getSecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The time that this thread has had a processor.
static double getThreadUs() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e6 + double(time.tv_nsec) * 1e-3;
}

/// Of many times that something took, the one that a quarter are below: what
/// disturbs makes longer, and the shortest of thousands is an exception too.
static double getQuartile(std::vector<float> &times) {
  if (times.empty())
    return 0;
  auto quartile = times.begin() + ptrdiff_t(times.size() / 4);
  std::nth_element(times.begin(), quartile, times.end());
  return double(*quartile);
}

static Status measureCommands(const Executable &executable,
                              std::span<const meshcKernelEntry> kernels,
                              const exec::ProgramT &program, double seconds,
                              Measurement &result) {
  const int64_t devices = executable.getNumDevices();
  Result<Arenas> owned =
      Arenas::create(devices, executable.data.arena_bytes, getMatmulSkew());
  if (!owned)
    return owned.getError();
  std::vector<std::byte *> arenas;
  for (int64_t device = 0; device < devices; ++device) {
    arenas.push_back(owned->getData(device));
    // Pages that nothing was written to are all the same one.
    std::memset(arenas.back(), 0, executable.data.arena_bytes);
  }
  LibraryPrimitives library(getMatmulPieces(devices, result.threads),
                            result.threads);
  Result<CommandList> list =
      prepareProgram(executable, program, kernels, arenas,
                     Division{devices, 1, 0}, result.threads, 0, library);
  if (!list)
    return list.getError();

  // By thread and command.
  std::vector<std::vector<std::vector<float>>> times(size_t(result.threads));
  const Clock::time_point start = Clock::now();
  auto work = [&](int worker) {
    const FlushToZero flushToZero;
    useOneMatmulThread();
    constexpr size_t alignment = 64;
    std::vector<std::byte> memory(library.getScratchBytes() + alignment);
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte *scratch =
        memory.data() + (alignment - address % alignment) % alignment;
    const std::vector<int64_t> coordinates =
        executable.mesh.getCoordinates(worker);
    auto &own = times[size_t(worker)];
    own.resize(list->commands.size());
    constexpr int minRounds = 4;
    for (int round = 0; round < minRounds || getSecondsSince(start) < seconds;
         ++round)
      for (size_t i = 0; i < list->commands.size(); ++i) {
        const PreparedCommand &command = list->commands[i];
        if (!command.own)
          continue;
        const CpuPlace place{command.getOperands(worker), coordinates.data(),
                             worker, scratch};
        const double before = getThreadUs();
        for (int64_t piece = 0; piece < command.own->getNumPieces(); ++piece)
          static_cast<void>(command.own->run(piece, place));
        const double after = getThreadUs();
        if (round > 0) // the first one makes library and caches ready
          own[i].push_back(float(after - before));
      }
  };
  std::vector<std::thread> threads;
  for (int worker = 1; worker < result.threads; ++worker)
    threads.emplace_back(work, worker);
  work(0);
  for (std::thread &thread : threads)
    thread.join();

  std::vector<float> nothing;
  for (int i = 0; i < 1000; ++i) {
    const double before = getThreadUs();
    nothing.push_back(float(getThreadUs() - before));
  }
  const double clockUs = getQuartile(nothing);
  for (size_t i = 0; i < list->commands.size(); ++i) {
    const PreparedCommand &command = list->commands[i];
    if (!command.own)
      continue;
    std::vector<float> all;
    for (const auto &own : times)
      all.insert(all.end(), own[i].begin(), own[i].end());
    result.commands.push_back({command.source,
                               std::max(0.0, getQuartile(all) - clockUs),
                               command.own->getNumPieces()});
  }
  return Status::success();
}

static Status measureRuns(const Executable &executable,
                          std::span<const meshcKernelEntry> kernels,
                          const exec::ProgramT &program, double seconds,
                          Measurement &result) {
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, kernels, result.threads);
  if (!executor)
    return executor.getError();
  const Clock::time_point start = Clock::now();
  constexpr int64_t minRuns = 4;
  while (result.runs < minRuns || getSecondsSince(start) < seconds) {
    (*executor)->resetProfile(false);
    if (Status ran = (*executor)->run(program); !ran)
      return ran;
    const Profile profile = (*executor)->getProfile();
    const double us = profile.wallSeconds * 1e6;
    for (const CommandTime &time : profile.commands)
      if (time.command->action.AsCollective()) {
        auto known = std::ranges::find(result.collectives, time.command,
                                       &MeasuredCollective::command);
        if (known == result.collectives.end())
          result.collectives.push_back({time.command, time.seconds * 1e6});
        else
          known->us = std::min(known->us, time.seconds * 1e6);
      }
    if (result.runs++ == 0 || us < result.runUs) {
      result.runUs = us;
      result.workUs = 0;
      for (const CommandTime &time : profile.commands)
        result.workUs += time.seconds * 1e6;
    }
  }
  return Status::success();
}

Result<Measurement> runtime::measure(const Executable &executable,
                                     std::span<const meshcKernelEntry> kernels,
                                     const exec::ProgramT &program,
                                     double alone, double together) {
  const Clock::time_point start = Clock::now();
  Measurement result;
  result.threads =
      int(std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()),
                            executable.getNumDevices()));
  Status done = Status::success();
  if (alone > 0)
    done = measureCommands(executable, kernels, program, alone, result);
  if (done && together > 0)
    done = measureRuns(executable, kernels, program, together, result);
  if (!done)
    return done.getError();
  result.seconds = getSecondsSince(start);
  return result;
}

std::string runtime::toJson(const Measurement &measurement) {
  std::string text =
      fmt::format("{{\"threads\": {}, \"run_us\": {:.2f}, \"work_us\": {:.2f}, "
                  "\"runs\": {}, \"seconds\": {:.2f}, \"commands\": [",
                  measurement.threads, measurement.runUs, measurement.workUs,
                  measurement.runs, measurement.seconds);
  const char *separator = "";
  for (const MeasuredCommand &measured : measurement.commands) {
    const exec::CommandT &command = *measured.command;
    text += fmt::format(
        "{}{{\"name\": {}, \"kind\": \"{}\", \"element\": \"{}\", \"flops\": "
        "{}, \"bytes\": {}, \"pieces\": {}, \"us\": {:.3f}}}",
        separator, toJson(command.name),
        exec::EnumNameAction(command.action.type),
        getName(command.operands.front()->element), command.flops,
        command.bytes, measured.pieces, measured.us);
    separator = ", ";
  }
  text += "], \"collectives\": [";
  separator = "";
  for (const MeasuredCollective &measured : measurement.collectives) {
    text += fmt::format("{}{{\"name\": {}, \"kind\": \"{}\", \"bytes\": {}, "
                        "\"us\": {:.3f}}}",
                        separator, toJson(measured.command->name),
                        exec::EnumNameCollectiveKind(
                            measured.command->action.AsCollective()->kind),
                        measured.command->bytes, measured.us);
    separator = ", ";
  }
  return text + "]}";
}

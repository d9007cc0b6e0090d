#include "runtime/app/CommandLine.h"

#include "runtime/app/CommandFlags.h"
#include "runtime/app/Session.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/cuda/library/Gpu.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/io/StopSignals.h"
#include "runtime/ranks/Launcher.h"
#include "runtime/ranks/MpiTransport.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Restarts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>

#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// What ranks have to agree on before they begin.
static Agreements getAgreements(const CommandLine &commandLine,
                                std::span<const uint8_t> program) {
  const CommandFlags &flags = commandLine.flags;
  auto number = [](const std::optional<int64_t> &value) {
    return value ? std::to_string(*value) : "not given";
  };
  auto names = [](const std::vector<std::string> &files) {
    std::string list;
    for (const std::string &file : files)
      list += file.substr(0, file.find('=')) + " ";
    return list;
  };
  auto numbers = [](const std::vector<NamedNumber> &settings) {
    std::string list;
    for (const auto &[name, value] : settings)
      list += fmt::format("{}={} ", name, toExpression(value));
    return list;
  };
  return {
      {"the program", getDigest(std::as_bytes(program))},
      {"the command", commandLine.command},
      {"--seed", flags.hasSeed ? std::to_string(flags.seed) : "not given"},
      {"--init", flags.drawsParameters ? "random" : "not given"},
      {"--steps", commandLine.command == "bench"
                      ? std::to_string(flags.bench.steps)
                      : number(flags.training.steps)},
      {"--epochs", number(flags.training.epochs)},
      {"--set",
       numbers(commandLine.command == "bench" ? flags.bench.settings
                                              : flags.training.settings)},
      {"--eval-steps", number(flags.training.evalBatches)},
      {"--eval-every", number(flags.training.evalEvery)},
      {"--no-eval", flags.training.evaluates ? "not given" : "given"},
      {"--save", flags.training.save.folder.empty() ? "not given" : "given"},
      {"--keep-best", flags.training.save.best
                          ? toString(*flags.training.save.best)
                          : "not given"},
      {"--resume", flags.training.resumePath.empty() ? "not given" : "given"},
      {"--continue", flags.training.continues ? "given" : "not given"},
      {"--trace",
       flags.training.trace.path.empty() && flags.bench.trace.path.empty()
           ? "not given"
           : "given"},
      {"--trace-steps", std::to_string(commandLine.command == "bench"
                                           ? flags.bench.trace.steps
                                           : flags.training.trace.steps)},
      {"--fail-on-nan", flags.training.failsOnNan ? "given" : "not given"},
      {"--trap-nan", flags.training.trapsNan ? "given" : "not given"},
      {"--tune-matmuls", flags.gpus.tunesMatmuls ? "given" : "not given"},
      {"--batch", flags.batchDim.empty() ? "not given" : flags.batchDim},
      {"--topk", std::to_string(flags.top.count)},
      {"--data-dir", flags.predictedFolder ? "given" : "not given"},
      {"--samples", number(flags.maxSamples)},
      {"--truth", flags.top.truth.empty() ? "not given" : flags.top.truth},
      {"--of", flags.top.output.empty() ? "not given" : flags.top.output},
      {"--prompt", flags.prompt.value_or("not given")},
      {"--count", std::to_string(flags.continued)},
      {"--in", names(flags.inputs)},
      {"--from", flags.parameterSource.empty() ? "not given" : "given"},
      {"--names", flags.nameMap.empty() ? "not given" : "given"},
      {"--param", names(flags.parameters)},
      {"--out", names(flags.outputs)},
      {"--grad", names(flags.gradients)}};
}

/// What was asked for, in a session that is ready.
static Status runSession(const CommandLine &commandLine, Session &session,
                         Ranks &ranks) {
  try {
    Status status = commandLine.action(session);
    // What cannot be printed was asked for all the same.
    if (status)
      status = flushOutput();
    return status ? ranks.finish() : status;
  } catch (const std::exception &) {
    return getCaughtError();
  }
}

/// The command on the devices of this process.
static Status runAction(const CommandLine &commandLine,
                        std::span<const uint8_t> program,
                        std::span<const meshcKernelEntry> kernels,
                        OpenDevices &open, Ranks &ranks) {
  const CommandFlags &flags = commandLine.flags;
  Status ready = ranks.start();
  if (ready)
    ready = ranks.agree(getAgreements(commandLine, program));
  if (!ready)
    return ready;
  if (ranks.getNumRanks() > 1 && ranks.isFirst())
    printMessage(fmt::format("meshc: {} processes ({})\n", ranks.getNumRanks(),
                             getName(ranks.getIdentity().source)));
  // oneDNN allocates packing buffers in every product: kept in the heap, they
  // are not mapped and zeroed anew each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Result<std::unique_ptr<Session>> session =
      Session::create(program, kernels, open, flags.threads, flags.gpus, &ranks,
                      flags.transport);
  if (!session)
    return session.getError();
  Status status = runSession(commandLine, **session, ranks);
  // Other ranks may not do what this one's devices wait for, and the end of a
  // device waits for what it does. The message does not; the process ends
  // behind it.
  if (!status && ranks.getNumRanks() > 1)
    static_cast<void>(session->release());
  return status;
}

/// What signals do that stop a run from outside, with the ranks as far as they
/// are there; null: not yet.
static StopSignals::Actions getActions(const RankIdentity &identity,
                                       Ranks *ranks) {
  StopSignals::Actions actions;
  const bool isLaunched = identity.source == RankSource::Launcher;
  actions.end = [rank = identity.rank, isLaunched, ranks](Error error) {
    if (rank > 0)
      error.note = fmt::format("rank {} got the signal", rank);
    // The own launcher passes it on to rank 0, which says so for all.
    if (!ranks && isLaunched && rank > 0)
      _exit(int(getExitCode(error.code)));
    if (!ranks)
      _exit(report(error));
    if (std::optional<int> code = ranks->tryEnd(error, printError))
      _exit(*code);
  };
  if (ranks && !ranks->isFirst())
    actions.forward = [ranks](int signal) { ranks->requestStop(signal); };
  return actions;
}

/// Runs the command in this process, as one of the ranks that it is told of.
static int runAsRank(CommandLine &commandLine, std::span<const uint8_t> program,
                     std::span<const meshcKernelEntry> kernels,
                     OpenDevices &open, RankIdentity identity) {
  const CommandFlags &flags = commandLine.flags;
  auto reportAs = [&](Error error) {
    if (identity.rank > 0)
      error.message = fmt::format("rank {}: {}", identity.rank, error.message);
    return report(error);
  };
  const bool trains = commandLine.command == "train";
  StopSignals signals(trains ? "before the first step" : "",
                      getActions(identity, nullptr));
  commandLine.flags.training.signals = &signals;
  // An MPI launcher does not tell where rank 0 is, but MPI can.
  const bool hasMpi = identity.source == RankSource::OpenMpi ||
                      identity.source == RankSource::Hydra;
  if (identity.ranks > 1 && identity.store.host.empty() && hasMpi) {
    Status found = findStoreByMpi(identity);
    if (!found)
      return reportAs(found.getError());
  }
  RanksOptions options;
  options.joinSeconds = flags.joinSeconds;
  options.onStop = [&](int64_t rank, int signal) {
    signals.request(rank, signal);
  };
  Result<std::unique_ptr<Ranks>> ranks = Ranks::connect(identity, options);
  // That rank 0 hangs or has gone is said by the own launcher, once, which
  // knows how.
  if (!ranks && identity.source == RankSource::Launcher)
    if (const ErrorCode code = ranks.getError().code;
        code == ErrorCode::MissingRank || code == ErrorCode::RankLost)
      return int(getExitCode(code));
  if (!ranks && ranks.getError().code == ErrorCode::MissingRank) {
    signals.setActions(
        {[](const Error &) { _exit(int(getExitCode(ErrorCode::MissingRank))); },
         nullptr});
    waitForTurn(identity);
  }
  if (!ranks)
    return reportAs(ranks.getError());
  signals.setActions(getActions(identity, ranks->get()));
  Status status = runAction(commandLine, program, kernels, open, **ranks);
  if (status) {
    finishMpi();
    // The ranks go, and then the signals.
    signals.setActions({[](const Error &) {}, nullptr});
    return 0;
  }
  const int code = (*ranks)->end(status.getError(), printError);
  signals.setActions({[](const Error &) {}, nullptr});
  if (identity.ranks > 1) {
    std::fflush(stdout);
    _exit(code);
  }
  return code;
}

/// How many processes an executable starts by itself: one for each device of
/// the mesh where these are GPUs and there are as many; else one, which says
/// what is missing.
static int64_t getNumGpuProcesses(const Executable &executable) {
  if (executable.data.target != exec::Target::cuda)
    return 1;
  Result<const cuda::Driver *> driver = cuda::Driver::get();
  if (!driver)
    return 1;
  Result<int> gpus = cuda::countGpus(**driver);
  const int64_t devices = executable.getNumDevices();
  return gpus && *gpus >= devices ? devices : 1;
}

/// --restarts below a launcher that is not our own.
static Error getRestartsError(const RankIdentity &identity) {
  const char *note = "";
  switch (identity.source) {
  case RankSource::Torchrun:
    note = "torchrun --max-restarts N starts all ranks again; with --continue "
           "they go on from the last checkpoint";
    break;
  case RankSource::OpenMpi:
  case RankSource::Hydra:
    note = "mpirun ends all ranks where one fails; with --continue, the same "
           "command again goes on from the last checkpoint";
    break;
  case RankSource::Slurm:
    note = "sbatch --requeue starts a job again where a node fails; with "
           "--continue it goes on from the last checkpoint";
    break;
  case RankSource::Flags:
    note = "start all ranks again, with --continue: they go on from the last "
           "checkpoint";
    break;
  case RankSource::Launcher:
  case RankSource::Single:
    break;
  }
  return {ErrorCode::Usage,
          fmt::format("--restarts is for processes that this one starts, and "
                      "it is {}",
                      toString(identity)),
          note};
}

/// What is said of, and to, a training that starts again.
static Restart getRestart(const CommandFlags &flags, int argc,
                          const char *const *argv) {
  const TrainingRequest &training = flags.training;
  Restart restart;
  restart.arguments.assign(argv, argv + argc);
  if (!training.continues)
    restart.arguments.emplace_back("--continue");
  const Result<std::optional<int64_t>> last =
      findLastStep(training.save.folder);
  if (!last)
    restart.what = last.getError().message;
  else if (*last)
    restart.what = fmt::format("goes on from step {}", **last);
  else
    restart.what = fmt::format("starts as before, since '{}' has no checkpoint",
                               training.save.folder);
  return restart;
}

static int runSubcommand(int argc, const char *const *argv,
                         std::span<const uint8_t> program,
                         std::span<const meshcKernelEntry> kernels,
                         OpenDevices &open) {
  CommandLine commandLine;
  if (std::any_of(argv, argv + argc, [](std::string_view argument) {
        return argument == "--help" || argument == "-h";
      }))
    commandLine.describe(program);
  if (std::optional<int> code = commandLine.parse(argc, argv))
    return *code;
  if (commandLine.lookUp) {
    Result<Executable> executable = Executable::load(program);
    if (!executable)
      return report(executable.getError());
    Status found = commandLine.lookUp(*executable);
    if (Status written = flushOutput(); found && !written)
      found = written;
    return found ? 0 : report(found.getError());
  }
  // In this process and all that it starts.
  StopSignals::block();
  const CommandFlags &flags = commandLine.flags;
  Result<RankIdentity> identity =
      detectRank(flags.ranks, [](const char *name) { return getenv(name); });
  if (!identity)
    return report(identity.getError());
  const bool isLaunched = identity->source == RankSource::Launcher;
  const bool isAlone = identity->source == RankSource::Single;
  if (flags.hasRestarts && !isLaunched && !isAlone)
    return report(getRestartsError(*identity));
  if (flags.processes > 1 && identity->ranks > 1 && !isLaunched)
    return report({ErrorCode::WrongRanks,
                   fmt::format("--processes {}, but this process is {}",
                               flags.processes, toString(*identity)),
                   "a run has one launcher"});
  int64_t processes = flags.processes;
  if (!flags.hasProcesses && isAlone && !flags.gpus.devicesPerGpu) {
    Result<Executable> executable = Executable::load(program);
    if (!executable)
      return report(executable.getError());
    processes = getNumGpuProcesses(*executable);
  }
  if ((processes > 1 || flags.restarts > 0) && !isLaunched)
    return launchWithRestarts(processes, argv, flags.restarts,
                              [&] { return getRestart(flags, argc, argv); });
  return runAsRank(commandLine, program, kernels, open, *identity);
}

int runtime::runCommandLine(int argc, const char *const *argv,
                            std::span<const uint8_t> program,
                            std::span<const meshcKernelEntry> kernels,
                            OpenDevices &open) {
  openStandardStreams();
  // The launcher starts /proc/self/exe, and meshc a descriptor: without this,
  // ps would say "exe" or a number.
  prctl(PR_SET_NAME, program_invocation_short_name);
  // A limit to the size of files is an error of who writes, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return runSubcommand(argc, argv, program, kernels, open);
  } catch (const std::exception &) {
    return report(getCaughtError());
  }
}

#include "runtime/CommandLine.h"

#include "runtime/Bench.h"
#include "runtime/Cuda/Gpu.h"
#include "runtime/Cuda/SystemReport.h"
#include "runtime/Evaluation.h"
#include "runtime/Ranks/Launcher.h"
#include "runtime/Ranks/MpiTransport.h"
#include "runtime/Ranks/Ranks.h"
#include "runtime/Session.h"
#include "runtime/StandardStreams.h"
#include "runtime/StopSignals.h"
#include "runtime/Training.h"

#include "layout/LayoutRules.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <sstream>

#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static int report(const Error &error) {
  printError(error);
  return int(getExitCode(error.code));
}

/// Prints what was asked for, and nothing else was; the exit code.
static int finishWith(std::string_view text) {
  printOutput(text);
  Status written = flushOutput();
  return written ? 0 : report(written.getError());
}

/// Whether an image is PTX of an architecture without machine code.
static bool isOnlyText(const exec::ExecutableT &data,
                       const exec::GpuImageT &image) {
  return image.kind == exec::ImageKind::ptx &&
         std::none_of(data.images.begin(), data.images.end(),
                      [&](const auto &other) {
                        return other->architecture == image.architecture &&
                               other->kind == exec::ImageKind::cubin;
                      });
}

/// What this machine has to run it on, for GPUs.
static std::string describeMachine(const exec::ExecutableT &data) {
  if (data.target != exec::Target::cuda)
    return "";
  std::string text = "machine\n";
  std::istringstream lines(cuda::reportSystem(&data));
  for (std::string line; std::getline(lines, line);)
    text += fmt::format("  {}\n", line);
  return text;
}

static std::string describeProgram(const Executable &executable) {
  const exec::ExecutableT &data = executable.data;
  std::string text;
  auto add = [&]<typename... Values>(fmt::format_string<Values...> format,
                                     Values &&...values) {
    fmt::format_to(std::back_inserter(text), format,
                   std::forward<Values>(values)...);
  };
  add("model     {}\n", data.model);
  add("producer  {}\n", data.producer);
  std::string mesh;
  for (const layout::MeshAxis &axis : executable.mesh.getAxes())
    mesh += fmt::format("{}{} = {}", mesh.empty() ? "" : ", ", axis.name,
                        axis.size);
  add("mesh      {}\n", mesh.empty() ? "none" : mesh);
  add("devices   {}\n", executable.getNumDevices());
  add("memory    {:.1f} MiB per device\n",
      double(data.arena_bytes) / (1 << 20));
  if (data.training && !data.training->precision.empty())
    add("precision {}\n", data.training->precision);
  switch (data.target) {
  case exec::Target::cpu:
    add("target    cpu\nprocessor {}\n", data.cpu);
    break;
  case exec::Target::cuda:
    add("target    cuda\n");
    for (const auto &image : data.images)
      add("kernels   {}, {}, {:.1f} KiB{}\n", image->architecture,
          exec::EnumNameImageKind(image->kind),
          double(image->data.size()) / 1024,
          isOnlyText(data, *image)
              ? ", which the driver compiles at every start"
              : "");
    break;
  }
  add("dims\n");
  for (const auto &dim : data.dims)
    add("  {} = {}\n", dim->name, dim->size);
  auto addValue = [&](const std::string &name,
                      const exec::TensorLayoutT &layout) {
    std::vector<std::string> dims;
    for (const auto &dim : layout.dims)
      dims.push_back(dim->name);
    add("  {}: {}, {}\n", name, toString(layout),
        layout::toString(executable.mesh, getSharding(layout), dims));
  };
  add("variables\n");
  for (const auto &variable : data.variables)
    addValue(variable->name, *variable->layout);
  for (const auto &program : data.programs) {
    add("program {}, {} commands\n", program->name, program->commands.size());
    for (const auto &port : program->inputs)
      addValue("in " + port->name, *port->layout);
    for (const auto &port : program->outputs)
      addValue("out " + port->name, *port->layout);
  }
  return text;
}

namespace {

constexpr const char *inferName = "infer";

/// The flags of all subcommands.
struct Flags {
  int threads = 0;
  GpuFlags gpus;
  int64_t seed = 0;
  BenchRequest bench;
  TrainingRequest training;
  bool hasSeed = false;
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  std::vector<std::string> outputs;
  std::vector<std::string> gradients;
  int64_t processes = 1;
  bool hasProcesses = false;
  RankFlags ranks;
  double joinSeconds = RanksOptions().joinSeconds;
  TransportKind transport = TransportKind::Auto;
};

} // namespace

static Status runOnArrays(Session &session, const Flags &flags) {
  EvaluationRequest request;
  request.seed = flags.seed;
  for (auto [texts, files] :
       {std::pair{&flags.inputs, &request.inputs},
        std::pair{&flags.parameters, &request.parameters},
        std::pair{&flags.outputs, &request.outputs},
        std::pair{&flags.gradients, &request.gradients}}) {
    Result<std::vector<NamedFile>> parsed = parseNamedFiles(*texts);
    if (!parsed)
      return parsed.getError();
    *files = std::move(*parsed);
  }
  return evaluateOnce(session, request);
}

static Status runOnTestSplit(Session &session, const Flags &flags) {
  if (flags.parameters.empty() && !flags.hasSeed)
    return Error{ErrorCode::Usage, "there are no parameters to evaluate",
                 "give them as --param NAME=FILE.npy, or --seed N to evaluate "
                 "freshly initialised ones"};
  Result<std::vector<NamedFile>> files = parseNamedFiles(flags.parameters);
  if (!files)
    return files.getError();
  Status ready = session.initialise(flags.seed);
  if (ready)
    ready = readParameters(session, *files);
  return ready ? evaluateOnTestSplit(session, flags.training.dataFolder)
               : ready;
}

namespace {

/// The subcommands and flags; parsing sets `action`.
class CommandLine {
public:
  CommandLine();

  /// Leaves out of the help what the program cannot do.
  void describe(std::span<const uint8_t> program);
  /// Parses; an exit code where there is nothing more to do.
  std::optional<int> parse(int argc, const char *const *argv);

  Flags flags;
  std::function<Status(Session &)> action;
  std::string command;     ///< name of the subcommand
  bool printsInfo = false; ///< instead of an action: needs no devices

private:
  CLI::App *addSubcommand(const std::string &name, const std::string &what,
                          std::function<Status(Session &)> run);
  void addSeed(CLI::App *subcommand);
  void addDataFolder(CLI::App *subcommand);
  void addParameters(CLI::App *subcommand);
  void addRanks(CLI::App *subcommand);
  int reportUsage(const CLI::ParseError &error);

  CLI::App app{"A model compiled by meshc for a mesh of devices."};
};

} // namespace

CLI::App *CommandLine::addSubcommand(const std::string &name,
                                     const std::string &what,
                                     std::function<Status(Session &)> run) {
  CLI::App *subcommand = app.add_subcommand(name, what);
  subcommand->callback([this, name, run = std::move(run)] {
    command = name;
    action = run;
  });
  addRanks(subcommand);
  return subcommand;
}

/// CLI11 alone takes the nearest number that there is.
static std::string checkInteger(const std::string &text) {
  int64_t value;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end
             ? ""
             : fmt::format("expected an integer of 64 bits, found '{}'", text);
}

void CommandLine::addSeed(CLI::App *subcommand) {
  subcommand
      ->add_option_function<int64_t>(
          "--seed",
          [this](int64_t seed) {
            flags.seed = seed;
            flags.hasSeed = true;
          },
          "seed of parameters, sample order and random data (default 0)")
      ->check(checkInteger);
}

void CommandLine::addDataFolder(CLI::App *subcommand) {
  subcommand
      ->add_option("--data-dir", flags.training.dataFolder,
                   "folder of the data files")
      ->required();
}

void CommandLine::addParameters(CLI::App *subcommand) {
  subcommand->add_option("--param", flags.parameters,
                         "NAME=FILE.npy, a parameter");
}

void CommandLine::addRanks(CLI::App *subcommand) {
  CLI::Option *processes =
      subcommand
          ->add_option_function<int64_t>(
              "--processes",
              [this](int64_t processes) {
                flags.processes = processes;
                flags.hasProcesses = true;
              },
              "processes on this machine that share the devices (default: as "
              "many as the mesh has GPUs, one for CPUs)")
          ->check(CLI::Range(int64_t(1), int64_t(4096)));
  auto addRank = [&](const char *name, const char *what, auto &value) {
    return subcommand->add_option(name, value, what)->excludes(processes);
  };
  addRank("--rank", "number of this process, if no launcher tells",
          flags.ranks.rank)
      ->check(checkInteger);
  addRank("--ranks", "number of processes", flags.ranks.ranks)
      ->check(checkInteger);
  addRank("--store", "HOST:PORT where rank 0 waits for the others",
          flags.ranks.store);
  addRank("--store-key",
          "file, of mode 600, with the secret of the run, which all ranks need "
          "unless the store is on 127.0.0.1 (default: what is in "
          "MESHC_STORE_KEY)",
          flags.ranks.storeKey);
  subcommand
      ->add_option("--join-timeout", flags.joinSeconds,
                   "seconds to wait for all processes (default 120)")
      ->check(CLI::Range(0.1, 1e6));
  subcommand
      ->add_option_function<int64_t>(
          "--stall-timeout",
          [this](int64_t seconds) { flags.gpus.stallSeconds = seconds; },
          "seconds that a run of GPUs of several processes may take before it "
          "counts as stuck (default 600)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30));
  subcommand
      ->add_option_function<std::string>(
          "--transport",
          [this](const std::string &name) {
            flags.transport = name == "tcp"   ? TransportKind::Tcp
                              : name == "mpi" ? TransportKind::Mpi
                                              : TransportKind::Auto;
          },
          "what carries data between processes: auto is mpi below mpirun, tcp "
          "elsewhere")
      ->check(CLI::IsMember({"auto", "tcp", "mpi"}));
}

CommandLine::CommandLine() {
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 success, 1 wrong input, 2 usage, 3 a check failed, "
      "4 damaged file or\nother processor, 5 does not fit, 6 a process of "
      "the run is missing or ended,\n70 internal error, 129 stopped by SIGHUP, "
      "130 by SIGINT, 143 by SIGTERM; while\ntraining, after a whole step.");

  CLI::App *train =
      addSubcommand("train", "Train, then evaluate on the test split",
                    [this](Session &session) {
                      flags.training.seed = flags.seed;
                      return runtime::train(session, flags.training);
                    });
  addDataFolder(train);
  auto *epochs = train->add_option("--epochs", flags.training.epochs,
                                   "epochs instead of the model's");
  epochs->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  train
      ->add_option("--steps", flags.training.steps,
                   "steps instead of the model's epochs")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40))
      ->excludes(epochs);
  train->add_option("--metrics", flags.training.metricsPath,
                    "file for one JSON object per step");
  train->add_flag("--fail-on-nan", flags.training.failsOnNan,
                  "end with code 3 where the loss is NaN or infinite");
  addSeed(train);

  CLI::App *eval = addSubcommand(
      "eval", "Evaluate parameters on the test split",
      [this](Session &session) { return runOnTestSplit(session, flags); });
  addDataFolder(eval);
  addParameters(eval);
  addSeed(eval);

  // Not listed, but those who know of it are told what does it.
  app.add_subcommand(inferName, "")->group("")->allow_extras()->callback([] {
    throw CLI::ValidationError(
        fmt::format("there is no command '{}'", inferName));
  });

  CLI::App *arrays = addSubcommand(
      "run-eval", "Run the model once on .npy arrays",
      [this](Session &session) { return runOnArrays(session, flags); });
  arrays->add_option("--in", flags.inputs, "NAME=FILE.npy, an input");
  addParameters(arrays);
  arrays->add_option("--out", flags.outputs,
                     "NAME=FILE.npy, an output to write");
  arrays->add_option("--grad", flags.gradients,
                     "NAME=FILE.npy, a gradient to write");
  addSeed(arrays);

  CLI::App *bench =
      addSubcommand("bench",
                    "Time the training step on random data, of which an "
                    "input repeats its first 2^20 elements",
                    [this](Session &session) {
                      flags.bench.seed = flags.seed;
                      return runBench(session, flags.bench);
                    });
  bench->add_option("steps", flags.bench.steps, "steps to time")
      ->required()
      ->check(CLI::Range(int64_t(1), int64_t(1000000000)));
  bench->add_option("--compile-seconds", flags.bench.compileSeconds,
                    "reported as compile_s");
  bench->add_flag("--profile", flags.bench.profile,
                  "report where the time goes");
  addSeed(bench);

  app.add_subcommand("info", "Print what is inside")->callback([this] {
    printsInfo = true;
  });

  for (CLI::App *subcommand : app.get_subcommands({})) {
    subcommand
        ->add_option("--threads", flags.threads,
                     "worker threads of each process (default: one per "
                     "hardware thread, divided by the processes)")
        ->check(CLI::Range(1, 4096));
    subcommand
        ->add_option("--devices-per-gpu", flags.gpus.devicesPerGpu,
                     "logical devices that share a GPU (default: 1)")
        ->check(CLI::Range(int64_t(1), int64_t(4096)));
    subcommand->add_flag_callback(
        "--no-graphs", [this] { flags.gpus.usesGraphs = false; },
        "issue every command in every run instead of one graph");
    subcommand->add_flag_callback(
        "--check-commands", [this] { flags.gpus.checksCommands = true; },
        "wait for every command on a GPU, so that what fails there is named "
        "with its line of the spec; slow, and without graphs");
    subcommand->add_flag_callback(
        "--tune-matmuls", [this] { flags.gpus.tunesMatmuls = true; },
        "time the library's algorithms for each matrix product and take the "
        "fastest, or what earlier runs found");
  }
}

int CommandLine::reportUsage(const CLI::ParseError &error) {
  std::string message = error.what();
  if (!message.empty())
    message[0] = char(std::tolower(static_cast<unsigned char>(message[0])));
  std::string note = "--help lists what there is";
  if (app.got_subcommand(inferName))
    note = "to run the model on arrays: run-eval --in NAME=FILE.npy --param "
           "NAME=FILE.npy --out NAME=FILE.npy";
  else if (message.starts_with("--data-dir"))
    note = "give the folder of the data files: --data-dir DIR";
  // A misspelt name is also one that is missing: the former says more.
  const int code = error.get_exit_code();
  if (const std::vector<std::string> rest = app.remaining(true);
      !rest.empty() && (code == int(CLI::ExitCodes::ExtrasError) ||
                        code == int(CLI::ExitCodes::RequiredError))) {
    message = fmt::format("unknown argument '{}'", rest[0]);
    std::vector<std::string> candidates;
    for (CLI::App *subcommand : app.get_subcommands({})) {
      if (!subcommand->parsed() && !app.get_subcommands().empty())
        continue;
      candidates.push_back(subcommand->get_name());
      for (const CLI::Option *option : subcommand->get_options())
        candidates.push_back(option->get_name());
    }
    if (std::string nearest = layout::findNearest(rest[0], candidates);
        !nearest.empty())
      note = fmt::format("did you mean '{}'?", nearest);
  }
  return report({ErrorCode::Usage, std::move(message), std::move(note)});
}

void CommandLine::describe(std::span<const uint8_t> program) {
  Result<Executable> executable = Executable::load(program);
  if (!executable || !executable->findProgram("gradient"))
    app.get_subcommand("run-eval")->get_option("--grad")->group("");
}

std::optional<int> CommandLine::parse(int argc, const char *const *argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    // --help is reported the same way.
    if (error.get_exit_code() == int(CLI::ExitCodes::Success)) {
      std::ostringstream help;
      app.exit(error, help);
      return finishWith(help.str());
    }
    return reportUsage(error);
  }
}

/// What ranks have to agree on before they begin.
static Agreements getAgreements(const CommandLine &commandLine,
                                std::span<const uint8_t> program) {
  const Flags &flags = commandLine.flags;
  auto number = [](const std::optional<int64_t> &value) {
    return value ? std::to_string(*value) : "not given";
  };
  auto names = [](const std::vector<std::string> &files) {
    std::string list;
    for (const std::string &file : files)
      list += file.substr(0, file.find('=')) + " ";
    return list;
  };
  return {{"the program", getDigest(std::as_bytes(program))},
          {"the command", commandLine.command},
          {"--seed", flags.hasSeed ? std::to_string(flags.seed) : "not given"},
          {"--steps", number(flags.training.steps)},
          {"--epochs", number(flags.training.epochs)},
          {"--fail-on-nan", flags.training.failsOnNan ? "given" : "not given"},
          {"--tune-matmuls", flags.gpus.tunesMatmuls ? "given" : "not given"},
          {"the steps to time", std::to_string(flags.bench.steps)},
          {"--in", names(flags.inputs)},
          {"--param", names(flags.parameters)},
          {"--out", names(flags.outputs)},
          {"--grad", names(flags.gradients)}};
}

/// The exception that is being handled.
static Error getCaughtError() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return {ErrorCode::DoesNotFit, "out of memory", ""};
  } catch (const std::exception &error) {
    return {ErrorCode::Internal,
            fmt::format("internal error: {}", error.what()), ""};
  }
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
  const Flags &flags = commandLine.flags;
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
  const Flags &flags = commandLine.flags;
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
  // That rank 0 hangs is said by the own launcher, once, which knows how.
  if (!ranks && ranks.getError().code == ErrorCode::MissingRank &&
      identity.source == RankSource::Launcher)
    return int(getExitCode(ErrorCode::MissingRank));
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
  if (commandLine.printsInfo) {
    Result<Executable> executable = Executable::load(program);
    if (!executable)
      return report(executable.getError());
    return finishWith(describeProgram(*executable) +
                      describeMachine(executable->data));
  }
  // In this process and all that it starts.
  StopSignals::block();
  const Flags &flags = commandLine.flags;
  Result<RankIdentity> identity =
      detectRank(flags.ranks, [](const char *name) { return getenv(name); });
  if (!identity)
    return report(identity.getError());
  const bool isLaunched = identity->source == RankSource::Launcher;
  if (flags.processes > 1 && identity->ranks > 1 && !isLaunched)
    return report({ErrorCode::WrongRanks,
                   fmt::format("--processes {}, but this process is {}",
                               flags.processes, toString(*identity)),
                   "a run has one launcher"});
  int64_t processes = flags.processes;
  if (!flags.hasProcesses && identity->source == RankSource::Single &&
      !flags.gpus.devicesPerGpu) {
    Result<Executable> executable = Executable::load(program);
    if (!executable)
      return report(executable.getError());
    processes = getNumGpuProcesses(*executable);
  }
  if (processes > 1 && !isLaunched)
    return launchRanks(processes, argv);
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

#include "runtime/app/CommandFlags.h"

#include "runtime/app/ProgramDescription.h"
#include "runtime/io/StandardStreams.h"

#include "layout/Spelling.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <sstream>

using namespace meshc;
using namespace meshc::runtime;

/// The section of the help about programs for GPUs.
static constexpr const char *gpuGroup = "GPUs";

int runtime::report(const Error &error) {
  printError(error);
  return int(getExitCode(error.code));
}

int runtime::finishWith(std::string_view text) {
  printOutput(text);
  Status written = flushOutput();
  return written ? 0 : report(written.getError());
}

CLI::App *CommandLine::addSubcommand(const std::string &name,
                                     const std::string &what,
                                     std::function<Status(Session &)> run) {
  CLI::App *subcommand = app.add_subcommand(name, what);
  subcommand->callback([this, name, run = std::move(run)] {
    command = name;
    action = run;
  });
  actions.push_back(subcommand);
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

CLI::Option *runtime::takes(const char *value, CLI::Option *option) {
  return option->option_text(value);
}

CLI::Option *CommandLine::addSeed(CLI::App *subcommand,
                                  const std::string &what) {
  return takes("N", subcommand->add_option_function<int64_t>(
                        "--seed",
                        [this](int64_t seed) {
                          flags.seed = seed;
                          flags.hasSeed = true;
                        },
                        fmt::format("seed of {} (default 0)", what)))
      ->check(checkInteger);
}

void CommandLine::addDataFolder(CLI::App *subcommand) {
  takes("DIR (required)",
        subcommand->add_option("--data-dir", flags.training.dataFolder,
                               "folder of the data files that the spec names"))
      ->required();
}

/// "lr=0.01" in its two parts; nothing where it is none.
static std::optional<NamedNumber> parseSetting(const std::string &text) {
  const size_t sign = text.find('=');
  if (sign == 0 || sign == std::string::npos)
    return std::nullopt;
  const auto value = parseNumber(std::string_view(text).substr(sign + 1));
  return value ? std::optional(NamedNumber{text.substr(0, sign), *value})
               : std::nullopt;
}

void CommandLine::addSettings(CLI::App *subcommand,
                              std::vector<NamedNumber> &settings) {
  takes("NAME=NUMBER",
        subcommand
            ->add_option_function<std::vector<std::string>>(
                "--set",
                [&settings](const std::vector<std::string> &texts) {
                  for (const std::string &text : texts)
                    settings.push_back(*parseSetting(text));
                },
                "a number of the spec for this run, where the optimizer alone "
                "computes with it, as --set lr=0.01; info lists them")
            ->allow_extra_args(false)
            ->check([](const std::string &text) {
              return parseSetting(text)
                         ? ""
                         : fmt::format("expected NAME=NUMBER, found '{}'",
                                       text);
            }));
}

/// `which`: the steps that are traced.
void CommandLine::addTrace(CLI::App *subcommand, TraceRequest &request,
                           const std::string &which) {
  CLI::Option *trace =
      takes("FILE", subcommand->add_option(
                        "--trace", request.path,
                        "for what every device did, and when, in " + which +
                            "; JSON for ui.perfetto.dev and chrome://tracing"));
  takes("N", subcommand->add_option(
                 "--trace-steps", request.steps,
                 fmt::format("steps to trace (default {})", request.steps)))
      ->check(CLI::Range(int64_t(1), int64_t(1000)))
      ->needs(trace);
}

void CommandLine::addRanks(CLI::App *subcommand) {
  const char *group = "Several processes";
  auto add = [&](const char *value, CLI::Option *option) {
    return takes(value, option)->group(group);
  };
  CLI::Option *processes =
      add("N", subcommand->add_option_function<int64_t>(
                   "--processes",
                   [this](int64_t count) {
                     flags.processes = count;
                     flags.hasProcesses = true;
                   },
                   "processes on this machine that share the devices (default: "
                   "as many as the mesh has GPUs, one for CPUs)"))
          ->check(CLI::Range(int64_t(1), int64_t(4096)));
  auto addRank = [&](const char *name, const char *value, const char *what,
                     auto &variable) {
    return add(value, subcommand->add_option(name, variable, what))
        ->excludes(processes);
  };
  addRank("--rank", "N", "number of this process, if no launcher tells",
          flags.ranks.rank)
      ->check(checkInteger);
  addRank("--ranks", "N", "number of processes", flags.ranks.ranks)
      ->check(checkInteger);
  addRank("--store", "HOST:PORT", "where rank 0 waits for the others",
          flags.ranks.store);
  addRank("--store-key", "FILE",
          "of mode 600, with the secret of the run, which all ranks need "
          "unless the store is on 127.0.0.1 (default: what is in "
          "MESHC_STORE_KEY)",
          flags.ranks.storeKey);
  add("SECONDS", subcommand->add_option(
                     "--join-timeout", flags.joinSeconds,
                     "how long to wait for all processes (default 120)"))
      ->check(CLI::Range(0.1, 1e6));
  add("auto|tcp|mpi",
      subcommand->add_option_function<std::string>(
          "--transport",
          [this](const std::string &name) {
            flags.transport = name == "tcp"   ? TransportKind::Tcp
                              : name == "mpi" ? TransportKind::Mpi
                                              : TransportKind::Auto;
          },
          "what carries data between processes: auto is mpi below mpirun, tcp "
          "elsewhere"))
      ->check(CLI::IsMember({"auto", "tcp", "mpi"}));
}

void CommandLine::addGpus(CLI::App *subcommand) {
  takes("N",
        subcommand->add_option("--devices-per-gpu", flags.gpus.devicesPerGpu,
                               "logical devices that share a GPU (default "
                               "1)"))
      ->check(CLI::Range(int64_t(1), int64_t(4096)))
      ->group(gpuGroup);
  auto addFlag = [&](const char *name, bool &flag, bool value,
                     const char *what) {
    subcommand
        ->add_flag_callback(
            name, [&flag, value] { flag = value; }, what)
        ->group(gpuGroup);
  };
  addFlag("--no-graphs", flags.gpus.usesGraphs, false,
          "issue every command in every run instead of one graph");
  addFlag("--tune-matmuls", flags.gpus.tunesMatmuls, true,
          "time the library's algorithms for each matrix product and take the "
          "fastest, or what earlier runs found");
  addFlag("--check-commands", flags.gpus.checksCommands, true,
          "wait for every command on a GPU, so that what fails there is named "
          "with its line of the spec; slow, and without graphs");
  takes("SECONDS",
        subcommand->add_option_function<int64_t>(
            "--stall-timeout",
            [this](int64_t seconds) { flags.gpus.stallSeconds = seconds; },
            "how long a run of several processes may take before it counts as "
            "stuck (default 600)"))
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->group(gpuGroup);
}

CommandLine::CommandLine() {
  app.require_subcommand(1);
  // Commands have the footer as it is when they are added.
  app.footer(
      "Exit codes: 0 success, 1 wrong input, 2 usage, 3 a check failed, "
      "4 damaged file or\nother processor, 5 does not fit, 6 a process of "
      "the run is missing or ended,\n70 internal error, 129 stopped by SIGHUP, "
      "130 by SIGINT, 143 by SIGTERM; while\ntraining, after a whole step.");

  CLI::App *train = addSubcommand(
      "train", "Train on the data files, then evaluate on the test files",
      [this](Session &session) {
        if (flags.hasSeed)
          flags.training.seed = flags.seed;
        Result<ParameterRequest> parameters = getParameterRequest(flags);
        if (!parameters)
          return Status(parameters.getError());
        flags.training.parameters = std::move(*parameters);
        return runtime::train(session, flags.training);
      });
  addDataFolder(train);
  auto *epochs = takes("N", train->add_option("--epochs", flags.training.epochs,
                                              "epochs instead of the model's"));
  epochs->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  takes("N", train->add_option("--steps", flags.training.steps,
                               "steps instead of the model's epochs"))
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40))
      ->excludes(epochs);
  addSeed(train, "the parameters, the order of samples and random numbers");
  addSettings(train, flags.training.settings);
  addParameters(train);
  takes("FILE", train->add_option("--metrics", flags.training.metrics.linesPath,
                                  "for one JSON object per step"));
  takes("DIR",
        train->add_option("--tensorboard", flags.training.metrics.eventFolder,
                          "for files of events, which TensorBoard shows"));
  takes("FILE",
        train->add_option("--plot", flags.training.metrics.plotPath,
                          "for a picture of the metrics, as SVG, written every "
                          "minute and at the end"));
  addSaving(train);
  for (const char *start : {"--from", "--param", "--init"})
    train->get_option("--resume")->excludes(start);
  addTrace(train, flags.training.trace,
           fmt::format("steps from {} on, or the last ones of a short training",
                       StepTracer::warmUpSteps + StepTracer::timedSteps + 1));
  train->add_flag("--check-data", flags.training.checksData,
                  "read every sample once before the first step, so that a "
                  "damaged file ends a training before it has begun");
  train->add_flag("--fail-on-nan", flags.training.failsOnNan,
                  "end with code 3 where the loss is NaN or infinite");
  train
      ->add_flag("--trap-nan", flags.training.trapsNan,
                 "end with code 3 where an output or a variable is NaN or "
                 "infinite, and name the value and the line of the spec in "
                 "which that arose; every command's results are read, which "
                 "is slow")
      ->excludes("--trace");
  CLI::Option *evalSteps = addEvalSteps(train);
  CLI::Option *evalEvery =
      takes("N", train->add_option(
                     "--eval-every", flags.training.evalEvery,
                     "evaluate on the test files behind every N steps and the "
                     "last one, too; the means are among the metrics, as "
                     "test/loss"));
  evalEvery->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  train->get_option("--keep-best")->needs(evalEvery);
  train
      ->add_flag_callback(
          "--no-eval", [this] { flags.training.evaluates = false; },
          "only train; the test files are not read")
      ->excludes(evalSteps)
      ->excludes(evalEvery);

  addEval();
  addPredict();

  CLI::App *bench =
      addSubcommand("bench",
                    "Time the training step on random data, of which an "
                    "input repeats its first 2^20 elements",
                    [this](Session &session) {
                      flags.bench.seed = flags.seed;
                      return runBench(session, flags.bench);
                    });
  takes("N", bench->add_option(
                 "--steps", flags.bench.steps,
                 fmt::format("steps to time (default {})", flags.bench.steps)))
      ->check(CLI::Range(int64_t(1), int64_t(1000000000)));
  bench->add_flag("--profile", flags.bench.profile,
                  "report where the time goes");
  addTrace(bench, flags.bench.trace, "steps behind those that are timed");
  addSeed(bench, "the parameters and the data");
  addSettings(bench, flags.bench.settings);
  takes("SECONDS",
        bench->add_option("--compile-seconds", flags.bench.compileSeconds,
                          "reported as compile_s"));

  app.add_subcommand("info", "Print what is inside")->callback([this] {
    lookUp = [](const Executable &executable) {
      printOutput(describeProgram(executable));
      return Status::success();
    };
  });
  addCheckpointCommands();
  addExport();

  for (CLI::App *subcommand : actions) {
    takes("N", subcommand->add_option(
                   "--threads", flags.threads,
                   "worker threads of each process (default: one per hardware "
                   "thread, divided by the processes)"))
        ->check(CLI::Range(1, 4096));
    addRanks(subcommand);
    addGpus(subcommand);
  }
  app.footer("COMMAND --help lists all options of a command; most runs are:\n"
             "  train    --data-dir DIR [--epochs N | --steps N] [--seed N]\n"
             "  eval     --data-dir DIR --from DIR\n"
             "  predict  --from DIR --in NAME=FILE.npy ... "
             "[--out NAME=FILE.npy ...]\n\n" +
             app.get_footer());
}

int CommandLine::reportUsage(const CLI::ParseError &error) {
  std::string message = error.what();
  if (!message.empty())
    message[0] = char(std::tolower(static_cast<unsigned char>(message[0])));
  std::string note = "--help lists what there is";
  if (isFormerCommand())
    note = "to run the model on arrays: predict --from DIR --in NAME=FILE.npy "
           "--out NAME=FILE.npy";
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
    app.get_subcommand("predict")->get_option("--grad")->group("");
  if (!executable)
    return;
  const bool isForGpus = executable->data.target == exec::Target::cuda;
  for (CLI::App *subcommand : actions)
    for (CLI::Option *option : subcommand->get_options())
      if (isForGpus ? option->get_name() == "--threads"
                    : option->get_group() == gpuGroup)
        option->group("");
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

#ifndef MESHC_RUNTIME_APP_COMMANDFLAGS_H
#define MESHC_RUNTIME_APP_COMMANDFLAGS_H

#include "runtime/app/Bench.h"
#include "runtime/app/Parameters.h"
#include "runtime/app/Session.h"
#include "runtime/app/TopTable.h"
#include "runtime/app/Training.h"
#include "runtime/devices/OpenDevices.h"
#include "runtime/ranks/Ranks.h"

#include <CLI/CLI.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// Prints an error; its exit code.
int report(const Error &error);
/// Prints what was asked for, and nothing else was; the exit code.
int finishWith(std::string_view text);

/// What the help shows behind the name of an option with one value.
CLI::Option *takes(const char *value, CLI::Option *option);

/// The flags of all subcommands.
struct CommandFlags {
  int threads = 0;
  GpuFlags gpus;
  int64_t seed = 0;
  BenchRequest bench;
  TrainingRequest training;
  bool hasSeed = false;
  bool drawsParameters = false; ///< those that an evaluation is not given
  std::vector<std::string> inputs;
  std::string parameterSource; ///< that has all of them; empty: none
  std::string nameMap;         ///< of the source's names; empty: none
  std::vector<std::string> parameters;
  std::vector<std::string> outputs;
  std::vector<std::string> gradients;
  std::optional<std::string> predictedFolder; ///< of test files
  std::optional<int64_t> maxSamples;
  std::string batchDim; ///< that counts the samples of the inputs
  TopRequest top;
  bool predictsTraining = false;     ///< what a training step computes
  int64_t predictedStep = 1;         ///< and which
  std::optional<std::string> prompt; ///< a text to go on behind
  int64_t continued = 100;           ///< by so many of its units
  int64_t processes = 1;
  bool hasProcesses = false;
  int64_t restarts = 0; ///< of a training that fails
  bool hasRestarts = false;
  RankFlags ranks;
  double joinSeconds = RanksOptions().joinSeconds;
  TransportKind transport = TransportKind::Auto;
};

/// The parameters that the flags give. Errors: Usage.
Result<ParameterRequest> getParameterRequest(const CommandFlags &flags);

/// The subcommands and flags of an executable; parsing sets `action`.
class CommandLine {
public:
  CommandLine();

  /// Leaves out of the help what the program cannot do.
  void describe(std::span<const uint8_t> program);
  /// Parses; an exit code where there is nothing more to do.
  std::optional<int> parse(int argc, const char *const *argv);

  CommandFlags flags;
  std::function<Status(Session &)> action;
  std::string command; ///< name of the subcommand
  /// Instead of an action: needs no devices.
  std::function<Status(const Executable &)> lookUp;

private:
  CLI::App *addSubcommand(const std::string &name, const std::string &what,
                          std::function<Status(Session &)> run);
  CLI::Option *addSeed(CLI::App *subcommand, const std::string &what);
  void addDataFolder(CLI::App *subcommand);
  void addSettings(CLI::App *subcommand, std::vector<NamedNumber> &settings);
  CLI::Option *addEvalSteps(CLI::App *subcommand);
  CLI::Option *addSource(CLI::App *subcommand, const char *what);
  CLI::Option *addNames(CLI::App *subcommand, const char *what);
  /// Returns --init.
  CLI::Option *addParameters(CLI::App *subcommand);
  void addExport();
  void addEval();
  void addPredict();
  /// Whether a command was named that another one has taken over.
  bool isFormerCommand() const;
  void addSaving(CLI::App *subcommand);
  void addTrace(CLI::App *subcommand, TraceRequest &request,
                const std::string &which);
  void addRanks(CLI::App *subcommand);
  void addGpus(CLI::App *subcommand);
  void addCheckpointCommands();
  int reportUsage(const CLI::ParseError &error);

  std::vector<CLI::App *> actions; ///< the subcommands that need devices
  std::array<std::string, 2> checkpointPaths;
  std::string exportPath, exportedFloats;
  std::vector<std::string> exportedPatterns;
  CLI::App app{"A model compiled by meshc for a mesh of devices."};
};

} // namespace meshc::runtime

#endif

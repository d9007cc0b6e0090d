// The flags of a training that is saved, and the commands of ckpt.

#include "runtime/app/CheckpointCommands.h"
#include "runtime/app/CommandFlags.h"

#include <fmt/format.h>

#include <charconv>

using namespace meshc;
using namespace meshc::runtime;

/// Steps, or seconds, minutes or hours with a unit behind them; what is wrong
/// with the text, or nothing.
static std::string parseInterval(const std::string &text,
                                 SaveRequest &request) {
  int64_t count = 0;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const std::string_view unit(rest, size_t(end - rest));
  constexpr int64_t most = int64_t(1) << 40;
  if (error != std::errc() || count < 1 || count > most ||
      (unit != "" && unit != "s" && unit != "m" && unit != "h"))
    return fmt::format("expected a number of steps, or a time as 30s, 10m or "
                       "2h, found '{}'",
                       text);
  request.everySteps.reset();
  request.everySeconds.reset();
  if (unit.empty())
    request.everySteps = count;
  else
    request.everySeconds = double(count) * (unit == "s"   ? 1
                                            : unit == "m" ? 60
                                                          : 3600);
  return "";
}

/// "loss" or "max:accuracy"; empty: the lowest of what is minimized.
static Criterion parseCriterion(std::string text) {
  static constexpr std::string_view highest = "max:";
  Criterion criterion;
  criterion.isHighest = text.starts_with(highest);
  criterion.output =
      criterion.isHighest ? text.substr(highest.size()) : std::move(text);
  return criterion;
}

void CommandLine::addSaving(CLI::App *subcommand) {
  SaveRequest &save = flags.training.save;
  CLI::Option *folder =
      takes("DIR", subcommand->add_option(
                       "--save", save.folder,
                       "folder for checkpoints: one when training ends, by "
                       "itself or by a signal"));
  folder->check([](const std::string &path) {
    return std::string(path.empty() ? "the name of the folder is empty" : "");
  });
  takes("N|10m", subcommand->add_option_function<std::string>(
                     "--save-every",
                     [this](const std::string &text) {
                       parseInterval(text, flags.training.save);
                     },
                     "and one every N steps, or in such a time: 30s, 10m, 2h"))
      ->check([](const std::string &text) {
        SaveRequest request;
        return parseInterval(text, request);
      })
      ->needs(folder);
  takes("K", subcommand->add_option(
                 "--keep", save.keep,
                 fmt::format("checkpoints to keep, the last ones (default {})",
                             save.keep)))
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40))
      ->needs(folder);
  takes("[max:]OUTPUT",
        subcommand->add_option_function<std::string>(
            "--keep-best",
            [this](const std::string &text) {
              flags.training.save.best = parseCriterion(text);
            },
            "besides the checkpoint with the lowest mean of an output over the "
            "test samples, in the folder best; of what is minimized, if "
            "nothing is said; max: the highest one"))
      ->expected(0, 1)
      ->needs(folder);
  takes("BYTES",
        subcommand->add_option(
            "--save-memory", save.bufferBytes,
            fmt::format("memory of each process for what is on its way to the "
                        "disk, as 1GiB; training waits while more than that is "
                        "to be saved (default {}MiB)",
                        save.bufferBytes >> 20)))
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t(1) << 23, uint64_t(1) << 50))
      ->needs(folder);
  takes("DIR", subcommand->add_option(
                   "--resume", flags.training.resumePath,
                   "go on from this checkpoint, or the last one of a folder; "
                   "--steps and --epochs count from the beginning"));
  subcommand
      ->add_flag("--continue", flags.training.continues,
                 "go on from the last checkpoint in the folder of --save, if "
                 "it has one, whatever --resume, --from, --param and --init "
                 "say; else start")
      ->needs(folder);
  takes("N", subcommand->add_option_function<int64_t>(
                 "--restarts",
                 [this](int64_t count) {
                   flags.restarts = count;
                   flags.hasRestarts = true;
                 },
                 "start again where a process is killed, memory or a "
                 "connection is lost, or meshc fails: from the last "
                 "checkpoint, N times in all"))
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30))
      ->needs(folder);
}

void CommandLine::addCheckpointCommands() {
  CLI::App *checkpoints =
      app.add_subcommand("ckpt", "List, verify and compare checkpoints");
  checkpoints->require_subcommand(1);
  auto add = [&](const char *name, const char *what) {
    CLI::App *command = checkpoints->add_subcommand(name, what);
    takes("DIR (required)",
          command->add_option("folder", checkpointPaths[0],
                              "a checkpoint, or a folder with some"))
        ->required();
    return command;
  };
  add("ls", "What there is: steps, times, sizes, and what has saved it")
      ->callback([this] {
        lookUp = [this](const Executable &) {
          return listCheckpoints(checkpointPaths[0]);
        };
      });
  add("verify", "Read all of it and compare digests; code 4 if any is damaged")
      ->callback([this] {
        lookUp = [this](const Executable &) {
          return verifyCheckpoints(checkpointPaths[0]);
        };
      });
  CLI::App *diff =
      add("diff", "In which values two checkpoints differ, code 3 if in any; "
                  "of one, how it differs from what this program would save");
  takes("DIR", diff->add_option("other", checkpointPaths[1], "the other one"));
  diff->callback([this] {
    lookUp = [this](const Executable &executable) {
      return checkpointPaths[1].empty()
                 ? compareWithProgram(checkpointPaths[0], executable)
                 : compareCheckpoints(checkpointPaths[0], checkpointPaths[1]);
    };
  });
}

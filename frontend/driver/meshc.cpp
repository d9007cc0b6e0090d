// The command line of meshc.

#include "frontend/driver/Commands.h"
#include "frontend/driver/SpecOptions.h"
#include "layout/Machine.h"
#include "layout/Spelling.h"
#include "runtime/io/StandardStreams.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <csignal>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

/// What `plan` shows of the plan, and how.
static void addPlanOptions(CLI::App *command, CLI::Option *path,
                           SpecArguments &spec, PlanArguments &plan) {
  addTarget(command, plan.target);
  CLI::Option *emit =
      command
          ->add_option("--emit", plan.emit,
                       "text, json or html: a page that shows the plan")
          ->check(CLI::IsMember({"text", "json", "html"}));
  command->callback([&plan, &spec, command, emit] {
    if (emit->count() == 0 && plan.output.ends_with(".html"))
      plan.emit = "html";
    if (spec.path.empty() && plan.compared.empty())
      throw CLI::RequiredError("spec");
    if (plan.compared.size() == 1)
      throw CLI::ValidationError("--compare", "it needs two plans or specs");
    if ((!plan.tries.empty() || !plan.compared.empty()) &&
        (plan.device || !plan.tensor.empty() || !plan.trace.empty() ||
         !plan.check.empty()))
      throw CLI::ValidationError(
          "plan", "what compares plans shows no part of one of them");
    if (!plan.tensor.empty() &&
        (plan.device || plan.emit != "text" || !plan.check.empty()))
      throw CLI::ValidationError("--tensor", "it takes the place of the plan");
    if (plan.device && (plan.emit != "text" || !plan.check.empty()))
      throw CLI::ValidationError("--device", "it is for the text of a plan");
    if ((!plan.sort.empty() || plan.top) &&
        (plan.emit != "text" || !plan.check.empty() || !plan.tensor.empty() ||
         !plan.tries.empty() || !plan.compared.empty()))
      throw CLI::ValidationError(plan.top ? "--top" : "--sort",
                                 "it is for the text of a plan");
    if (plan.remarks &&
        (plan.emit != "text" || !plan.check.empty() || !plan.tensor.empty() ||
         !plan.tries.empty() || !plan.compared.empty()))
      throw CLI::ValidationError("--remarks",
                                 "it is for the text of a plan; JSON and pages "
                                 "have them always");
    if (!plan.trace.empty() && plan.emit == "text")
      throw CLI::ValidationError("--trace", "it needs --emit json or html");
    settleTarget(*command, spec, plan.target);
  });
  CLI::Option *eval =
      command->add_flag("--eval", plan.isEvaluation,
                        "the plan of the evaluation, not of the training step");
  command
      ->add_option("--tensor", plan.tensor,
                   "show which devices hold which positions of this value")
      ->type_name("NAME");
  command
      ->add_option("--memory", plan.memory,
                   "what each device has, to say whether the plan fits: 80GiB, "
                   "80GB")
      ->type_name("SIZE")
      ->transform(readSize(1));
  command
      ->add_option("--device", plan.device,
                   "show which positions of each value this device holds")
      ->type_name("N")
      ->check([](const std::string &number) {
        int64_t device = 0;
        return CLI::detail::lexical_cast(number, device) && device >= 0
                   ? std::string()
                   : "'" + number + "' is no number of a device";
      });
  command
      ->add_option("--sort", plan.sort,
                   "order of values and transfers: program, name, bytes or "
                   "sent; those first that take or send most")
      ->check(CLI::IsMember({"program", "name", "bytes", "sent"}));
  command
      ->add_option("--top", plan.top,
                   "show so many of each list: values of a section, costs, "
                   "transfers; the largest if --sort says nothing else")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(1000000)));
  command->add_flag("--remarks", plan.remarks,
                    "tell what takes more than 1 MiB on each device and was "
                    "not written: reshardings, copies for libraries, stored "
                    "views, values that are whole on every device");
  CLI::Option *output = command->add_option(
      "-o", plan.output,
      "the file, a page if it ends in .html; - is standard output");
  addRepeated(command, "--try", plan.tries,
              "another layout to show beside the spec's: batch=data")
      ->type_name("LAYOUT")
      ->needs(path);
  command
      ->add_option("--compare", plan.compared,
                   "specs, or plans that --emit json has written, to show "
                   "beside each other")
      ->type_name("A B")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->excludes(path);
  command
      ->add_option("--trace", plan.trace,
                   "what a run took, as its --trace has written it, for "
                   "--emit json or html")
      ->type_name("FILE")
      ->excludes(eval);
  command
      ->add_option("--check", plan.check,
                   "compare with a plan that --emit json has written: says "
                   "what differs, with exit code 3")
      ->type_name("FILE")
      ->excludes(emit)
      ->excludes(output);
}

/// Of commands that have --grad.
static void addOf(CLI::App *command, CompileArguments &compile) {
  command
      ->add_option("--of", compile.of,
                   "the output that gradients by inputs are of, where the "
                   "spec minimizes several or none")
      ->type_name("OUTPUT");
}

static void addCompileOptions(CLI::App *command, SpecArguments &spec,
                              CompileArguments &compile) {
  addTarget(command, compile.target);
  command
      ->add_option("--gpu", compile.gpus,
                   "architectures for target cuda: sm_80,sm_90")
      ->type_name("ARCHITECTURE,...")
      ->check(checkGpus);
  command->callback([&spec, &compile, command] {
    settleTarget(*command, spec, compile.target);
  });
  command
      ->add_option("--cpu", compile.cpu,
                   "processor to compile for: native, x86-64-v3, x86-64-v4")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}));
}

/// `bytes` is a number, or one that need not be given.
template <typename Bytes>
static CLI::Option *addCacheBytes(CLI::App *command, Bytes &bytes) {
  return command
      ->add_option("--cache-bytes", bytes,
                   fmt::format("bytes of compiled programs to keep, those used "
                               "last (default of run: {})",
                               defaultCacheBytes))
      ->check(CLI::Range(int64_t(0), int64_t(1) << 50));
}

/// What `run` does with the compiled program.
static void addRunOptions(CLI::App *command, RunArguments &run) {
  CLI::Option *arguments =
      command
          ->add_option("arguments", run.programArguments,
                       "after --: the program's command and its options")
          ->type_name("ARGUMENTS");
  CLI::Option *eval =
      command
          ->add_flag("--eval", run.eval,
                     "on given arrays: as the program's predict")
          ->excludes(arguments);
  auto addFiles = [&](const char *name, std::vector<std::string> &files,
                      const char *what) {
    addRepeated(command, name, files, what)
        ->type_name("NAME=FILE")
        ->needs(eval)
        ->check([](const std::string &text) {
          size_t split = text.find('=');
          bool isPair = split != std::string::npos && split != 0 &&
                        split + 1 != text.size();
          return isPair ? ""
                        : fmt::format("expected NAME=FILE, found '{}'", text);
        });
  };
  addFiles("--in", run.in, "NAME=FILE.npy, an input of --eval");
  addFiles("--param", run.param, "NAME=FILE.npy, a parameter of --eval");
  addFiles("--out", run.out, "NAME=FILE.npy, an output of --eval");
  addFiles("--grad", run.grad,
           "NAME=FILE.npy, the gradient of a parameter or input of --eval");
  command
      ->add_option_function<std::string>(
          "--init", [&run](const std::string &) { run.drawsParameters = true; },
          "random: parameters that --eval is not given start as a training "
          "starts them")
      ->check(CLI::IsMember({"random"}))
      ->needs(eval);
  CLI::Option *training = command->add_flag(
      "--training", run.isTraining,
      "--eval computes as a step of a training does, which changes nothing; "
      "--out of state is what the step would leave");
  training->needs(eval);
  command
      ->add_option("--step", run.step,
                   "the step that --training computes (default: the first)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 56))
      ->needs(training);
  CLI::Option *bench =
      command
          ->add_option("--bench", run.bench,
                       "measure this many training steps on random data, of "
                       "which an input repeats its first 2^20 elements")
          ->check(CLI::Range(int64_t(1), int64_t(1000000000)))
          ->excludes(arguments)
          ->excludes(eval);
  command->add_flag("--profile", run.profile, "with --bench: where time goes")
      ->needs(bench);
  command
      ->add_option("--seed", run.seed, "seed of the random numbers")
      // CLI11 takes the nearest number that there is.
      ->check([](const std::string &text) {
        int64_t seed;
        return llvm::StringRef(text).getAsInteger(0, seed)
                   ? fmt::format("expected an integer of 64 bits, found '{}'",
                                 text)
                   : "";
      })
      ->excludes(arguments);
  addCacheBytes(command, run.cacheBytes);
  command->add_option("--threads", run.threads, "worker threads")
      ->check(CLI::Range(int64_t(1), int64_t(4096)))
      ->excludes(arguments);
}

/// The option or command of `app` and its commands nearest to `word`.
static std::string suggest(const CLI::App &app, std::string word) {
  word = word.substr(0, word.find('='));
  std::vector<std::string> known;
  auto collect = [&](const CLI::App *command) {
    for (const CLI::Option *option : command->get_options())
      for (const std::string &name : option->get_lnames())
        known.push_back("--" + name);
    known.push_back(command->get_name());
  };
  collect(&app);
  for (const CLI::App *command : app.get_subcommands({}))
    collect(command);
  return meshc::layout::findNearest(word, known);
}

/// A word as a shell reads it back.
static std::string quote(const std::string &word) {
  bool isPlain = !word.empty() && llvm::all_of(word, [](char c) {
    return llvm::isAlnum(c) || llvm::StringRef("-_=+,./:@%").contains(c);
  });
  if (isPlain)
    return word;
  std::string quoted = "'";
  for (char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Where a command of the program, train or eval, stands among meshc's own
/// words, the command that was meant; else empty:
///
///   meshc train SPEC --steps 5, meshc run SPEC train --steps 5:
///   meshc run SPEC -- train --data-dir DIR --steps 5
static std::string findMeantCommand(std::vector<std::string> words) {
  static const std::string programCommands[] = {
      "train", "eval", "predict", "info", "bench", "run-eval", "infer"};
  auto command = std::find_first_of(words.begin(), words.end(),
                                    std::begin(programCommands),
                                    std::end(programCommands));
  if (command == words.end() || llvm::is_contained(words, "--"))
    return "";
  std::vector<std::string> own(words.begin(), command);
  std::vector<std::string> rest(command + 1, words.end());
  if (own.empty()) {
    auto spec = llvm::find_if(rest, [](const std::string &word) {
      return llvm::StringRef(word).ends_with(".mesh");
    });
    own = {"run", spec == rest.end() ? "SPEC" : *spec};
    if (spec != rest.end())
      rest.erase(spec);
  }
  if (own.size() < 2 || own.front() != "run")
    return "";
  // The last two are names that predict had.
  const bool isFormer = *command == "infer" || *command == "run-eval";
  own.insert(own.end(), {"--", isFormer ? "predict" : *command});
  auto isData = [](const std::string &word) {
    return word.starts_with("--data-dir");
  };
  if ((*command == "train" || *command == "eval") &&
      llvm::none_of(rest, isData))
    own.insert(own.end(), {"--data-dir", "DIR"});
  own.insert(own.end(), rest.begin(), rest.end());
  std::string meant = "meshc";
  for (const std::string &word : own)
    meant += " " + quote(word);
  return meant;
}

/// What stands for options that other programs have; null if that is none.
static const char *findForeignOption(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  for (std::string_view rate : {"--lr", "--learning-rate", "--learning_rate"})
    if (name == rate)
      return "the rate is a number of the spec's optimizer: sgd(lr = 0.1)";
  for (std::string_view batch : {"--batch", "--batch-size", "--batch_size"})
    if (name == batch)
      return "a batch is a dim of the spec, and -D sets it: -D batch=64";
  for (std::string_view epochs : {"--epochs", "--num-epochs"})
    if (name == epochs)
      return "the spec says how long it trains: train { epochs 3 } or { steps "
             "1000 }; a run stops earlier by --steps";
  return nullptr;
}

/// What is wrong with the command line, and what was meant.
static int reportUsage(const CLI::App &app, const CLI::ParseError &error,
                       std::vector<std::string> words) {
  std::string message = error.what();
  if (!message.empty())
    message[0] = llvm::toLower(message[0]);
  std::string help = "'meshc --help' lists the commands";
  // A misspelt word is also one that is missing: the former says more.
  std::vector<std::string> rest;
  if (error.get_exit_code() == int(CLI::ExitCodes::ExtrasError) ||
      error.get_exit_code() == int(CLI::ExitCodes::RequiredError))
    rest = app.remaining(/*recurse=*/true);
  std::erase(rest, "--");
  // CLI11 lists values before the options that they were meant for.
  auto unknown = std::find_if(rest.begin(), rest.end(),
                              [](auto &word) { return word.starts_with("-"); });
  if (unknown == rest.end())
    unknown = rest.begin();
  if (unknown != rest.end()) {
    message = fmt::format("unknown argument '{}'", *unknown);
    std::string near = suggest(app, *unknown);
    if (const char *advice = findForeignOption(*unknown))
      help = advice;
    else if (!near.empty() && near != *unknown)
      help = fmt::format("did you mean '{}'?", near);
  }
  // Also where an option of the program's command is one of meshc's own.
  if (std::string meant = findMeantCommand(std::move(words)); !meant.empty())
    help = "to run the program: " + meant;
  printError(fmt::format("{}{}\n{}\n", getErrorPrefix(), message, help));
  return exitUsage;
}

/// Makes a limit to the size of files an error of who writes, as a full disk
/// is, here and in the linker. Blocked, since LLVM replaces handlers.
static void blockFileSizeSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

/// Prints the help or the version.
static int printHelp(const CLI::App &app, const CLI::ParseError &asked) {
  std::ostringstream text;
  app.exit(asked, text);
  meshc::runtime::printOutput(text.str());
  const meshc::runtime::Status written = meshc::runtime::flushOutput();
  if (written)
    return exitSuccess;
  printError(getErrorPrefix() + written.getError().message + "\n");
  return exitWrongInput;
}

/// The words of the command line, "--layout=" as "--layout" and "": CLI11 would
/// take the next word for its value. Behind "--" they are the program's.
static std::vector<std::string> splitEmptyValues(int argc, char **argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i)
    if (words[i].starts_with("--") && words[i].ends_with("=")) {
      words[i].pop_back();
      words.insert(words.begin() + ptrdiff_t(++i), "");
    }
  return words;
}

// The parser of the command line throws where it was set up wrongly.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char **argv) {
  meshc::runtime::openStandardStreams();
  blockFileSizeSignal();
  CLI::App app{"meshc: a mesh-parallel tensor compiler"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "meshc 0.1.0");
  app.footer("Exit codes: 0 success, 1 the input is wrong, 2 usage, 3 a check "
             "failed,\n4 damaged file, 5 does not fit, 70 internal error; of "
             "run also those of the\nexecutable: 6 a process of the run is "
             "missing or ended, 130 stopped by SIGINT.");

  SpecArguments spec;
  CompileArguments compile;
  PlanArguments plan;
  RunArguments run;
  ExplainArguments explain;
  CacheArguments cache;

  CLI::App *checkCommand =
      app.add_subcommand("check", "check a spec: names, types, layout");
  addSpecOptions(checkCommand, spec)->required();

  CLI::App *planCommand = app.add_subcommand(
      "plan", "show who holds what and every collective, with its cause");
  CLI::Option *planned = addSpecOptions(planCommand, spec);
  addCommandListOptions(planCommand, planned, spec);
  addPlanOptions(planCommand, planned, spec, plan);

  CLI::App *compileCommand =
      app.add_subcommand("compile", "make an executable");
  addCommandListOptions(compileCommand,
                        addSpecOptions(compileCommand, spec)->required(), spec);
  addCompileOptions(compileCommand, spec, compile);
  compileCommand
      ->add_option("-o", compile.output,
                   "the executable (or dump); - is standard output")
      ->required();
  addRepeated(compileCommand, "--grad", compile.grad,
              "a parameter or input whose gradient the executable is to give "
              "(predict --grad); '*': all")
      ->type_name("NAME");
  addOf(compileCommand, compile);
  compileCommand
      ->add_option("--emit", compile.emit,
                   "exe, or the program as nd, sharded, spmd, exec (its steps) "
                   "or kernels")
      ->check(
          CLI::IsMember({"exe", "nd", "sharded", "spmd", "exec", "kernels"}));

  CLI::App *runCommand = app.add_subcommand(
      "run", "compile to the cache and run; arguments after -- go to the "
             "program (train, eval, predict, info)");
  addCommandListOptions(runCommand,
                        addSpecOptions(runCommand, spec)->required(), spec);
  addCompileOptions(runCommand, spec, compile);
  addOf(runCommand, compile);
  addRunOptions(runCommand, run);
  runCommand->callback(
      [&] { settleTarget(*runCommand, spec, compile.target); });

  CLI::App *explainCommand = app.add_subcommand(
      "explain", "why is this collective (c17), value (h) or operation (o3) as "
                 "it is; what does an error code (MC0603) or a function of the "
                 "library (dense) mean");
  explainCommand
      ->add_option(
          "id", explain.id,
          "a collective, value or operation of this folder's last plan, a "
          "code, a function of the standard library, or \"library\" for the "
          "list of these")
      ->required();
  CLI::Option *explained =
      addSpecOptions(explainCommand, spec)
          ->description("plan this .mesh file instead of taking the last plan");
  addTarget(explainCommand, explain.target)->needs(explained);
  explainCommand->callback(
      [&] { settleTarget(*explainCommand, spec, explain.target); });
  addCommandListOptions(explainCommand, explained, spec);

  CLI::App *cacheCommand = app.add_subcommand(
      "cache", "show the compiled programs that run keeps, or remove some");
  cacheCommand->add_flag("--clear", cache.clear, "remove all")
      ->excludes(addCacheBytes(cacheCommand, cache.bytes));

  CLI::App *doctorCommand = app.add_subcommand(
      "doctor", "show what this machine has for programs on GPUs, and what it "
                "takes as it was measured");
  bool measures = false;
  doctorCommand->add_flag("--measure", measures,
                          "measure what programs take on its processor, in a "
                          "minute, for plan --machine cpu");

  const std::vector<std::string> words = splitEmptyValues(argc, argv);
  std::vector<const char *> parsed;
  for (const std::string &word : words)
    parsed.push_back(word.c_str());
  try {
    app.parse(int(parsed.size()), parsed.data());
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return printHelp(app, error);
    return reportUsage(app, error, {argv + 1, argv + argc});
  }

  if (checkCommand->parsed())
    return runCheck(spec);
  if (planCommand->parsed())
    return runPlan(spec, plan);
  if (compileCommand->parsed())
    return runCompile(spec, compile);
  if (runCommand->parsed())
    return runRun(spec, compile, run);
  if (cacheCommand->parsed())
    return runCache(cache);
  if (doctorCommand->parsed())
    return runDoctor(measures);
  return runExplain(spec, explain);
}

// The command line of meshc.

#include "frontend/driver/Commands.h"
#include "layout/LayoutRules.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

using namespace meshc::driver;

/// Options of every command that reads a spec.
static void addSpecOptions(CLI::App *command, SpecArguments &spec) {
  command->add_option("spec", spec.path, "the model, a .mesh file")
      ->required()
      ->type_name("SPEC");
  command->add_option("--mesh", spec.mesh,
                      "mesh instead of the spec's: data=4,model=2");
  command->add_option("--layout", spec.layout,
                      "layout instead of the spec's: batch=data,hidden=model; "
                      "several axes as batch=data+model; '' splits nothing");
  command
      ->add_option("-D", spec.defines,
                   "dimension or number instead of the spec's: -D hidden=64")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->expected(1);
  command
      ->add_option("--message-format", spec.messageFormat,
                   "text or json (one object per line)")
      ->check(CLI::IsMember({"text", "json"}));
}

static void addCompileOptions(CLI::App *command, CompileArguments &compile) {
  command->add_option("--target", compile.target, "cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--cpu", compile.cpu,
                   "processor to compile for: native, x86-64-v3, x86-64-v4")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}));
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

/// What is wrong with the command line, and what was meant.
static int reportUsage(const CLI::App &app, const CLI::ParseError &error) {
  std::string message = error.what();
  if (!message.empty())
    message[0] = llvm::toLower(message[0]);
  std::string help = "'meshc --help' lists the commands";
  // A misspelt word is also one that is missing: the former says more.
  std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  // CLI11 lists values before the options that they were meant for.
  auto unknown = std::find_if(rest.begin(), rest.end(),
                              [](auto &word) { return word.starts_with("-"); });
  if (unknown == rest.end())
    unknown = rest.begin();
  if (unknown != rest.end()) {
    message = fmt::format("unknown argument '{}'", *unknown);
    std::string near = suggest(app, *unknown);
    if (!near.empty() && near != *unknown)
      help = fmt::format("did you mean '{}'?", near);
  }
  fmt::print(stderr, "meshc: error: {}\n{}\n", message, help);
  return exitUsage;
}

int main(int argc, char **argv) {
  CLI::App app{"meshc: a mesh-parallel tensor compiler"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "meshc 0.1.0");
  app.footer("Exit codes: 0 success, 1 the input is wrong, 2 usage, 3 a check "
             "failed,\n4 damaged file, 5 does not fit, 70 internal error.");

  SpecArguments spec;
  CompileArguments compile;
  PlanArguments plan;
  RunArguments run;
  ExplainArguments explain;

  CLI::App *checkCommand =
      app.add_subcommand("check", "check a spec: names, types, layout");
  addSpecOptions(checkCommand, spec);

  CLI::App *planCommand = app.add_subcommand(
      "plan", "show who holds what and every collective, with its cause");
  addSpecOptions(planCommand, spec);
  planCommand->add_option("--emit", plan.emit, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  planCommand->add_option("-o", plan.output, "file instead of standard output");

  CLI::App *compileCommand =
      app.add_subcommand("compile", "make an executable");
  addSpecOptions(compileCommand, spec);
  addCompileOptions(compileCommand, compile);
  compileCommand->add_option("-o", compile.output, "the executable (or dump)")
      ->required();
  compileCommand
      ->add_option("--emit", compile.emit,
                   "exe, or the program as nd, sharded, spmd or kernels")
      ->check(CLI::IsMember({"exe", "nd", "sharded", "spmd", "kernels"}));

  CLI::App *runCommand = app.add_subcommand(
      "run", "compile to the cache and run; arguments after -- go to the "
             "program (train, eval, info)");
  addSpecOptions(runCommand, spec);
  addCompileOptions(runCommand, compile);
  runCommand->add_flag("--eval", run.eval, "one evaluation on given arrays");
  runCommand->add_option("--in", run.in, "NAME=FILE.npy, an input of --eval");
  runCommand->add_option("--param", run.param, "NAME=FILE.npy, a parameter");
  runCommand->add_option("--out", run.out, "NAME=FILE.npy, an output");
  runCommand->add_option("--grad", run.grad,
                         "NAME=FILE.npy, the gradient of a parameter or input");
  runCommand->add_option("--seed", run.seed, "seed of the random numbers");
  runCommand->add_option("--bench", run.bench,
                         "measure this many training steps on random data");
  runCommand->add_option("--threads", run.threads, "worker threads");
  runCommand->add_flag("--profile", run.profile,
                       "with --bench: where time goes");
  runCommand->prefix_command(false);
  runCommand->add_option("arguments", run.programArguments)
      ->group("")
      ->type_name("ARGUMENTS");

  CLI::App *explainCommand = app.add_subcommand(
      "explain", "why is this collective (c17), value (h) or operation (o3) as "
                 "it is; what does an error code (MC0603) mean");
  explainCommand
      ->add_option("id", explain.id,
                   "a collective, value or operation of the last plan, or a "
                   "code")
      ->required();
  explainCommand->add_option("spec", spec.path,
                             "plan this spec instead of taking the last plan");
  explainCommand->add_option("--mesh", spec.mesh, "as in plan");
  explainCommand->add_option("--layout", spec.layout, "as in plan");
  explainCommand->add_option("-D", spec.defines, "as in plan")->expected(1);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return reportUsage(app, error);
  }

  if (checkCommand->parsed())
    return runCheck(spec);
  if (planCommand->parsed())
    return runPlan(spec, plan);
  if (compileCommand->parsed())
    return runCompile(spec, compile);
  if (runCommand->parsed())
    return runRun(spec, compile, run);
  return runExplain(spec, explain);
}

#include "frontend/driver/Commands.h"

#include "codegen/BuildExecutable.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/machine/OutputFile.h"
#include "frontend/driver/LastPlan.h"
#include "frontend/driver/ProgramCache.h"
#include "frontend/driver/SpecSession.h"
#include "frontend/plan/Explain.h"
#include "frontend/plan/HeldPositions.h"
#include "frontend/plan/PlanText.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/json/PlanDiff.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/syntax/Diagnostics.h"
#include "runtime/cuda/library/SystemReport.h"
#include "runtime/exec/Executable.h"
#include "runtime/io/StandardStreams.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

std::string meshc::driver::getErrorPrefix() {
  return getMessageFormat({}) == frontend::MessageFormat::ColouredText
             ? frontend::paint(frontend::MessagePart::Error, "meshc: error:") +
                   " "
             : "meshc: error: ";
}

void meshc::driver::printError(const std::string &text) {
  runtime::printMessage(text);
}

/// Reports an error that has no place in a spec.
static int fail(const SpecArguments &spec, frontend::Code code,
                std::string message, std::vector<std::string> notes = {}) {
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  diagnostics.report(code, {}, std::move(message)).notes = std::move(notes);
  printError(frontend::render(diagnostics, getMessageFormat(spec)));
  return code == frontend::Code::DamagedPlan ? exitDamaged : exitWrongInput;
}

static int failToWrite(const SpecArguments &spec, llvm::StringRef path,
                       std::error_code error) {
  return fail(spec, frontend::Code::CannotWrite,
              fmt::format("cannot write \"{}\": {}",
                          codegen::getOutputName(path).str(), error.message()));
}

static std::string toText(llvm::Error error) {
  return llvm::toString(std::move(error));
}

static int write(const SpecArguments &spec, llvm::StringRef path,
                 llvm::StringRef text) {
  std::error_code error = codegen::writeOutput(path, text);
  return error ? failToWrite(spec, path, error) : exitSuccess;
}

//===-- check and plan ----------------------------------------------------===//

int meshc::driver::runCheck(const SpecArguments &spec) {
  SpecSession session(spec);
  // Sharding is the last step in which the spec can be wrong.
  if (!session.elaborate() || !session.compile({}, Stage::Sharded))
    return session.reportErrors();
  // Whoever reads JSON asks for errors.
  return spec.messageFormat == "json"
             ? exitSuccess
             : write(spec, codegen::standardOutput, session.summarize() + "\n");
}

/// Says what was not done although the command succeeded.
static void warn(const SpecArguments &spec, const std::string &message) {
  // Of any bytes, where it names a file.
  const std::string text = llvm::json::fixUTF8(message);
  if (spec.messageFormat == "text")
    return printError("meshc: warning: " + message + "\n");
  llvm::json::Object object{{"$message_type", "diagnostic"},
                            {"message", text},
                            {"code", nullptr},
                            {"level", "warning"},
                            {"spans", llvm::json::Array()},
                            {"children", llvm::json::Array()},
                            {"rendered", "warning: " + text + "\n"}};
  printError(llvm::formatv("{0}\n", llvm::json::Value(std::move(object))));
}

/// What to plan for `target`: kernels are the same for every GPU.
static CompileOptions getPlanOptions(const SpecArguments &spec,
                                     const std::string &target) {
  CompileOptions options;
  if (spec.bucketBytes)
    options.bucketBytes = *spec.bucketBytes;
  if (target == "cuda")
    options.target = exec::Target::cuda;
  if (spec.matmulEpilogues == "bias")
    options.epilogues = codegen::MatmulEpilogues::Bias;
  else if (spec.matmulEpilogues == "none")
    options.epilogues = codegen::MatmulEpilogues::None;
  return options;
}

/// The text of a stored plan. Fails with the reason.
static llvm::Expected<std::string> readPlan(const std::string &path) {
  // 2^17 commands, the most that a program has, are a tenth of it.
  constexpr uint64_t maxBytes = uint64_t(1) << 30;
  uint64_t bytes = 0;
  if (llvm::sys::fs::is_directory(path))
    return llvm::createStringError("it is a directory");
  if (std::error_code error = llvm::sys::fs::file_size(path, bytes))
    return llvm::createStringError(error.message());
  if (bytes > maxBytes)
    return llvm::createStringError("it has more than " +
                                   plan::formatBytes(int64_t(maxBytes)));
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return llvm::createStringError(text.getError().message());
  return (*text)->getBuffer().str();
}

/// Holds the plan `fresh` against the stored one.
static int checkPlan(const SpecArguments &spec, const std::string &path,
                     const std::string &fresh) {
  auto refuse = [&](const std::string &reason) {
    return fail(spec, frontend::Code::UnreadablePlan,
                fmt::format("cannot read the plan '{}': {}", path, reason));
  };
  llvm::Expected<std::string> stored = readPlan(path);
  if (!stored)
    return refuse(toText(stored.takeError()));
  std::string error;
  std::optional<std::string> difference =
      plan::diffPlans(*stored, fresh, error);
  if (!difference)
    return refuse(error);
  if (difference->empty())
    return write(spec, codegen::standardOutput,
                 fmt::format("the plan is that of '{}'\n", path));
  const int code =
      write(spec, codegen::standardOutput,
            fmt::format("the plan differs from '{}'\n{}", path, *difference));
  return code == exitSuccess ? exitCheckFailed : code;
}

int meshc::driver::runPlan(const SpecArguments &spec,
                           const PlanArguments &plan) {
  SpecSession session(spec);
  if (!session.elaborate() || !session.checkOutput(plan.output) ||
      !session.compile(getPlanOptions(spec, plan.target), Stage::Exec))
    return session.reportErrors();
  const exec::ExecutableT &executable = session.getCompilation().executable;
  if (llvm::Error error = rememberPlan(executable))
    warn(spec, "\"meshc explain\" will not know this plan: " +
                   toText(std::move(error)));
  const layout::Machine *machine =
      plan.machine.empty() ? nullptr : layout::findMachine(plan.machine);
  int64_t numDevices = 1;
  for (const auto &axis : executable.mesh->axes)
    numDevices *= axis->size;
  if (plan.device && *plan.device >= numDevices)
    return fail(
        spec, frontend::Code::UnknownId,
        fmt::format("the plan has no device {}; it has {}", *plan.device,
                    numDevices == 1 ? "0 alone"
                                    : fmt::format("0 to {}", numDevices - 1)));
  if (!plan.tensor.empty()) {
    std::string message;
    std::optional<std::string> text =
        plan::renderTensor(executable, plan.tensor, message);
    return text ? write(spec, plan.output, *text)
                : fail(spec, frontend::Code::UnknownId, message);
  }
  if (plan.emit == "text" && plan.check.empty())
    return write(spec, plan.output,
                 plan::renderPlanText(executable, {.device = plan.device,
                                                   .memoryLimit = plan.memory,
                                                   .machine = machine}));
  auto readSource = [&](std::string_view path) {
    return session.readSource(path);
  };
  const std::string text =
      plan::renderPlanJson(executable, readSource, machine, plan.memory);
  return plan.check.empty() ? write(spec, plan.output, text)
                            : checkPlan(spec, plan.check, text);
}

int meshc::driver::runDoctor() {
  return write({}, codegen::standardOutput, runtime::cuda::reportSystem());
}

//===-- explain -----------------------------------------------------------===//

static std::optional<std::string> readSource(std::string_view path) {
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return std::nullopt;
  return (*text)->getBuffer().str();
}

static int printExplanation(const SpecArguments &spec,
                            const exec::ExecutableT &executable,
                            const plan::ReadSource &readSource,
                            const std::string &id) {
  std::string message;
  std::optional<std::string> text =
      plan::explain(executable, id, readSource, message);
  std::string subject = plan::describeSubject(executable);
  if (!text)
    return fail(spec, frontend::Code::UnknownId, message,
                {"the plan is that of " + subject});
  return write(spec, codegen::standardOutput, subject + "\n\n" + *text);
}

/// Whether `id` is formed like a code of an error message.
static bool isCode(llvm::StringRef id) {
  return id.size() == 6 && (id.starts_with("MC") || id.starts_with("MR")) &&
         llvm::all_of(id.drop_front(2), llvm::isDigit);
}

/// What a code of an error message means.
static std::optional<std::string> explainCode(const std::string &id) {
  for (const frontend::CodeInfo &info : frontend::getAllCodes())
    if (id == info.id)
      return fmt::format("{}: {}\n", info.id, info.explanation);
#define MESHC_ERROR(NAME, NUMBER, EXIT, EXPLANATION)                           \
  if (id == fmt::format("MR{:04}", NUMBER))                                    \
    return fmt::format("{}: {}\n", id, EXPLANATION);
#include "runtime/exec/ErrorCodes.def"
  return std::nullopt;
}

int meshc::driver::runExplain(const SpecArguments &spec,
                              const ExplainArguments &explain) {
  if (std::optional<std::string> text = explainCode(explain.id))
    return write(spec, codegen::standardOutput, *text);
  if (isCode(explain.id))
    return fail(spec, frontend::Code::UnknownId,
                fmt::format("no error has the code {}; codes stand in brackets "
                            "in a message: MC and four digits in those of "
                            "meshc, as in error[MC0607], MR and four digits in "
                            "those of executables",
                            explain.id));
  // No name within a plan ends so: the spec stands first, or alone.
  if (explain.id.ends_with(".mesh"))
    return fail(spec, frontend::Code::UnknownId,
                fmt::format("\"{0}\" is a spec, which stands after what is to "
                            "be explained: meshc explain {1} {0}",
                            explain.id, spec.path.empty() ? "ID" : spec.path));
  if (!spec.path.empty()) {
    SpecSession session(spec);
    if (!session.elaborate() ||
        !session.compile(getPlanOptions(spec, explain.target), Stage::Exec))
      return session.reportErrors();
    return printExplanation(
        spec, session.getCompilation().executable,
        [&](std::string_view file) { return session.readSource(file); },
        explain.id);
  }
  llvm::Expected<std::string> path = findLastPlan();
  if (!path)
    return fail(spec, frontend::Code::MissingPlan, toText(path.takeError()));
  if (path->empty())
    return fail(spec, frontend::Code::MissingPlan,
                "no plan was shown in this folder; run \"meshc plan SPEC\" "
                "first, or name the spec: \"meshc explain " +
                    explain.id + " SPEC\"");
  auto failToRead = [&](const std::string &why) {
    return fail(
        spec, frontend::Code::DamagedPlan,
        fmt::format("\"{}\": {}; run \"meshc plan SPEC\" again", *path, why));
  };
  llvm::Expected<std::string> text = readOwnFile(*path);
  if (!text)
    return failToRead(toText(text.takeError()));
  auto *data = reinterpret_cast<const uint8_t *>(text->data());
  auto executable = runtime::Executable::load({data, text->size()});
  if (!executable)
    return failToRead(executable.getError().message);
  return printExplanation(spec, executable->data, readSource, explain.id);
}

//===-- compile -----------------------------------------------------------===//

static std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  os << "\n";
  return text;
}

std::string meshc::driver::checkGpus(const std::string &text) {
  return codegen::checkGpuArchitectures(text);
}

static CompileOptions getCompileOptions(const SpecArguments &spec,
                                        const CompileArguments &compile) {
  CompileOptions options = getPlanOptions(spec, compile.target);
  options.cpu = compile.cpu;
  if (options.target == exec::Target::cuda)
    for (llvm::StringRef name : llvm::split(compile.gpus, ','))
      options.gpus.push_back(name.str());
  return options;
}

int meshc::driver::runCompile(const SpecArguments &spec,
                              const CompileArguments &compile) {
  if (std::error_code error = codegen::checkWritable(compile.output))
    return failToWrite(spec, compile.output, error);
  SpecSession session(spec);
  CompileOptions options = getCompileOptions(spec, compile);
  if (!session.elaborate() || !session.checkOutput(compile.output) ||
      !session.checkGradients(compile.grad))
    return session.reportErrors();
  if (!compile.grad.empty()) {
    options.programs.push_back("gradient");
    options.gradients = session.expandGradients(compile.grad);
  }
  Stage stage = compile.emit == "nd"        ? Stage::Nd
                : compile.emit == "sharded" ? Stage::Sharded
                : compile.emit == "spmd"    ? Stage::Spmd
                : compile.emit == "exec"    ? Stage::Steps
                                            : Stage::Exec;
  if (!session.compile(options, stage))
    return session.reportErrors();
  if (stage != Stage::Exec)
    return write(spec, compile.output, print(session.getModule()));
  if (compile.emit == "kernels")
    return write(spec, compile.output,
                 print(*session.getCompilation().kernels));
  if (!session.link(options, compile.output))
    return session.reportErrors();
  return exitSuccess;
}

//===-- run ---------------------------------------------------------------===//

/// The names of `NAME=FILE` arguments.
static std::vector<std::string>
getNames(const std::vector<std::string> &bindings) {
  std::vector<std::string> names;
  for (const std::string &binding : bindings)
    names.push_back(binding.substr(0, binding.find('=')));
  return names;
}

/// The command line of the program for these arguments.
static std::vector<std::string> getProgramArguments(const RunArguments &run,
                                                    double compileSeconds) {
  std::vector<std::string> arguments;
  auto addAll = [&](const char *flag, const std::vector<std::string> &values) {
    for (const std::string &value : values)
      arguments.insert(arguments.end(), {flag, value});
  };
  if (run.eval) {
    arguments.push_back("run-eval");
    addAll("--in", run.in);
    addAll("--param", run.param);
    if (run.drawsParameters)
      addAll("--init", {"random"});
    addAll("--out", run.out);
    addAll("--grad", run.grad);
  } else if (run.bench) {
    arguments.insert(arguments.end(),
                     {"bench", "--steps", std::to_string(*run.bench),
                      "--compile-seconds",
                      fmt::format("{:.3f}", compileSeconds)});
    if (run.profile)
      arguments.push_back("--profile");
  }
  arguments.insert(arguments.end(), run.programArguments.begin(),
                   run.programArguments.end());
  if (run.seed)
    addAll("--seed", {std::to_string(*run.seed)});
  if (run.threads)
    addAll("--threads", {std::to_string(*run.threads)});
  return arguments;
}

static CompileOptions getRunOptions(const SpecArguments &spec,
                                    const CompileArguments &compile,
                                    const RunArguments &run) {
  CompileOptions options = getCompileOptions(spec, compile);
  if (run.bench)
    options.programs = {"init", "step"};
  if (run.eval) {
    options.programs = {"init", run.grad.empty() ? "eval" : "gradient"};
    options.gradients = getNames(run.grad);
  }
  return options;
}

/// What the program depends on; equal keys mean equal executables.
static std::string getCacheKey(mlir::ModuleOp module,
                               const CompileOptions &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo();
  module.print(os, flags);
  os << getBuildIdentity() << options.cpu << "\n"
     << llvm::sys::getProcessTriple() << " " << llvm::sys::getHostCPUName()
     << "\n";
  if (options.target == exec::Target::cuda)
    os << "cuda " << codegen::findAssembler() << "\n";
  os << "bucket " << options.bucketBytes << "\n"
     << "epilogues " << int(options.epilogues) << "\n";
  for (const std::string &name : options.gpus)
    os << "gpu:" << name << "\n";
  for (const std::string &name : options.programs)
    os << name << "\n";
  for (const std::string &name : options.gradients)
    os << "grad:" << name << "\n";
  return getSha256(text);
}

/// Says what a spec can be run for where that was not said.
static int failWithoutCommand(const SpecArguments &spec, SpecSession &session) {
  mlir::ModuleOp module = session.getModule();
  const bool hasData = !module.getOps<nd::DataOp>().empty();
  const bool trains = !module.getOps<nd::TrainingOp>().empty();
  std::string text = getErrorPrefix() + "it is not said what to run\n";
  if (hasData && trains)
    text += fmt::format("to train: meshc run {} -- train --data-dir DIR\n",
                        spec.path);
  else
    text += fmt::format(
        "it has no {} block and cannot be trained on files; on "
        "arrays: meshc run {} --eval --in NAME=FILE.npy {}--out "
        "NAME=FILE.npy\n",
        trains ? "data" : "train", spec.path,
        module.getOps<nd::VariableOp>().empty() ? ""
                                                : "--param NAME=FILE.npy ");
  if (trains)
    text +=
        fmt::format("to measure training steps on random data: meshc run {} "
                    "--bench 10\n",
                    spec.path);
  printError(text);
  return exitUsage;
}

/// Replaces the process by the program, which is called as the model is.
static int runProgram(const SpecArguments &spec, const SpecSession &session,
                      const Descriptor &program,
                      std::vector<std::string> arguments) {
  const std::string &model = session.getCompilation().executable.model;
  arguments.insert(arguments.begin(), model);
  int error = execute(program, std::move(arguments));
  return fail(spec, frontend::Code::CannotRead,
              fmt::format("cannot run \"{}\": {}", model, strerror(error)));
}

int meshc::driver::runRun(const SpecArguments &spec,
                          const CompileArguments &compile,
                          const RunArguments &run) {
  llvm::Expected<ProgramCache> cache = ProgramCache::open();
  if (!cache)
    return fail(spec, frontend::Code::CannotWrite, toText(cache.takeError()));

  auto start = std::chrono::steady_clock::now();
  SpecSession session(spec);
  if (!session.elaborate())
    return session.reportErrors();
  if (!run.eval && !run.bench && run.programArguments.empty())
    return failWithoutCommand(spec, session);
  if (!session.checkGradients(run.grad))
    return session.reportErrors();
  CompileOptions options = getRunOptions(spec, compile, run);
  const std::string key = getCacheKey(session.getModule(), options);
  // A measurement says how long compiling takes, so it always compiles.
  if (!run.bench)
    if (std::optional<Descriptor> program = cache->find(key)) {
      cache->trim(run.cacheBytes, key);
      return runProgram(spec, session, *program, getProgramArguments(run, 0));
    }
  if (!session.compile(options, Stage::Exec) ||
      !session.link(options, cache->getFreshPath(key)))
    return session.reportErrors();
  llvm::Expected<Descriptor> program = cache->add(key);
  if (!program)
    return fail(spec, frontend::Code::CannotWrite, toText(program.takeError()));
  cache->trim(run.cacheBytes, key);
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return runProgram(spec, session, *program, getProgramArguments(run, seconds));
}

//===-- cache -------------------------------------------------------------===//

int meshc::driver::runCache(const CacheArguments &arguments) {
  llvm::Expected<ProgramCache> cache = ProgramCache::open();
  if (!cache)
    return fail({}, frontend::Code::CannotWrite, toText(cache.takeError()));
  ProgramCache::Usage before = cache->getUsage();
  if (arguments.clear)
    cache->trim(0);
  else if (arguments.bytes)
    cache->trim(*arguments.bytes);
  ProgramCache::Usage usage = cache->getUsage();
  std::string text =
      fmt::format("folder    {}\nprograms  {}\nbytes     {}\n",
                  cache->getFolder(), usage.programs, usage.bytes);
  if (before.programs > usage.programs)
    text += fmt::format(
        "removed   {} of {} bytes\n",
        plan::formatCount(before.programs - usage.programs, "program"),
        before.bytes - usage.bytes);
  return write({}, codegen::standardOutput, text);
}

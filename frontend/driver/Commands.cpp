#include "frontend/driver/Commands.h"

#include "codegen/BuildExecutable.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/machine/OutputFile.h"
#include "frontend/driver/LastPlan.h"
#include "frontend/driver/Measure.h"
#include "frontend/driver/ProgramCache.h"
#include "frontend/driver/Report.h"
#include "frontend/driver/SpecSession.h"
#include "frontend/driver/TextOutput.h"
#include "frontend/elaborate/Library.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/text/Explain.h"
#include "frontend/plan/text/TerminalText.h"
#include "layout/Spelling.h"
#include "runtime/cuda/library/SystemReport.h"
#include "runtime/exec/Executable.h"
#include "runtime/io/StandardStreams.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
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

//===-- check and doctor --------------------------------------------------===//

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

/// Measures this host and keeps what was measured.
static llvm::Error keepMeasurement() {
  llvm::Expected<std::string> path = getMeasurementPath();
  if (!path)
    return path.takeError();
  llvm::Expected<layout::MeasuredHost> host = measureHost();
  if (!host)
    return host.takeError();
  // In the place of what is there, a link too.
  llvm::Expected<codegen::TemporaryFile> file =
      codegen::TemporaryFile::createBeside(*path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = file->write(writeMeasurement(*host)))
    return error;
  return llvm::errorCodeToError(file->moveTo(*path));
}

int meshc::driver::runDoctor(bool measures) {
  if (measures)
    if (llvm::Error error = keepMeasurement())
      return fail({}, frontend::Code::NotMeasured,
                  "cannot measure this host: " + toText(std::move(error)));
  llvm::Expected<std::optional<layout::MeasuredHost>> host = findMeasurement();
  if (!host)
    return fail({}, frontend::Code::NotMeasured, toText(host.takeError()));
  return write({}, codegen::standardOutput,
               runtime::cuda::reportSystem() +
                   (*host ? renderMeasurement(**host)
                          : "host      not measured; 'meshc doctor --measure' "
                            "does it in a minute\n"));
}

//===-- explain -----------------------------------------------------------===//

static std::optional<std::string> readSource(std::string_view path) {
  // What has taken the place of the spec since may be waited for.
  if (!llvm::sys::fs::is_regular_file(path))
    return std::nullopt;
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return std::nullopt;
  return (*text)->getBuffer().str();
}

/// `notes`, and one of the function of the library that may have been meant.
static std::vector<std::string> addFunction(std::vector<std::string> notes,
                                            const std::string &id) {
  std::vector<std::string> names;
  for (const frontend::LibraryFunction &function : frontend::readLibrary())
    names.push_back(function.name);
  if (std::string name = layout::findNearest(id, names); !name.empty())
    notes.push_back(fmt::format("the standard library has '{0}': \"meshc "
                                "explain {0}\"",
                                name));
  return notes;
}

/// `text` as wide as its reader's terminal.
static std::string fit(const std::string &text) {
  const TextOutput output = TextOutput::of(codegen::standardOutput.str());
  return output.wraps ? plan::wrapLines(text, output.width) : text;
}

/// What the plan says of `id`, and the standard library.
static int printExplanation(const SpecArguments &spec,
                            const exec::ExecutableT &executable,
                            const plan::ReadSource &readSource,
                            const std::string &id) {
  std::string message;
  std::optional<std::string> text =
      plan::explain(executable, id, readSource, message);
  std::string subject = plan::describeSubject(executable);
  std::optional<std::string> function = frontend::explainLibrary(id);
  if (!text && !function)
    return fail(spec, frontend::Code::UnknownId, message,
                addFunction({"the plan is that of " + subject}, id));
  // A spec that is named is what is asked about, the last plan may be.
  std::string all;
  if (function && (!text || spec.path.empty()))
    all = *function;
  if (text)
    all += (all.empty() ? "" : "\n") + fit(subject + "\n\n" + *text);
  return write(spec, codegen::standardOutput, all);
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

/// Of the last plan in this folder, and of the library, which needs none.
static int explainWithoutSpec(const SpecArguments &spec,
                              const std::string &id) {
  auto failToExplain = [&](frontend::Code code, const std::string &message) {
    if (std::optional<std::string> text = frontend::explainLibrary(id))
      return write(spec, codegen::standardOutput, *text);
    return fail(spec, code, message, addFunction({}, id));
  };
  llvm::Expected<std::string> path = findLastPlan();
  if (!path)
    return failToExplain(frontend::Code::MissingPlan, toText(path.takeError()));
  if (path->empty())
    return failToExplain(
        frontend::Code::MissingPlan,
        fmt::format("no plan was shown in this folder; run \"meshc plan SPEC\" "
                    "first, or name the spec: \"meshc explain {} SPEC\"",
                    id));
  auto failToRead = [&](const std::string &why) {
    return failToExplain(
        frontend::Code::DamagedPlan,
        fmt::format("\"{}\": {}; run \"meshc plan SPEC\" again", *path, why));
  };
  llvm::Expected<std::string> text = readOwnFile(*path);
  if (!text)
    return failToRead(toText(text.takeError()));
  auto *data = reinterpret_cast<const uint8_t *>(text->data());
  auto executable = runtime::Executable::load({data, text->size()});
  if (!executable)
    return failToRead(executable.getError().message);
  return printExplanation(spec, executable->data, readSource, id);
}

int meshc::driver::runExplain(const SpecArguments &spec,
                              const ExplainArguments &explain) {
  if (std::optional<std::string> text = explainCode(explain.id))
    return write(spec, codegen::standardOutput, fit(*text));
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
    noteAssumedMachine(spec);
    return printExplanation(
        spec, session.getCompilation().executable,
        [&](std::string_view file) { return session.readSource(file); },
        explain.id);
  }
  return explainWithoutSpec(spec, explain.id);
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
      !session.checkGradients(compile.grad, compile.of))
    return session.reportErrors();
  options.programs.emplace_back("training");
  if (!compile.grad.empty()) {
    options.programs.insert(options.programs.end(),
                            {"gradient", "training_gradient"});
    options.gradients = session.expandGradients(compile.grad);
    options.inputsOf = compile.of;
  }
  Stage stage = compile.emit == "nd"        ? Stage::Nd
                : compile.emit == "sharded" ? Stage::Sharded
                : compile.emit == "spmd"    ? Stage::Spmd
                : compile.emit == "exec"    ? Stage::Steps
                                            : Stage::Exec;
  if (!session.compile(options, stage))
    return session.reportErrors();
  noteAssumedMachine(spec);
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

/// The gradients, as NAME=FILE, that the program is to be compiled with: those
/// of --eval, or of `predict` behind --.
static std::vector<std::string> getGradients(const RunArguments &run) {
  if (run.programArguments.empty() || run.programArguments[0] != "predict")
    return run.grad;
  std::vector<std::string> gradients;
  bool isValue = false; // of --grad, which takes several
  for (llvm::StringRef word : run.programArguments) {
    if (isValue && !word.starts_with("-"))
      gradients.push_back(word.str());
    else if (word.consume_front("--grad="))
      gradients.push_back(word.str());
    else
      isValue = word == "--grad";
  }
  return gradients;
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
    arguments.push_back("predict");
    addAll("--in", run.in);
    addAll("--param", run.param);
    if (run.drawsParameters)
      addAll("--init", {"random"});
    if (run.isTraining)
      arguments.push_back("--training");
    if (run.step)
      addAll("--step", {std::to_string(*run.step)});
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

/// `hasTraining`: the model has a program for training.
static CompileOptions getRunOptions(const SpecArguments &spec,
                                    const CompileArguments &compile,
                                    const RunArguments &run, bool hasTraining) {
  CompileOptions options = getCompileOptions(spec, compile);
  const std::vector<std::string> gradients = getGradients(run);
  options.gradients = getNames(gradients);
  options.inputsOf = compile.of;
  if (run.bench)
    options.programs = {"init", "accumulate", "step"};
  else if (run.eval && run.isTraining && hasTraining)
    // The first says that there is a program for training.
    options.programs = {"init", "training", "training_gradient"};
  else if (run.eval)
    options.programs = {"init", gradients.empty() ? "eval" : "gradient"};
  else
    options.programs.insert(options.programs.end(),
                            {"training", "gradient", "training_gradient"});
  if (gradients.empty())
    std::erase_if(options.programs, [](const std::string &name) {
      return name.ends_with("gradient");
    });
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
  os << "bucket " << options.steps.bucketBytes.value_or(-1) << "\n"
     << "prefetch " << options.steps.prefetchLayers.value_or(-1) << "\n"
     << "tile " << options.steps.tileBytes.value_or(-1) << "\n"
     << "multiple " << options.steps.matmulMultiple.value_or(-1) << "\n"
     << "fuses " << options.steps.fuses << "\n"
     << "epilogues " << int(options.epilogues) << "\n"
     << "machine " << options.machine << "\n";
  for (const std::string &name : options.gpus)
    os << "gpu:" << name << "\n";
  for (const std::string &name : options.programs)
    os << name << "\n";
  for (const std::string &name : options.gradients)
    os << "grad:" << name << "\n";
  os << "of " << options.inputsOf << "\n";
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
        "arrays: meshc run {} -- predict {}--in NAME=FILE.npy --out "
        "NAME=FILE.npy\n",
        trains ? "data" : "train", spec.path,
        module.getOps<nd::VariableOp>().empty() ? "" : "--from DIR ");
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
  if (!session.checkGradients(getGradients(run), compile.of))
    return session.reportErrors();
  CompileOptions options = getRunOptions(
      spec, compile, run,
      session.getModule().lookupSymbol<nd::ProgramOp>("training") != nullptr);
  noteAssumedMachine(spec);
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

#include "frontend/package/Program.h"

#include "frontend/BuilderModule.h"
#include "frontend/driver/SpecSession.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/page/PlanPage.h"
#include "frontend/plan/text/Explain.h"
#include "frontend/plan/text/PlanText.h"
#include "layout/Machine.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

using namespace meshc;

struct Program::State {
  driver::CompileOptions options;
  std::string errors;
  bool isCompiled = false;
  /// Of a spec; null of what a builder has built.
  std::unique_ptr<driver::SpecSession> session;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< without a session
  driver::Compilation compilation;          ///< likewise

  const exec::ExecutableT &getExecutable() const {
    return session ? session->getCompilation().executable
                   : compilation.executable;
  }
  /// The text of a file that the program has lines of; of C++ those on disk.
  std::optional<std::string> readSource(std::string_view path) const;
  const layout::Machine *findMachine() const {
    return options.machine.empty() ? nullptr
                                   : layout::findMachine(options.machine);
  }

  void readOptions(const ProgramOptions &given);
  void compileBuilt(frontend::Builder &builder, const ProgramOptions &given);
  void compileSpec(const SpecFile &spec);
  bool link(const std::string &path);
};

std::optional<std::string>
Program::State::readSource(std::string_view path) const {
  if (session)
    return session->readSource(path);
  auto text = llvm::MemoryBuffer::getFile(llvm::StringRef(path));
  if (!text)
    return std::nullopt;
  return (*text)->getBuffer().str();
}

void Program::State::readOptions(const ProgramOptions &given) {
  auto fail = [&](const std::string &what) {
    errors += fmt::format("error: {}\n", what);
  };
  if (given.target != "cpu" && given.target != "cuda")
    fail(fmt::format("the target '{}' is neither cpu nor cuda", given.target));
  const layout::Machine *machine = layout::findMachine(given.machine);
  if (!given.machine.empty() && (!machine || !machine->getGpuConstants()))
    fail(fmt::format("there is no machine '{}'; those of GPUs are {}",
                     given.machine, layout::getGpuMachineNames()));
  if (!given.machine.empty() && given.target == "cpu")
    fail(fmt::format("the machine '{}' has GPUs, the target is cpu",
                     given.machine));
  options.target =
      given.target == "cuda" ? exec::Target::cuda : exec::Target::cpu;
  options.machine = given.machine;
  options.cpu = given.cpu;
  if (options.target != exec::Target::cuda)
    return;
  options.gpus = given.gpus;
  if (std::string wrong = driver::checkGpus(llvm::join(given.gpus, ","));
      !wrong.empty())
    fail(wrong);
}

/// "mlp.cpp:12: error[MC0401]: ...", with what belongs to it below.
static std::string toString(const frontend::BuildError &error) {
  auto getPlace = [](const frontend::Where &where) {
    return where.line ? fmt::format("{}:{}: ", where.file, where.line)
                      : std::string();
  };
  std::string text =
      fmt::format("{}error[{}]: {}\n", getPlace(error.where),
                  frontend::getInfo(error.code).id, error.message);
  for (const auto &[where, what] : error.related)
    text += fmt::format("{}note: {}\n", getPlace(where), what);
  for (const std::string &note : error.notes)
    text += fmt::format("  note: {}\n", note);
  if (!error.suggestion.empty())
    text += fmt::format("  help: did you mean \"{}\"?\n", error.suggestion);
  for (const std::string &help : error.helps)
    text += fmt::format("  help: {}\n", help);
  return text;
}

/// What a pass reports, at its place in C++.
static std::string toString(mlir::Diagnostic &diagnostic) {
  std::string place;
  if (auto at =
          mlir::dyn_cast<mlir::FileLineColRange>(diagnostic.getLocation()))
    place = fmt::format("{}:{}: ", at.getFilename().str(), at.getStartLine());
  std::string text = fmt::format("{}error: {}\n", place, diagnostic.str());
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    text += fmt::format("  note: {}\n", note.str());
  return text;
}

void Program::State::compileBuilt(frontend::Builder &builder,
                                  const ProgramOptions &given) {
  builder.finish();
  for (const frontend::BuildError &error : builder.takeErrors())
    errors += toString(error);
  if (!errors.empty())
    return;
  module = frontend::takeModule(builder);
  if (!module) {
    errors = "error: the builder has found errors before, which were taken\n";
    return;
  }
  compilation.executable.producer = "meshc 0.1.0";
  compilation.executable.model = given.name;
  mlir::ScopedDiagnosticHandler handler(
      module->getContext(), [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors += toString(diagnostic);
        return mlir::success();
      });
  if (failed(driver::compile(*module, options, driver::Stage::Exec,
                             compilation)) &&
      errors.empty())
    errors =
        fmt::format("internal error: {}\n", compilation.internalError.empty()
                                                ? "a pass failed"
                                                : compilation.internalError);
}

void Program::State::compileSpec(const SpecFile &spec) {
  driver::SpecArguments arguments;
  arguments.path = spec.path;
  arguments.defines = spec.defines;
  arguments.mesh = spec.mesh;
  arguments.layout = spec.layout;
  arguments.precision = spec.precision;
  session = std::make_unique<driver::SpecSession>(arguments);
  if (!session->elaborate() || !session->compile(options, driver::Stage::Exec))
    errors = session->renderErrors(frontend::MessageFormat::Text);
}

bool Program::State::link(const std::string &path) {
  if (session) {
    if (session->checkOutput(path) && session->link(options, path))
      return true;
    errors = session->renderErrors(frontend::MessageFormat::Text);
    return false;
  }
  mlir::ScopedDiagnosticHandler handler(
      module->getContext(), [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors += toString(diagnostic);
        return mlir::success();
      });
  if (succeeded(driver::link(*module, options, compilation, path)))
    return true;
  if (errors.empty())
    errors = fmt::format("error: cannot write '{}'\n", path);
  return false;
}

Program::Program(frontend::Builder &builder, ProgramOptions options)
    : state(std::make_unique<State>()) {
  state->readOptions(options);
  if (state->errors.empty())
    state->compileBuilt(builder, options);
  state->isCompiled = state->errors.empty();
}

Program::Program(const SpecFile &spec, ProgramOptions options)
    : state(std::make_unique<State>()) {
  state->readOptions(options);
  if (state->errors.empty())
    state->compileSpec(spec);
  state->isCompiled = state->errors.empty();
}

Program::~Program() = default;
Program::Program(Program &&) noexcept = default;
Program &Program::operator=(Program &&) noexcept = default;

Program::operator bool() const { return state->isCompiled; }
const std::string &Program::getErrors() const { return state->errors; }

std::string Program::getPlan(size_t columns) const {
  return plan::renderPlanText(
      state->getExecutable(),
      {.machine = state->findMachine(), .width = columns, .wraps = true});
}

std::string Program::getPlanJson() const {
  return plan::renderPlanJson(
      state->getExecutable(),
      [&](std::string_view path) { return state->readSource(path); },
      {.machine = state->findMachine(), .memoryLimit = std::nullopt});
}

std::string Program::getPlanPage() const {
  const std::string json = getPlanJson();
  return plan::renderPlanPage({&json, 1});
}

std::optional<std::string> Program::explain(const std::string &id) const {
  std::string message;
  return plan::explain(
      state->getExecutable(), id,
      [&](std::string_view path) { return state->readSource(path); }, message);
}

bool Program::write(const std::string &path) {
  if (!state->isCompiled)
    return false;
  state->errors.clear();
  return state->link(path);
}

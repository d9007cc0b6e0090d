#include "frontend/driver/SpecSession.h"

#include "codegen/machine/OutputFile.h"
#include "frontend/driver/Cache.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/Remarks.h"
#include "frontend/plan/Waste.h"
#include "frontend/syntax/Lexer.h"
#include "layout/Machine.h"
#include "layout/Spelling.h"
#include "passes/ReverseSweep.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::driver;

/// The context of a session: one thread, since a spec is small and the machine
/// may be busy; no program text after an error.
static mlir::MLIRContext::Threading threading =
    mlir::MLIRContext::Threading::DISABLED;

SpecSession::SpecSession(const SpecArguments &arguments)
    : arguments(arguments), context(threading), diagnostics(sources),
      passErrors(context, diagnostics) {
  context.printOpOnDiagnostic(false);
}

frontend::MessageFormat
meshc::driver::getMessageFormat(const SpecArguments &arguments) {
  if (arguments.messageFormat == "json")
    return frontend::MessageFormat::Json;
  const char *refusal = std::getenv("NO_COLOR");
  return llvm::sys::Process::StandardErrHasColors() && !(refusal && *refusal)
             ? frontend::MessageFormat::ColouredText
             : frontend::MessageFormat::Text;
}

/// What is on standard input, but not more than is enough to see that it is too
/// much; none if it cannot be read.
static std::optional<std::string> readStandardInput() {
  std::string text(frontend::Limits::fileBytes + 1, '\0');
  size_t size = std::fread(text.data(), 1, text.size(), stdin);
  if (std::ferror(stdin))
    return std::nullopt;
  text.resize(size);
  text.shrink_to_fit();
  return text;
}

bool SpecSession::elaborate() {
  frontend::SpecOptions options;
  options.path = arguments.path;
  if (arguments.path == "-") {
    options.path = "<stdin>";
    options.text = readStandardInput();
    if (!options.text) {
      diagnostics.report(
          frontend::Code::CannotRead, {},
          fmt::format("cannot read \"<stdin>\": {}", std::strerror(errno)));
      return false;
    }
  }
  options.defines = arguments.defines;
  options.mesh = arguments.mesh;
  options.layout = arguments.layout;
  options.precision = arguments.precision;
  options.recompute = arguments.recompute;
  module = frontend::compileSpec(options, context, sources, diagnostics);
  if (!module)
    return false;
  exec::ExecutableT &executable = compilation.executable;
  executable.producer = "meshc 0.1.0";
  executable.model =
      options.text ? "stdin" : llvm::sys::path::stem(arguments.path).str();
  // The spec is the first that is read, before what it imports.
  executable.spec_sha256 = getSha256(sources.get(0).getText());
  executable.files.push_back(options.path);
  return true;
}

/// The outputs that a recipe minimizes, each once.
static std::vector<std::string> getMinimized(mlir::ModuleOp module,
                                             const Objective &objective) {
  std::vector<std::string> outputs{objective.minimize};
  for (auto other : module.getOps<nd::ObjectiveOp>())
    if (!llvm::is_contained(outputs, other.getMinimize()))
      outputs.push_back(other.getMinimize().str());
  return outputs;
}

/// The outputs that are scalars of floats.
static std::vector<std::string> getScalars(nd::ProgramOp program) {
  std::vector<std::string> names;
  for (auto output : program.getOps<nd::OutputOp>()) {
    const nd::NamedTensorType type = output.getValue().getType();
    if (type.getRank() == 0 &&
        mlir::isa<mlir::FloatType>(type.getElementType()))
      names.push_back(output.getName().str());
  }
  return names;
}

void SpecSession::checkObjective(const std::string &asked, bool isInput,
                                 const std::string &of) {
  const Objective objective = findObjective(*module);
  const std::vector<std::string> scalars =
      getScalars(module->lookupSymbol<nd::ProgramOp>("forward"));
  auto report = [&](const char *option, const std::string &text,
                    std::string message) -> frontend::Diagnostic & {
    const frontend::Span span = {sources.add(option, text), 0,
                                 uint32_t(text.size())};
    return diagnostics.report(frontend::Code::NoObjective, span,
                              std::move(message));
  };
  if (!of.empty()) {
    if (!llvm::is_contained(scalars, of))
      report("--of", of,
             fmt::format("\"{}\" is no output that is a scalar of floats", of))
          .didYouMean(layout::findNearest(of, scalars));
    else if (asked.empty())
      report("--of", of,
             "--of says of which output gradients are, and there is no --grad");
    else if (!isInput && !objective.minimize.empty() &&
             getMinimized(*module, objective) != std::vector{of})
      report("--of", of,
             "--of is for gradients by inputs, and --grad names parameters, "
             "whose gradients are of what is minimized");
    return;
  }
  if (objective.minimize.empty() && scalars.empty()) {
    report("--grad", asked,
           "the model has no output that gradients can be of: none is a scalar "
           "of floats");
  } else if (objective.minimize.empty()) {
    report("--grad", asked,
           fmt::format("gradients of which output? \"{}\" are scalars of "
                       "floats",
                       llvm::join(scalars, "\", \"")))
        .help(fmt::format("write \"train {{ minimize {0} }}\" in the spec, or "
                          "give --of {0}",
                          scalars.front()));
  } else if (const auto minimized = getMinimized(*module, objective);
             isInput && minimized.size() > 1) {
    report("--grad", asked,
           fmt::format("the gradient by an input, of which output? \"{}\" are "
                       "minimized",
                       llvm::join(minimized, "\", \"")))
        .help(fmt::format("give --of {}", llvm::join(minimized, ", or --of ")));
  }
}

std::vector<std::string>
SpecSession::expandGradients(const std::vector<std::string> &names) {
  std::vector<std::string> all;
  for (const GradientSource &source :
       findGradientSources(module->lookupSymbol<nd::ProgramOp>("forward")))
    all.push_back(source.name.str());
  return llvm::is_contained(names, "*") ? all : names;
}

std::optional<std::string>
SpecSession::readSource(std::string_view path) const {
  for (uint32_t i = 0; i < sources.getNumSources(); ++i)
    if (sources.get(i).getName() == path)
      return std::string(sources.get(i).getText());
  return std::nullopt;
}

bool SpecSession::checkGradients(const std::vector<std::string> &bindings,
                                 const std::string &of) {
  std::vector<std::string> known, inputs;
  for (const GradientSource &source :
       findGradientSources(module->lookupSymbol<nd::ProgramOp>("forward"))) {
    known.push_back(source.name.str());
    if (!source.isParameter)
      inputs.push_back(source.name.str());
  }
  // One error says of all of them which output they are to be of.
  std::string asked, byInput;
  for (const std::string &binding : bindings) {
    std::string name = binding.substr(0, binding.find('='));
    if (binding == "*" || llvm::is_contained(known, name)) {
      if (asked.empty())
        asked = binding;
      if (byInput.empty() &&
          (binding == "*" ? !inputs.empty() : llvm::is_contained(inputs, name)))
        byInput = binding;
      continue;
    }
    frontend::Span span = {sources.add("--grad", binding), 0,
                           uint32_t(name.size())};
    diagnostics
        .report(frontend::Code::UnknownGradient, span,
                fmt::format("there is no parameter and no float input \"{}\" "
                            "to differentiate by",
                            name))
        .didYouMean(layout::findNearest(name, known));
  }
  if (!asked.empty() || !of.empty())
    checkObjective(byInput.empty() ? asked : byInput, !byInput.empty(), of);
  return !diagnostics.hasErrors();
}

bool SpecSession::checkOutput(llvm::StringRef path) {
  if (path == codegen::standardOutput)
    return true;
  for (uint32_t i = 0; i < sources.getNumSources(); ++i)
    if (!sources.get(i).isLibrary() &&
        llvm::sys::fs::equivalent(path, sources.get(i).getName())) {
      diagnostics.report(frontend::Code::CannotWrite, {},
                         fmt::format("cannot write \"{}\": the spec is read "
                                     "from it",
                                     path.str()));
      return false;
    }
  return true;
}

/// The place in the sources, invalid if it is in none of them.
static frontend::Span findSpan(const frontend::SourceSet &sources,
                               const exec::ExecutableT &executable,
                               const exec::Span &span) {
  if (span.file() < 0)
    return {};
  const std::string &name = executable.files[size_t(span.file())];
  auto at = [](int line, int column) {
    return frontend::LineColumn{uint32_t(line), uint32_t(column)};
  };
  for (uint32_t i = 0; i < sources.getNumSources(); ++i)
    if (const frontend::Source &source = sources.get(i);
        source.getName() == name)
      return {i, source.getOffset(at(span.line(), span.column())),
              source.getOffset(at(span.end_line(), span.end_column()))};
  return {};
}

void SpecSession::noteWaste() {
  const plan::Plan plan(compilation.executable);
  for (const plan::Waste &waste : plan::findWaste(plan)) {
    frontend::Span span;
    if (waste.span)
      span = findSpan(sources, compilation.executable, *waste.span);
    diagnostics.notify(frontend::Level::Note, frontend::Code::Waste, span,
                       waste.text);
  }
}

bool SpecSession::checkReshardings() {
  if (!arguments.strict)
    return true;
  const plan::Plan plan(compilation.executable);
  for (const plan::Remark &resharding : plan::findReshardings(
           plan, plan::EqualScopes(plan), *arguments.strict)) {
    frontend::Span span;
    if (resharding.span)
      span = findSpan(sources, compilation.executable, *resharding.span);
    diagnostics
        .report(frontend::Code::InsertedResharding, span, resharding.text)
        .help(resharding.advice +
              "; \"meshc plan --remarks\" tells of it beside what else costs "
              "much");
  }
  return !diagnostics.hasErrors();
}

bool SpecSession::compile(const CompileOptions &options, Stage stage) {
  if (failed(driver::compile(*module, options, stage, compilation)))
    return false;
  if (stage == Stage::Exec) {
    noteWaste();
    if (!checkReshardings())
      return false;
  }
  printError(frontend::renderNotices(diagnostics, getMessageFormat(arguments)));
  return true;
}

bool SpecSession::link(const CompileOptions &options, llvm::StringRef output) {
  // What goes wrong here has no place in the spec.
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
          return mlir::failure();
        diagnostics.report(frontend::Code::CannotLink, {}, diagnostic.str());
        return mlir::success();
      });
  return mlir::succeeded(driver::link(*module, options, compilation, output));
}

std::string SpecSession::summarize() {
  struct {
    int64_t variables = 0, elements = 0;
  } parameters, states;
  for (auto variable : module->getOps<nd::VariableOp>()) {
    // Of the loss scale, the optimizer and the parts of a step.
    if (variable.getRole() == nd::VariableRole::State ||
        variable.getRole() == nd::VariableRole::InStep)
      continue;
    auto &counted =
        variable.getRole() == nd::VariableRole::Parameter ? parameters : states;
    ++counted.variables;
    int64_t own = 1;
    for (nd::DimAttr dim : variable.getTensorType().getDims())
      own *= dim.getSize();
    counted.elements += own;
  }
  auto describe = [](const auto &counted, const char *what) {
    return fmt::format("{}{}", plan::formatCount(counted.variables, what),
                       counted.variables == 0
                           ? ""
                           : fmt::format(" of {} element{}",
                                         plan::formatNumber(counted.elements),
                                         counted.elements == 1 ? "" : "s"));
  };
  return fmt::format(
      "{}: {}{}, {}", compilation.executable.model,
      describe(parameters, "parameter"),
      states.variables ? ", " + describe(states, "state") : "",
      plan::formatCount(nd::getMesh(*module).getNumDevices(), "device"));
}

std::string SpecSession::renderErrors(frontend::MessageFormat format) const {
  std::string text = frontend::render(diagnostics, format);
  if (diagnostics.hasErrors())
    return text;
  const std::string &error = compilation.internalError;
  return text + fmt::format("meshc: internal error: {}\n",
                            error.empty() ? "a pass failed without saying why"
                                          : error);
}

int SpecSession::reportErrors() const {
  printError(renderErrors(getMessageFormat(arguments)));
  return diagnostics.hasErrors() ? exitWrongInput : exitInternal;
}

CompileOptions meshc::driver::getPlanOptions(const SpecArguments &spec,
                                             const std::string &target) {
  CompileOptions options;
  // Plans do not depend on the host: `cpu` is for times alone.
  if (spec.machine != layout::getCpuMachine().getName())
    options.machine = spec.machine;
  options.steps.bucketBytes = spec.bucketBytes;
  options.steps.prefetchLayers = spec.prefetchLayers;
  options.steps.tileBytes = spec.tileBytes;
  options.steps.matmulMultiple = spec.matmulMultiple;
  options.steps.fuses = spec.fuses;
  if (target == "cuda")
    options.target = exec::Target::cuda;
  if (spec.matmulEpilogues == "bias")
    options.epilogues = codegen::MatmulEpilogues::Bias;
  else if (spec.matmulEpilogues == "none")
    options.epilogues = codegen::MatmulEpilogues::None;
  return options;
}

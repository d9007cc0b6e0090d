#include "tests/mutants/Subjects.h"

#include "frontend/Spec.h"
#include "frontend/driver/Compiler.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/PlanText.h"
#include "runtime/exec/Executable.h"

#include "mlir/IR/MLIRContext.h"

using namespace meshc;
using namespace meshc::mutants;

namespace {

class Specs : public Subject {
public:
  Outcome take(const Mutator::Mutant &mutant) override;
};

} // namespace

/// Small enough to be planned in the time of a mutant.
static bool isModerate(mlir::ModuleOp module) {
  constexpr int64_t maxOps = 400, maxDevices = 64;
  int64_t ops = 0;
  module.walk([&](mlir::Operation *) { ++ops; });
  return ops <= maxOps && nd::getMesh(module).getNumDevices() <= maxDevices;
}

/// The whole way to a command list: what is refused is refused with an error,
/// and what is planned is sound. Returns what is not so.
static std::string planSpec(mlir::ModuleOp module, mlir::MLIRContext &context,
                            frontend::Diagnostics &diagnostics) {
  frontend::PassErrors errors(context, diagnostics);
  driver::CompileOptions options;
  options.verifyEach = true;
  driver::Compilation compilation;
  compilation.executable.files.push_back("mutant.mesh");
  const bool isPlanned = mlir::succeeded(
      driver::compile(module, options, driver::Stage::Exec, compilation));
  if (!compilation.internalError.empty())
    return compilation.internalError;
  if (!isPlanned)
    return diagnostics.hasErrors() ? "" : "a pass failed without saying why";
  std::string defect = runtime::checkExecutable(compilation.executable);
  if (!defect.empty())
    return defect;
  plan::renderPlanText(compilation.executable, {});
  plan::renderPlanJson(compilation.executable,
                       [](std::string_view) { return std::nullopt; });
  return "";
}

Outcome Specs::take(const Mutator::Mutant &mutant) {
  Outcome outcome;
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  frontend::SpecOptions options{"mutant.mesh"};
  options.text = mutant.bytes;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      frontend::compileSpec(options, context, sources, diagnostics);
  outcome.isSound = bool(module);
  if (module && isModerate(*module)) {
    outcome.wasPlanned = true;
    outcome.defect = planSpec(*module, context, diagnostics);
  }
  frontend::render(diagnostics, frontend::MessageFormat::Text);
  frontend::render(diagnostics, frontend::MessageFormat::Json);
  return outcome;
}

std::unique_ptr<Subject>
mutants::makeSpecs(const std::vector<std::string> &paths) {
  auto subject = std::make_unique<Specs>();
  for (const std::string &path : paths)
    subject->files.push_back(readFile(path));
  return subject;
}

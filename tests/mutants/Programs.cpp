#include "tests/mutants/Subjects.h"

#include "codegen/BuildExecutable.h"
#include "codegen/machine/CompileObject.h"
#include "codegen/machine/Link.h"
#include "frontend/Spec.h"
#include "frontend/driver/Compiler.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/PlanText.h"
#include "runtime/cpu/Executor.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>

#include <fstream>

#include <dlfcn.h>

using namespace meshc;
using namespace meshc::mutants;

namespace {

/// What a spec was compiled to, loaded; it stays until the end.
struct Library {
  std::string program;
  std::span<const meshcKernelEntry> kernels;
};

/// Empty for what `meshc plan` leaves, which has no kernels.
using Kernels = std::optional<std::span<const meshcKernelEntry>>;

class Programs : public Subject {
public:
  Outcome take(const Mutator::Mutant &mutant) override;

  std::vector<Kernels> kernels; ///< of each of `files`
};

} // namespace

/// The shared object of a program and its kernels.
static std::optional<std::string> compileSpec(const std::string &path) {
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      frontend::compileSpec({path}, context, sources, diagnostics);
  driver::CompileOptions options;
  driver::Compilation compilation;
  compilation.executable.files.push_back(path);
  std::optional<codegen::CpuTarget> target =
      codegen::CpuTarget::get(options.cpu);
  if (!module || !target ||
      failed(
          driver::compile(*module, options, driver::Stage::Exec, compilation)))
    return std::nullopt;
  compilation.executable.cpu = target->cpu;
  compilation.executable.cpu_features = target->features;
  mlir::FailureOr<std::string> object = codegen::compileCpuObject(
      *compilation.kernels, *target, codegen::serialize(compilation.executable),
      codegen::findKernelUses(compilation.executable));
  if (failed(object))
    return std::nullopt;
  llvm::Expected<std::string> shared = codegen::linkSharedObject(*object);
  if (shared)
    return *shared;
  fmt::print(stderr, "{}\n", llvm::toString(shared.takeError()));
  return std::nullopt;
}

static std::optional<Library> loadSpec(const std::string &path,
                                       const std::string &folder) {
  std::optional<std::string> shared = compileSpec(path);
  if (!shared) {
    fmt::print(stderr, "{} does not compile\n", path);
    return std::nullopt;
  }
  const std::string copy = folder + "/kernels.so";
  std::ofstream(copy, std::ios::binary) << *shared;
  void *library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fmt::print(stderr, "{}\n", dlerror());
    return std::nullopt;
  }
  unlink(copy.c_str()); // its name is free for the next one
  auto getCount = [&](const char *name) {
    return size_t(*static_cast<const uint64_t *>(dlsym(library, name)));
  };
  auto *program = static_cast<char *>(dlsym(library, "meshc_program_data"));
  auto *table = static_cast<const meshcKernelEntry *>(
      dlsym(library, "meshc_kernel_table"));
  return Library{std::string(program, getCount("meshc_program_size")),
                 {table, getCount("meshc_kernel_count")}};
}

Outcome Programs::take(const Mutator::Mutant &mutant) {
  constexpr uint64_t maxArenaBytes = uint64_t(1) << 28;
  constexpr int64_t maxDevices = 16, maxPlannedDevices = 4096;
  Outcome outcome;
  auto executable = runtime::Executable::load(
      {reinterpret_cast<const uint8_t *>(mutant.bytes.data()),
       mutant.bytes.size()});
  if (!executable)
    return outcome;
  outcome.isSound = true;
  // Up to 2^20 are sound, and take time in proportion.
  if (executable->getNumDevices() > maxPlannedDevices)
    return outcome;
  plan::renderPlanText(executable->data, {});
  plan::renderPlanJson(executable->data,
                       [](std::string_view) { return std::nullopt; });
  const Kernels &known = kernels[mutant.file];
  if (!known || executable->data.target != exec::Target::cpu ||
      executable->data.arena_bytes > maxArenaBytes ||
      executable->getNumDevices() > maxDevices)
    return outcome;
  auto executor = runtime::Executor::create(*executable, *known, 1);
  if (!executor)
    return outcome;
  outcome.hasRun = true;
  for (const auto &program : executable->data.programs)
    static_cast<void>((*executor)->run(*program));
  return outcome;
}

std::unique_ptr<Subject>
mutants::makePrograms(const std::vector<std::string> &paths,
                      const std::string &folder) {
  auto subject = std::make_unique<Programs>();
  for (const std::string &path : paths) {
    if (!path.ends_with(".mesh")) {
      subject->files.push_back(readFile(path));
      subject->kernels.push_back(std::nullopt);
      continue;
    }
    std::optional<Library> library = loadSpec(path, folder);
    if (!library)
      return nullptr;
    subject->files.push_back(library->program);
    subject->kernels.push_back(library->kernels);
  }
  return subject;
}

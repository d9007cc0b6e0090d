// When sums over devices start: in the command lists of whole models, and on
// the devices of a CPU mesh.

#include "ExecutableTesting.h"

#include "codegen/BuildExecutable.h"
#include "codegen/ExecTypes.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "frontend/Spec.h"
#include "passes/Pipelines.h"
#include "runtime/cpu/Executor.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <mutex>

using namespace meshc;

namespace {

struct Case {
  const char *spec;
  std::vector<std::string> defines;
  const char *mesh, *layout;
};

/// Products take most of the time; kernels are not run.
const std::vector<std::string> blockSizes = {
    "batch=12", "pos=16", "d_model=96", "heads=3", "d_head=32", "d_ff=161"};
const std::vector<std::string> mlpSizes = {"batch=300", "pixel=500",
                                           "hidden=701", "class=10"};

// Blocks one by one: gradients of stacked parameters leave when all iterations
// are over.
const Case cases[] = {
    {"bench/blocks_written_out.mesh", blockSizes, "data=4", "batch=data"},
    {"bench/blocks_written_out.mesh", blockSizes, "data=2,model=3",
     "batch=data,heads=model,d_ff=model"},
    {"bench/blocks_written_out.mesh", blockSizes, "a=2,b=2", "batch=a+b"},
    {"samples/mlp.mesh", mlpSizes, "data=3", "batch=data"},
    {"samples/mlp.mesh", mlpSizes, "data=2,model=2", "batch=data,hidden=model"},
};

/// The training step of a spec under a layout, as `meshc compile` has it.
runtime::Executable
compileStep(const Case &model,
            std::optional<int64_t> bucketBytes = std::nullopt) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  frontend::SpecOptions options;
  options.path = std::string(MESHC_SOURCE_DIR "/") + model.spec;
  options.defines = model.defines;
  options.mesh = model.mesh;
  options.layout = model.layout;
  auto module = frontend::compileSpec(options, context, sources, diagnostics);
  if (!module)
    llvm::report_fatal_error(llvm::StringRef(
        frontend::render(diagnostics, frontend::MessageFormat::Text)));
  auto run = [&](auto build) {
    mlir::PassManager manager(&context);
    build(manager);
    if (failed(manager.run(*module)))
      llvm::report_fatal_error("the pipeline failed");
  };
  run([](mlir::OpPassManager &manager) { buildShardingPipeline(manager); });
  for (auto program :
       llvm::make_early_inc_range(module->getOps<nd::ProgramOp>()))
    if (program.getSymName() != "step")
      program.erase();
  exec::ExecutableT data;
  codegen::collectTensors(*module, data);
  run(buildPartitionPipeline);
  mlir::OwningOpRef<mlir::ModuleOp> kernels =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  codegen::CpuKernelTarget target(*kernels);
  if (failed(
          codegen::planSteps(*module, target, {.bucketBytes = bucketBytes})) ||
      failed(codegen::buildExecutable(*module, data, target)))
    llvm::report_fatal_error("no command list");
  runtime::Result<runtime::Executable> executable =
      runtime::Executable::create(std::move(data));
  if (!executable)
    llvm::report_fatal_error(llvm::StringRef(executable.getError().message));
  return std::move(*executable);
}

using Commands = std::vector<std::unique_ptr<exec::CommandT>>;

bool isTransfer(const exec::CommandT &command) {
  return command.queue == exec::Queue::communication;
}

/// Whether a transfer is of gradients for the update alone.
bool isForUpdates(const Commands &commands, size_t transfer) {
  for (size_t index = transfer + 1; index < commands.size(); ++index)
    if (std::count(commands[index]->waits.begin(), commands[index]->waits.end(),
                   int(transfer)))
      return commands[index]->phase == exec::Phase::update;
  return false;
}

TEST(OverlapTest, sums_start_when_their_last_term_is_there) {
  for (const Case &model : cases)
    for (const std::optional<int64_t> bucketBytes :
         {std::optional<int64_t>(0), std::optional<int64_t>()}) {
      const runtime::Executable executable = compileStep(model, bucketBytes);
      const Commands &commands = executable.data.programs[0]->commands;
      int found = 0;
      for (size_t index = 0; index < commands.size(); ++index) {
        const exec::CollectiveT *collective =
            commands[index]->action.AsCollective();
        if (!collective ||
            collective->source->partial == exec::ReduceKind::none)
          continue;
        ++found;
        ASSERT_FALSE(commands[index]->waits.empty());
        // Between the last of what it waits for and itself nothing computes,
        // but for the forward phase, which comes before everything else.
        for (size_t between = size_t(commands[index]->waits.back()) + 1;
             between < index; ++between)
          EXPECT_TRUE(isTransfer(*commands[between]) ||
                      commands[between]->phase == exec::Phase::forward)
              << model.spec << " on " << model.mesh << ": " << index << " '"
              << commands[index]->name << "' behind " << between << " '"
              << commands[between]->name << "'";
      }
      EXPECT_GT(found, 0);
    }
}

TEST(OverlapTest, only_gradients_go_together_where_a_model_axis_sums_too) {
  int found = 0;
  for (const Case &model : cases) {
    const runtime::Executable executable = compileStep(model);
    const Commands &commands = executable.data.programs[0]->commands;
    for (size_t index = 0; index < commands.size(); ++index) {
      const exec::CollectiveT *collective =
          commands[index]->action.AsCollective();
      if (!collective || collective->merged.empty())
        continue;
      ++found;
      EXPECT_EQ(commands[index]->phase, exec::Phase::backward);
      EXPECT_TRUE(isForUpdates(commands, index)) << commands[index]->name;
    }
  }
  EXPECT_GT(found, 5);
}

std::mutex recordMutex;

/// Takes the place of every kernel.
void skip(void *const *, const int64_t *, int64_t, int64_t) {}

TEST(OverlapTest, gradients_are_summed_while_the_backward_pass_goes_on) {
  for (const Case &model : cases)
    for (int threads : {1, 2}) {
      const runtime::Executable executable = compileStep(model);
      const exec::ProgramT &program = *executable.data.programs[0];
      std::vector<meshcKernelEntry> kernels;
      for (const auto &command : program.commands)
        if (const exec::KernelT *kernel = command->action.AsKernel())
          kernels.push_back({kernel->symbol.c_str(), skip});
      auto executor = runtime::Executor::create(executable, kernels, threads);
      ASSERT_TRUE(executor) << executor.getError().message;
      std::vector<std::vector<size_t>> starts(
          size_t(executable.getNumDevices()));
      (*executor)->observeStarts([&](int64_t device, size_t command) {
        std::lock_guard lock(recordMutex);
        starts[size_t(device)].push_back(command);
      });
      ASSERT_TRUE((*executor)->run(program));

      for (const std::vector<size_t> &ofDevice : starts) {
        EXPECT_TRUE(std::is_sorted(ofDevice.begin(), ofDevice.end()));
        EXPECT_EQ(ofDevice.size(), program.commands.size());
        // Of the transfers half start, and more, before the backward pass ends.
        size_t gradients = 0, early = 0;
        for (size_t i = 0; i < ofDevice.size(); ++i) {
          const size_t command = ofDevice[i];
          if (!isTransfer(*program.commands[command]) ||
              !isForUpdates(program.commands, command))
            continue;
          ++gradients;
          early += std::any_of(
              ofDevice.begin() + std::ptrdiff_t(i), ofDevice.end(),
              [&](size_t later) {
                const exec::CommandT &next = *program.commands[later];
                return !isTransfer(next) && next.phase == exec::Phase::backward;
              });
        }
        EXPECT_GE(gradients, 2u);
        EXPECT_GE(early * 2, gradients) << model.spec << " on " << model.mesh;
      }
    }
}

} // namespace

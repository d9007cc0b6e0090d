#include "codegen/BuildExecutable.h"

#include "codegen/ProgramBuilder.h"
#include "codegen/steps/Passes.h"
#include "codegen/tiling/Passes.h"
#include "layout/Layout.h"
#include "runtime/exec/Executable.h"

#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

static void addMesh(ModuleOp module, ExecTypes &types,
                    exec::ExecutableT &executable) {
  executable.mesh = std::make_unique<exec::MeshT>();
  for (auto mesh : module.getOps<nd::MeshOp>()) {
    for (auto axis : mesh.getAxes().getAsRange<nd::DimAttr>()) {
      auto entry = std::make_unique<exec::AxisT>();
      entry->name = axis.getName().str();
      entry->size = axis.getSize();
      entry->span = std::make_unique<exec::Span>(types.getSpan(mesh.getLoc()));
      executable.mesh->axes.push_back(std::move(entry));
    }
    if (mesh.getMachine())
      executable.mesh->machine = mesh.getMachine()->str();
    if (std::optional<ArrayRef<int64_t>> order = mesh.getDeviceOrder())
      executable.mesh->device_order.assign(order->begin(), order->end());
  }
}

static void addDims(ModuleOp module, ExecTypes &types,
                    exec::ExecutableT &executable) {
  std::vector<layout::LayoutRule> rules;
  for (auto rule : module.getOps<nd::RuleOp>())
    rules.push_back(rule.getRule());
  // The verifier of nd.rule has found whatever is wrong with them.
  const auto table = std::get<layout::Layout>(
      layout::Layout::create(types.getMesh(), std::move(rules)));
  for (auto dim : module.getOps<nd::DimOp>()) {
    auto entry = std::make_unique<exec::NamedDimT>();
    entry->name = dim.getName().str();
    entry->size = int64_t(dim.getSize());
    entry->span = std::make_unique<exec::Span>(types.getSpan(dim.getLoc()));
    entry->axes = types.getAxes(table.getSplit(entry->name));
    executable.dims.push_back(std::move(entry));
  }
}

static void addRules(ModuleOp module, ExecTypes &types,
                     exec::ExecutableT &executable) {
  for (auto op : module.getOps<nd::RuleOp>()) {
    auto entry = std::make_unique<exec::LayoutRuleT>();
    entry->text = op.getText();
    entry->span = std::make_unique<exec::Span>(types.getSpan(op.getLoc()));
    executable.rules.push_back(std::move(entry));
  }
}

/// Gives a buffer the next bytes of the arena; from where the next one is.
static uint64_t place(exec::BufferT &buffer, uint64_t offset, uint64_t bytes) {
  buffer.offset = offset;
  buffer.bytes = bytes;
  return offset + llvm::alignTo(bytes, bufferAlignment);
}

/// Variables lie at the start of the arena, in every program at the same place.
static uint64_t addVariables(ModuleOp module, ExecTypes &types,
                             exec::ExecutableT &executable,
                             llvm::StringMap<int> &variables) {
  uint64_t offset = 0;
  const TensorIndex tensors(executable);
  for (auto variable : module.getOps<nd::VariableOp>()) {
    auto buffer = std::make_unique<exec::BufferT>();
    buffer->name = variable.getSymName().str();
    buffer->role = getBufferRole(variable.getRole());
    const nd::OriginAttr origin =
        getOrigin(variable.getLoc(), variable.getSymName());
    buffer->origin = types.getOrigin(origin);
    buffer->tensor = tensors.find(variable.getSymName(), {buffer->role});
    offset = place(*buffer, offset,
                   uint64_t(getBytes(nd::getLocalType(variable.getTensorType(),
                                                      types.getMesh()))));

    variables[variable.getSymName()] = int(executable.buffers.size());
    // Nobody but the parts of a step has to do with what they leave.
    if (variable.getRole() != nd::VariableRole::InStep) {
      auto entry = std::make_unique<exec::VariableT>();
      entry->name = buffer->name;
      entry->role = buffer->role;
      if (nd::VariableOp mean = nd::findMean(module, variable.getSymName()))
        entry->mean = mean.getSymName().str();
      entry->layout = types.getLayout(variable.getTensorType());
      entry->buffer = int(executable.buffers.size());
      entry->span =
          std::make_unique<exec::Span>(types.getSpan(variable.getLoc()));
      executable.variables.push_back(std::move(entry));
    }
    executable.buffers.push_back(std::move(buffer));
  }
  return offset;
}

/// Where a step has parts, what all programs are given lies behind the
/// variables: no part puts other values there.
static uint64_t addInputs(ModuleOp module, ExecTypes &types,
                          exec::ExecutableT &executable, uint64_t offset,
                          llvm::StringMap<int> &inputs) {
  auto programs = module.getOps<steps::ProgramOp>();
  if (llvm::none_of(programs, [](steps::ProgramOp program) {
        return program.getSymName() == nd::ProgramOp::accumulateName;
      }))
    return offset;
  const TensorIndex tensors(executable);
  for (auto program : programs)
    for (auto input : program.getBody().getOps<spmd::InputOp>()) {
      if (input.isOfRun() || inputs.contains(input.getName()))
        continue;
      auto buffer = std::make_unique<exec::BufferT>();
      const nd::OriginAttr origin = getOrigin(input.getLoc(), input.getName());
      buffer->name = types.getBufferName(origin);
      buffer->role = exec::BufferRole::input;
      buffer->origin = types.getOrigin(origin);
      buffer->tensor = tensors.find(input.getName(), {buffer->role});
      offset = place(*buffer, offset, uint64_t(getTensorBytes(input)));
      inputs[input.getName()] = int(executable.buffers.size());
      executable.buffers.push_back(std::move(buffer));
    }
  return offset;
}

static LogicalResult addData(ModuleOp module, ExecTypes &types,
                             exec::ExecutableT &executable) {
  for (auto data : module.getOps<nd::DataOp>()) {
    auto entry = std::make_unique<exec::DataSourceT>();
    const exec::DataReader *reader = llvm::find_if(
        exec::EnumValuesDataReader(), [&](exec::DataReader known) {
          return data.getReader() == exec::EnumNameDataReader(known);
        });
    if (reader == std::end(exec::EnumValuesDataReader()))
      return data.emitError("there is no data reader '")
             << data.getReader() << "'";
    entry->reader = *reader;
    entry->input = data.getInput().str();
    entry->train = data.getTrain().str();
    entry->test = data.getTest().str();
    entry->stride = int64_t(data.getStride().value_or(0));
    entry->units = data.getUnits().value_or("").str();
    if (std::optional<ArrayAttr> columns = data.getColumns())
      for (StringAttr column : columns->getAsRange<StringAttr>())
        entry->columns.push_back(column.str());
    entry->span = std::make_unique<exec::Span>(types.getSpan(data.getLoc()));
    executable.sample_dim = data.getOver().str();
    executable.data.push_back(std::move(entry));
  }
  return success();
}

static void addSettings(ModuleOp module, exec::ExecutableT &executable) {
  for (auto setting : module.getOps<nd::SettingOp>()) {
    auto entry = std::make_unique<exec::SettingT>();
    entry->name = setting.getName().str();
    entry->value = setting.getValue().str();
    entry->is_fixed = setting.getFixed();
    executable.settings.push_back(std::move(entry));
  }
  for (auto requirement : module.getOps<nd::RequirementOp>())
    executable.requirements.push_back(requirement.getExpression().str());
}

static void addRates(ArrayAttr rates, exec::TrainingT &training) {
  for (auto rate : rates.getAsRange<nd::RateAttr>()) {
    auto entry = std::make_unique<exec::RateT>();
    entry->name = rate.getName().str();
    entry->steps = rate.getSteps().asArrayRef();
    entry->values = rate.getValues().asArrayRef();
    training.rates.push_back(std::move(entry));
  }
}

static void addTraining(ModuleOp module, exec::ExecutableT &executable) {
  for (auto training : module.getOps<nd::TrainingOp>()) {
    executable.training = std::make_unique<exec::TrainingT>();
    executable.training->minimize = training.getMinimize().str();
    executable.training->epochs = int64_t(training.getEpochs());
    executable.training->steps = int64_t(training.getSteps());
    executable.training->optimizer = training.getOptimizer().str();
    executable.training->parts = int64_t(training.getParts());
    if (std::optional<ArrayAttr> recomputed = training.getRecomputed())
      for (auto unit : recomputed->getAsRange<nd::RecomputedAttr>()) {
        auto entry = std::make_unique<exec::RecomputedT>();
        entry->scope = unit.getScope().str();
        entry->units = unit.getUnits();
        entry->bytes = unit.getBytes();
        entry->flops = unit.getFlops();
        executable.training->recomputed.push_back(std::move(entry));
      }
    if (std::optional<ArrayAttr> rates = training.getRates())
      addRates(*rates, *executable.training);
    // Lines for other parameters may minimize the same output.
    std::vector<std::string> &others = executable.training->others;
    for (auto objective : module.getOps<nd::ObjectiveOp>())
      if (objective.getMinimize() != training.getMinimize() &&
          !llvm::is_contained(others, objective.getMinimize()))
        others.push_back(objective.getMinimize().str());
  }
  for (auto precision : module.getOps<nd::PrecisionOp>())
    if (executable.training && precision.getPrecision() != nd::Precision::F32)
      executable.training->precision =
          nd::stringifyPrecision(precision.getPrecision()).str();
}

LogicalResult meshc::codegen::planSteps(ModuleOp module, KernelTarget &target,
                                        const StepOptions &options) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // whoever builds verifies what is left
  const int64_t tileBytes = options.tileBytes.value_or(target.getTileBytes());
  if (options.fuses && tileBytes > 0)
    manager.addPass(createTileValues({tileBytes}));
  if (options.fuses && target.getMatmulLibrary() == MatmulLibrary::CublasLt)
    manager.addPass(createBatchSums());
  const int64_t multiple =
      options.matmulMultiple.value_or(target.getMatmulSizeMultiple());
  if (options.fuses && multiple > 1)
    manager.addPass(
        createPadMatmuls({multiple, options.matmulMultiple.has_value()}));
  manager.addPass(createFormSteps(
      {target.getMatmulLibrary(), target.getMatmulEpilogues(), options.fuses}));
  if (target.groupsKernels() && options.fuses)
    manager.addNestedPass<steps::ProgramOp>(createGroupKernels());
  manager.addNestedPass<steps::ProgramOp>(createPrefetchGathers(
      {options.prefetchLayers.value_or(target.getPrefetchLayers())}));
  manager.addNestedPass<steps::ProgramOp>(
      createMergeTransfers({options.bucketBytes.value_or(-1)}));
  return manager.run(module);
}

LogicalResult meshc::codegen::buildExecutable(ModuleOp module,
                                              exec::ExecutableT &executable,
                                              KernelTarget &target) {
  ExecTypes types(nd::getMesh(module), executable);
  executable.version = runtime::execVersion;
  executable.target = target.getKind();
  addMesh(module, types, executable);
  addDims(module, types, executable);
  addRules(module, types, executable);
  SlotPlan::Lasting lasting;
  uint64_t arenaStart =
      addVariables(module, types, executable, lasting.variables);
  arenaStart = addInputs(module, types, executable, arenaStart, lasting.inputs);
  executable.arena_bytes = arenaStart;
  if (failed(addData(module, types, executable)))
    return failure();
  EqualKernels emitted;
  for (auto program : module.getOps<steps::ProgramOp>()) {
    ProgramBuilder builder(program, types, executable, lasting, target,
                           emitted);
    if (failed(builder.build(arenaStart)))
      return failure();
  }
  addTraining(module, executable);
  addSettings(module, executable);
  target.finish(executable, types.getMesh());
  return success();
}

std::string meshc::codegen::serialize(const exec::ExecutableT &executable) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(exec::Executable::Pack(builder, &executable),
                 exec::ExecutableIdentifier());
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

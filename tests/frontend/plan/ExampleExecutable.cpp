#include "ExampleExecutable.h"

#include "Origins.h"

using namespace meshc;
using namespace meshc::exec;

const char *const plan::exampleSpec = R"(mesh data = 2, model = 3
dim batch = 6
dim in = 5
dim hidden = 7
layout { batch -> data hidden -> model }
model tiny(x: f32[batch, in]) {
  param w: f32[in, hidden] = normal
  let y = relu(einsum(x, w -> batch, hidden))
  output loss = sum(y)
}
)";

namespace {
struct Dim {
  const char *name;
  int64_t size;
  std::vector<int> axes;
};

constexpr int64_t axisSizes[] = {2, 3};

/// A result of a command: its buffer, and its place among the tensors.
struct Result {
  int buffer;
  int tensor;
  bool inside = false;
};

/// Tensors in the order in which build() adds them.
enum {
  tensorX,
  tensorW,
  tensorStep,
  tensorY,
  tensorLoss,
  outputLoss,
  tensorDy,
  tensorDw
};

class ExampleBuilder {
public:
  ExecutableT build();

private:
  static Span span(int line, int column, int endColumn) {
    return Span(0, line, column, line, endColumn);
  }
  static std::unique_ptr<Span> own(Span span) {
    return std::make_unique<Span>(span);
  }
  static std::vector<AxisRef> axes(const std::vector<int> &indices) {
    std::vector<AxisRef> result;
    for (int axis : indices)
      result.emplace_back(axis, 1, axisSizes[axis]);
    return result;
  }
  static std::unique_ptr<TensorLayoutT>
  layout(const std::vector<Dim> &dims, const std::vector<int> &partial = {});

  void addMesh();
  void addTensor(const char *name, BufferRole role,
                 std::unique_ptr<TensorLayoutT> layout, Span span,
                 int64_t global, int64_t local);
  int addBuffer(const char *name, BufferRole role, uint64_t offset,
                uint64_t bytes);
  CommandT &addCommand(const char *name, Phase phase, std::vector<int> inputs,
                       std::vector<Result> outputs, int64_t flops, Span span);
  std::unique_ptr<CauseT> cause(const char *rule, const char *consumer,
                                const char *operand, const char *needed,
                                const char *had, std::vector<Span> spans);
  void addPrograms();

  ExecutableT executable;
  std::unique_ptr<ProgramT> step = std::make_unique<ProgramT>();
};
} // namespace

std::unique_ptr<TensorLayoutT>
ExampleBuilder::layout(const std::vector<Dim> &dims,
                       const std::vector<int> &partial) {
  auto result = std::make_unique<TensorLayoutT>();
  for (const Dim &dim : dims) {
    auto entry = std::make_unique<DimShardingT>();
    entry->name = dim.name;
    entry->size = dim.size;
    entry->axes = axes(dim.axes);
    result->dims.push_back(std::move(entry));
  }
  result->partial = partial.empty() ? ReduceKind::none : ReduceKind::sum;
  result->partial_axes = axes(partial);
  return result;
}

void ExampleBuilder::addMesh() {
  executable.mesh = std::make_unique<MeshT>();
  const char *names[] = {"data", "model"};
  for (int axis : {0, 1}) {
    auto entry = std::make_unique<AxisT>();
    entry->name = names[axis];
    entry->size = axisSizes[axis];
    executable.mesh->axes.push_back(std::move(entry));
  }
  for (auto [dim, line] :
       {std::pair(Dim{"batch", 6, {0}}, 2), std::pair(Dim{"in", 5, {}}, 3),
        std::pair(Dim{"hidden", 7, {1}}, 4)}) {
    auto entry = std::make_unique<NamedDimT>();
    entry->name = dim.name;
    entry->size = dim.size;
    entry->axes = axes(dim.axes);
    entry->span = own(span(line, 5, 5 + int(entry->name.size())));
    if (!dim.axes.empty()) {
      const Span place = dim.axes[0] == 0 ? span(5, 10, 23) : span(5, 24, 39);
      auto rule = std::make_unique<LayoutRuleT>();
      rule->text = entry->name + " -> " + names[dim.axes[0]];
      rule->span = own(place);
      executable.rules.push_back(std::move(rule));
    }
    executable.dims.push_back(std::move(entry));
  }
}

void ExampleBuilder::addTensor(const char *name, BufferRole role,
                               std::unique_ptr<TensorLayoutT> layout, Span span,
                               int64_t global, int64_t local) {
  auto tensor = std::make_unique<TensorT>();
  tensor->name = name;
  tensor->origin = plan::makeOrigin(executable, name);
  tensor->role = role;
  tensor->layout = std::move(layout);
  tensor->span = own(span);
  tensor->bytes_global = global;
  tensor->bytes_per_device = local;
  executable.tensors.push_back(std::move(tensor));
}

int ExampleBuilder::addBuffer(const char *name, BufferRole role,
                              uint64_t offset, uint64_t bytes) {
  auto buffer = std::make_unique<BufferT>();
  buffer->name = name;
  if (*name)
    buffer->origin = plan::makeOrigin(executable, name);
  const auto &tensors = executable.tensors;
  for (size_t tensor = tensors.size(); tensor-- > 0;)
    if (tensors[tensor]->name == name)
      buffer->tensor = int(tensor);
  buffer->role = role;
  buffer->offset = offset;
  buffer->bytes = bytes;
  executable.buffers.push_back(std::move(buffer));
  return int(executable.buffers.size()) - 1;
}

CommandT &ExampleBuilder::addCommand(const char *name, Phase phase,
                                     std::vector<int> inputs,
                                     std::vector<Result> outputs, int64_t flops,
                                     Span span) {
  auto command = std::make_unique<CommandT>();
  command->name = name;
  command->origin = *name ? plan::makeOrigin(executable, name) : nullptr;
  command->phase = phase;
  command->flops = flops;
  command->bytes = 10 * flops;
  command->results = int(outputs.size());
  command->span = own(span);
  auto add = [&](Result value) {
    auto operand = std::make_unique<OperandT>();
    operand->buffer = value.buffer;
    operand->tensor = value.tensor;
    operand->inside = value.inside;
    command->operands.push_back(std::move(operand));
  };
  for (int buffer : inputs)
    add({buffer, -1});
  for (Result output : outputs)
    add(output);
  step->commands.push_back(std::move(command));
  return *step->commands.back();
}

std::unique_ptr<CauseT>
ExampleBuilder::cause(const char *rule, const char *consumer,
                      const char *operand, const char *needed, const char *had,
                      std::vector<Span> spans) {
  auto result = std::make_unique<CauseT>();
  result->rule = rule;
  if (constexpr std::string_view dialect = "nd.";
      std::string_view(consumer).starts_with(dialect))
    result->consumer_operation = std::string(consumer).substr(dialect.size());
  else
    result->consumer = plan::makeOrigin(executable, consumer);
  result->operand = plan::makeOrigin(executable, operand);
  result->needed = needed;
  result->had = had;
  result->spans = std::move(spans);
  return result;
}

static CollectiveT makeAllReduce(const char *id, std::vector<AxisRef> axes,
                                 int64_t elements, int64_t wireBytes) {
  CollectiveT collective;
  collective.id = id;
  collective.kind = CollectiveKind::all_reduce;
  collective.axes = axes;
  collective.group_size = axes.front().size();
  collective.payload_elements = elements;
  collective.payload_bytes = 4 * elements;
  collective.wire_bytes = wireBytes;
  return collective;
}

void ExampleBuilder::addPrograms() {
  Span nowhere(-1, 0, 0, 0, 0);
  Span product = span(8, 16, 46), loss = span(9, 17, 23);
  int w = addBuffer("w", BufferRole::parameter, 0, 60);
  int count = addBuffer("sgd/step", BufferRole::state, 64, 4);
  int x = addBuffer("x", BufferRole::input, 128, 60);
  int y = addBuffer("y", BufferRole::activation, 192, 36);
  int partial = addBuffer("", BufferRole::activation, 256, 12);
  int sum = addBuffer("", BufferRole::communication, 320, 12);
  int dy = addBuffer("gradient of y", BufferRole::gradient, 384, 36);
  int dw = addBuffer("gradient of w", BufferRole::gradient, 448, 60);

  auto variable = std::make_unique<VariableT>();
  variable->name = "w";
  variable->role = BufferRole::parameter;
  variable->buffer = w;
  executable.variables.push_back(std::move(variable));
  variable = std::make_unique<VariableT>();
  variable->name = "sgd/step";
  variable->role = BufferRole::state;
  variable->buffer = count;
  executable.variables.push_back(std::move(variable));

  addCommand("y", Phase::forward, {x, w}, {{y, tensorY}}, 90, product)
      .action.Set(MatmulT());
  addCommand("", Phase::forward, {y}, {{partial, tensorLoss, true}}, 18, loss)
      .action.Set(MatmulT());
  CollectiveT forward = makeAllReduce("c1", axes({1}), 3, 16);
  forward.source = layout({{"batch", 6, {0}}}, {1});
  forward.target = layout({{"batch", 6, {0}}});
  forward.causes.push_back(cause(
      "contraction over split dimension 'hidden'", "loss", "y", "<batch@data>",
      "<batch@data> partial sum over model", {span(5, 24, 39), loss}));
  forward.causes.back()->alternative = std::make_unique<AlternativeT>();
  forward.causes.back()->alternative->description =
      "an all_gather of 'y' over model";
  forward.causes.back()->alternative->cost_us = 12.5;
  forward.causes.back()->alternative->chosen_cost_us = 7.25;
  addCommand("", Phase::forward, {partial}, {{sum, tensorLoss, true}}, 0, loss)
      .action.Set(std::move(forward));
  // The loss takes over the memory of the product it no longer needs.
  addCommand("loss", Phase::forward, {sum}, {{partial, tensorLoss}}, 3, loss)
      .action.Set(KernelT());
  addCommand("gradient of y", Phase::backward, {y}, {{dy, tensorDy}}, 9,
             product)
      .action.Set(KernelT());
  addCommand("gradient of w", Phase::backward, {x, dy}, {{dw, tensorDw}}, 90,
             product)
      .action.Set(MatmulT());
  CollectiveT backward = makeAllReduce("c2", axes({0}), 15, 60);
  backward.source = layout({{"in", 5, {}}, {"hidden", 7, {1}}}, {0});
  backward.target = layout({{"in", 5, {}}, {"hidden", 7, {1}}});
  for (const char *consumer : {"w", "nd.mul"})
    backward.causes.push_back(cause("contraction over split dimension 'batch'",
                                    consumer, "gradient of w", "<hidden@model>",
                                    "<hidden@model> partial sum over data",
                                    {span(5, 10, 23)}));
  addCommand("gradient of w", Phase::backward, {dw}, {{dw, tensorDw}}, 0,
             nowhere)
      .action.Set(std::move(backward));
  addCommand("w", Phase::update, {w, dw, count},
             {{w, tensorW}, {count, tensorStep}}, 31, nowhere)
      .action.Set(KernelT());
  for (auto &command : step->commands)
    if (KernelT *kernel = command->action.AsKernel())
      kernel->extent = 7;

  const std::vector<int> waits[] = {{}, {0}, {1}, {2}, {0}, {4}, {5}, {6}};
  for (size_t index = 0; index < step->commands.size(); ++index) {
    step->commands[index]->waits = waits[index];
    if (step->commands[index]->action.AsCollective())
      step->commands[index]->queue = Queue::communication;
  }

  step->name = "step";
  step->inputs.push_back(std::make_unique<PortT>());
  step->inputs.back()->name = "x";
  step->inputs.back()->buffer = x;
  step->outputs.push_back(std::make_unique<PortT>());
  step->outputs.back()->name = "loss";
  step->outputs.back()->buffer = partial;
  step->arena_bytes = 512;
  executable.programs.push_back(std::move(step));
  executable.arena_bytes = 512;
}

ExecutableT ExampleBuilder::build() {
  executable.version = 1;
  executable.producer = "meshc test";
  executable.model = "tiny";
  executable.spec_sha256 = "0123";
  executable.files = {"tiny.mesh"};
  addMesh();
  Dim batch{"batch", 6, {0}}, in{"in", 5, {}}, hidden{"hidden", 7, {1}};
  addTensor("x", BufferRole::input, layout({batch, in}), span(6, 12, 29), 120,
            60);
  addTensor("w", BufferRole::parameter, layout({in, hidden}), span(7, 9, 10),
            140, 60);
  addTensor("sgd/step", BufferRole::state, layout({}), Span(-1, 0, 0, 0, 0), 4,
            4);
  addTensor("y", BufferRole::activation, layout({batch, hidden}), span(8, 7, 8),
            168, 36);
  addTensor("loss", BufferRole::activation, layout({}, {0}), span(9, 10, 14), 4,
            4);
  addTensor("loss", BufferRole::output, layout({}, {0}), span(9, 10, 14), 4, 4);
  addTensor("gradient of y", BufferRole::gradient, layout({batch, hidden}),
            span(8, 7, 8), 168, 36);
  addTensor("gradient of w", BufferRole::gradient, layout({in, hidden}),
            span(7, 9, 10), 140, 60);
  addPrograms();
  return std::move(executable);
}

exec::ExecutableT plan::makeExample() { return ExampleBuilder().build(); }

exec::ExecutableT plan::makeExampleWithOverlap() {
  ExecutableT executable = makeExample();
  auto &commands = executable.programs[0]->commands;
  commands[3]->waits.clear();
  CommandT &transfer = *commands[6];
  const CommandT &added = *commands[2];
  auto member = std::make_unique<CollectiveT>(*added.action.AsCollective());
  member->id = "c3";
  transfer.action.AsCollective()->merged.push_back(std::move(member));
  transfer.operands.insert(transfer.operands.begin() + 1,
                           std::make_unique<OperandT>(*added.operands[0]));
  transfer.operands.push_back(std::make_unique<OperandT>(*added.operands[1]));
  transfer.results = 2;
  return executable;
}

static MatmulT makeProduct(std::vector<int64_t> batch) {
  MatmulT matmul;
  matmul.m = matmul.n = matmul.k = 2;
  // Every batch dimension leaves a gap.
  for (std::vector<int64_t> *strides :
       {&matmul.a_strides, &matmul.b_strides, &matmul.c_strides}) {
    int64_t step = 1000;
    for (size_t dim = 0; dim < batch.size(); ++dim, step /= 10)
      strides->push_back(step);
    strides->insert(strides->end(), {2, 1});
  }
  matmul.batch = std::move(batch);
  return matmul;
}

exec::ExecutableT plan::makeGpuExample() {
  ExecutableT executable = makeExample();
  executable.target = Target::cuda;
  auto &commands = executable.programs[0]->commands;
  for (auto &command : commands)
    if (KernelT *kernel = command->action.AsKernel()) {
      kernel->launches.push_back(std::make_unique<LaunchT>());
      kernel->launches[0]->symbol = "step_3";
      kernel->launches[0]->grid = 5;
      kernel->launches[0]->block = 256;
    }
  KernelT *parts = commands[4]->action.AsKernel();
  parts->launches.push_back(std::make_unique<LaunchT>(*parts->launches[0]));
  parts->launches[1]->symbol = "step_3_sum";
  parts->launches[1]->grid = 1;
  parts->launches[1]->shared_bytes = 1024;
  commands[0]->action.Set(makeProduct({}));
  commands[1]->action.Set(makeProduct({}));
  for (auto &operand : commands[1]->operands)
    operand->element = ElementType::i32;
  commands[5]->action.Set(makeProduct({2, 3}));
  for (auto &operand : commands[2]->operands)
    operand->strides = {2};
  for (auto &operand : commands[6]->operands)
    operand->strides = {3, 1};
  return executable;
}

#include "tests/runtime/ProgramBuilder.h"

#include "runtime/exec/MatmulOperands.h"

#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

exec::TensorLayoutT test::makeLayout(exec::ElementType element,
                                     std::vector<Dim> dims,
                                     exec::ReduceKind partial,
                                     std::vector<exec::AxisRef> partialAxes) {
  exec::TensorLayoutT layout;
  layout.element = element;
  for (Dim &dim : dims) {
    auto sharded = std::make_unique<exec::DimShardingT>();
    sharded->name = dim.name;
    sharded->size = dim.size;
    sharded->axes = dim.axes;
    layout.dims.push_back(std::move(sharded));
  }
  layout.partial = partial;
  layout.partial_axes = std::move(partialAxes);
  return layout;
}

exec::TensorLayoutT test::makeLayout(exec::ElementType element,
                                     const std::vector<int64_t> &sizes,
                                     const layout::Sharding &sharding) {
  auto convert = [](const std::vector<layout::AxisRef> &axes) {
    std::vector<exec::AxisRef> result;
    for (const layout::AxisRef &ref : axes)
      result.emplace_back(ref.axis, ref.pre, ref.size);
    return result;
  };
  std::vector<Dim> dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    dims.push_back(
        {"d" + std::to_string(i), sizes[i], convert(sharding.dims[i])});
  // The enumerators of both kinds are in the same order.
  exec::TensorLayoutT layout = makeLayout(
      element, std::move(dims), exec::ReduceKind(int(sharding.partialKind)),
      convert(sharding.partialAxes));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (const layout::Window *window = sharding.getWindow(i)) {
      auto &entry = layout.dims[i]->window;
      entry = std::make_unique<exec::WindowT>();
      entry->loop = window->loop;
      entry->size = window->loopSize;
      entry->factor = window->factor;
      entry->low = window->low;
      entry->high = window->high;
      entry->divisor = window->divisor;
      entry->modulus = window->modulus;
    }
  return layout;
}

std::vector<int64_t> test::getStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

ProgramBuilder::ProgramBuilder(
    const std::vector<std::pair<std::string, int64_t>> &axes)
    : data(std::make_unique<exec::ExecutableT>()) {
  data->version = execVersion;
  data->producer = "test";
  data->model = "test";
  data->mesh = std::make_unique<exec::MeshT>();
  for (const auto &[name, size] : axes) {
    auto axis = std::make_unique<exec::AxisT>();
    axis->name = name;
    axis->size = size;
    data->mesh->axes.push_back(std::move(axis));
  }
}

exec::AxisRef ProgramBuilder::axis(int32_t number) const {
  return {number, 1, data->mesh->axes[number]->size};
}

int ProgramBuilder::addBuffer(const std::string &name, int64_t bytes) {
  auto buffer = std::make_unique<exec::BufferT>();
  buffer->name = name;
  buffer->role = exec::BufferRole::activation;
  buffer->offset = data->arena_bytes;
  buffer->bytes = uint64_t(bytes);
  data->arena_bytes += (uint64_t(bytes) + 63) / 64 * 64;
  data->buffers.push_back(std::move(buffer));
  return int(data->buffers.size()) - 1;
}

int ProgramBuilder::addBuffer(const std::string &name,
                              const exec::TensorLayoutT &layout) {
  return addBuffer(name,
                   getLocalElements(layout) * getElementBytes(layout.element));
}

void ProgramBuilder::addVariable(const std::string &name,
                                 const exec::TensorLayoutT &layout, int buffer,
                                 exec::BufferRole role) {
  auto variable = std::make_unique<exec::VariableT>();
  variable->name = name;
  variable->role = role;
  variable->layout = std::make_unique<exec::TensorLayoutT>(layout);
  variable->buffer = buffer;
  data->variables.push_back(std::move(variable));
}

void ProgramBuilder::beginProgram(const std::string &name) {
  data->programs.push_back(std::make_unique<exec::ProgramT>());
  data->programs.back()->name = name;
}

static std::unique_ptr<exec::PortT> makePort(const std::string &name,
                                             const exec::TensorLayoutT &layout,
                                             int buffer) {
  auto port = std::make_unique<exec::PortT>();
  port->name = name;
  port->layout = std::make_unique<exec::TensorLayoutT>(layout);
  port->buffer = buffer;
  return port;
}

void ProgramBuilder::addInput(const std::string &name,
                              const exec::TensorLayoutT &layout, int buffer,
                              int64_t indexBound) {
  data->programs.back()->inputs.push_back(makePort(name, layout, buffer));
  data->programs.back()->inputs.back()->index_bound = indexBound;
}

void ProgramBuilder::setSeed(const exec::TensorLayoutT &layout, int buffer) {
  data->programs.back()->seed = makePort("seed", layout, buffer);
}

void ProgramBuilder::addOutput(const std::string &name,
                               const exec::TensorLayoutT &layout, int buffer) {
  data->programs.back()->outputs.push_back(makePort(name, layout, buffer));
}

std::unique_ptr<exec::OperandT>
ProgramBuilder::view(int buffer, exec::ElementType element,
                     std::vector<int64_t> shape, std::vector<int64_t> strides,
                     uint64_t offset) const {
  auto operand = std::make_unique<exec::OperandT>();
  operand->buffer = buffer;
  operand->offset = offset;
  operand->element = element;
  operand->strides = strides.empty() ? getStrides(shape) : std::move(strides);
  operand->shape = std::move(shape);
  return operand;
}

exec::CommandT &ProgramBuilder::addCommand(const std::string &name) {
  data->programs.back()->commands.push_back(std::make_unique<exec::CommandT>());
  data->programs.back()->commands.back()->name = name;
  return *data->programs.back()->commands.back();
}

exec::CommandT &
ProgramBuilder::addKernel(const std::string &symbol, int64_t extent,
                          std::vector<std::unique_ptr<exec::OperandT>> operands,
                          int results, int64_t bytes) {
  exec::CommandT &command = addCommand(symbol);
  exec::KernelT kernel;
  kernel.symbol = symbol;
  kernel.extent = extent;
  command.action.Set(std::move(kernel));
  command.operands = std::move(operands);
  command.results = results;
  command.bytes = bytes;
  return command;
}

exec::CommandT &ProgramBuilder::addMatmul(
    const exec::MatmulT &matmul,
    std::vector<std::unique_ptr<exec::OperandT>> operands) {
  exec::CommandT &command = addCommand("matmul");
  command.action.Set(exec::MatmulT(matmul));
  command.operands = std::move(operands);
  command.results = getOperandOrder(matmul).results;
  return command;
}

exec::CommandT &ProgramBuilder::addCollective(exec::CollectiveKind kind,
                                              const exec::TensorLayoutT &source,
                                              int from,
                                              const exec::TensorLayoutT &target,
                                              int to) {
  exec::CommandT &command = addCommand(exec::EnumNameCollectiveKind(kind));
  exec::CollectiveT collective;
  collective.id = "c" + std::to_string(data->programs.back()->commands.size());
  collective.kind = kind;
  collective.source = std::make_unique<exec::TensorLayoutT>(source);
  collective.target = std::make_unique<exec::TensorLayoutT>(target);
  command.action.Set(std::move(collective));
  command.operands.push_back(view(from, source.element, getLocalShape(source)));
  command.operands.push_back(view(to, target.element, getLocalShape(target)));
  command.results = 1;
  return command;
}

void ProgramBuilder::addMember(exec::CommandT &command,
                               const exec::TensorLayoutT &source, int from,
                               const exec::TensorLayoutT &target, int to) {
  exec::CollectiveT &collective = *command.action.AsCollective();
  const auto members = std::ptrdiff_t(collective.merged.size() + 1);
  exec::CollectiveT member;
  member.id = collective.id + "." + std::to_string(members);
  member.kind = collective.kind;
  member.axes = collective.axes;
  member.source = std::make_unique<exec::TensorLayoutT>(source);
  member.target = std::make_unique<exec::TensorLayoutT>(target);
  collective.merged.push_back(
      std::make_unique<exec::CollectiveT>(std::move(member)));
  command.operands.insert(command.operands.begin() + members,
                          view(from, source.element, getLocalShape(source)));
  command.operands.push_back(view(to, target.element, getLocalShape(target)));
  ++command.results;
}

exec::CommandT &ProgramBuilder::addCopy(std::unique_ptr<exec::OperandT> from,
                                        std::unique_ptr<exec::OperandT> to,
                                        int64_t bytes) {
  exec::CommandT &command = addCommand("copy");
  command.action.Set(exec::CopyT());
  command.operands = list(std::move(from), std::move(to));
  command.results = 1;
  command.bytes = bytes;
  return command;
}

std::vector<uint8_t> ProgramBuilder::serialize() const {
  flatbuffers::FlatBufferBuilder builder;
  exec::FinishExecutableBuffer(builder,
                               exec::CreateExecutable(builder, data.get()));
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

void ProgramBuilder::addWaits() {
  auto conflict = [&](const exec::CommandT &x, const exec::CommandT &y) {
    for (size_t i = 0; i < x.operands.size(); ++i)
      for (size_t j = 0; j < y.operands.size(); ++j) {
        const exec::BufferT &mine = *data->buffers[x.operands[i]->buffer];
        const exec::BufferT &other = *data->buffers[y.operands[j]->buffer];
        const bool isWritten = i + size_t(x.results) >= x.operands.size() ||
                               j + size_t(y.results) >= y.operands.size();
        if (isWritten && mine.offset < other.offset + other.bytes &&
            other.offset < mine.offset + mine.bytes)
          return true;
      }
    return false;
  };
  for (const auto &program : data->programs)
    for (size_t index = 0; index < program->commands.size(); ++index) {
      exec::CommandT &command = *program->commands[index];
      if (command.waits.empty())
        for (size_t earlier = 0; earlier < index; ++earlier)
          if (conflict(command, *program->commands[earlier]))
            command.waits.push_back(int(earlier));
    }
}

Executable ProgramBuilder::finish() {
  addWaits();
  // Through bytes, as a compiled program comes.
  std::vector<uint8_t> bytes = serialize();
  Result<Executable> executable = Executable::load(bytes);
  EXPECT_TRUE(executable) << executable.getError().message;
  return std::move(*executable);
}

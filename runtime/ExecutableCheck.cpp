#include "runtime/Executable.h"
#include "runtime/MatmulOperands.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Largest number of elements or bytes that any size in a program may reach:
/// far beyond any machine, and small enough that sums of two cannot overflow.
constexpr int64_t maxExtent = int64_t(1) << 56;

/// What CUDA lets a launch have, whatever the device; shared memory without the
/// reserved KiB of sm_90. Source: CUDA C++ Programming Guide 13.0, 20.1.
constexpr int64_t maxGrid = (int64_t(1) << 31) - 1;
constexpr int maxBlock = 1024;
constexpr int maxSharedBytes = 227 * 1024;

/// a * b, or -1 where an operand is negative or the product beyond maxExtent.
int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ||
      product > maxExtent)
    return -1;
  return product;
}

template <typename Enum> bool isEnumerator(Enum value, Enum last) {
  return int(value) >= 0 && int(value) <= int(last);
}

/// Looks at every part of an executable and keeps the first defect.
class Checker {
public:
  explicit Checker(const exec::ExecutableT &data) : data(data) {}

  std::string check();

private:
  bool fail(std::string text) {
    if (defect.empty())
      defect = where.empty() ? std::move(text) : where + ": " + text;
    return false;
  }

  bool checkMesh();
  bool checkSpan(const exec::Span &span);
  bool checkLayout(const exec::TensorLayoutT *layout);
  bool checkBufferHolds(int buffer, const exec::TensorLayoutT &layout);
  bool checkOperand(size_t number, const exec::OperandT &operand);
  /// Whether a view of this shape and strides at `operand` stays in its buffer.
  bool checkReach(size_t number, const exec::OperandT &operand,
                  std::span<const int64_t> shape,
                  std::span<const int64_t> strides);
  bool checkCommand(const exec::CommandT &command, size_t index);
  bool checkKernel(const exec::KernelT &kernel);
  bool checkMatmul(const exec::CommandT &command);
  bool checkMatmulEnds(const exec::CommandT &command);
  bool checkCollective(const exec::CommandT &command);
  /// A collective that takes one operand of `command` into another one.
  bool checkMember(const exec::CollectiveT &collective,
                   const exec::CommandT &command, size_t fromNumber,
                   size_t toNumber);
  /// The first byte of the arena that an operand covers, and the one behind it.
  std::pair<uint64_t, uint64_t> getReach(const exec::OperandT &operand) const;
  bool checkCopy(const exec::CommandT &command);
  bool checkProgram(const exec::ProgramT &program);
  bool checkPorts(const std::vector<std::unique_ptr<exec::PortT>> &ports,
                  std::string_view kind);
  bool checkData();

  const exec::ExecutableT &data;
  layout::Mesh mesh;
  std::string where;
  std::string defect;
};

bool Checker::checkMesh() {
  if (!data.mesh)
    return fail("it has no mesh");
  int64_t devices = 1;
  std::vector<layout::MeshAxis> axes;
  std::set<std::string_view> names;
  for (const auto &axis : data.mesh->axes) {
    if (axis->size < 1)
      return fail(
          fmt::format("mesh axis '{}' has size {}", axis->name, axis->size));
    if (!names.insert(axis->name).second)
      return fail(fmt::format("two mesh axes are called '{}'", axis->name));
    devices = multiply(devices, axis->size);
    if (devices < 0 || devices > layout::Mesh::maxDevices)
      return fail(fmt::format("its mesh has more than {} devices",
                              layout::Mesh::maxDevices));
    axes.push_back({axis->name, axis->size});
  }
  const std::vector<int> &order = data.mesh->device_order;
  if (!order.empty()) {
    if (int64_t(order.size()) != devices)
      return fail(fmt::format("its device order names {} devices, expected {}",
                              order.size(), devices));
    std::vector<bool> seen(devices, false);
    for (int device : order) {
      if (device < 0 || device >= devices || seen[device])
        return fail("its device order is not a permutation");
      seen[device] = true;
    }
  }
  mesh = layout::Mesh(std::move(axes));
  return true;
}

bool Checker::checkSpan(const exec::Span &span) {
  if (span.file() < -1 || span.file() >= int64_t(data.files.size()))
    return fail(fmt::format("a source span names file {} of {}", span.file(),
                            data.files.size()));
  return true;
}

bool Checker::checkLayout(const exec::TensorLayoutT *layout) {
  if (!layout)
    return fail("a layout is missing");
  if (!isEnumerator(layout->element, exec::ElementType::MAX))
    return fail(fmt::format("unknown element type {}", int(layout->element)));
  if (!isEnumerator(layout->partial, exec::ReduceKind::MAX))
    return fail(fmt::format("unknown reduction {}", int(layout->partial)));
  int64_t bytes = getElementBytes(layout->element);
  for (const auto &dim : layout->dims) {
    if (dim->size < 1)
      return fail(
          fmt::format("dimension '{}' has size {}", dim->name, dim->size));
    bytes = multiply(bytes, dim->size);
    if (bytes < 0)
      return fail("a tensor is larger than any memory");
  }
  std::string violation =
      layout::getViolation(mesh, getSharding(*layout), layout->dims.size());
  if (!violation.empty())
    return fail("impossible sharding: " + violation);
  return true;
}

bool Checker::checkBufferHolds(int buffer, const exec::TensorLayoutT &layout) {
  if (buffer < 0 || size_t(buffer) >= data.buffers.size())
    return fail(fmt::format("buffer {} of {}", buffer, data.buffers.size()));
  uint64_t needed =
      uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
  const exec::BufferT &found = *data.buffers[buffer];
  if (found.bytes < needed)
    return fail(fmt::format("buffer '{}' has {} bytes, its tensor needs {}",
                            found.name, found.bytes, needed));
  return true;
}

bool Checker::checkReach(size_t number, const exec::OperandT &operand,
                         std::span<const int64_t> shape,
                         std::span<const int64_t> strides) {
  if (shape.size() != strides.size())
    return fail(fmt::format("operand {} has {} sizes and {} strides", number,
                            shape.size(), strides.size()));
  int64_t elementBytes = getElementBytes(operand.element);
  int64_t last = 0; // largest element index
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || strides[i] < 0)
      return fail(
          fmt::format("operand {} has a negative size or stride", number));
    if (shape[i] == 0) {
      empty = true;
      continue;
    }
    int64_t reach = multiply(shape[i] - 1, strides[i]);
    if (reach < 0 || (last += reach) > maxExtent)
      return fail(fmt::format("operand {} overflows", number));
  }
  const exec::BufferT &buffer = *data.buffers[operand.buffer];
  int64_t bytes = empty ? 0 : multiply(last + 1, elementBytes);
  if (bytes < 0 || operand.offset > uint64_t(maxExtent) ||
      operand.offset + uint64_t(bytes) > buffer.bytes)
    return fail(fmt::format("operand {} reaches byte {} of buffer '{}', which "
                            "has {}",
                            number, operand.offset + uint64_t(bytes),
                            buffer.name, buffer.bytes));
  return true;
}

bool Checker::checkOperand(size_t number, const exec::OperandT &operand) {
  if (operand.buffer < 0 || size_t(operand.buffer) >= data.buffers.size())
    return fail(fmt::format("operand {} names buffer {} of {}", number,
                            operand.buffer, data.buffers.size()));
  if (!isEnumerator(operand.element, exec::ElementType::MAX))
    return fail(fmt::format("operand {} has unknown element type {}", number,
                            int(operand.element)));
  if (operand.offset % getElementBytes(operand.element) != 0)
    return fail(fmt::format("operand {} is not aligned: offset {}", number,
                            operand.offset));
  if (operand.tensor < -1 || operand.tensor >= int64_t(data.tensors.size()))
    return fail(fmt::format("operand {} names tensor {} of {}", number,
                            operand.tensor, data.tensors.size()));
  return true;
}

bool Checker::checkKernel(const exec::KernelT &kernel) {
  if (kernel.extent < 0 || kernel.extent > maxExtent)
    return fail(fmt::format("its extent is {}", kernel.extent));
  if (kernel.symbol.empty())
    return fail("its kernel has no symbol");
  if ((data.target == exec::Target::cuda) == kernel.launches.empty())
    return fail(
        fmt::format("its kernel has {} launches", kernel.launches.size()));
  for (const auto &launch : kernel.launches)
    if (launch->symbol.empty() || launch->grid < 1 || launch->grid > maxGrid ||
        launch->block < 1 || launch->block > maxBlock ||
        launch->shared_bytes < 0 || launch->shared_bytes > maxSharedBytes)
      return fail(fmt::format("it launches '{}' with {} blocks of {} threads "
                              "and {} bytes of shared memory",
                              launch->symbol, launch->grid, launch->block,
                              launch->shared_bytes));
  return true;
}

bool Checker::checkMatmul(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  if (!isEnumerator(matmul.column_sum, exec::ColumnSum::MAX))
    return fail(fmt::format("unknown column sum {}", int(matmul.column_sum)));
  const MatmulOperandOrder order = getOperandOrder(matmul);
  const size_t expected = order.count;
  if (command.operands.size() != expected)
    return fail(fmt::format("a matmul has {} operands, expected {}",
                            command.operands.size(), expected));
  if (!isEnumerator(matmul.activation, exec::Activation::MAX))
    return fail(fmt::format("unknown activation {}", int(matmul.activation)));
  const exec::ElementType factor = command.operands[0]->element;
  const exec::ElementType result = command.operands.back()->element;
  if (command.operands[1]->element != factor)
    return fail("a matmul's factors differ in element type");
  if (matmul.has_bias && command.operands[2]->element != result)
    return fail("a matmul's bias and result differ in element type");
  bool isNarrow = false;
  switch (factor) {
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::i32:
  case exec::ElementType::i64:
    break;
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    isNarrow = true;
    break;
  case exec::ElementType::boolean:
    return fail(fmt::format("a matmul of element type {} is not supported",
                            getName(factor)));
  }
  if (result != factor && !(isNarrow && result == exec::ElementType::f32))
    return fail(fmt::format("a matmul of element type {} has a result of {}",
                            getName(factor), getName(result)));
  const bool isGelu = matmul.activation == exec::Activation::gelu_erf ||
                      matmul.activation == exec::Activation::gelu_tanh;
  if (isGelu &&
      (factor == exec::ElementType::i32 || factor == exec::ElementType::i64))
    return fail("a matmul of integers has a gelu");
  auto getView = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape = matmul.batch;
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  std::vector<int64_t> cShape = getView(matmul.m, matmul.n);
  const size_t c = expected - 1;
  if (!checkReach(0, *command.operands[0], getView(matmul.m, matmul.k),
                  matmul.a_strides) ||
      !checkReach(1, *command.operands[1], getView(matmul.k, matmul.n),
                  matmul.b_strides) ||
      !checkReach(c, *command.operands[c], cShape, matmul.c_strides))
    return false;
  for (size_t i = 0; i < cShape.size(); ++i)
    if (cShape[i] > 1 && matmul.c_strides[i] == 0)
      return fail("a matmul writes one element several times");
  if (matmul.has_bias) {
    const int64_t shape[] = {matmul.n};
    const int64_t strides[] = {1};
    if (!checkReach(2, *command.operands[2], shape, strides))
      return false;
  }
  return checkMatmulEnds(command);
}

/// What only products on GPUs read and write beside their result.
bool Checker::checkMatmulEnds(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  const MatmulOperandOrder order = getOperandOrder(matmul);
  const bool hasSums = order.sums >= 0;
  if (command.results != order.results)
    return fail(fmt::format("a matmul has {} results, expected {}",
                            command.results, order.results));
  if (!matmul.has_addend && !matmul.has_aux && !matmul.is_gradient && !hasSums)
    return true;
  if (data.target != exec::Target::cuda)
    return fail("a matmul on CPUs has an end that only GPUs have");
  const exec::ElementType element = command.operands.back()->element;
  if (matmul.has_addend) {
    const exec::OperandT &addend = *command.operands[size_t(order.addend)];
    if (matmul.accumulate || matmul.activation != exec::Activation::none)
      return fail("a matmul with an addend accumulates or has an activation");
    if (addend.element != element)
      return fail("a matmul's addend and result differ in element type");
    std::vector<int64_t> shape = matmul.batch;
    shape.insert(shape.end(), {matmul.m, matmul.n});
    if (!checkReach(size_t(order.addend), addend, shape, matmul.c_strides))
      return false;
  }
  if (!matmul.has_aux && !matmul.is_gradient && !hasSums)
    return true;
  const bool isRelu = matmul.activation == exec::Activation::relu;
  if ((matmul.has_aux || matmul.is_gradient) && !isRelu &&
      matmul.activation != exec::Activation::gelu_tanh)
    return fail(fmt::format("a matmul has an activation without gradient, {}",
                            int(matmul.activation)));
  if (matmul.is_gradient && (!matmul.has_aux || matmul.has_bias))
    return fail("a matmul with the gradient of an activation has a bias, or "
                "nothing to take it at");
  if (hasSums &&
      (matmul.has_bias ||
       matmul.is_gradient != (matmul.column_sum == exec::ColumnSum::c) ||
       (!matmul.is_gradient && matmul.activation != exec::Activation::none)))
    return fail("a matmul sums columns beside a bias or another end");
  if (!matmul.batch.empty() ||
      matmul.c_strides != std::vector<int64_t>{matmul.n, 1})
    return fail("a matmul with such an end has batch dimensions, or a result "
                "that is not dense");
  if (hasSums) {
    const exec::OperandT &sums = *command.operands[size_t(order.sums)];
    const int64_t length =
        matmul.column_sum == exec::ColumnSum::a ? matmul.m : matmul.n;
    if (sums.element != element)
      return fail("a matmul's column sums and result differ in element type");
    const int64_t shape[] = {length};
    const int64_t strides[] = {1};
    if (!checkReach(size_t(order.sums), sums, shape, strides))
      return false;
  }
  if (!matmul.has_aux)
    return true;
  const exec::OperandT &aux = *command.operands[size_t(order.aux)];
  if (aux.element != (isRelu ? exec::ElementType::i32 : element))
    return fail(fmt::format("what a matmul's activation leaves behind has "
                            "element type {}",
                            getName(aux.element)));
  const int64_t width = isRelu ? getMaskRowWords(matmul.n) : matmul.n;
  const int64_t shape[] = {matmul.m, width};
  const int64_t strides[] = {width, 1};
  return checkReach(size_t(order.aux), aux, shape, strides);
}

bool Checker::checkMember(const exec::CollectiveT &collective,
                          const exec::CommandT &command, size_t fromNumber,
                          size_t toNumber) {
  const exec::OperandT &from = *command.operands[fromNumber];
  const exec::OperandT &to = *command.operands[toNumber];
  if (!isEnumerator(collective.kind, exec::CollectiveKind::MAX))
    return fail(
        fmt::format("unknown collective kind {}", int(collective.kind)));
  for (const auto &cause : collective.causes)
    for (const exec::Span &span : cause->spans)
      if (!checkSpan(span))
        return false;
  if (!checkLayout(collective.source.get()) ||
      !checkLayout(collective.target.get()))
    return false;
  if (getSizes(*collective.source) != getSizes(*collective.target))
    return fail("a collective changes the sizes of its tensor");
  const exec::TensorLayoutT *layouts[] = {collective.source.get(),
                                          collective.target.get()};
  const exec::OperandT *operands[] = {&from, &to};
  for (size_t i = 0; i < 2; ++i) {
    if (operands[i]->element != layouts[i]->element ||
        layouts[i]->element != layouts[0]->element)
      return fail("a collective changes the element type");
    if (operands[i]->shape != getLocalShape(*layouts[i]))
      return fail(fmt::format(
          "operand {} of a collective has not the shape of its block",
          i == 0 ? fromNumber : toNumber));
  }
  for (size_t i = 0; i < to.shape.size(); ++i)
    if (to.shape[i] > 1 && to.strides[i] == 0)
      return fail("a collective writes one element several times");
  if (collective.source->partial != exec::ReduceKind::none &&
      collective.target->partial != exec::ReduceKind::none &&
      collective.source->partial != collective.target->partial)
    return fail("a collective changes the kind of a partial value");
  switch (from.element) {
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  case exec::ElementType::boolean:
    if (collective.source->partial == exec::ReduceKind::sum ||
        collective.target->partial == exec::ReduceKind::sum)
      return fail("a collective sums booleans");
    break;
  }
  // Devices read one another's operand while they write the result, so the two
  // may share memory only where every element stays where it is.
  const auto [fromBegin, fromEnd] = getReach(from);
  const auto [toBegin, toEnd] = getReach(to);
  const bool overlap = fromBegin < toEnd && toBegin < fromEnd;
  layout::Sharding source =
      layout::getCanonical(mesh, getSharding(*collective.source));
  layout::Sharding target =
      layout::getCanonical(mesh, getSharding(*collective.target));
  if (overlap && (fromBegin != toBegin || from.strides != to.strides ||
                  source.dims != target.dims))
    return fail("a collective reads the memory it writes");
  return true;
}

std::pair<uint64_t, uint64_t>
Checker::getReach(const exec::OperandT &operand) const {
  uint64_t last = 0;
  for (size_t i = 0; i < operand.shape.size(); ++i)
    last += uint64_t(operand.shape[i] - 1) * uint64_t(operand.strides[i]);
  const uint64_t begin = data.buffers[operand.buffer]->offset + operand.offset;
  return {begin,
          begin + (last + 1) * uint64_t(getElementBytes(operand.element))};
}

bool Checker::checkCollective(const exec::CommandT &command) {
  const exec::CollectiveT &collective = *command.action.AsCollective();
  const std::vector<const exec::CollectiveT *> members = getMembers(collective);
  if (command.operands.size() != 2 * members.size())
    return fail(fmt::format("a collective has {} operands, expected {}",
                            command.operands.size(), 2 * members.size()));
  for (size_t i = 0; i < members.size(); ++i)
    if (!checkMember(*members[i], command, i, members.size() + i))
      return false;
  auto getReduction = [](const exec::CollectiveT &member) {
    return std::max(member.source->partial, member.target->partial);
  };
  auto getAxes = [](const exec::CollectiveT &member) {
    std::vector<layout::AxisRef> axes;
    for (const exec::AxisRef &axis : member.axes)
      axes.push_back(getAxisRef(axis));
    return axes;
  };
  for (size_t i = 1; i < members.size(); ++i) {
    if (!members[i]->merged.empty())
      return fail("a merged collective has merged ones of its own");
    if (members[i]->kind != collective.kind ||
        getAxes(*members[i]) != getAxes(collective) ||
        command.operands[i]->element != command.operands[0]->element ||
        getReduction(*members[i]) != getReduction(collective))
      return fail("merged collectives differ in kind, axes, element type or "
                  "reduction");
  }
  // No member touches what another one writes.
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t other = 0; other < command.operands.size(); ++other) {
      if (other % members.size() == i)
        continue;
      const auto [begin, end] = getReach(*command.operands[members.size() + i]);
      const auto [first, last] = getReach(*command.operands[other]);
      if (begin < last && first < end)
        return fail("merged collectives share memory");
    }
  return true;
}

bool Checker::checkCopy(const exec::CommandT &command) {
  if (command.operands.size() != 2)
    return fail(fmt::format("a copy has {} operands, expected 2",
                            command.operands.size()));
  const exec::OperandT &from = *command.operands[0];
  const exec::OperandT &to = *command.operands[1];
  if (from.shape != to.shape || from.element != to.element)
    return fail("a copy's operands differ in shape or element type");
  return true;
}

bool Checker::checkCommand(const exec::CommandT &command, size_t index) {
  std::string outer = where;
  where += fmt::format(", command {} ('{}')", index, command.name);
  // A product has strides of its own, which start anywhere in its operands.
  const bool isMatmul = command.action.type == exec::Action::Matmul;
  for (size_t i = 0; i < command.operands.size(); ++i) {
    const exec::OperandT &operand = *command.operands[i];
    if (!checkOperand(i, operand) ||
        (!isMatmul && !checkReach(i, operand, operand.shape, operand.strides)))
      return false;
  }
  if (command.results < 0 || size_t(command.results) > command.operands.size())
    return fail(fmt::format("{} results among {} operands", command.results,
                            command.operands.size()));
  if (!isEnumerator(command.queue, exec::Queue::MAX) ||
      !isEnumerator(command.phase, exec::Phase::MAX))
    return fail("unknown queue or phase");
  // The list is executed in order, so it must be an order of its waits.
  for (int wait : command.waits)
    if (wait < 0 || size_t(wait) >= index)
      return fail(
          fmt::format("it waits for command {}, which is not before it", wait));
  if (command.span && !checkSpan(*command.span))
    return false;
  if (!command.action.value)
    return fail("it has no action");
  bool sound = false;
  switch (command.action.type) {
  case exec::Action::Kernel:
    sound = checkKernel(*command.action.AsKernel());
    break;
  case exec::Action::Matmul:
    sound = checkMatmul(command);
    break;
  case exec::Action::Collective:
    sound = checkCollective(command);
    break;
  case exec::Action::Copy:
    sound = checkCopy(command);
    break;
  case exec::Action::NONE:
    sound = fail("it has no action");
    break;
  }
  where = std::move(outer);
  return sound;
}

bool Checker::checkPorts(const std::vector<std::unique_ptr<exec::PortT>> &ports,
                         std::string_view kind) {
  std::string outer = where;
  std::set<std::string_view> names;
  for (const auto &port : ports) {
    where = outer + fmt::format(", {} '{}'", kind, port->name);
    if (!names.insert(port->name).second)
      return fail("the name is given twice");
    if (!checkLayout(port->layout.get()) ||
        !checkBufferHolds(port->buffer, *port->layout))
      return false;
    if (port->layout->element == exec::ElementType::bf16 ||
        port->layout->element == exec::ElementType::f16)
      return fail(fmt::format("element type {} is not supported",
                              getName(port->layout->element)));
    if (kind == "input" && port->layout->partial != exec::ReduceKind::none)
      return fail("its layout is partial");
    if (port->index_bound < 0)
      return fail(fmt::format("its index bound is {}", port->index_bound));
  }
  where = std::move(outer);
  return true;
}

bool Checker::checkProgram(const exec::ProgramT &program) {
  where = fmt::format("program '{}'", program.name);
  if (program.arena_bytes > data.arena_bytes)
    return fail(fmt::format("its arena has {} bytes, the executable's {}",
                            program.arena_bytes, data.arena_bytes));
  if (!checkPorts(program.inputs, "input") ||
      !checkPorts(program.outputs, "output"))
    return false;
  for (size_t i = 0; i < program.commands.size(); ++i)
    if (!checkCommand(*program.commands[i], i))
      return false;
  where.clear();
  return true;
}

bool Checker::checkData() {
  const exec::ProgramT *step = nullptr;
  for (const auto &program : data.programs)
    if (program->name == "step")
      step = program.get();
  std::set<std::string_view> fed;
  for (const auto &source : data.data) {
    where = fmt::format("data for '{}'", source->input);
    if (!isEnumerator(source->format, exec::DataFormat::MAX))
      return fail(fmt::format("unknown format {}", int(source->format)));
    if (!fed.insert(source->input).second)
      return fail("the input is fed twice");
    if (source->span && !checkSpan(*source->span))
      return false;
  }
  where.clear();
  if (!data.training)
    return true;
  where = "training";
  // Small enough that steps of all epochs can be counted.
  constexpr int64_t maxEpochs = int64_t(1) << 30;
  if (data.training->epochs < 0 || data.training->epochs > maxEpochs ||
      data.training->steps < 0 || data.training->steps > maxExtent)
    return fail(fmt::format("{} epochs, {} steps", data.training->epochs,
                            data.training->steps));
  if (step && !findPort(step->outputs, data.training->minimize))
    return fail(fmt::format("it minimises '{}', which program 'step' does not "
                            "give",
                            data.training->minimize));
  where.clear();
  return true;
}

std::string Checker::check() {
  if (data.version != execVersion)
    fail(fmt::format("version {}, expected {}", data.version, execVersion));
  else if (data.arena_bytes > uint64_t(maxExtent))
    fail(fmt::format("its arena has {} bytes", data.arena_bytes));
  if (!isEnumerator(data.target, exec::Target::MAX))
    fail(fmt::format("unknown target {}", int(data.target)));
  else if (data.target == exec::Target::cpu && !data.images.empty())
    fail(fmt::format("it has {} images of GPU kernels", data.images.size()));
  for (const auto &image : data.images)
    if (!isEnumerator(image->kind, exec::ImageKind::MAX))
      fail(fmt::format("unknown kind of image {}", int(image->kind)));
  if (!defect.empty() || !checkMesh())
    return defect;
  for (const auto &buffer : data.buffers) {
    if (!isEnumerator(buffer->role, exec::BufferRole::MAX))
      fail(fmt::format("unknown buffer role {}", int(buffer->role)));
    if (buffer->offset % 64 != 0)
      fail(fmt::format("buffer '{}' is not aligned: offset {}", buffer->name,
                       buffer->offset));
    if (buffer->bytes > data.arena_bytes ||
        buffer->offset > data.arena_bytes - buffer->bytes)
      fail(fmt::format("buffer '{}' lies outside the arena of {} bytes",
                       buffer->name, data.arena_bytes));
  }
  if (!defect.empty())
    return defect;
  std::set<std::string_view> names;
  for (const auto &variable : data.variables) {
    where = fmt::format("variable '{}'", variable->name);
    if (!names.insert(variable->name).second)
      fail("the name is given twice");
    else if (checkLayout(variable->layout.get()) &&
             checkBufferHolds(variable->buffer, *variable->layout)) {
      if (variable->layout->partial != exec::ReduceKind::none)
        fail("its layout is partial");
      else if (variable->span)
        checkSpan(*variable->span);
    }
    if (!defect.empty())
      return defect;
  }
  for (const auto &dim : data.dims) {
    where = fmt::format("dimension '{}'", dim->name);
    layout::Sharding split;
    split.dims.emplace_back();
    for (const exec::AxisRef &axis : dim->axes)
      split.dims.back().push_back(getAxisRef(axis));
    std::string violation = layout::getViolation(mesh, split, 1);
    if (!violation.empty())
      fail("impossible rule: " + violation);
    for (const auto *span : {&dim->span, &dim->rule_span})
      if (*span)
        checkSpan(**span);
    if (!defect.empty())
      return defect;
  }
  for (const auto &tensor : data.tensors) {
    where = fmt::format("tensor '{}'", tensor->name);
    if (!isEnumerator(tensor->role, exec::BufferRole::MAX))
      fail(fmt::format("unknown role {}", int(tensor->role)));
    else if (checkLayout(tensor->layout.get()) && tensor->span)
      checkSpan(*tensor->span);
    if (!defect.empty())
      return defect;
  }
  names.clear();
  for (const auto &program : data.programs) {
    if (!names.insert(program->name).second)
      fail(fmt::format("two programs are called '{}'", program->name));
    if (!defect.empty() || !checkProgram(*program))
      return defect;
  }
  checkData();
  return defect;
}

} // namespace

std::string runtime::checkExecutable(const exec::ExecutableT &data) {
  return Checker(data).check();
}

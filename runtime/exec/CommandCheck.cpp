#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/MatmulOperands.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

/// What CUDA lets a launch have, whatever the device; shared memory without the
/// reserved KiB of sm_90. Source: CUDA C++ Programming Guide 13.0, 20.1.
static constexpr int64_t maxGrid = (int64_t(1) << 31) - 1;
static constexpr int maxBlock = 1024;
static constexpr int maxSharedBytes = 227 * 1024;

int64_t ExecutableChecker::countReached(size_t number,
                                        std::span<const int64_t> shape,
                                        std::span<const int64_t> strides) {
  auto fail = [this](std::string text) {
    this->fail(std::move(text));
    return int64_t(-1);
  };
  if (shape.size() != strides.size())
    return fail(fmt::format("operand {} has {} sizes and {} strides", number,
                            shape.size(), strides.size()));
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
  return empty ? 0 : last + 1;
}

bool ExecutableChecker::checkReach(size_t number, const exec::OperandT &operand,
                                   std::span<const int64_t> shape,
                                   std::span<const int64_t> strides) {
  const int64_t elements = countReached(number, shape, strides);
  if (elements < 0)
    return false;
  const exec::BufferT &buffer = *data.buffers[operand.buffer];
  const int64_t bytes = multiply(elements, getElementBytes(operand.element));
  if (bytes < 0 || operand.offset > uint64_t(maxExtent) ||
      operand.offset + uint64_t(bytes) > buffer.bytes)
    return fail(fmt::format("operand {} reaches byte {} of buffer '{}', which "
                            "has {}",
                            number, operand.offset + uint64_t(bytes),
                            buffer.name, buffer.bytes));
  return true;
}

bool ExecutableChecker::checkWritten(size_t number,
                                     std::span<const int64_t> shape,
                                     std::span<const int64_t> strides) {
  // Each dimension steps over all that the ones of smaller strides reach.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0)
      return true;
    if (shape[i] > 1)
      dims.emplace_back(strides[i], shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach)
      return fail(fmt::format("operand {} has one element written several "
                              "times",
                              number));
    reach += (size - 1) * stride; // in its buffer, as checkReach found
  }
  return true;
}

/// Elements of a shape without the dimensions that repeat; -1: beyond
/// maxExtent.
static int64_t countElements(std::span<const int64_t> shape,
                             std::span<const int64_t> strides) {
  int64_t count = 1;
  for (size_t i = 0; i < shape.size() && count >= 0; ++i)
    if (strides[i] != 0)
      count = multiply(count, shape[i]);
  return count;
}

bool ExecutableChecker::checkView(size_t number, const exec::OperandT &operand,
                                  std::span<const int64_t> shape,
                                  std::span<const int64_t> strides) {
  if (!checkReach(number, operand, shape, strides))
    return false;
  const int64_t viewed = countElements(shape, strides);
  const int64_t owned = countElements(operand.shape, operand.strides);
  if (viewed < 0 || owned < 0 || viewed > owned)
    return fail(fmt::format("operand {} has {} elements, of which {} are used",
                            number, owned, viewed));
  return true;
}

bool ExecutableChecker::checkOperand(size_t number,
                                     const exec::OperandT &operand) {
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
  return countReached(number, operand.shape, operand.strides) >= 0;
}

bool ExecutableChecker::checkKernel(const exec::CommandT &command) {
  const exec::KernelT &kernel = *command.action.AsKernel();
  // An iteration has at least one element of an operand to itself, and a block
  // of threads too. (What a kernel on CPUs really needs of its operands is
  // known where its code is: checkKernelUse.)
  int64_t most = 1;
  for (const auto &operand : command.operands)
    if (const int64_t count = countElements(operand->shape, operand->strides);
        count < 0 || (most += count) > maxExtent)
      return fail("its operands have more elements than any memory");
  if (kernel.extent < 0 || kernel.extent > most)
    return fail(fmt::format("its extent is {}, its operands have {} elements",
                            kernel.extent, most - 1));
  if (kernel.symbol.empty())
    return fail("its kernel has no symbol");
  if ((data.target == exec::Target::cuda) == kernel.launches.empty())
    return fail(
        fmt::format("its kernel has {} launches", kernel.launches.size()));
  for (const auto &launch : kernel.launches)
    if (launch->symbol.empty() || launch->grid < 1 || launch->grid > maxGrid ||
        launch->grid > most || launch->block < 1 || launch->block > maxBlock ||
        launch->shared_bytes < 0 || launch->shared_bytes > maxSharedBytes)
      return fail(fmt::format("it launches '{}' with {} blocks of {} threads "
                              "and {} bytes of shared memory",
                              launch->symbol, launch->grid, launch->block,
                              launch->shared_bytes));
  return true;
}

bool ExecutableChecker::checkMatmul(const exec::CommandT &command) {
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
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
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
  if (!checkView(0, *command.operands[0], getView(matmul.m, matmul.k),
                 matmul.a_strides) ||
      !checkView(1, *command.operands[1], getView(matmul.k, matmul.n),
                 matmul.b_strides) ||
      !checkView(c, *command.operands[c], cShape, matmul.c_strides) ||
      !checkWritten(c, cShape, matmul.c_strides))
    return false;
  // Else nothing that is stored bounds it.
  if (matmul.k > 1 && matmul.a_strides.back() == 0 &&
      matmul.b_strides[matmul.batch.size()] == 0)
    return fail(fmt::format("a matmul sums one product {} times", matmul.k));
  if (matmul.has_bias) {
    const int64_t shape[] = {matmul.n};
    const int64_t strides[] = {1};
    if (!checkReach(2, *command.operands[2], shape, strides))
      return false;
  }
  return checkMatmulEnds(command) && checkMatmulOverlap(command);
}

bool ExecutableChecker::checkMatmulOverlap(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  const size_t c = command.operands.size() - 1;
  auto getShape = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape = matmul.batch;
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  std::vector<std::pair<uint64_t, uint64_t>> reach;
  for (const auto &operand : command.operands)
    reach.push_back(getReach(*operand));
  reach[0] = getReach(*command.operands[0], getShape(matmul.m, matmul.k),
                      matmul.a_strides);
  reach[1] = getReach(*command.operands[1], getShape(matmul.k, matmul.n),
                      matmul.b_strides);
  reach[c] = getReach(*command.operands[c], getShape(matmul.m, matmul.n),
                      matmul.c_strides);
  for (size_t written = c + 1 - size_t(command.results); written <= c;
       ++written)
    for (size_t other = 0; other < reach.size(); ++other)
      if (other != written && reach[other].first < reach[written].second &&
          reach[written].first < reach[other].second)
        return fail(fmt::format("a matmul's operand {} shares memory with "
                                "operand {}, which it writes",
                                other, written));
  return true;
}

/// What only products on GPUs read and write beside their result.
bool ExecutableChecker::checkMatmulEnds(const exec::CommandT &command) {
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

bool ExecutableChecker::checkMember(const exec::CollectiveT &collective,
                                    const exec::CommandT &command,
                                    size_t fromNumber, size_t toNumber) {
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
  layout::Sharding over;
  over.dims.emplace_back();
  for (const exec::AxisRef &axis : collective.axes)
    over.dims.back().push_back(getAxisRef(axis));
  if (std::string violation = layout::getViolation(mesh, over, 1);
      !violation.empty())
    return fail("a collective communicates over impossible axes: " + violation);
  if (getSizes(*collective.source) != getSizes(*collective.target))
    return fail("a collective changes the sizes of its tensor");
  const exec::TensorLayoutT *layouts[] = {collective.source.get(),
                                          collective.target.get()};
  const exec::OperandT *operands[] = {&from, &to};
  for (size_t i = 0; i < 2; ++i) {
    if (operands[i]->element != getStored(layouts[i]->element) ||
        layouts[i]->element != layouts[0]->element)
      return fail("a collective changes the element type");
    if (operands[i]->shape != getLocalShape(*layouts[i]))
      return fail(fmt::format(
          "operand {} of a collective has not the shape of its block",
          i == 0 ? fromNumber : toNumber));
  }
  if (!checkWritten(toNumber, to.shape, to.strides))
    return false;
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
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    // Sums of which one term is not 0 only choose it.
    for (const exec::TensorLayoutT *layout : layouts)
      if (layout->partial == exec::ReduceKind::max ||
          layout->partial == exec::ReduceKind::min)
        return fail("a collective compares elements that are for data");
    break;
  }
  layout::Sharding source =
      layout::getCanonical(mesh, getSharding(*collective.source));
  layout::Sharding target =
      layout::getCanonical(mesh, getSharding(*collective.target));
  if (source.hasWindow())
    return fail("a collective reads a window, of which no device owns a part");
  // Devices read one another's operand while they write the result, so the two
  // may share memory only where every element stays where it is.
  const auto [fromBegin, fromEnd] = getReach(from);
  const auto [toBegin, toEnd] = getReach(to);
  const bool overlap = fromBegin < toEnd && toBegin < fromEnd;
  if (overlap && (fromBegin != toBegin || from.strides != to.strides ||
                  source.dims != target.dims || target.hasWindow()))
    return fail("a collective reads the memory it writes");
  return true;
}

std::pair<uint64_t, uint64_t>
ExecutableChecker::getReach(const exec::OperandT &operand) const {
  return getReach(operand, operand.shape, operand.strides);
}

std::pair<uint64_t, uint64_t>
ExecutableChecker::getReach(const exec::OperandT &operand,
                            std::span<const int64_t> shape,
                            std::span<const int64_t> strides) const {
  const uint64_t begin = data.buffers[operand.buffer]->offset + operand.offset;
  uint64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0)
      return {begin, begin};
    last += uint64_t(shape[i] - 1) * uint64_t(strides[i]);
  }
  return {begin,
          begin + (last + 1) * uint64_t(getElementBytes(operand.element))};
}

bool ExecutableChecker::checkCollective(const exec::CommandT &command) {
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

bool ExecutableChecker::checkCopy(const exec::CommandT &command) {
  if (command.operands.size() != 2)
    return fail(fmt::format("a copy has {} operands, expected 2",
                            command.operands.size()));
  const exec::OperandT &from = *command.operands[0];
  const exec::OperandT &to = *command.operands[1];
  if (from.shape != to.shape || from.element != to.element)
    return fail("a copy's operands differ in shape or element type");
  const auto [fromBegin, fromEnd] = getReach(from);
  const auto [toBegin, toEnd] = getReach(to);
  if (fromBegin < toEnd && toBegin < fromEnd)
    return fail("a copy reads the memory it writes");
  return checkWritten(1, to.shape, to.strides);
}

bool ExecutableChecker::checkCommand(const exec::CommandT &command,
                                     size_t index, Totals &totals) {
  std::string outer = where;
  where += fmt::format(", command {} ('{}')", index, command.name);
  // A product has strides of its own, which start anywhere in its operands; so
  // has a convolution.
  const bool hasStrides = command.action.type == exec::Action::Matmul ||
                          command.action.type == exec::Action::Convolution;
  for (size_t i = 0; i < command.operands.size(); ++i) {
    const exec::OperandT &operand = *command.operands[i];
    if (!checkOperand(i, operand) ||
        (!hasStrides &&
         !checkReach(i, operand, operand.shape, operand.strides)))
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
    sound = checkKernel(command);
    break;
  case exec::Action::Matmul:
    sound = checkMatmul(command);
    break;
  case exec::Action::Convolution:
    sound = checkConvolution(command);
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
  sound = sound && checkCommandQuantities(command, totals);
  where = std::move(outer);
  return sound;
}

#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/kinds/CommandKind.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

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

bool runtime::hasEachElementOnce(std::span<const int64_t> shape,
                                 std::span<const int64_t> strides) {
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
      return false;
    reach += (size - 1) * stride; // in its buffer, as checkReach found
  }
  return true;
}

bool ExecutableChecker::checkWritten(size_t number,
                                     std::span<const int64_t> shape,
                                     std::span<const int64_t> strides) {
  if (!hasEachElementOnce(shape, strides))
    return fail(fmt::format("operand {} has one element written several times",
                            number));
  return true;
}

int64_t runtime::countElements(std::span<const int64_t> shape,
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

bool ExecutableChecker::checkRemarks(const exec::CommandT &command) {
  for (const auto &remark : command.remarks) {
    if (!isEnumerator(remark->kind, exec::RemarkKind::MAX))
      return fail(fmt::format("unknown kind of remark {}", int(remark->kind)));
    if (remark->bytes < 0 || uint64_t(remark->bytes) > data.arena_bytes)
      return fail(fmt::format("a remark of {} bytes in an arena of {}",
                              remark->bytes, data.arena_bytes));
    if (!checkOrigin(remark->origin.get()) ||
        !checkOrigin(remark->purpose.get()) ||
        (remark->span && !checkSpan(*remark->span)))
      return false;
  }
  return true;
}

bool ExecutableChecker::checkCommand(const exec::CommandT &command,
                                     size_t index, Totals &totals) {
  std::string outer = where;
  where += fmt::format(", command {} ('{}')", index, command.name);
  if (!command.action.value)
    return fail("it has no action");
  const CommandKind &kind = getKind(command);
  for (size_t i = 0; i < command.operands.size(); ++i) {
    const exec::OperandT &operand = *command.operands[i];
    if (!checkOperand(i, operand) ||
        (!kind.hasOwnStrides &&
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
  if (!checkOrigin(command.origin.get()) ||
      (command.span && !checkSpan(*command.span)) || !checkRemarks(command))
    return false;
  const bool sound =
      kind.check(*this, command) && checkCommandQuantities(command, totals);
  where = std::move(outer);
  return sound;
}

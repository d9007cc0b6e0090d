#include "runtime/exec/NeededInputs.h"

#include "runtime/exec/CommandWaits.h"
#include "runtime/exec/kinds/CommandKind.h"

#include <algorithm>
#include <cstdint>
#include <map>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Bytes of the arena as ranges that do not touch one another.
class ByteSet {
public:
  bool overlaps(const MemoryAccess &range) const {
    const auto next = ranges.lower_bound(range.end);
    return next != ranges.begin() && std::prev(next)->second > range.begin;
  }

  void add(MemoryAccess range) {
    if (range.begin >= range.end)
      return;
    auto next = ranges.lower_bound(range.begin);
    if (next != ranges.begin() && std::prev(next)->second >= range.begin)
      --next;
    while (next != ranges.end() && next->first <= range.end) {
      range.begin = std::min(range.begin, next->first);
      range.end = std::max(range.end, next->second);
      next = ranges.erase(next);
    }
    ranges[range.begin] = range.end;
  }

  void remove(const MemoryAccess &range) {
    auto next = ranges.lower_bound(range.begin);
    if (next != ranges.begin() && std::prev(next)->second > range.begin)
      --next;
    while (next != ranges.end() && next->first < range.end) {
      const auto [begin, end] = *next;
      next = ranges.erase(next);
      if (begin < range.begin)
        ranges[begin] = range.begin;
      if (end > range.end)
        ranges[range.end] = end;
    }
  }

private:
  std::map<uint64_t, uint64_t> ranges; ///< end, by begin
};

} // namespace

/// Whether the command is known to write every byte of this result.
static bool isOverwritten(const exec::CommandT &command,
                          const exec::OperandT &result) {
  if (!getKind(command).overwritesResults)
    return false;
  if (!result.steps.empty())
    return false;
  // Dense, from the last dimension on.
  int64_t stride = 1;
  for (size_t i = result.shape.size(); i-- > 0;) {
    if (result.shape[i] != 1 && result.strides[i] != stride)
      return false;
    stride *= result.shape[i];
  }
  return true;
}

std::vector<const exec::PortT *>
runtime::findNeededInputs(const exec::ExecutableT &data,
                          const exec::ProgramT &program,
                          std::span<const exec::PortT *const> outputs) {
  auto getBytes = [&](int buffer) {
    const exec::BufferT &found = *data.buffers[size_t(buffer)];
    return MemoryAccess{found.offset, found.offset + found.bytes, false};
  };
  ByteSet needed;
  for (const exec::PortT *output : outputs)
    needed.add(getBytes(output->buffer));
  for (size_t i = program.commands.size(); i-- > 0;) {
    const exec::CommandT &command = *program.commands[i];
    const auto operands = std::span(command.operands);
    const auto results = operands.last(size_t(command.results));
    if (std::none_of(results.begin(), results.end(), [&](const auto &result) {
          return needed.overlaps(getAccess(data, *result));
        }))
      continue;
    for (const auto &result : results)
      if (isOverwritten(command, *result))
        needed.remove(getAccess(data, *result));
    for (const auto &read : operands.first(operands.size() - results.size()))
      needed.add(getAccess(data, *read));
  }
  std::vector<const exec::PortT *> inputs;
  for (const auto &input : program.inputs)
    if (needed.overlaps(getBytes(input->buffer)))
      inputs.push_back(input.get());
  return inputs;
}

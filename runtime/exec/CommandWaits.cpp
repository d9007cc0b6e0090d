#include "runtime/exec/CommandWaits.h"

#include "runtime/exec/Executable.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Commands, as bits in blocks that are shared between sets: what one command
/// waits for is mostly what the one before it waits for.
class CommandSet {
public:
  bool contains(size_t command) const {
    const size_t block = command / blockBits;
    return block < blocks.size() && blocks[block] &&
           ((*blocks[block])[command % blockBits / 64] >> (command % 64) & 1);
  }

  void insert(size_t command) {
    const size_t block = command / blockBits;
    if (block >= blocks.size())
      blocks.resize(block + 1);
    auto changed = blocks[block] ? std::make_shared<Block>(*blocks[block])
                                 : std::make_shared<Block>(Block{});
    (*changed)[command % blockBits / 64] |= uint64_t(1) << (command % 64);
    blocks[block] = std::move(changed);
  }

  void insert(const CommandSet &other) {
    if (blocks.size() < other.blocks.size())
      blocks.resize(other.blocks.size());
    for (size_t i = 0; i < other.blocks.size(); ++i) {
      if (blocks[i] == other.blocks[i] || !other.blocks[i])
        continue;
      if (!blocks[i]) {
        blocks[i] = other.blocks[i];
        continue;
      }
      Block both;
      for (size_t word = 0; word < both.size(); ++word)
        both[word] = (*blocks[i])[word] | (*other.blocks[i])[word];
      if (both == *blocks[i])
        continue;
      blocks[i] = both == *other.blocks[i] ? other.blocks[i]
                                           : std::make_shared<Block>(both);
    }
  }

private:
  static constexpr size_t blockBits = 2048;
  using Block = std::array<uint64_t, blockBits / 64>;
  std::vector<std::shared_ptr<const Block>> blocks;
};

/// Who has accessed every byte of the arena last: the commands that a later one
/// may have to wait for. Whoever accessed a byte before its last writer is
/// waited for by that one.
class Memory {
public:
  /// Adds the commands that an access has to wait for to `found`.
  void find(const MemoryAccess &access, std::vector<size_t> &found) {
    for (auto part = cut(access.begin), end = cut(access.end); part != end;
         ++part) {
      if (part->second.writer != none)
        found.push_back(part->second.writer);
      if (access.isWrite)
        found.insert(found.end(), part->second.readers.begin(),
                     part->second.readers.end());
    }
  }

  void add(const MemoryAccess &access, size_t command) {
    for (auto part = cut(access.begin), end = cut(access.end); part != end;
         ++part) {
      if (!access.isWrite)
        part->second.readers.push_back(command);
      else
        part->second = {command, {}};
    }
    if (access.isWrite) // one writer: one part
      parts.erase(std::next(parts.find(access.begin)), parts.find(access.end));
  }

private:
  static constexpr size_t none = ~size_t(0);
  struct Part {
    size_t writer = none;
    std::vector<size_t> readers; ///< since it was written
  };

  /// The part that begins at `begin`, cut off the one before if need be.
  std::map<uint64_t, Part>::iterator cut(uint64_t begin) {
    auto next = parts.lower_bound(begin);
    if (next != parts.end() && next->first == begin)
      return next;
    return parts.emplace_hint(
        next, begin, next == parts.begin() ? Part{} : std::prev(next)->second);
  }

  std::map<uint64_t, Part> parts; ///< up to where the next begins
};

} // namespace

std::vector<std::vector<int>>
runtime::findWaits(std::span<const std::vector<MemoryAccess>> commands) {
  std::vector<std::vector<int>> waits(commands.size());
  std::vector<CommandSet> implied(commands.size());
  Memory memory;
  for (size_t index = 0; index < commands.size(); ++index) {
    std::vector<size_t> found;
    for (const MemoryAccess &access : commands[index])
      memory.find(access, found);
    std::sort(found.begin(), found.end(), std::greater<>());
    for (size_t earlier : found) {
      if (implied[index].contains(earlier))
        continue;
      waits[index].push_back(int(earlier));
      implied[index].insert(implied[earlier]);
      implied[index].insert(earlier);
    }
    std::reverse(waits[index].begin(), waits[index].end());
    for (const MemoryAccess &access : commands[index])
      memory.add(access, index);
  }
  return waits;
}

MemoryAccess runtime::getAccess(const exec::ExecutableT &data,
                                const exec::OperandT &operand) {
  const exec::BufferT &buffer = *data.buffers[size_t(operand.buffer)];
  MemoryAccess access{buffer.offset, buffer.offset + buffer.bytes, false};
  if (!operand.steps.empty())
    return access;
  int64_t elements = 1;
  for (size_t i = 0; i < operand.shape.size(); ++i)
    elements += std::max<int64_t>(operand.shape[i] - 1, 0) * operand.strides[i];
  access.begin += operand.offset;
  access.end = std::min(
      access.begin + uint64_t(elements * getElementBytes(operand.element)),
      access.end);
  return access;
}

void runtime::addWaits(const exec::ExecutableT &data, exec::ProgramT &program) {
  std::vector<std::vector<MemoryAccess>> accesses;
  for (const auto &command : program.commands) {
    accesses.emplace_back();
    for (size_t i = 0; i < command->operands.size(); ++i) {
      MemoryAccess access = getAccess(data, *command->operands[i]);
      access.isWrite = i + size_t(command->results) >= command->operands.size();
      if (access.begin < access.end)
        accesses.back().push_back(access);
    }
  }
  std::vector<std::vector<int>> waits = findWaits(accesses);
  for (size_t i = 0; i < waits.size(); ++i)
    program.commands[i]->waits = std::move(waits[i]);
}

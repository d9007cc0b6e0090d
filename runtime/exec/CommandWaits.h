#ifndef MESHC_RUNTIME_EXEC_COMMANDWAITS_H
#define MESHC_RUNTIME_EXEC_COMMANDWAITS_H

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::runtime {

/// Bytes [begin, end) of the arena, at least one, that a command reads or
/// writes.
struct MemoryAccess {
  uint64_t begin, end;
  bool isWrite;
};

/// For every command, by its accesses, the earlier ones it has to wait for, in
/// order: those that wrote what it reads or overwrites, and those that read
/// what it overwrites. A wait that another wait implies is left out.
std::vector<std::vector<int>>
findWaits(std::span<const std::vector<MemoryAccess>> commands);

} // namespace meshc::runtime

#endif

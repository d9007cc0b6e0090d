#ifndef MESHC_RUNTIME_EXEC_COMMANDWAITS_H
#define MESHC_RUNTIME_EXEC_COMMANDWAITS_H

#include "runtime/exec/exec_generated.h"

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

/// The bytes that an operand touches, or more than those: products,
/// convolutions and puts have strides of their own, which start anywhere in it,
/// and one that moves in a loop has its whole buffer. Not a write.
MemoryAccess getAccess(const exec::ExecutableT &data,
                       const exec::OperandT &operand);

/// For every command, by its accesses, the earlier ones it has to wait for, in
/// order: those that wrote what it reads or overwrites, and those that read
/// what it overwrites. A wait that another wait implies is left out.
std::vector<std::vector<int>>
findWaits(std::span<const std::vector<MemoryAccess>> commands);

/// Gives the commands of `program`, a program of `data` or one to be, the waits
/// that they need, by the bytes that they touch: of an operand that moves in a
/// loop, its whole buffer.
void addWaits(const exec::ExecutableT &data, exec::ProgramT &program);

} // namespace meshc::runtime

#endif

#ifndef MESHC_RUNTIME_EXEC_LOOPS_H
#define MESHC_RUNTIME_EXEC_LOOPS_H

/// Loops of a program: in the file their commands stand once, in memory once
/// for each iteration, with the offsets of that iteration.
///
/// So whatever executes, captures, checks or measures commands sees a list
/// without loops, and an iteration may begin while the one before it still
/// runs: what its commands wait for is found by the bytes that they touch.

#include "runtime/exec/exec_generated.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

/// Commands that a program may have with all iterations of its loops.
inline constexpr int64_t maxLoopCommands = int64_t(1) << 17;
/// Loops around a command.
inline constexpr size_t maxLoopDepth = 8;

/// A program that had loops, and of each command which one of the program with
/// loops it is an iteration of.
struct ExpandedProgram {
  exec::ProgramT *program = nullptr;
  std::vector<int> sources;
};

/// Replaces the loops of all programs by their commands in each iteration, in
/// the order of iterations. These are called after the position too, "h [time =
/// 3]", and have no waits, which addWaits gives them; `expanded` gets the
/// programs that had loops. Returns the first defect, or nothing: loops that
/// overlap in part, more than maxLoopCommands, waits for what is not before
/// them, operands that move outside of loops or beyond any memory.
std::string expandLoops(exec::ExecutableT &data,
                        std::vector<ExpandedProgram> &expanded);

/// How often each command of a program with loops, which is sound, runs.
std::vector<int64_t> countRepeats(const exec::ProgramT &program);

} // namespace meshc::runtime

#endif

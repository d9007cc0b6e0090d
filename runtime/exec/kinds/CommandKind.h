#ifndef MESHC_RUNTIME_EXEC_KINDS_COMMANDKIND_H
#define MESHC_RUNTIME_EXEC_KINDS_COMMANDKIND_H

/// What every reader of a program has to know of a kind of command: a file per
/// kind, a row per kind in CommandKind.cpp. How a kind runs is in the rows of
/// runtime/cpu/kinds and runtime/cuda/kinds, what a plan says of it in that of
/// frontend/plan/kinds.

#include "runtime/exec/exec_generated.h"

#include <cstdint>

namespace meshc::runtime {

class ExecutableChecker;

struct CommandKind {
  const char *name; ///< "matmul": in plans, traces and profiles
  /// What it reaches of its operands its action says, not their shapes and
  /// strides.
  bool hasOwnStrides = false;
  /// It writes every element of its results, as their shapes and strides have
  /// them, and what was there has no part in that.
  bool overwritesResults = false;
  /// Whether the action fits its operands, which are in their buffers unless
  /// they have other strides; else the checker knows the defect.
  bool (*check)(ExecutableChecker &checker, const exec::CommandT &command);
  /// Operations that it can have; -1: more than any machine computes. Null: as
  /// many as elements there can be.
  int64_t (*countMostFlops)(const exec::CommandT &command) = nullptr;
};

extern const CommandKind kernelKind, matmulKind, collectiveKind, copyKind,
    convolutionKind, putKind;

/// Of a command that has an action.
const CommandKind &getKind(exec::Action action);
inline const CommandKind &getKind(const exec::CommandT &command) {
  return getKind(command.action.type);
}

} // namespace meshc::runtime

#endif

#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static bool checkCopy(ExecutableChecker &checker,
                      const exec::CommandT &command) {
  if (command.operands.size() != 2)
    return checker.fail(fmt::format("a copy has {} operands, expected 2",
                                    command.operands.size()));
  const exec::OperandT &from = *command.operands[0];
  const exec::OperandT &to = *command.operands[1];
  if (from.shape != to.shape || from.element != to.element)
    return checker.fail("a copy's operands differ in shape or element type");
  const auto [fromBegin, fromEnd] = checker.getReach(from);
  const auto [toBegin, toEnd] = checker.getReach(to);
  if (fromBegin < toEnd && toBegin < fromEnd)
    return checker.fail("a copy reads the memory it writes");
  return checker.checkWritten(1, to.shape, to.strides);
}

const CommandKind runtime::copyKind = {
    .name = "copy", .overwritesResults = true, .check = checkCopy};

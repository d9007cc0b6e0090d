#ifndef MESHC_RUNTIME_PLANS_COPYPLAN_H
#define MESHC_RUNTIME_PLANS_COPYPLAN_H

/// How a copy within a device's memory is given to the driver; arithmetic
/// alone, without the driver.

#include "runtime/exec/exec_generated.h"
#include "runtime/plans/MoveList.h"

#include <cstdint>

namespace meshc::runtime::cuda {

enum class CopyForm : uint8_t {
  Nothing,
  Linear, ///< contiguous in both operands
  Rows,   ///< contiguous rows, one step between them in each operand
  Boxes,  ///< anything else: a launch of a move kernel
};

struct CopyPlan {
  CopyForm form = CopyForm::Nothing;
  uint64_t widthBytes = 0; ///< of a row
  uint64_t height = 1;     ///< rows
  uint64_t fromPitch = 0;  ///< bytes from one row to the next
  uint64_t toPitch = 0;
};

/// Plans the copy of a command.
CopyPlan planCopy(const exec::CommandT &command);

/// The copy of a command as a box between two addresses.
MoveList::Box getCopyBox(const exec::CommandT &command, DevicePointer from,
                         DevicePointer to);

} // namespace meshc::runtime::cuda

#endif

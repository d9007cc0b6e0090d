#include "runtime/GpuKernels.h"

#include "runtime/Executable.h"

#include <fmt/format.h>

using namespace meshc;

std::string runtime::getMoveKernelName(exec::ReduceKind kind,
                                       exec::ElementType element) {
  if (kind == exec::ReduceKind::none)
    return fmt::format("meshc_move_{}", getElementBytes(element));
  return fmt::format("meshc_reduce_{}_{}", exec::EnumNameReduceKind(kind),
                     getName(element));
}

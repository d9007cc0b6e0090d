#ifndef MESHC_FRONTEND_DRIVER_LASTPLAN_H
#define MESHC_FRONTEND_DRIVER_LASTPLAN_H

#include "runtime/exec/exec_generated.h"

#include "llvm/Support/Error.h"

#include <string>

namespace meshc::driver {

/// Remembers the plan that was shown for `explain`, the whole or none of it: as
/// the last one of this folder and this terminal. Paths in a plan are relative
/// to the folder, so that no other folder's is of use.
llvm::Error rememberPlan(const exec::ExecutableT &executable);

/// The file of the plan that was shown last in this folder, by this terminal if
/// it has shown one there; empty if none was shown.
llvm::Expected<std::string> findLastPlan();

} // namespace meshc::driver

#endif

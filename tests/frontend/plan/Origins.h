#ifndef MESHC_TESTS_FRONTEND_PLAN_ORIGINS_H
#define MESHC_TESTS_FRONTEND_PLAN_ORIGINS_H

#include "runtime/exec/exec_generated.h"

#include <memory>
#include <string>

namespace meshc::plan {

/// What is called `name`, "gradient of layer/2/h" or "adam/m/b1/w", with its
/// scopes, which are added to the executable's: a number is an iteration.
std::unique_ptr<exec::OriginT> makeOrigin(exec::ExecutableT &executable,
                                          std::string name);

/// Calls a tensor so, which is that of the tensor it is called after.
void setName(exec::ExecutableT &executable, exec::TensorT &tensor,
             const std::string &name);

} // namespace meshc::plan

#endif

#ifndef MESHC_RUNTIME_CUDA_LIBRARY_SYSTEMREPORT_H
#define MESHC_RUNTIME_CUDA_LIBRARY_SYSTEMREPORT_H

#include "runtime/exec/exec_generated.h"

#include <string>

namespace meshc::runtime::cuda {

/// What this machine has for programs on GPUs, a line each: driver, cuBLASLt
/// and NCCL with version and path, every GPU with its memory, and which GPUs
/// reach one another's memory. What is missing or cannot be used is said in
/// its line, with the reason. With an executable, also which of its images each
/// GPU runs.
std::string reportSystem(const exec::ExecutableT *executable = nullptr);

} // namespace meshc::runtime::cuda

#endif

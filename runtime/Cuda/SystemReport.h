#ifndef MESHC_RUNTIME_CUDA_SYSTEMREPORT_H
#define MESHC_RUNTIME_CUDA_SYSTEMREPORT_H

#include <string>

namespace meshc::runtime::cuda {

/// What this machine has for programs on GPUs, a line each: driver, cuBLASLt
/// and NCCL with version and path, every GPU with its memory, and which GPUs
/// reach one another's memory. What is missing or cannot be used is said in
/// its line, with the reason.
std::string reportSystem();

} // namespace meshc::runtime::cuda

#endif

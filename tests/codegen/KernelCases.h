#ifndef MESHC_TESTS_CODEGEN_KERNELCASES_H
#define MESHC_TESTS_CODEGEN_KERNELCASES_H

/// Kernel tests for machines with a GPU, which need not have the compiler.
///
/// With MESHC_KERNEL_CASES=FOLDER in the environment, expectAgreement writes
/// what it would run into FOLDER instead, for the architectures of
/// MESHC_KERNEL_CASES_GPU ("sm_90" if that is not set, "sm_80,sm_90", "host");
/// meshc_kernel_replay (tests/cuda) runs it. tests/cuda/kernel_case.fbs is the
/// format.

#include "tests/dialect/Programs.h"

#include <string>

namespace meshc::test {

bool writesKernelCases();

/// Writes the case of an spmd program @p as <test>-<number>.case, named after
/// the running test. A failure of that test if it cannot.
void writeKernelCase(const std::string &text, const F64State &inputs,
                     const F64State &expected, double tolerance);

} // namespace meshc::test

#endif

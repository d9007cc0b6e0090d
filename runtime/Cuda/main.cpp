/// The main function of every executable for GPUs. The program and its kernels
/// are in the object that the compiler writes, see KernelTable.h.

#include "runtime/CommandLine.h"

int main(int argc, char **argv) {
  using namespace meshc::runtime;
  return runCommandLine(
      argc, argv, {meshc_program_data, size_t(meshc_program_size)},
      {meshc_kernel_table, size_t(meshc_kernel_count)}, openGpuDevices);
}

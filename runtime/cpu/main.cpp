/// The main function of every executable for CPUs. The program and its kernels
/// are in the object that the compiler writes, see KernelTable.h.

#include "runtime/app/CommandLine.h"

int main(int argc, char **argv) {
  return meshc::runtime::runExecutable(argc, argv,
                                       meshc::runtime::openCpuDevices);
}

/// The linear model of the runtime's tests as an executable, on four devices,
/// or on LINEAR_DEVICES. With LINEAR_OTHER=N in the environment, rank N has
/// another program; with LINEAR_NAN=N the loss is NaN behind step N.

#include "runtime/app/CommandLine.h"
#include "tests/runtime/LinearModel.h"

#include <cstdlib>
#include <string>

using namespace meshc::runtime;
using namespace meshc::runtime::test;

int main(int argc, char **argv) {
  const char *mesh = std::getenv("LINEAR_DEVICES");
  const int64_t devices = mesh ? std::atoi(mesh) : 4;
  const char *other = std::getenv("LINEAR_OTHER");
  const char *rank = std::getenv("MESHC_RANK");
  const bool isOther = other && rank && std::string(other) == rank;
  if (const char *steps = std::getenv("LINEAR_NAN"))
    stepsToNan = std::atoi(steps);
  return runCommandLine(argc, argv,
                        LinearModel::makeProgram(isOther ? 2 : devices),
                        LinearModel::getKernels(), openCpuDevices);
}

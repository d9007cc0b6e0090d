#include "runtime/CommandLine.h"
#include "runtime/ExecutableSeal.h"
#include "runtime/Ranks/Ranks.h"
#include "runtime/StandardStreams.h"

using namespace meshc;
using namespace meshc::runtime;

int runtime::runExecutable(int argc, const char *const *argv,
                           OpenDevices &open) {
  openStandardStreams();
  Status sound = checkSeal("/proc/self/exe");
  if (!sound) {
    printError(sound.getError());
    return int(getExitCode(sound.getError().code));
  }
  return runCommandLine(argc, argv,
                        {meshc_program_data, size_t(meshc_program_size)},
                        {meshc_kernel_table, size_t(meshc_kernel_count)}, open);
}

#include "runtime/CommandLine.h"
#include "runtime/ExecutableSeal.h"
#include "runtime/Ranks/Ranks.h"
#include "runtime/StandardStreams.h"

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// Ends the process where the file that it is in is damaged.
static void requireSeal() {
  openStandardStreams();
  Status sound = checkSeal("/proc/self/exe");
  if (sound)
    return;
  printError(sound.getError());
  _exit(int(getExitCode(sound.getError().code)));
}

/// The first of an executable that runs, before constructors, which are code
/// that may be damaged.
[[gnu::used,
  gnu::section(".preinit_array")]] static void (*const first)() = requireSeal;

int runtime::runExecutable(int argc, const char *const *argv,
                           OpenDevices &open) {
  return runCommandLine(argc, argv,
                        {meshc_program_data, size_t(meshc_program_size)},
                        {meshc_kernel_table, size_t(meshc_kernel_count)}, open);
}

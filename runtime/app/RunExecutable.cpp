#include "runtime/app/CommandLine.h"

#include "runtime/exec/ExecutableSeal.h"
#include "runtime/io/FileErrors.h"
#include "runtime/ranks/Ranks.h"

#include <sys/uio.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

MESHC_BEFORE_SEAL_DATA static constexpr char ownFile[] = "/proc/self/exe";

/// As printError would say it, were it known to be sound.
template <size_t size>
[[gnu::always_inline]] static inline void
reportDamage(const char (&what)[size]) {
  static constexpr char begin[] =
      "meshc: error[MR0301]: damaged executable: /proc/self/exe ";
  static constexpr char end[] = "\nmeshc: note: compile the model again\n";
  const iovec parts[] = {{const_cast<char *>(begin), sizeof(begin) - 1},
                         {const_cast<char *>(what), size - 1},
                         {const_cast<char *>(end), sizeof(end) - 1}};
  static_cast<void>(writev(STDERR_FILENO, parts, 3) != 0);
}

/// Who may not read his executable has no damage to hear of.
[[gnu::noinline]] static void reportUnreadable() {
  printError(getReadError(ownFile));
}

/// Whether requireSeal has let this process go on.
static bool isVerified = false;

/// Ends the process where the file that it is in is damaged.
MESHC_BEFORE_SEAL static void requireSeal() {
  const SealState state = checkSeal(ownFile);
  if (state == SealState::Sound) {
    isVerified = true;
    return;
  }
  if (state == SealState::Unreadable) {
    reportUnreadable();
    _exit(int(ExitCode::WrongInput));
  }
  if (state == SealState::Missing)
    reportDamage("does not end as meshc has ended it");
  else if (state == SealState::CutOff)
    reportDamage("is cut off");
  else
    reportDamage("has other bytes than meshc has written");
  _exit(int(ExitCode::Damaged));
}

/// The first of an executable that runs, before constructors, which are code
/// that may be damaged.
[[gnu::used,
  gnu::section(".preinit_array")]] static void (*const first)() = requireSeal;

int runtime::runExecutable(int argc, const char *const *argv,
                           OpenDevices &open) {
  // Damage may be such that the loader did not call it.
  if (!isVerified)
    requireSeal();
  return runCommandLine(argc, argv,
                        {meshc_program_data, size_t(meshc_program_size)},
                        {meshc_kernel_table, size_t(meshc_kernel_count)}, open);
}

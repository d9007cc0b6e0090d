#include "frontend/driver/TextOutput.h"

#include "codegen/machine/OutputFile.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Process.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::driver;

static std::optional<size_t> readColumns() {
  const char *columns = std::getenv("COLUMNS");
  size_t width = 0;
  if (!columns || llvm::StringRef(columns).getAsInteger(10, width))
    return std::nullopt;
  return width;
}

TextOutput TextOutput::of(const std::string &path) {
  constexpr size_t least = 60, usual = 100;
  const bool isTerminal =
      path == codegen::standardOutput && isatty(STDOUT_FILENO);
  const std::optional<size_t> columns = readColumns();
  const char *refusal = std::getenv("NO_COLOR");
  TextOutput output{usual, isTerminal || columns,
                    isTerminal && llvm::sys::Process::StandardOutHasColors() &&
                        !(refusal && *refusal)};
  winsize size{};
  if (columns)
    output.width = std::max(*columns, least);
  else if (isTerminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
           size.ws_col > 0)
    output.width = std::max<size_t>(size.ws_col, least);
  return output;
}

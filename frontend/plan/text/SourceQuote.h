#ifndef MESHC_FRONTEND_PLAN_TEXT_SOURCEQUOTE_H
#define MESHC_FRONTEND_PLAN_TEXT_SOURCEQUOTE_H

#include "runtime/exec/exec_generated.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace meshc::plan {

/// Gives the text of a spec file, nothing if it cannot be read.
using ReadSource =
    std::function<std::optional<std::string>(std::string_view path)>;

/// Quotes lines of the spec with what is meant underlined:
///
///   mlp.mesh:20:12
///      20 |   let h = relu(einsum(image, w1 -> batch, hidden) + b1)
///         |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
class SourceQuote {
public:
  SourceQuote(const exec::ExecutableT &executable, const ReadSource &readSource)
      : executable(executable), readSource(readSource) {}

  /// Empty for a span without a file; only the position where the text cannot
  /// be read or has changed so that the line is not there, or where it was an
  /// option of the command line ("--layout").
  std::string quote(const exec::Span &span);

private:
  /// The line's text; nothing if it is not there.
  std::optional<std::string> getLine(int file, int line);

  const exec::ExecutableT &executable;
  const ReadSource &readSource;
  std::map<int, std::optional<std::string>> texts;
};

} // namespace meshc::plan

#endif

#ifndef MESHC_FRONTEND_DRIVER_TEXTOUTPUT_H
#define MESHC_FRONTEND_DRIVER_TEXTOUTPUT_H

#include <cstddef>
#include <string>

namespace meshc::driver {

/// Who reads a text, and how wide it may be.
struct TextOutput {
  /// Of what is written to a file, or to codegen::standardOutput.
  static TextOutput of(const std::string &path);

  /// Columns: as COLUMNS says, else those of the terminal, 60 at least; else as
  /// many as a page has.
  size_t width;
  /// Whether every line is to fit: on a terminal, whose reader cannot scroll to
  /// the ends of lines, and where COLUMNS says how wide lines are.
  bool wraps;
  /// On a terminal that has colours, unless NO_COLOR asks for none
  /// (https://no-color.org).
  bool hasColours;
};

} // namespace meshc::driver

#endif

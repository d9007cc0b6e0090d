#ifndef MESHC_RUNTIME_APP_EXPORT_H
#define MESHC_RUNTIME_APP_EXPORT_H

#include "runtime/exec/Executable.h"

#include <optional>
#include <string>
#include <vector>

namespace meshc::runtime {

struct ExportRequest {
  std::string from;  ///< as of openSource
  std::string to;    ///< a safetensors file
  std::string names; ///< the map of its names, and of those of `from` if that
                     ///< is such a file; empty: the spec's names
  /// Patterns of the parameters that are written (fitsPattern); none: all.
  std::vector<std::string> only;
  std::optional<exec::ElementType> floats; ///< that floats are rounded to
};

/// Writes parameters of a program, which are in one source, into a file for
/// other programs. No device computes anything.
/// Errors: those of openNames, openSource, compareParameters and exportWeights;
/// UnknownName where a pattern fits no parameter; RepeatedInput where the file
/// is one of those that are read.
Status exportParameters(const Executable &executable,
                        const ExportRequest &request);

} // namespace meshc::runtime

#endif

#ifndef MESHC_DIALECT_ERRORKIND_H
#define MESHC_DIALECT_ERRORKIND_H

#include "mlir/IR/Diagnostics.h"

#include <optional>

namespace meshc {

/// What is wrong with a program, where a user is told so under a name of its
/// own. It travels with the error of a pass, beside its text.
enum class ErrorKind : uint8_t {
  SharedAxis, ///< two dimensions of one tensor are split over one axis
};

inline void setKind(mlir::Diagnostic &error, ErrorKind kind) {
  error.getMetadata().push_back(mlir::DiagnosticArgument(int(kind)));
}

inline std::optional<ErrorKind> getKind(mlir::Diagnostic &error) {
  for (const mlir::DiagnosticArgument &argument : error.getMetadata())
    if (argument.getKind() ==
        mlir::DiagnosticArgument::DiagnosticArgumentKind::Integer)
      return ErrorKind(argument.getAsInteger());
  return std::nullopt;
}

} // namespace meshc

#endif

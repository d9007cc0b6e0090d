#ifndef MESHC_FRONTEND_SYNTAX_FOREIGNNAMES_H
#define MESHC_FRONTEND_SYNTAX_FOREIGNNAMES_H

#include "frontend/syntax/Diagnostics.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace meshc::frontend {

enum class ForeignKind : uint8_t {
  Function,
  ElementType,
  Initializer,
  Optimizer,
  Argument ///< of a function that takes dims as "over"
};

/// A name that people know from NumPy, PyTorch, JAX or TensorFlow, and what
/// stands for it in a spec.
struct ForeignName {
  ForeignKind kind;
  std::string_view name;
  /// A name of the same kind, or, with blanks or parentheses, what to write
  /// instead of a call; empty where nothing stands for it.
  std::string_view here;
  /// What else there is to say, a help of its own.
  std::string_view advice = {};

  bool isName() const;
};

/// The one table of such names.
std::span<const ForeignName> getForeignNames();

/// Null if the table has no such name.
const ForeignName *findForeignName(ForeignKind kind, std::string_view name);

/// Adds to an error at a name that does not exist what stands for it here.
/// False if the table has no such name.
bool adviseForeign(Diagnostic &error, ForeignKind kind, std::string_view name);

} // namespace meshc::frontend

#endif

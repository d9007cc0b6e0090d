#ifndef MESHC_FRONTEND_ELABORATE_BUILTINS_H
#define MESHC_FRONTEND_ELABORATE_BUILTINS_H

#include "frontend/elaborate/Elaborator.h"

namespace meshc::frontend {

/// A function that is not written in the language.
struct Elaborator::Builtin {
  std::string name;
  Value (Elaborator::*call)(const ast::CallExpr &, const Arguments &);
  /// False for functions whose arguments have a form of their own (einsum).
  bool hasParameters = true;
  std::vector<std::string> parameters = {};
  size_t numRequired = 0;
};

} // namespace meshc::frontend

#endif

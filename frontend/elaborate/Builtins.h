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
  /// Whether a function of the spec may have its name, as it may of the
  /// library's; what the library calls so is this one.
  bool canBeRedefined = false;
};

/// A function that draws random numbers, and what its two numbers are called.
struct RandomFunction {
  std::string_view name;
  Initializer::Kind kind;
  std::string_view first, second;
};

inline constexpr RandomFunction randomFunctions[] = {
    {"normal", Initializer::Kind::Normal, "mean", "stddev"},
    {"truncated_normal", Initializer::Kind::TruncatedNormal, "mean", "stddev"},
    {"uniform", Initializer::Kind::Uniform, "low", "high"},
};

} // namespace meshc::frontend

#endif

#ifndef MESHC_FRONTEND_ELABORATE_LIBRARY_H
#define MESHC_FRONTEND_ELABORATE_LIBRARY_H

/// The standard library, as embedded in the compiler: to be elaborated and to
/// be read.

#include "frontend/syntax/Ast.h"
#include "frontend/syntax/Diagnostics.h"

#include <optional>

namespace meshc::frontend {

/// Parses the embedded standard library.
std::vector<ast::File> parseLibrary(SourceSet &sources,
                                    Diagnostics &diagnostics);

/// A function as its file has it.
struct LibraryFunction {
  std::string name;
  std::string file;    ///< "dense.mesh"
  std::string comment; ///< the lines above it, without slashes
  std::string text;    ///< from "fn" to its closing brace

  /// The first sentence of its comment, on one line, without the period.
  std::string getSummary() const;
};

/// All of the library, by name.
std::vector<LibraryFunction> readLibrary();

/// What a function computes, of which dims, where it is from, and its text;
/// the list of all for "library". Nothing for other names.
std::optional<std::string> explainLibrary(std::string_view name);

} // namespace meshc::frontend

#endif

// The standard library, as embedded in the compiler.

#include "frontend/elaborate/Elaborator.h"
#include "frontend/syntax/Parser.h"

#include <fmt/format.h>

using namespace meshc::frontend;

namespace {

struct LibraryFile {
  std::string_view name;
  std::string_view text;
};

constexpr LibraryFile libraryFiles[] = {
#include "frontend/Library.inc"
};

} // namespace

std::vector<ast::File> meshc::frontend::parseLibrary(SourceSet &sources,
                                                     Diagnostics &diagnostics) {
  std::vector<ast::File> files;
  for (const LibraryFile &file : libraryFiles) {
    uint32_t source = sources.add(fmt::format("<library>/{}", file.name),
                                  std::string(file.text), /*isLibrary=*/true);
    files.push_back(Parser(sources, source, diagnostics).parseFile());
  }
  return files;
}

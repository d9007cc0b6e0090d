#include "frontend/elaborate/Library.h"

#include "frontend/syntax/Parser.h"

#include <algorithm>
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

//===-- To be read --------------------------------------------------------===//

/// The lines of comment that end above `line`, without slashes.
static std::string readComment(const Source &source, uint32_t line) {
  uint32_t first = line;
  while (first > 1 && source.getLine(first - 1).starts_with("//"))
    --first;
  std::string text;
  for (; first < line; ++first) {
    std::string_view words = source.getLine(first).substr(2);
    text +=
        fmt::format("{}\n", words.starts_with(' ') ? words.substr(1) : words);
  }
  return text;
}

/// With one space where there are spaces and ends of lines.
static std::string joinLines(std::string_view text) {
  std::string joined;
  for (char character : text) {
    const bool isSpace = character == ' ' || character == '\n';
    if (!isSpace)
      joined += character;
    else if (!joined.empty() && joined.back() != ' ')
      joined += ' ';
  }
  if (joined.ends_with(' '))
    joined.pop_back();
  return joined;
}

std::string LibraryFunction::getSummary() const {
  std::string all = joinLines(comment);
  size_t end = all.find(". ");
  if (end == std::string::npos)
    end = all.ends_with('.') ? all.size() - 1 : all.size();
  return all.substr(0, end);
}

std::vector<LibraryFunction> meshc::frontend::readLibrary() {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  std::vector<LibraryFunction> functions;
  for (const ast::File &file : parseLibrary(sources, diagnostics))
    for (const ast::Function &function : file.functions) {
      const Source &source = sources.get(function.name.span.source);
      const uint32_t line = source.getLineColumn(function.name.span.begin).line;
      const uint32_t begin = source.getLineStart(line);
      functions.push_back(
          {std::string(function.name.text),
           source.getName().substr(source.getName().find('/') + 1),
           readComment(source, line),
           std::string(
               source.getText().substr(begin, function.end.end - begin))});
    }
  std::sort(functions.begin(), functions.end(),
            [](auto &a, auto &b) { return a.name < b.name; });
  return functions;
}

static std::string
listFunctions(const std::vector<LibraryFunction> &functions) {
  size_t width = 0;
  for (const LibraryFunction &function : functions)
    width = std::max(width, function.name.size());
  std::string text;
  for (const LibraryFunction &function : functions)
    text +=
        fmt::format("{:{}}  {}\n", function.name, width, function.getSummary());
  return text;
}

std::optional<std::string>
meshc::frontend::explainLibrary(std::string_view name) {
  const std::vector<LibraryFunction> functions = readLibrary();
  if (name == "library")
    return listFunctions(functions);
  for (const LibraryFunction &function : functions)
    if (function.name == name)
      return fmt::format("{}: {} of the standard library\n\n{}\n{}\n", name,
                         function.file, function.comment, function.text);
  return std::nullopt;
}

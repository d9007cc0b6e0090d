#include "frontend/Spec.h"

#include "frontend/BuilderModule.h"
#include "frontend/Rates.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Library.h"
#include "frontend/syntax/Parser.h"

#include "mlir/IR/PatternMatch.h"

#include "dialect/ErrorKind.h"
#include "dialect/Locations.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

namespace {

constexpr size_t maxImportDepth = 64;
constexpr size_t maxFiles = 1000;

/// Parses a file and, before it, what it imports; each file once.
class Importer {
public:
  Importer(SourceSet &sources, Diagnostics &diagnostics,
           std::vector<ast::File> &files)
      : sources(sources), diagnostics(diagnostics), files(files) {}

  void load(const std::string &path, const std::optional<std::string> &text,
            Span importer);

private:
  static std::string getKey(const std::string &path) {
    std::error_code error;
    std::string key = std::filesystem::weakly_canonical(path, error).string();
    return error ? path : key;
  }
  std::optional<uint32_t> read(const std::string &path,
                               const std::optional<std::string> &text,
                               Span importer);
  void import(const std::string &importerPath, const ast::Import &import);

  SourceSet &sources;
  Diagnostics &diagnostics;
  std::vector<ast::File> &files;
  std::vector<std::string> open; ///< files whose imports are being read
  std::set<std::string> done;
};

} // namespace

std::optional<uint32_t> Importer::read(const std::string &path,
                                       const std::optional<std::string> &text,
                                       Span importer) {
  if (!text)
    return readSource(sources, path, importer, diagnostics);
  if (text->size() > Limits::fileBytes) {
    diagnostics.report(
        Code::FileTooLarge, importer,
        fmt::format("\"{}\" is larger than {} bytes", path, Limits::fileBytes));
    return std::nullopt;
  }
  uint32_t source = sources.add(path, *text);
  return checkText(sources, source, diagnostics) ? std::optional(source)
                                                 : std::nullopt;
}

void Importer::load(const std::string &path,
                    const std::optional<std::string> &text, Span importer) {
  std::optional<uint32_t> source = read(path, text, importer);
  if (!source)
    return;
  open.push_back(getKey(path));
  ast::File file = Parser(sources, *source, diagnostics).parseFile();
  for (const ast::Import &imported : file.imports)
    import(path, imported);
  done.insert(open.back());
  open.pop_back();
  files.push_back(std::move(file));
}

void Importer::import(const std::string &importerPath,
                      const ast::Import &import) {
  std::string path =
      (std::filesystem::path(importerPath).parent_path() / import.path)
          .string();
  std::string key = getKey(path);
  if (std::find(open.begin(), open.end(), key) != open.end()) {
    std::string chain;
    for (auto it = std::find(open.begin(), open.end(), key); it != open.end();
         ++it)
      chain += std::filesystem::path(*it).filename().string() + " -> ";
    diagnostics
        .report(Code::ImportCycle, import.span,
                fmt::format("\"{}\" imports itself", path))
        .note(fmt::format("{}{}", chain,
                          std::filesystem::path(key).filename().string()));
    return;
  }
  if (done.contains(key))
    return;
  if (open.size() >= maxImportDepth || done.size() >= maxFiles) {
    diagnostics.report(Code::TooManyImports, import.span,
                       fmt::format("imports are nested more than {} deep or "
                                   "name more than {} files",
                                   maxImportDepth, maxFiles));
    return;
  }
  load(path, std::nullopt, import.span);
}

/// The source that stands for one command-line option; none if its text is no
/// text.
static std::optional<uint32_t> addOption(const std::string &name,
                                         const std::string &text,
                                         SourceSet &sources,
                                         Diagnostics &diagnostics) {
  if (text.size() > Limits::fileBytes) {
    diagnostics.report(Code::InvalidOverride, {},
                       fmt::format("the value of {} is too long", name));
    return std::nullopt;
  }
  uint32_t source = sources.add(name, text);
  return checkText(sources, source, diagnostics) ? std::optional(source)
                                                 : std::nullopt;
}

static void parseOptions(const SpecOptions &options, SpecTrees &trees,
                         SourceSet &sources, Diagnostics &diagnostics) {
  for (const std::string &define : options.defines) {
    auto source = addOption("-D", define, sources, diagnostics);
    if (!source)
      continue;
    size_t before = diagnostics.getErrors().size();
    std::vector<ast::Definition> definitions =
        Parser(sources, *source, diagnostics)
            .parseDefinitions("a dimension or number");
    if (definitions.empty() && diagnostics.getErrors().size() == before)
      diagnostics.report(Code::InvalidOverride, {*source, 0, 0},
                         "-D needs name=value");
    for (ast::Definition &definition : definitions)
      trees.overrides.push_back(std::move(definition));
  }
  if (options.mesh)
    if (auto source = addOption("--mesh", *options.mesh, sources, diagnostics))
      trees.mesh =
          Parser(sources, *source, diagnostics).parseDefinitions("a mesh axis");
  if (options.layout)
    if (auto source =
            addOption("--layout", *options.layout, sources, diagnostics))
      trees.layout = Parser(sources, *source, diagnostics).parseLayoutOption();
  if (options.precision)
    if (auto source =
            addOption("--precision", *options.precision, sources, diagnostics))
      trees.precision =
          Parser(sources, *source, diagnostics).parseExpressionOption();
  for (const std::string &pattern : options.recompute)
    if (auto source = addOption("--recompute", pattern, sources, diagnostics))
      trees.recompute.emplace_back(Span{*source, 0, uint32_t(pattern.size())},
                                   sources.get(*source).getText());
}

mlir::OwningOpRef<mlir::ModuleOp>
meshc::frontend::compileSpec(const SpecOptions &options,
                             mlir::MLIRContext &context, SourceSet &sources,
                             Diagnostics &diagnostics) {
  SpecTrees trees;
  Importer(sources, diagnostics, trees.files)
      .load(options.path, options.text, Span());
  parseOptions(options, trees, sources, diagnostics);
  trees.library = parseLibrary(sources, diagnostics);
  // What was not read would only be missed again.
  if (diagnostics.hasErrors())
    return {};
  Builder builder(context);
  Elaborator(trees, builder, diagnostics).run();
  if (diagnostics.hasErrors())
    return {};
  mlir::OwningOpRef<mlir::ModuleOp> module = takeModule(builder);
  if (module)
    addRates(*module);
  return module;
}

//===----------------------------------------------------------------------===//
// Errors of later stages
//===----------------------------------------------------------------------===//

/// The span of a location in the sources, invalid if it has none.
static Span getSpan(mlir::Location location, const SourceSet &sources) {
  std::optional<SourceSpan> place = meshc::getSpan(location);
  if (!place)
    return {};
  for (uint32_t i = 0; i < sources.getNumSources(); ++i)
    if (sources.get(i).getName() == place->file) {
      const Source &source = sources.get(i);
      return {i, source.getOffset({place->line, place->column}),
              source.getOffset({place->endLine, place->endColumn})};
    }
  return {};
}

static void reportRefusal(mlir::Diagnostic &diagnostic,
                          Diagnostics &diagnostics) {
  const SourceSet &sources = diagnostics.getSources();
  Span primary = getSpan(diagnostic.getLocation(), sources);
  mlir::DiagnosticSeverity severity = diagnostic.getSeverity();
  const bool isSharedAxis = getKind(diagnostic) == ErrorKind::SharedAxis;
  Diagnostic &error =
      severity == mlir::DiagnosticSeverity::Error
          ? diagnostics.report(isSharedAxis ? Code::SharedAxis : Code::Refused,
                               primary, diagnostic.str())
          : diagnostics.notify(severity == mlir::DiagnosticSeverity::Warning
                                   ? Level::Warning
                                   : Level::Note,
                               Code::NoEffect, primary, diagnostic.str());
  for (mlir::Diagnostic &note : diagnostic.getNotes()) {
    Span span = getSpan(note.getLocation(), sources);
    if (span.isValid() && span != error.primary)
      error.alsoAt(span, note.str());
    else
      error.note(note.str());
  }
  // What the spec says itself was checked before: passes add a loop's dim.
  if (isSharedAxis)
    error
        .note("a loop that carries nothing is computed at all its positions at "
              "once: what differs between them has its dimension")
        .help("split one of the two over another axis or not at all");
}

PassErrors::PassErrors(mlir::MLIRContext &context, Diagnostics &diagnostics)
    : handler(&context, [&diagnostics](mlir::Diagnostic &diagnostic) {
        reportRefusal(diagnostic, diagnostics);
        return mlir::success();
      }) {}

#ifndef MESHC_FRONTEND_SYNTAX_DIAGNOSTICS_H
#define MESHC_FRONTEND_SYNTAX_DIAGNOSTICS_H

#include "frontend/syntax/Source.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace meshc::frontend {

/// Every kind of error the front end reports; stable numbers, listed with their
/// explanations in DiagnosticCodes.def.
enum class Code : uint16_t {
#define MESHC_DIAGNOSTIC(NAME, NUMBER, EXPLANATION) NAME = NUMBER,
#include "frontend/syntax/DiagnosticCodes.def"
};

struct CodeInfo {
  Code code;
  const char *id;          ///< "MC0101"
  const char *explanation; ///< one line
};

/// The whole table, by number.
std::span<const CodeInfo> getAllCodes();
const CodeInfo &getInfo(Code code);

/// A further place that has to do with an error, and what.
struct Label {
  Span span;
  std::string text;
};

/// A local edit that mends the error; an empty span is an insertion.
struct FixIt {
  Span span;
  std::string replacement;
  std::string message;
};

/// Whether a program can be compiled in spite of what is said.
enum class Level : uint8_t { Error, Warning, Note };

/// One error or notice: `message` states it, `primary` is where, `label` says
/// what is there; `labels` the other places; `notes` why; `helps` and `fixIts`
/// what to do.
struct Diagnostic {
  Code code;
  std::string message;
  Span primary;
  std::string label;
  std::vector<Label> labels;
  std::vector<std::string> notes;
  std::vector<std::string> helps;
  std::vector<FixIt> fixIts;
  Level level = Level::Error;

  Diagnostic &withLabel(std::string text);
  Diagnostic &alsoAt(Span span, std::string text);
  Diagnostic &note(std::string text);
  Diagnostic &help(std::string text);
  Diagnostic &fix(Span span, std::string replacement, std::string message);
  /// Help and fix-it "did you mean", unless `suggestion` is empty.
  Diagnostic &didYouMean(std::string_view suggestion);
};

/// The errors of one run, in the order in which they were found.
///
/// A second error of one code at one span is dropped: a function body that is
/// elaborated for each of its calls says a thing once. After `limit` errors the
/// rest is counted, not kept.
class Diagnostics {
public:
  explicit Diagnostics(const SourceSet &sources, size_t limit = 20)
      : sources(sources), limit(limit) {}

  /// Records an error; the result can be completed until the next report.
  Diagnostic &report(Code code, Span primary, std::string message);
  /// Records a warning or note, the same way. Dropped are those that say the
  /// same at one span, of which passes say several things, and those beyond as
  /// many as there may be errors.
  Diagnostic &notify(Level level, Code code, Span primary, std::string message);

  bool hasErrors() const { return !errors.empty(); }
  /// No further error will be kept: stop looking.
  bool isFull() const { return errors.size() >= limit; }
  const std::vector<Diagnostic> &getErrors() const { return errors; }
  const std::vector<Diagnostic> &getNotices() const { return notices; }
  size_t getNumSuppressed() const { return numSuppressed; }
  const SourceSet &getSources() const { return sources; }

private:
  const SourceSet &sources;
  size_t limit;
  size_t numSuppressed = 0;
  std::vector<Diagnostic> errors, notices;
  std::set<std::tuple<Code, uint32_t, uint32_t, uint32_t>> seen;
  Diagnostic discarded{};
};

enum class MessageFormat : uint8_t {
  Text,
  ColouredText, ///< for terminals
  Json,
};

/// What a piece of a message is; told apart by colour on terminals.
enum class MessagePart : uint8_t { Error, Warning, Advice, Place, Mark };

/// `text` with the colour of a part, by ECMA-48's SGR.
std::string paint(MessagePart part, std::string_view text);

/// One error as text: place, message and source lines with carets, then notes
/// and help; every line ends in a newline.
std::string renderText(const Diagnostic &diagnostic, const SourceSet &sources,
                       bool isColoured = false);

/// One error as a JSON object on one line, in the shape of rustc's
/// --error-format=json; the newline included.
std::string renderJson(const Diagnostic &diagnostic, const SourceSet &sources);

/// All errors in one format, and how many were left out.
std::string render(const Diagnostics &diagnostics, MessageFormat format);
/// All warnings and notes.
std::string renderNotices(const Diagnostics &diagnostics, MessageFormat format);

} // namespace meshc::frontend

#endif

#include "frontend/syntax/Diagnostics.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

using namespace meshc::frontend;

static constexpr CodeInfo codes[] = {
#define MESHC_DIAGNOSTIC(NAME, NUMBER, EXPLANATION)                            \
  {Code::NAME, "MC0" #NUMBER, EXPLANATION},
#include "frontend/syntax/DiagnosticCodes.def"
};

std::span<const CodeInfo> meshc::frontend::getAllCodes() { return codes; }

const CodeInfo &meshc::frontend::getInfo(Code code) {
  return *std::find_if(std::begin(codes), std::end(codes),
                       [&](const CodeInfo &info) { return info.code == code; });
}

Diagnostic &Diagnostic::withLabel(std::string text) {
  label = std::move(text);
  return *this;
}

Diagnostic &Diagnostic::alsoAt(Span span, std::string text) {
  if (span.isValid() && span != primary)
    labels.push_back({span, std::move(text)});
  return *this;
}

Diagnostic &Diagnostic::note(std::string text) {
  notes.push_back(std::move(text));
  return *this;
}

Diagnostic &Diagnostic::help(std::string text) {
  helps.push_back(std::move(text));
  return *this;
}

Diagnostic &Diagnostic::fix(Span span, std::string replacement,
                            std::string message) {
  fixIts.push_back({span, std::move(replacement), std::move(message)});
  return *this;
}

Diagnostic &Diagnostic::didYouMean(std::string_view suggestion) {
  // Any one-letter name is one edit away from any other.
  if (suggestion.size() < 2)
    return *this;
  return fix(primary, std::string(suggestion),
             fmt::format("did you mean \"{}\"?", suggestion));
}

Diagnostic &Diagnostics::report(Code code, Span primary, std::string message) {
  discarded = Diagnostic();
  discarded.code = code;
  discarded.message = std::move(message);
  discarded.primary = primary;
  bool isFirst =
      seen.insert({code, primary.source, primary.begin, primary.end}).second;
  if (!isFirst && primary.isValid())
    return discarded;
  if (isFull()) {
    ++numSuppressed;
    return discarded;
  }
  errors.push_back(std::move(discarded));
  return errors.back();
}

Diagnostic &Diagnostics::notify(Level level, Code code, Span primary,
                                std::string message) {
  bool isKnown = std::ranges::any_of(notices, [&](const Diagnostic &other) {
    return other.code == code && other.message == message &&
           other.primary.isValid() && other.primary == primary;
  });
  if (isKnown || notices.size() >= limit)
    return discarded = Diagnostic{};
  notices.emplace_back();
  notices.back().code = code;
  notices.back().message = std::move(message);
  notices.back().primary = primary;
  notices.back().level = level;
  return notices.back();
}

static std::string render(const std::vector<Diagnostic> &list,
                          const SourceSet &sources, MessageFormat format) {
  std::string text;
  for (const Diagnostic &diagnostic : list)
    text += format == MessageFormat::Json
                ? renderJson(diagnostic, sources)
                : renderText(diagnostic, sources,
                             format == MessageFormat::ColouredText);
  return text;
}

std::string meshc::frontend::renderNotices(const Diagnostics &diagnostics,
                                           MessageFormat format) {
  return ::render(diagnostics.getNotices(), diagnostics.getSources(), format);
}

std::string meshc::frontend::render(const Diagnostics &diagnostics,
                                    MessageFormat format) {
  std::string text =
      ::render(diagnostics.getErrors(), diagnostics.getSources(), format);
  size_t left = diagnostics.getNumSuppressed();
  if (left && format != MessageFormat::Json)
    text += fmt::format("note: {} more error{} not shown\n", left,
                        left == 1 ? "" : "s");
  return text;
}

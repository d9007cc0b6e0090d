#include "layout/LayoutRule.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::layout;

std::string_view layout::toString(Role role) {
  switch (role) {
  case Role::Value:
    return "values";
  case Role::Parameter:
    return "params";
  case Role::Gradient:
    return "gradients";
  case Role::State:
    return "state";
  }
  __builtin_unreachable();
}

//===----------------------------------------------------------------------===//
// To text
//===----------------------------------------------------------------------===//

static constexpr std::string_view arrow = "->";
static constexpr std::string_view blanks = " \t\r\n";
static constexpr std::string_view marks = ":*,()";

/// Where the name ends with which a text begins.
static size_t findEndOfName(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && text[end] != '"' &&
         blanks.find(text[end]) == std::string_view::npos &&
         marks.find(text[end]) == std::string_view::npos &&
         !text.substr(end).starts_with(arrow))
    ++end;
  return end;
}

static std::string inQuotes(std::string_view text) {
  return '"' + std::string(text) + '"';
}

/// name, or (name, name). No spec has names in quotes, but C++ may.
static std::string list(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) {
    const bool isPlain = !name.empty() && findEndOfName(name) == name.size();
    text += (text.empty() ? "" : ", ") + (isPlain ? name : inQuotes(name));
  }
  return names.size() == 1 ? text : "(" + text + ")";
}

std::string layout::toString(const LayoutRule &rule) {
  std::string text;
  if (rule.role != Role::Value)
    text = std::string(toString(rule.role)) + ": ";
  if (!rule.values.empty())
    text = inQuotes(rule.values) + ": ";
  text += (rule.isEvery() ? "*" : list(rule.dims)) + " -> " + list(rule.axes);
  return rule.unless.empty() ? text : text + " unless " + list(rule.unless);
}

std::string layout::quote(const LayoutRule &rule) {
  return rule.values.empty() ? inQuotes(toString(rule)) : toString(rule);
}

//===----------------------------------------------------------------------===//
// From text
//===----------------------------------------------------------------------===//

std::string layout::toString(const RuleSyntaxError &error) {
  switch (error.kind) {
  case RuleSyntaxError::Kind::NoName:
    return "expected " + std::string(error.expected);
  case RuleSyntaxError::Kind::NoMark:
    return "expected " + inQuotes(error.expected) + " after " +
           std::string(error.after);
  case RuleSyntaxError::Kind::UnknownRole:
    return "a layout has no rules for " + inQuotes(error.name);
  case RuleSyntaxError::Kind::EmptyPattern:
    return "expected the name of values, found an empty one";
  case RuleSyntaxError::Kind::EveryOfNothing:
    return "\"*\" stands behind a role";
  case RuleSyntaxError::Kind::EveryOverNothing:
    return "\"*\" is split over an axis";
  }
  __builtin_unreachable();
}

namespace {

class RuleParser {
public:
  explicit RuleParser(const std::function<RuleWord(size_t)> &getWord)
      : getWord(getWord) {}

  /// [role:] dims -> axes [unless dims]; dim -> () for one that stays whole,
  /// but not for "*", of which the rules for dims say that.
  std::variant<ParsedRule, RuleSyntaxError> parse() {
    LayoutRule &rule = result.rule;
    if ((isMark(":", 1) && !parseWhose()) || !parseDims())
      return std::move(error);
    if (!expect(arrow, "the dimension") ||
        !parseNames(rule.axes, RulePart::Axes, "a mesh axis",
                    /*mayBeNone=*/true))
      return std::move(error);
    if (rule.isEvery() && rule.axes.empty()) {
      fail(Kind::EveryOverNothing, position - 2);
      return std::move(error);
    }
    // A dim may be called so.
    if (isName() && getWord(position).text == "unless" && !isMark(arrow, 1)) {
      ++position;
      if (!parseNames(rule.unless, RulePart::Unless, "a dimension"))
        return std::move(error);
    }
    result.numWords = position;
    return std::move(result);
  }

private:
  using Kind = RuleSyntaxError::Kind;

  bool isName() const { return getWord(position).kind == RuleWord::Kind::Name; }
  bool isMark(std::string_view mark, size_t distance = 0) const {
    const RuleWord word = getWord(position + distance);
    return word.kind == RuleWord::Kind::Mark && word.text == mark;
  }

  bool fail(Kind kind, size_t word, std::string_view expected = {},
            std::string_view after = {}) {
    error = {kind, word, position, expected, after, {}};
    return false;
  }

  bool expect(std::string_view mark, std::string_view after) {
    if (!isMark(mark))
      return fail(Kind::NoMark, position, mark, after);
    ++position;
    return true;
  }

  /// The word in front of ":".
  bool parseWhose() {
    const RuleWord word = getWord(position);
    const size_t place = position;
    position += 2;
    if (word.kind == RuleWord::Kind::String) {
      result.rule.values = word.text.substr(1, word.text.size() - 2);
      result.words[{RulePart::Values, 0}] = place;
      return !result.rule.values.empty() || fail(Kind::EmptyPattern, place);
    }
    for (Role role : namedRoles)
      if (word.text == toString(role)) {
        result.rule.role = role;
        return true;
      }
    fail(Kind::UnknownRole, place);
    error.name = word.text;
    return false;
  }

  bool parseDims() {
    if (!isMark("*"))
      return parseNames(result.rule.dims, RulePart::Dims, "a dimension");
    if (result.rule.role == Role::Value)
      return fail(Kind::EveryOfNothing, position);
    result.words[{RulePart::Dims, 0}] = position++;
    return true;
  }

  /// name, or (name, name).
  bool parseNames(std::vector<std::string> &names, RulePart part,
                  std::string_view what, bool mayBeNone = false) {
    const bool isList = isMark("(");
    position += isList ? 1 : 0;
    if (!isList || !mayBeNone || !isMark(")"))
      while (true) {
        if (!isName())
          return fail(Kind::NoName, position, what);
        result.words[{part, names.size()}] = position;
        names.emplace_back(getWord(position++).text);
        if (!isList || !isMark(","))
          break;
        ++position;
      }
    return !isList || expect(")", "the names");
  }

  const std::function<RuleWord(size_t)> &getWord;
  size_t position = 0;
  ParsedRule result;
  RuleSyntaxError error{};
};

} // namespace

std::variant<ParsedRule, RuleSyntaxError>
layout::parseRule(const std::function<RuleWord(size_t)> &getWord) {
  return RuleParser(getWord).parse();
}

/// Names in quotes are names, but for a pattern, in front of ":".
static std::vector<RuleWord> split(std::string_view text) {
  using Kind = RuleWord::Kind;
  std::vector<RuleWord> words;
  const auto skipBlanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  };
  for (skipBlanks(); !text.empty();) {
    RuleWord word{Kind::Mark, text.substr(0, 1)};
    if (text.starts_with(arrow)) {
      word.text = text.substr(0, arrow.size());
    } else if (text.front() == '"') {
      const size_t end = text.find('"', 1);
      if (end == std::string_view::npos)
        word = {Kind::Other, text};
      else
        word = {Kind::String, text.substr(0, end + 1)};
    } else if (marks.find(text.front()) == std::string_view::npos) {
      word = {Kind::Name, text.substr(0, findEndOfName(text))};
    }
    text.remove_prefix(word.text.size());
    skipBlanks();
    if (word.kind == Kind::String && !text.starts_with(':'))
      word = {Kind::Name, word.text.substr(1, word.text.size() - 2)};
    words.push_back(word);
  }
  return words;
}

std::variant<LayoutRule, RuleSyntaxError>
layout::parseRule(std::string_view text) {
  const std::vector<RuleWord> words = split(text);
  auto parsed = parseRule([&](size_t index) {
    return index < words.size() ? words[index] : RuleWord();
  });
  if (auto *error = std::get_if<RuleSyntaxError>(&parsed))
    return std::move(*error);
  auto &found = std::get<ParsedRule>(parsed);
  if (found.numWords < words.size())
    return RuleSyntaxError{RuleSyntaxError::Kind::NoName, found.numWords,
                           found.numWords, "the end"};
  return std::move(found.rule);
}

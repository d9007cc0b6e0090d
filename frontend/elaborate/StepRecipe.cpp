// How a step is computed: what it is made of and what it computes again.
//
// Steps of parts: `microbatches m` of a train block. A part has the m-th part
// of the samples, so that the model is elaborated with the dim that counts
// them, and what is made of its size, as they are for a part.

#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

/// What of `batch` positions devices have, each alike, as a common divisor of
/// the sizes of their blocks.
static int64_t getCommonDivisor(int64_t batch, int64_t numBlocks) {
  const int64_t block = (batch + numBlocks - 1) / numBlocks;
  return std::gcd(block, batch % block);
}

static std::vector<int64_t> getDivisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= number / i; ++i)
    if (number % i == 0) {
      divisors.push_back(i);
      if (i != number / i)
        divisors.push_back(number / i);
    }
  std::ranges::sort(divisors);
  return divisors;
}

std::optional<int64_t> Elaborator::getNumParts(const ast::Setting &setting,
                                               const ast::Data *data) {
  std::optional<Number> number =
      evaluateNumber(*setting.value, "\"microbatches\"");
  if (!number)
    return std::nullopt;
  const std::optional<int64_t> count = toInteger(*number);
  if (!count || *count < 1) {
    error(Code::InvalidSetting, setting.value->span,
          fmt::format("\"microbatches\" is a positive integer, found {}",
                      toString(*number)));
    return std::nullopt;
  }
  if (*count > 1 && !data) {
    error(Code::InvalidSetting, setting.name.span,
          "without a data block nothing says which dimension counts the "
          "samples, of which each part has its own")
        .help("write data over batch { ... }");
    return std::nullopt;
  }
  return count;
}

void Elaborator::findParts(const ast::Train *train, const ast::Data *data) {
  if (!train || diagnostics.hasErrors())
    return;
  const auto setting =
      std::ranges::find_if(train->settings, [](const ast::Setting &each) {
        return each.name.text == "microbatches";
      });
  if (setting == train->settings.end())
    return;
  const std::optional<int64_t> count = getNumParts(*setting, data);
  if (!count || *count == 1)
    return;
  // That it is no dim is told of the data block.
  auto over = globals.find(data->over.text);
  if (over == globals.end() || !over->second.isDim)
    return;
  parts.setting = &*setting;
  parts.batch = std::get<Dims>(over->second.value).front();
  parts.wanted = *count;
  if (parts.batch.size % *count != 0)
    return; // see checkParts
  parts.number = *count;
  std::map<std::string_view, Value> whole;
  for (auto &[name, global] : globals) {
    whole[name] = global.value;
    global.state = Global::State::Unresolved;
  }
  over->second.state = Global::State::Resolved;
  over->second.value = Dims{{parts.batch.name, parts.batch.size / *count}};
  resolvedDims.assign(1, over->first);
  resolveDefinitions();
  std::set<std::string, std::less<>> parted;
  for (auto &[name, global] : globals) {
    const auto *dims = std::get_if<Dims>(&global.value);
    if (global.isDim && dims && *dims != std::get<Dims>(whole[name]))
      parted.emplace(name);
  }
  parts.whole = std::move(whole);
  builder.setParts(parts.number, std::move(parted));
}

void Elaborator::checkParts() {
  if (!parts.setting || !hasMesh || !lacking.empty())
    return;
  const int64_t batch = parts.batch.size;
  const int64_t numBlocks = builder.getNumBlocks(parts.batch.name);
  const int64_t common = getCommonDivisor(batch, numBlocks);
  if (common % parts.wanted == 0)
    return;
  const std::string ofDevices =
      numBlocks == 1
          ? ""
          : fmt::format(", {} of them on each device{}",
                        (batch + numBlocks - 1) / numBlocks,
                        batch % numBlocks == 0 ? "" : " but the last");
  const std::vector<int64_t> divisors = getDivisors(common);
  error(Code::WrongParts, parts.setting->value->span,
        fmt::format("\"{}\" has {} positions{}, which {} parts do not divide",
                    parts.batch.name, batch, ofDevices, parts.wanted))
      .help(fmt::format("{} {}",
                        divisors.size() == 1 ? "what does is" : "these do:",
                        fmt::join(divisors, ", ")));
}

void Elaborator::useWholeBatch() {
  for (auto &[name, value] : parts.whole)
    globals.at(name).value = value;
}

//===-- What is computed again --------------------------------------------===//

std::optional<std::vector<std::string>>
Elaborator::getRecomputed(const std::vector<const ast::Setting *> &lines) {
  std::vector<const ast::StringExpr *> patterns;
  for (const ast::StringExpr &option : trees.recompute)
    patterns.push_back(&option);
  if (patterns.empty())
    for (const ast::Setting *line : lines) {
      if (line->value->kind != ExprKind::String) {
        error(Code::WrongKind, line->value->span,
              "expected the names of calls or loops")
            .help("write recompute \"layer/*\"");
        return std::nullopt;
      }
      for (const ast::StringExpr *pattern : getNames(*line))
        patterns.push_back(pattern);
    }
  std::vector<std::string> found;
  for (const ast::StringExpr *pattern : patterns) {
    // One iteration of a loop is the unit either way.
    std::string_view scope = pattern->value;
    if (scope.ends_with("/*"))
      scope.remove_suffix(2);
    const auto &scopes = builder.getScopes();
    if (std::ranges::none_of(scopes, [&](const std::string &known) {
          return layout::fitsPattern(scope, known);
        })) {
      error(Code::UnknownScope, pattern->span,
            fmt::format("the model has no call or loop \"{}\"", scope))
          .didYouMean(layout::findNearest(
              std::string(scope), std::vector(scopes.begin(), scopes.end())));
      return std::nullopt;
    }
    found.emplace_back(scope);
  }
  return found;
}

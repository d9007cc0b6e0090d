#include "frontend/plan/ScopeModels.h"

#include "frontend/plan/ScopeDifference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

using namespace meshc::plan;

using Patterns = std::vector<std::string>;

/// What comparing with every model gives, for scopes of few and of many
/// patterns, some of them several times, that differ a little from others.
TEST(ScopeModels, FindsWhatComparingWithAllFinds) {
  std::mt19937 generator(7);
  const auto draw = [&](size_t bound) { return generator() % bound; };
  size_t numAlike = 0;
  for (int round = 0; round < 50; ++round) {
    ScopeModels found;
    std::vector<Patterns> models, scopes;
    const size_t numPatterns = 2 + draw(30);
    for (int number = 0; number < 60; ++number) {
      Patterns patterns;
      if (!scopes.empty() && draw(3) != 0)
        patterns = scopes[draw(scopes.size())];
      const size_t numOwn = draw(4) + (patterns.empty() ? 1 + draw(12) : 0);
      for (size_t i = 0; i < numOwn; ++i)
        patterns.push_back(std::to_string(draw(numPatterns)));
      for (size_t i = draw(3); i > 0 && patterns.size() > 1; --i)
        patterns.erase(patterns.begin() + ptrdiff_t(draw(patterns.size())));
      scopes.push_back(patterns);

      const auto isAlike = [&](const Patterns &model) {
        return compareScopes(patterns, model).has_value();
      };
      const auto expected = size_t(
          std::find_if(models.begin(), models.end(), isAlike) - models.begin());
      numAlike += expected < models.size();
      if (expected == models.size())
        models.push_back(patterns);
      EXPECT_EQ(found.findOrAdd(patterns), expected);
    }
  }
  EXPECT_GT(numAlike, 500u);
}

/// Comparing all with all would take half a minute and more.
TEST(ScopeModels, ThousandsThatAreAlikeNothingTakeLittleTime) {
  const auto begin = std::chrono::steady_clock::now();
  ScopeModels found;
  for (size_t scope = 0; scope < 20'000; ++scope)
    EXPECT_EQ(found.findOrAdd({"h", "x|" + std::to_string(scope),
                               "y|" + std::to_string(scope)}),
              scope);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

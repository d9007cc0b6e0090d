#include "layout/Spelling.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace meshc;
using namespace meshc::layout;

/// Edit distance in which swapping two neighbours is one edit ("bacth").
static size_t getEditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string layout::findNearest(std::string_view name,
                                std::span<const std::string> candidates) {
  constexpr size_t maxLength = 256;
  if (name.empty() || name.size() > maxLength)
    return {};
  size_t limit = std::max<size_t>(1, name.size() / 3);
  std::string nearest;
  for (const std::string &candidate : candidates) {
    if (candidate.size() > name.size() + limit)
      continue;
    size_t distance = getEditDistance(name, candidate);
    if (distance > limit || candidate.empty())
      continue;
    nearest = candidate;
    if (distance == 0)
      return nearest;
    limit = distance - 1; // only a nearer one may replace it
  }
  return nearest;
}

bool meshc::layout::fitsPattern(std::string_view pattern,
                                std::string_view name) {
  size_t i = 0, j = 0;
  size_t star = std::string_view::npos, retry = 0;
  while (j < name.size()) {
    if (i < pattern.size() && pattern[i] == '*') {
      star = i++;
      retry = j;
    } else if (i < pattern.size() && pattern[i] == name[j]) {
      ++i;
      ++j;
    } else if (star != std::string_view::npos) {
      i = star + 1;
      j = ++retry;
    } else {
      return false;
    }
  }
  while (i < pattern.size() && pattern[i] == '*')
    ++i;
  return i == pattern.size();
}

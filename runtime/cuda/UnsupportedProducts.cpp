#include "runtime/cuda/UnsupportedProducts.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

void UnsupportedProducts::add(const std::string &reason, Error error) {
  auto found =
      std::find_if(products.begin(), products.end(), [&](const Product &other) {
        return other.reason == reason;
      });
  if (found == products.end())
    found = products.insert(found, {reason, std::move(error), 0});
  ++found->commands;
}

Status UnsupportedProducts::check() const {
  // An error is one line.
  constexpr size_t maxNamed = 8;
  if (products.empty())
    return Status::success();
  Error all = {ErrorCode::UnsupportedOnGpu, "", ""};
  std::vector<std::string> notes;
  for (size_t i = 0; i < std::min(products.size(), maxNamed); ++i) {
    const Product &product = products[i];
    all.message += (i > 0 ? "; " : "") + product.error.message;
    if (product.commands > 1)
      all.message +=
          fmt::format(" and {} other command{}", product.commands - 1,
                      product.commands == 2 ? "" : "s");
    const std::string &note = product.error.note;
    if (!note.empty() &&
        std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(note);
  }
  if (products.size() > maxNamed)
    all.message +=
        fmt::format("; and {} more products", products.size() - maxNamed);
  all.note = fmt::format("{}", fmt::join(notes, "; "));
  return all;
}

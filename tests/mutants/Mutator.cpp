#include "tests/mutants/Mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace meshc::mutants;

void Mutator::edit(std::string &bytes) {
  const size_t at = pick(bytes.size() + 1);
  const size_t left = bytes.size() - at;
  switch (pick(isText ? 8 : 7)) {
  case 0: // a bit
    if (left)
      bytes[at] = char(bytes[at] ^ (1 << pick(8)));
    return;
  case 1: // a byte
    if (left)
      bytes[at] = char(random());
    return;
  case 2: { // a number that means something somewhere
    static const int64_t numbers[] = {
        0,   1,       -1,      2,         63,        64,       127,
        128, 1 << 20, 1 << 30, INT32_MAX, INT64_MAX, INT64_MIN};
    const int64_t number = numbers[pick(std::size(numbers))];
    if (isText)
      bytes.insert(at, std::to_string(number));
    else
      std::memcpy(bytes.data() + at, &number,
                  std::min(left, size_t(1) << pick(4)));
    return;
  }
  case 3: // a part less
    bytes.erase(at, pick(32));
    return;
  case 4: // the end less
    if (pick(4) == 0)
      bytes.resize(at);
    return;
  case 5: { // a part of it, or of another one, once more
    const std::string &other = files[pick(files.size())];
    const size_t from = pick(other.size());
    const std::string part = other.substr(from, pick(64));
    if (pick(2))
      bytes.insert(at, part);
    else
      bytes.replace(at, std::min(left, part.size()), part);
    return;
  }
  case 6: // two places exchanged
    if (left)
      std::swap(bytes[at], bytes[pick(bytes.size())]);
    return;
  default: { // a token
    static const char *const tokens[] = {"(",       ")",
                                         "{",       "}",
                                         "[",       "]",
                                         "->",      "=",
                                         ",",       "-",
                                         "^",       "@",
                                         "1e308",   "let",
                                         "fn",      "for",
                                         "as",      "//",
                                         "\"",      "over",
                                         "dim",     "mesh",
                                         "inf",     "where",
                                         "\n",      "0",
                                         "mean",    "einsum",
                                         "sum",     "rename",
                                         "import",  "gather",
                                         "softmax", "precision fp16",
                                         "layout {"};
    bytes.insert(at, std::string(" ") + tokens[pick(std::size(tokens))] + " ");
  }
  }
}

Mutator::Mutant Mutator::make(uint64_t number) {
  random.seed(seed * 1000003 + number);
  Mutant mutant;
  mutant.file = pick(files.size());
  mutant.bytes = files[mutant.file];
  for (size_t edits = 1 + (pick(2) ? 0 : pick(4)); edits > 0; --edits)
    edit(mutant.bytes);
  return mutant;
}

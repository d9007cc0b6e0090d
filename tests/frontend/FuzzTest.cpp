// Deterministic mutations of the samples: whatever the text, compilation ends
// without a crash, and with either a module or an error.

#include "SpecTesting.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

using namespace meshc::frontend;

namespace {

std::string readSample(const std::string &name) {
  std::ifstream file(std::string(SAMPLES_DIRECTORY "/") + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Mutator {
public:
  explicit Mutator(unsigned seed) : generator(seed) {}

  std::string mutate(std::string text) {
    for (size_t edits = 1 + pick(4); edits > 0; --edits)
      edit(text);
    return text;
  }

private:
  size_t pick(size_t count) { return generator() % count; }

  void edit(std::string &text) {
    static const char *const pieces[] = {"(",
                                         ")",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "->",
                                         "=",
                                         ",",
                                         "-",
                                         "^",
                                         "@",
                                         "0",
                                         "1e308",
                                         "let",
                                         "fn",
                                         "for",
                                         "as",
                                         "else",
                                         "[y = 2 * row + dy' - 1 else 0]",
                                         "floor(",
                                         "%",
                                         "'",
                                         "//",
                                         "\"",
                                         "over",
                                         "dim",
                                         "return",
                                         "\xFF",
                                         "inf",
                                         "where",
                                         " ",
                                         "\n",
                                         "mesh a = 2\n",
                                         "9223372036854775807",
                                         "x",
                                         "batch"};
    size_t at = pick(text.size() + 1);
    switch (pick(5)) {
    case 0: // a byte
      if (at < text.size())
        text[at] = char(pick(256));
      return;
    case 1: // a piece more
      text.insert(at, pieces[pick(std::size(pieces))]);
      return;
    case 2: // a range less
      text.erase(at, pick(30));
      return;
    case 3: // a range twice
      text.insert(at, text.substr(pick(text.size() + 1), pick(60)));
      return;
    case 4: { // a word for another
      size_t from = text.find(' ', at),
             to = text.find(' ', pick(text.size() + 1));
      if (from == std::string::npos || to == std::string::npos)
        return;
      size_t end = text.find(' ', to + 1);
      std::string word = text.substr(to + 1, end - to - 1).substr(0, 40);
      text.replace(from + 1, std::min<size_t>(pick(10), text.size() - from - 1),
                   word);
      return;
    }
    }
  }

  std::mt19937 generator;
};

} // namespace

TEST(Fuzz, MutatedSamplesNeverCrash) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  size_t numCompiled = 0, numRefused = 0;
  for (const char *name :
       {"mlp.mesh", "transformer_block.mesh", "convnet.mesh"}) {
    std::string sample = readSample(name);
    ASSERT_FALSE(sample.empty());
    for (unsigned seed = 0; seed < 2000; ++seed) {
      SpecOptions options{"fuzz.mesh"};
      options.text = Mutator(seed).mutate(sample);
      SourceSet sources;
      Diagnostics diagnostics(sources);
      auto module = compileSpec(options, context, sources, diagnostics);
      EXPECT_NE(bool(module), diagnostics.hasErrors()) << *options.text;
      (module ? numCompiled : numRefused) += 1;
      for (MessageFormat format : {MessageFormat::Text, MessageFormat::Json})
        EXPECT_EQ(render(diagnostics, format).empty(), bool(module));
    }
  }
  // Both outcomes occur often, or the mutations test one path only.
  EXPECT_GT(numCompiled, 100u);
  EXPECT_GT(numRefused, 1000u);
}

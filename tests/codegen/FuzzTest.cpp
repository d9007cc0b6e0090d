#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

#include <random>

using namespace meshc::test;

namespace {

/// Writes programs of random operations over a few dimensions: broadcasts,
/// transposes, reductions of every subset of dimensions, contractions, random
/// outputs. Values stay of the order of 1, so that an error of rounding is told
/// from one of meaning.
class RandomProgram {
public:
  struct Sizes {
    std::vector<int64_t> all, last; ///< of all dimensions but the last, and it
    std::string lastFactor;         ///< of what is summed over the last
    /// Start with matrices whose memory others may take, not with inputs.
    bool startsWithProducts = false;
  };

  RandomProgram(unsigned seed, const Sizes &sizes)
      : sizes(sizes), random(seed) {
    for (const char *name : {"i", "j", "k", "l"}) {
      const std::vector<int64_t> &choices =
          *name == 'l' ? sizes.last : sizes.all;
      dims.push_back(name);
      text.dim(name, choices[pick(choices.size())]);
    }
    for (int input = 0; input < 3; ++input) {
      const std::string number = std::to_string(input);
      const std::string name = "in" + number;
      if (sizes.startsWithProducts) {
        add(name, {"k", "l"});
        text.input("left" + number, "k j");
        text.input("right" + number, "j l");
        text.contraction(name, "k l", "left" + number, "right" + number);
        continue;
      }
      add(name, subset(dims, 0.7));
      text.input(name, join(tensors.back().dims));
    }
    size_t steps = 4 + pick(14);
    for (size_t step = 0; step < steps; ++step)
      addOperation("t" + std::to_string(step));
    for (size_t index = 3; index < tensors.size(); ++index)
      if (!tensors[index].isRead || pick(4) == 0)
        text.output(tensors[index].name);
  }

  const ProgramText &getText() const { return text; }

private:
  using Dims = std::vector<std::string>;
  struct Tensor {
    std::string name;
    Dims dims;
    bool isRead = false;
  };

  size_t pick(size_t count) { return random() % count; }
  static std::string join(const Dims &dims) {
    std::string words;
    for (const std::string &dim : dims)
      words += dim + " ";
    return words;
  }
  Dims subset(Dims from, double keep) {
    Dims kept;
    for (const std::string &dim : from)
      if (double(random() % 1000) < keep * 1000)
        kept.push_back(dim);
    if (pick(3) == 0)
      std::shuffle(kept.begin(), kept.end(), random);
    return kept;
  }
  void add(const std::string &name, const Dims &tensorDims) {
    tensors.push_back({name, tensorDims});
  }
  /// A tensor, later ones more often than earlier ones.
  Tensor &pickTensor() {
    size_t back = std::min(pick(tensors.size()), pick(tensors.size()));
    Tensor &tensor = tensors[tensors.size() - 1 - back];
    tensor.isRead = true;
    return tensor;
  }

  Dims unionOf(const std::vector<std::string> &names) {
    Dims all;
    for (const std::string &name : names)
      for (const Tensor &tensor : tensors)
        if (tensor.name == name)
          for (const std::string &dim : tensor.dims)
            if (std::find(all.begin(), all.end(), dim) == all.end())
              all.push_back(dim);
    return all;
  }

  bool sumsOverLast(const Dims &all, const Dims &result) const {
    auto hasLast = [&](const Dims &some) {
      return std::find(some.begin(), some.end(), dims.back()) != some.end();
    };
    return hasLast(all) && !hasLast(result);
  }

  /// A sum of a product that is an output too, and whether its extreme is found
  /// where it is computed again: 1 everywhere, whatever is rounded how.
  void addExtreme(const std::string &name) {
    const std::vector<std::string> inputs = {pickTensor().name,
                                             pickTensor().name};
    const Dims all = unionOf(inputs);
    const Dims result = subset(all, 0.5);
    if (inputs[0] == inputs[1] || result.size() == all.size())
      return addPointwise(name, {inputs[0]});
    auto multiply = "%r = arith.mulf %a0, %a1 : f32";
    text.pointwise(name + "p", join(all), inputs, multiply);
    text.output(name + "p");
    text.pointwise(name + "s", join(all), {name + "p", inputs[pick(2)]},
                   pick(2) == 0 ? "%r = arith.addf %a0, %a1 : f32"
                                : "%r = arith.subf %a1, %a0 : f32");
    text.reduce(name + "m", join(result), {name + "s"}, "arith.maximumf",
                "0xFF800000");
    text.pointwise(name + "e", join(all), {name + "s", name + "m"},
                   R"(%one = arith.constant 1.0 : f32
                      %zero = arith.constant 0.0 : f32
                      %e = arith.cmpf oeq, %a0, %a1 : f32
                      %r = arith.select %e, %one, %zero : f32)");
    text.reduce(name, join(result), {name + "e"}, "arith.maximumf", "0.0");
    add(name, result);
  }

  void addOperation(const std::string &name) {
    if (pick(6) == 0)
      return addExtreme(name);
    std::vector<std::string> inputs = {pickTensor().name};
    size_t kind = pick(10);
    if (kind < 5) {
      if (pick(2) == 0)
        inputs.push_back(pickTensor().name);
      addPointwise(name, inputs);
    } else if (kind < 9) {
      addReduction(name, inputs[0]);
    } else {
      inputs.push_back(pickTensor().name);
      Dims all = unionOf(inputs);
      Dims result = subset(all, 0.6);
      // A product has no factor that keeps long sums small.
      if (result.size() == all.size() || inputs[0] == inputs[1] ||
          (sizes.startsWithProducts && sumsOverLast(all, result)))
        return addPointwise(name, {inputs[0]});
      text.contraction(name, join(result), inputs[0], inputs[1]);
      add(name, result);
    }
  }

  void addPointwise(const std::string &name,
                    const std::vector<std::string> &inputs) {
    static const char *const unary[] = {
        "%r = math.tanh %a0 : f32",
        R"(%n = arith.mulf %a0, %a0 : f32
           %m = arith.negf %n : f32
           %r = math.exp %m : f32)",
        "%r = arith.negf %a0 : f32",
        R"(%i = arith.index_cast $0 : index to i32
           %f = arith.sitofp %i : i32 to f32
           %c = math.erf %f : f32
           %r = arith.addf %a0, %c : f32)",
        "",
    };
    static const char *const binary[] = {
        R"(%s = arith.subf %a0, %a1 : f32
           %r = math.tanh %s : f32)",
        R"(%c = arith.constant 2.0 : f32
           %n = math.absf %a1 : f32
           %d = arith.addf %n, %c : f32
           %r = arith.divf %a0, %d : f32)",
        "%r = arith.maximumf %a0, %a1 : f32",
    };
    Dims result = unionOf(inputs);
    if (pick(4) == 0)
      for (const std::string &dim : dims)
        if (std::find(result.begin(), result.end(), dim) == result.end())
          result.push_back(dim);
    if (pick(4) == 0)
      std::shuffle(result.begin(), result.end(), random);
    std::string body = inputs.size() == 1 ? unary[pick(std::size(unary))]
                                          : binary[pick(std::size(binary))];
    if (result.empty() && body.find("$0") != std::string::npos)
      body = unary[0];
    if (size_t at = body.find("$0"); at != std::string::npos)
      body.replace(at, 2, "$" + result[pick(result.size())]);
    text.pointwise(name, join(result), inputs, body);
    add(name, result);
  }

  void addReduction(const std::string &name, const std::string &input) {
    Dims all = unionOf({input});
    Dims result = subset(all, 0.5);
    const std::string factor =
        sumsOverLast(all, result) ? sizes.lastFactor : "0.125";
    if (pick(2) == 0)
      text.reduce(name, join(result), {input}, "arith.addf", "0.25",
                  "%c = arith.constant " + factor +
                      " : f32\n"
                      "%r = arith.mulf %a0, %c : f32");
    else
      text.reduce(name, join(result), {input}, "arith.maximumf", "-3.0");
    add(name, result);
  }

  const Sizes sizes;
  std::mt19937 random;
  ProgramText text;
  Dims dims;
  std::vector<Tensor> tensors;
};

class RandomPrograms : public ::testing::TestWithParam<unsigned> {
protected:
  void checkTen(const RandomProgram::Sizes &sizes) {
    for (unsigned seed = 10 * GetParam(); seed < 10 * GetParam() + 10; ++seed) {
      SCOPED_TRACE(seed);
      expectAgreement(RandomProgram(seed, sizes).getText(), {}, 3e-4, seed);
      if (HasFailure())
        return;
    }
  }
};

TEST_P(RandomPrograms, Agree) {
  const std::vector<int64_t> sizes = {1, 2, 3, 5, 7, 17, 33};
  checkTen({sizes, sizes, "0.125"});
}

/// Rows that are too long for a GPU's registers, in part or whole.
TEST_P(RandomPrograms, OfLongRowsAgree) {
  checkTen({{1, 2, 3}, {8193, 10001, 12288}, "0.0005", true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range(0u, 20u));

} // namespace

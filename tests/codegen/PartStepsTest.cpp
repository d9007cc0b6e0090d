// Slices and stacks, which are places in memory, from their IR to numbers.

#include "tests/codegen/StepsProgram.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

#include <random>

using namespace meshc;
using namespace meshc::test;

namespace {

std::string addSlice(const std::string &result, const std::string &whole,
                     int64_t row, std::vector<int64_t> shape) {
  return llvm::formatv("%{0} = exec.slice %{1} at {2} : {3} -> {4}\n", result,
                       whole, row * shape[1], getType(shape),
                       getType({shape[1]}));
}

std::string addStack(const std::string &result,
                     const std::vector<std::string> &parts, int64_t size) {
  std::string names, types;
  for (const std::string &part : parts) {
    names += (names.empty() ? "%" : ", %") + part;
    types += (types.empty() ? "" : ", ") + getType({size});
  }
  return llvm::formatv("%{0} = exec.stack {1} : {2} -> {3}\n", result, names,
                       types, getType({int64_t(parts.size()), size}));
}

/// %result = a kernel that adds %row to each row of %whole.
std::string addToRows(const std::string &result, const std::string &whole,
                      const std::string &row, std::vector<int64_t> shape) {
  const std::string type = getType(shape), rowType = getType({shape[1]});
  return llvm::formatv(
      "%{0} = exec.kernel(%{1}, %{2}) {{\n"
      "^bb0(%in_p: {3}, %in_q: {4}):\n"
      "  %in_e = tensor.empty() : {3}\n"
      "  %in_r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, "
      "b)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> (a, b)>], "
      "iterator_types = [\"parallel\", \"parallel\"]} "
      "ins(%in_p, %in_q : {3}, {4}) outs(%in_e : {3}) {{\n"
      "  ^bb1(%in_u: f32, %in_v: f32, %in_o: f32):\n"
      "    %in_s = arith.addf %in_u, %in_v : f32\n"
      "    linalg.yield %in_s : f32\n"
      "  } -> {3}\n"
      "  exec.yield %in_r : {3}\n"
      "} : ({3}, {4}) -> {3}\n",
      result, whole, row, type, rowType);
}

Numbers getRow(const Numbers &whole, size_t row, size_t size) {
  return Numbers(whole.begin() + long(row * size),
                 whole.begin() + long((row + 1) * size));
}

Numbers add(Numbers whole, const Numbers &row) {
  for (size_t i = 0; i < whole.size(); ++i)
    whole[i] += row[i % row.size()];
  return whole;
}

TEST(PartSteps, NothingIsCopied) {
  // What is sliced lies where it is read, and what is stacked is computed in
  // its place, whether it begins on a cache line or not.
  for (int64_t size : {3, 7, 16}) {
    StepsProgram program(
        addInput("x", {3, size}) + addSlice("one", "x", 1, {3, size}) +
        addSlice("two", "x", 2, {3, size}) +
        addKernel("a", "one", "two", size) + addKernel("b", "a", "one", size) +
        addStack("s", {"a", "b"}, size) +
        addToRows("y", "s", "two", {2, size}) + addOutput("y", "y", {2, size}));
    EXPECT_EQ(program.countCopies(), 0U);
    const Numbers x = count(3 * size);
    const Numbers one = getRow(x, 1, size_t(size)),
                  two = getRow(x, 2, size_t(size));
    Numbers y = add(add(one, two), two);
    const Numbers second = add(add(add(one, two), one), two);
    y.insert(y.end(), second.begin(), second.end());
    EXPECT_EQ(program.run({{"x", x}})["y"], y);
  }
}

TEST(PartSteps, PartsOutliveTheStack) {
  // Nothing reads %s behind %t, whose memory %r would take; %a is read later.
  const int64_t size = 7;
  StepsProgram program(
      addInput("x", {size}) + addInput("z", {2, size}) +
      addKernel("a", "x", "x", size) + addKernel("b", "a", "x", size) +
      addStack("s", {"a", "b"}, size) + addToRows("t", "s", "x", {2, size}) +
      addToRows("r", "z", "x", {2, size}) + addKernel("y", "a", "x", size) +
      addOutput("t", "t", {2, size}) + addOutput("r", "r", {2, size}) +
      addOutput("y", "y", {size}));
  const Numbers x = count(size), z = count(2 * size, 5);
  auto outputs = program.run({{"x", x}, {"z", z}});
  EXPECT_EQ(outputs["y"], add(add(x, x), x));
  EXPECT_EQ(outputs["r"], add(z, x));
}

TEST(PartSteps, VariablesAreNotOverwrittenUnderASlice) {
  // v += x + v[0]: the first row is written before the last one is computed.
  const int64_t size = 5;
  StepsProgram program(
      "%v = spmd.read @v : tensor<2x5xf32>\n" + addInput("x", {size}) +
          addSlice("u", "v", 0, {2, size}) +
          addToRows("r", "v", "x", {2, size}) +
          addToRows("n", "r", "u", {2, size}) +
          "spmd.write @v, %n : tensor<2x5xf32>\n" +
          addOutput("n", "n", {2, size}),
      "nd.variable parameter @v : !nd.tensor<[\"a\"=2, \"b\"=5], f32, <>> = "
      "#nd.fill<1.0>\n");
  const Numbers x = count(size);
  // The variable begins with what the arena has, which is zeros: x, then 3 x.
  Numbers expected;
  for (int row = 0; row < 2; ++row)
    for (float number : x)
      expected.push_back(3 * number);
  EXPECT_EQ(program.run({{"x", x}})["n"], expected);
}

TEST(PartSteps, CarriedValuesAreNotOverwrittenUnderASlice) {
  // h += x + h[0], and (d, c) = (d + c, d[0]).
  for (int64_t size : {5, 16}) {
    const std::string row = getType({size}), whole = getType({2, size});
    std::string text = addInput("x", {size}) + addInput("h0", {2, size});
    text += llvm::formatv("%h, %d, %c = exec.loop \"t\" x 3 "
                          "carries(%h0, %h0, %x) captures(%x) {{\n"
                          "^bb0(%i: {1}, %k: {1}, %j: {0}, %l: {0}):\n",
                          row, whole);
    text +=
        addSlice("u", "i", 0, {2, size}) + addToRows("r", "i", "l", {2, size}) +
        addToRows("n", "r", "u", {2, size}) + addSlice("e", "k", 0, {2, size}) +
        addToRows("f", "k", "j", {2, size});
    text += llvm::formatv("exec.yield %n, %f, %e : {1}, {1}, {0}\n} : ({1}, "
                          "{1}, {0}, {0}) -> ({1}, {1}, {0})\n",
                          row, whole);
    text += addOutput("h", "h", {2, size}) + addOutput("c", "c", {size}) +
            addOutput("d", "d", {2, size});
    const Numbers x = count(size), start = count(2 * size, 3);
    auto outputs = StepsProgram(text).run({{"x", x}, {"h0", start}});
    Numbers h = start, c = x, d = start;
    for (int t = 0; t < 3; ++t) {
      h = add(add(h, x), getRow(h, 0, size_t(size)));
      Numbers next = getRow(d, 0, size_t(size));
      d = add(d, c);
      c = next;
    }
    EXPECT_EQ(outputs["h"], h);
    EXPECT_EQ(outputs["c"], c);
    EXPECT_EQ(outputs["d"], d);
  }
}

/// Sums, slices and stacks of one another in any order, some of them outputs.
class RandomParts {
public:
  explicit RandomParts(unsigned seed) : random(seed), size(2 + int(seed % 3)) {
    addRow("x", count(size));
    text = addInput("x", {size}) + addInput("w", {3, size});
    wholes.push_back({"w", count(3 * size, 4)});
    for (int step = 0; step < 12; ++step)
      addStep(std::to_string(step));
    for (const Tensor &row : rows)
      if (draw(2))
        output(row, {size});
    for (const Tensor &whole : wholes)
      if (draw(2))
        output(whole, getShape(whole));
  }

  void check() {
    auto outputs = StepsProgram(text).run(
        {{"x", rows[0].numbers}, {"w", wholes[0].numbers}});
    for (const auto &[name, numbers] : expected)
      EXPECT_EQ(outputs[name], numbers) << name << " of\n" << text;
  }

private:
  struct Tensor {
    std::string name;
    Numbers numbers;
  };

  size_t draw(size_t below) { return random() % below; }
  /// Late ones mostly, so that chains arise.
  const Tensor &pick(const std::vector<Tensor> &from) {
    return from[from.size() - 1 - draw(std::min<size_t>(from.size(), 4))];
  }
  std::vector<int64_t> getShape(const Tensor &whole) const {
    return {int64_t(whole.numbers.size()) / size, size};
  }
  void addRow(const std::string &name, Numbers numbers) {
    rows.push_back({name, std::move(numbers)});
  }
  void output(const Tensor &tensor, std::vector<int64_t> shape) {
    const std::string name = "out_" + tensor.name;
    text += addOutput(name, tensor.name, shape);
    expected.push_back({name, tensor.numbers});
  }

  void addStep(const std::string &number) {
    switch (draw(4)) {
    case 0: {
      const Tensor x = pick(rows), y = pick(rows);
      text += addKernel("k" + number, x.name, y.name, size);
      addRow("k" + number, add(x.numbers, y.numbers));
      return;
    }
    case 1: {
      const Tensor whole = pick(wholes);
      const size_t row = draw(size_t(getShape(whole)[0]));
      text += addSlice("s" + number, whole.name, int64_t(row), getShape(whole));
      addRow("s" + number, getRow(whole.numbers, row, size_t(size)));
      return;
    }
    case 2: {
      std::vector<std::string> names;
      Numbers numbers;
      for (size_t part = 1 + draw(3); part-- > 0;) {
        const Tensor &row = pick(rows);
        names.push_back(row.name);
        numbers.insert(numbers.end(), row.numbers.begin(), row.numbers.end());
      }
      text += addStack("t" + number, names, size);
      wholes.push_back({"t" + number, numbers});
      return;
    }
    default: {
      const Tensor whole = pick(wholes), row = pick(rows);
      text += addToRows("r" + number, whole.name, row.name, getShape(whole));
      wholes.push_back({"r" + number, add(whole.numbers, row.numbers)});
    }
    }
  }

  std::mt19937 random;
  int64_t size;
  std::string text;
  std::vector<Tensor> rows, wholes, expected;
};

TEST(PartSteps, RandomProgramsAreRight) {
  for (unsigned seed = 0; seed < 150; ++seed)
    RandomParts(seed).check();
}

} // namespace

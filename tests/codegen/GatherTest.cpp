// Kernels of gathers and of their gradients, against loops over the indices.

#include "tests/codegen/KernelRunner.h"
#include "tests/codegen/NamedPrograms.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace meshc;
using namespace meshc::test;

namespace {

using Element = interpreter::Scalar<interpreter::F64>;

constexpr int64_t batch = 3, places = 11;

/// Indices into a dimension of `size`, most of them several times and none in
/// order, with some that are outside of it, also by a multiple of 2^32.
F64Tensor getIndices(int64_t size, bool isWide) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < batch * places; ++i)
    indices.push_back((i * i * 7 + 3 * i + 2) % size);
  indices[1] = size - 1;
  indices[2] = 0;
  indices[4] = size;
  indices[9] = -1;
  indices[17] = std::numeric_limits<int32_t>::min();
  indices[22] = std::numeric_limits<int32_t>::max();
  if (isWide) {
    indices[25] = (int64_t(1) << 32) + size / 2;
    indices[26] = std::numeric_limits<int64_t>::min();
  }
  F64Tensor tensor({batch, places});
  tensor.elements.assign(indices.begin(), indices.end());
  return tensor;
}

int64_t at(const F64Tensor &indices, int64_t row, int64_t place) {
  return std::get<int64_t>(indices.elements[size_t(row * places + place)]);
}

/// Row-major dimensions in the text of a type.
std::string
getDims(std::initializer_list<std::pair<const char *, int64_t>> dims,
        const std::string &rest) {
  std::string text;
  for (const auto &[name, size] : dims)
    text += (text.empty() ? "[\"" : ", \"") + std::string(name) +
            "\"=" + std::to_string(size);
  return text + "], " + rest;
}

void expectOutput(KernelRunner &runner, F64State state, const std::string &name,
                  const F64Tensor &expected,
                  std::vector<int64_t> coordinates = {0}) {
  using emulation::FiberOrder;
  for (FiberOrder order :
       {FiberOrder{FiberOrder::forward}, FiberOrder{FiberOrder::backward},
        FiberOrder{FiberOrder::random, 5}}) {
    runner.setOrder(order);
    runner.run(state, coordinates);
    const F64Tensor &found = state.outputs.at(name);
    ASSERT_EQ(found.sizes, expected.sizes);
    for (size_t i = 0; i < expected.elements.size(); ++i)
      ASSERT_EQ(found.elements[i], expected.elements[i]) << name << " at " << i;
  }
}

class Gathers
    : public ::testing::TestWithParam<std::pair<const char *, const char *>> {};

INSTANTIATE_TEST_SUITE_P(
    Types, Gathers,
    ::testing::Values(std::pair("f32", "i32"), std::pair("f32", "i64"),
                      std::pair("f64", "i32"), std::pair("bf16", "i32"),
                      std::pair("f16", "i64"), std::pair("i32", "i32"),
                      std::pair("i64", "i64"), std::pair("i1", "i32"),
                      std::pair("i8", "i32"), std::pair("i16", "i64")),
    [](const auto &info) {
      return std::string(info.param.first) + "_at_" + info.param.second;
    });

class GatherGradients : public Gathers {};

INSTANTIATE_TEST_SUITE_P(
    Types, GatherGradients,
    ::testing::Values(std::pair("f32", "i32"), std::pair("f64", "i64"),
                      std::pair("bf16", "i32"), std::pair("f16", "i64")),
    [](const auto &info) {
      return std::string(info.param.first) + "_at_" + info.param.second;
    });

/// Rows of a table; what is outside of it is 0.
TEST_P(Gathers, RowsOfATable) {
  const auto [type, indexType] = GetParam();
  for (const auto &[size, columns] :
       {std::pair<int64_t, int64_t>{37, 1}, {37, 5}, {64, 8}, {5, 130}}) {
    SCOPED_TRACE(std::to_string(size) + " by " + std::to_string(columns));
    const std::string element = std::string(type) + ", <>";
    const std::string text = getGatherProgram(
        getDims({{"v", size}, {"c", columns}}, element),
        getDims({{"b", batch}, {"p", places}}, std::string(indexType) + ", <>"),
        getDims({{"b", batch}, {"p", places}, {"c", columns}}, element));
    F64State state;
    const F64Tensor x = state.inputs["x"] = getWhole({size, columns}, type, 3);
    const F64Tensor i = state.inputs["i"] =
        getIndices(size, std::string(indexType) == "i64");
    F64Tensor expected({batch, places, columns},
                       type[0] == 'i' ? Element(int64_t(0)) : Element(0.0));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t p = 0; p < places; ++p)
        for (int64_t c = 0; c < columns; ++c)
          if (const int64_t v = at(i, b, p); v >= 0 && v < size)
            expected.elements[size_t((b * places + p) * columns + c)] =
                x.elements[size_t(v * columns + c)];
    auto runner = KernelRunner::createGpu(text);
    ASSERT_TRUE(runner);
    expectOutput(*runner, state, "y", expected);
    expectAgreement(text, state, 0);
  }
}

/// One element of every row, as cross entropy picks them.
TEST_P(Gathers, AnElementOfEveryRow) {
  const auto [type, indexType] = GetParam();
  for (int64_t size : {5, 64, 257}) {
    SCOPED_TRACE(size);
    const std::string element = std::string(type) + ", <>";
    const std::string text = getGatherProgram(
        getDims({{"b", batch}, {"p", places}, {"v", size}}, element),
        getDims({{"b", batch}, {"p", places}}, std::string(indexType) + ", <>"),
        getDims({{"b", batch}, {"p", places}}, element));
    F64State state;
    const F64Tensor x = state.inputs["x"] =
        getWhole({batch, places, size}, type, 4);
    const F64Tensor i = state.inputs["i"] =
        getIndices(size, std::string(indexType) == "i64");
    F64Tensor expected({batch, places},
                       type[0] == 'i' ? Element(int64_t(0)) : Element(0.0));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t p = 0; p < places; ++p)
        if (const int64_t v = at(i, b, p); v >= 0 && v < size)
          expected.elements[size_t(b * places + p)] =
              x.elements[size_t((b * places + p) * size + v)];
    auto runner = KernelRunner::createGpu(text);
    ASSERT_TRUE(runner);
    expectOutput(*runner, state, "y", expected);
    expectAgreement(text, state, 0);
  }
}

/// Every index adds to the row that it names, however often it does; rows that
/// none names are 0. On CPUs that is no kernel (tests/runtime/PutTest.cpp).
TEST_P(GatherGradients, AddUp) {
  const auto [type, indexType] = GetParam();
  for (const auto &[size, columns] :
       {std::pair<int64_t, int64_t>{37, 1}, {37, 5}, {64, 8}, {5, 130}}) {
    SCOPED_TRACE(std::to_string(size) + " by " + std::to_string(columns));
    const std::string text = getGatherGradient(
        getDims({{"v", size}, {"c", columns}}, type),
        getDims({{"b", batch}, {"p", places}}, indexType),
        getDims({{"b", batch}, {"p", places}, {"c", columns}}, type),
        std::string("[], ") + type);
    F64State state;
    state.inputs["x"] = getWhole({size, columns}, type, 5);
    const F64Tensor i = state.inputs["i"] =
        getIndices(size, std::string(indexType) == "i64");
    const F64Tensor w = state.inputs["w"] =
        getWhole({batch, places, columns}, type, 6);
    F64Tensor expected({size, columns}, Element(0.0));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t p = 0; p < places; ++p)
        for (int64_t c = 0; c < columns; ++c)
          if (const int64_t v = at(i, b, p); v >= 0 && v < size) {
            Element &sum = expected.elements[size_t(v * columns + c)];
            sum = std::get<double>(sum) +
                  std::get<double>(
                      w.elements[size_t((b * places + p) * columns + c)]);
          }
    auto runner = KernelRunner::createGpu(text);
    ASSERT_TRUE(runner);
    expectOutput(*runner, state, "grad:x", expected);
  }
}

/// A table that is split over devices, unevenly: each finds what it has, and 0
/// elsewhere. Padding is NaN: whoever reads it shows.
TEST_P(Gathers, BlocksOfATable) {
  const auto [type, indexType] = GetParam();
  constexpr int64_t size = 37, columns = 5, devices = 3, block = 13;
  const std::string element = std::string(type) + ", ";
  auto runner = KernelRunner::createGpu(getGatherProgram(
      getDims({{"v", size}, {"c", columns}}, element + R"(<"v"@x>)"),
      getDims({{"b", batch}, {"p", places}}, std::string(indexType) + ", <>"),
      getDims({{"b", batch}, {"p", places}, {"c", columns}},
              element + (std::string(type) == "i1" ? "<> partial max over x"
                                                   : "<> partial sum over x")),
      R"("x"=3)"));
  ASSERT_TRUE(runner);
  const bool isInteger = type[0] == 'i';
  const F64Tensor x = getWhole({size, columns}, type, 7);
  const F64Tensor i = getIndices(size, std::string(indexType) == "i64");
  for (int64_t device = 0; device < devices; ++device) {
    SCOPED_TRACE(device);
    F64State state;
    state.inputs["i"] = i;
    F64Tensor &own = state.inputs["x"] = F64Tensor(
        {block, columns}, isInteger ? Element(int64_t(99)) : Element(NAN));
    const int64_t begin = device * block, end = std::min(size, begin + block);
    for (int64_t place = begin * columns; place < end * columns; ++place)
      own.elements[size_t(place - begin * columns)] = x.elements[size_t(place)];
    F64Tensor expected({batch, places, columns},
                       isInteger ? Element(int64_t(0)) : Element(0.0));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t p = 0; p < places; ++p)
        for (int64_t c = 0; c < columns; ++c)
          if (const int64_t v = at(i, b, p); v >= begin && v < end)
            expected.elements[size_t((b * places + p) * columns + c)] =
                x.elements[size_t(v * columns + c)];
    expectOutput(*runner, state, "y", expected, {device});
  }
}

} // namespace

/// Convolutions and their gradients against plain loops in f64.

#include "runtime/cpu/Convolution.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>

using namespace meshc;
using namespace meshc::runtime;
using exec::ConvolutionTensor;

namespace {

using Sizes = std::vector<int64_t>;

constexpr ConvolutionTensor allTensors[] = {ConvolutionTensor::destination,
                                            ConvolutionTensor::source,
                                            ConvolutionTensor::weights};

/// Sizes of the tensors: batch, group, channel, space; of the weights group,
/// output, input, space.
Sizes getSizes(const exec::ConvolutionT &shape, ConvolutionTensor tensor) {
  Sizes sizes;
  const Sizes *space = nullptr;
  switch (tensor) {
  case ConvolutionTensor::source:
    sizes = {shape.batch, shape.groups, shape.inputs};
    space = &shape.source;
    break;
  case ConvolutionTensor::weights:
    sizes = {shape.groups, shape.outputs, shape.inputs};
    space = &shape.weights;
    break;
  case ConvolutionTensor::destination:
    sizes = {shape.batch, shape.groups, shape.outputs};
    space = &shape.destination;
    break;
  }
  sizes.insert(sizes.end(), space->begin(), space->end());
  return sizes;
}

/// Strides of a dense tensor whose dimensions lie in this order, the outermost
/// first.
Sizes layOut(const Sizes &sizes, const std::vector<size_t> &order) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= sizes[order[i]])
    strides[order[i]] = stride;
  return strides;
}

enum class Order { ChannelsLast, ChannelsFirst, BatchLast };

std::vector<size_t> getOrder(Order order, size_t rank) {
  std::vector<size_t> dims;
  auto addSpace = [&] {
    for (size_t i = 0; i < rank; ++i)
      dims.push_back(3 + i);
  };
  switch (order) {
  case Order::ChannelsLast:
    dims = {0};
    addSpace();
    dims.insert(dims.end(), {1, 2});
    break;
  case Order::ChannelsFirst:
    dims = {0, 1, 2};
    addSpace();
    break;
  case Order::BatchLast:
    addSpace();
    dims.insert(dims.end(), {1, 2, 0});
    break;
  }
  return dims;
}

void setStrides(exec::ConvolutionT &shape, Order order) {
  const size_t rank = shape.source.size();
  const std::vector<size_t> dims = getOrder(order, rank);
  shape.source_strides =
      layOut(getSizes(shape, ConvolutionTensor::source), dims);
  shape.destination_strides =
      layOut(getSizes(shape, ConvolutionTensor::destination), dims);
  std::vector<size_t> weights; // window, group, input, output
  for (size_t i = 0; i < rank; ++i)
    weights.push_back(3 + i);
  weights.insert(weights.end(), {0, 2, 1});
  shape.weights_strides =
      layOut(getSizes(shape, ConvolutionTensor::weights), weights);
}

struct Space {
  int64_t source, weights, destination, stride, dilation, pad;
};

exec::ConvolutionT makeShape(int64_t batch, int64_t groups, int64_t inputs,
                             int64_t outputs, const std::vector<Space> &space,
                             Order order = Order::ChannelsLast) {
  exec::ConvolutionT shape;
  shape.batch = batch;
  shape.groups = groups;
  shape.inputs = inputs;
  shape.outputs = outputs;
  for (const Space &dim : space) {
    shape.source.push_back(dim.source);
    shape.weights.push_back(dim.weights);
    shape.destination.push_back(dim.destination);
    shape.stride.push_back(dim.stride);
    shape.dilation.push_back(dim.dilation);
    shape.pad.push_back(dim.pad);
  }
  setStrides(shape, order);
  return shape;
}

int64_t getReach(const Sizes &sizes, const Sizes &strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

/// Calls `visit` with every position in `sizes`.
template <typename Visit> void forEach(const Sizes &sizes, Visit visit) {
  Sizes position(sizes.size(), 0);
  while (true) {
    visit(position);
    size_t i = sizes.size();
    while (i > 0 && ++position[i - 1] == sizes[i - 1])
      position[--i] = 0;
    if (i == 0)
      return;
  }
}

/// Calls `visit` with the elements of source, weights and destination of each
/// term.
template <typename Visit>
void forEachTerm(const exec::ConvolutionT &shape, Visit visit) {
  const size_t rank = shape.source.size();
  Sizes loops = {shape.batch, shape.groups, shape.inputs, shape.outputs};
  loops.insert(loops.end(), shape.destination.begin(), shape.destination.end());
  loops.insert(loops.end(), shape.weights.begin(), shape.weights.end());
  forEach(loops, [&](const Sizes &at) {
    const Sizes &s = shape.source_strides, &w = shape.weights_strides,
                &d = shape.destination_strides;
    int64_t source = at[0] * s[0] + at[1] * s[1] + at[2] * s[2];
    int64_t weights = at[1] * w[0] + at[3] * w[1] + at[2] * w[2];
    int64_t destination = at[0] * d[0] + at[1] * d[1] + at[3] * d[2];
    for (size_t i = 0; i < rank; ++i) {
      const int64_t out = at[4 + i], window = at[4 + rank + i];
      const int64_t in =
          shape.stride[i] * out + shape.dilation[i] * window - shape.pad[i];
      if (in < 0 || in >= shape.source[i])
        return;
      source += in * s[3 + i];
      weights += window * w[3 + i];
      destination += out * d[3 + i];
    }
    visit(size_t(source), size_t(weights), size_t(destination));
  });
}

struct Tensors {
  std::vector<float> source, weights, destination;

  std::vector<float> &get(ConvolutionTensor tensor) {
    switch (tensor) {
    case ConvolutionTensor::source:
      return source;
    case ConvolutionTensor::weights:
      return weights;
    case ConvolutionTensor::destination:
      break;
    }
    return destination;
  }
};

const Sizes &getStrides(const exec::ConvolutionT &shape,
                        ConvolutionTensor tensor) {
  switch (tensor) {
  case ConvolutionTensor::source:
    return shape.source_strides;
  case ConvolutionTensor::weights:
    return shape.weights_strides;
  case ConvolutionTensor::destination:
    break;
  }
  return shape.destination_strides;
}

/// A tensor as the program has it.
std::vector<std::byte> store(const std::vector<float> &values,
                             exec::ElementType element) {
  const auto bytes = size_t(getElementBytes(element));
  std::vector<std::byte> stored(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const BFloat16 narrow = BFloat16::round(values[i]);
    if (element == exec::ElementType::bf16)
      std::memcpy(&stored[i * bytes], &narrow, bytes);
    else
      std::memcpy(&stored[i * bytes], &values[i], bytes);
  }
  return stored;
}

std::vector<float> load(const std::vector<std::byte> &stored,
                        exec::ElementType element) {
  const auto bytes = size_t(getElementBytes(element));
  std::vector<float> values(stored.size() / bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    BFloat16 narrow;
    if (element == exec::ElementType::bf16) {
      std::memcpy(&narrow, &stored[i * bytes], bytes);
      values[i] = narrow.toFloat();
    } else {
      std::memcpy(&values[i], &stored[i * bytes], bytes);
    }
  }
  return values;
}

/// Runs it, backwards and on alternating workers: pieces must not depend on one
/// another. Returns the implementation.
std::string run(const exec::ConvolutionT &shape, int64_t pieces,
                Tensors &tensors, ConvolutionElements elements = {}) {
  auto convolution = Convolution::create(shape, elements, pieces, 2);
  if (!convolution) {
    ADD_FAILURE() << convolution.getError().message;
    return "";
  }
  std::vector<std::byte> scratch((*convolution)->getScratchBytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(scratch.data());
  std::byte *aligned = scratch.data() + (64 - address % 64) % 64;
  auto getElement = [&](ConvolutionTensor tensor) {
    return tensor == shape.result ? elements.result : elements.factor;
  };
  std::map<ConvolutionTensor, std::vector<std::byte>> stored;
  for (ConvolutionTensor tensor : allTensors)
    stored[tensor] = store(tensors.get(tensor), getElement(tensor));
  for (int64_t piece = (*convolution)->getNumPieces(); piece-- > 0;)
    EXPECT_TRUE((*convolution)
                    ->run(piece,
                          {stored[ConvolutionTensor::source].data(),
                           stored[ConvolutionTensor::weights].data(),
                           stored[ConvolutionTensor::destination].data()},
                          int(piece % 2), aligned));
  tensors.get(shape.result) =
      load(stored[shape.result], getElement(shape.result));
  return (*convolution)->getImplementation();
}

/// Computes each of the three tensors from the others and compares every
/// element.
void checkOne(exec::ConvolutionT shape, ConvolutionTensor result,
              int64_t pieces, ConvolutionElements elements = {}) {
  shape.result = result;
  std::mt19937 random(7);
  Tensors tensors;
  for (ConvolutionTensor tensor : allTensors) {
    std::vector<float> &values = tensors.get(tensor);
    values.resize(
        size_t(getReach(getSizes(shape, tensor), getStrides(shape, tensor))));
    for (float &value : values)
      value = float(std::normal_distribution<double>()(random));
    if (elements.factor == exec::ElementType::bf16)
      for (float &value : values)
        value = BFloat16::round(value).toFloat();
  }
  const size_t count = tensors.get(result).size();
  std::vector<double> expected(count), magnitude(count);
  std::vector<int64_t> terms(count);
  forEachTerm(shape, [&](size_t source, size_t weights, size_t destination) {
    const double s = tensors.source[source], w = tensors.weights[weights],
                 d = tensors.destination[destination];
    const auto [place, product] =
        result == ConvolutionTensor::source    ? std::pair(source, w * d)
        : result == ConvolutionTensor::weights ? std::pair(weights, s * d)
                                               : std::pair(destination, s * w);
    expected[place] += product;
    magnitude[place] += std::abs(product);
    ++terms[place];
  });
  const std::string implementation = run(shape, pieces, tensors, elements);
  for (size_t i = 0; i < count; ++i) {
    const double found = tensors.get(result)[i];
    // That many roundings in any order, and one to 16 bits.
    const bool isRounded = elements.result == exec::ElementType::bf16;
    const double bound = 0x1p-24 * double(terms[i] + 1) * magnitude[i] +
                         (isRounded ? 0x1p-8 * std::abs(expected[i]) : 0);
    if (!(std::abs(found - expected[i]) <= bound)) {
      ADD_FAILURE() << "tensor " << exec::EnumNameConvolutionTensor(result)
                    << ", element " << i << ": expected " << expected[i]
                    << ", found " << found << ", by " << implementation;
      return;
    }
  }
  testing::Test::RecordProperty(exec::EnumNameConvolutionTensor(result),
                                implementation);
}

void check(const exec::ConvolutionT &shape, int64_t pieces = 1) {
  for (ConvolutionTensor result : allTensors)
    checkOne(shape, result, pieces);
}

TEST(Convolution, OneToThreeDimensionsOfSpace) {
  check(makeShape(2, 1, 3, 5, {{7, 3, 7, 1, 1, 1}}));
  check(makeShape(3, 1, 2, 7, {{7, 3, 7, 1, 1, 1}, {5, 2, 5, 1, 1, 0}}));
  check(
      makeShape(2, 1, 5, 3,
                {{3, 3, 3, 1, 1, 1}, {5, 2, 4, 1, 1, 0}, {2, 2, 3, 1, 1, 1}}));
}

TEST(Convolution, StridesAndDilations) {
  check(makeShape(2, 1, 3, 5, {{7, 3, 4, 2, 1, 1}, {5, 3, 3, 2, 1, 1}}));
  check(makeShape(2, 1, 3, 5, {{8, 3, 4, 2, 1, 0}, {7, 2, 3, 3, 1, 1}}));
  check(makeShape(2, 1, 3, 5, {{7, 3, 7, 1, 2, 2}, {5, 2, 5, 1, 3, 1}}));
  check(makeShape(2, 1, 3, 5, {{7, 3, 4, 2, 2, 2}}));
  check(makeShape(2, 1, 3, 5, {{7, 1, 4, 2, 1, 0}})); // no window
  check(makeShape(2, 1, 3, 2, {{8, 2, 4, 2, 1, 0}, {6, 2, 3, 2, 1, 0}}));
}

TEST(Convolution, PadsOfOneSide) {
  check(makeShape(2, 1, 3, 5, {{7, 3, 7, 1, 1, 2}}));
  check(makeShape(2, 1, 3, 5, {{7, 3, 7, 1, 1, 0}}));
  check(makeShape(2, 1, 3, 5, {{7, 3, 9, 1, 1, 2}, {5, 3, 3, 1, 1, 0}}));
}

TEST(Convolution, PadsBeyondTheWindow) {
  check(makeShape(2, 1, 3, 5, {{3, 2, 9, 1, 1, 4}}));
  check(makeShape(2, 1, 3, 5, {{3, 3, 12, 1, 1, 5}, {5, 1, 9, 1, 1, 2}}));
}

TEST(Convolution, PartsOfTheSource) {
  for (ConvolutionTensor result :
       {ConvolutionTensor::destination, ConvolutionTensor::weights}) {
    checkOne(makeShape(2, 1, 3, 5, {{9, 3, 4, 1, 1, -2}, {5, 3, 5, 1, 1, 1}}),
             result, 1);
    checkOne(makeShape(2, 1, 3, 5, {{9, 3, 5, 1, 1, 1}, {7, 2, 2, 2, 1, -1}}),
             result, 1);
  }
}

TEST(Convolution, AnyOrderOfTheTensors) {
  for (Order order : {Order::ChannelsFirst, Order::BatchLast})
    check(
        makeShape(3, 1, 5, 7, {{5, 3, 5, 1, 1, 1}, {7, 3, 4, 2, 1, 1}}, order));
}

TEST(Convolution, Groups) {
  for (Order order :
       {Order::ChannelsLast, Order::ChannelsFirst, Order::BatchLast}) {
    check(
        makeShape(2, 3, 2, 5, {{5, 3, 5, 1, 1, 1}, {7, 2, 3, 2, 1, 0}}, order));
    check(makeShape(2, 7, 1, 1, {{5, 3, 5, 1, 1, 1}}, order));
  }
}

TEST(Convolution, SizesOfOne) {
  for (Order order : {Order::ChannelsFirst, Order::BatchLast})
    check(
        makeShape(2, 1, 1, 1, {{5, 3, 5, 1, 1, 1}, {7, 3, 7, 1, 1, 1}}, order));
  check(makeShape(1, 1, 1, 1, {{5, 3, 5, 1, 1, 1}}));
  check(makeShape(1, 1, 1, 2, {{1, 3, 1, 1, 1, 1}, {7, 3, 7, 1, 1, 1}}));
  check(makeShape(1, 1, 2, 1, {{5, 1, 5, 1, 1, 0}, {7, 7, 1, 1, 1, 0}}));
}

TEST(Convolution, SixteenBits) {
  using exec::ElementType;
  for (ElementType written : {ElementType::bf16, ElementType::f32})
    for (Order order : {Order::ChannelsLast, Order::BatchLast})
      for (ConvolutionTensor result : allTensors) {
        const ConvolutionElements elements = {ElementType::bf16, written};
        checkOne(makeShape(3, 1, 5, 7, {{7, 3, 4, 2, 1, 1}, {5, 3, 5, 1, 1, 1}},
                           order),
                 result, 1, elements);
        checkOne(makeShape(2, 1, 3, 2,
                           {{40, 3, 40, 1, 1, 1}, {35, 2, 36, 1, 1, 1}}, order),
                 result, 1, elements);
      }
}

TEST(Convolution, PiecesAreOfTheBatchAndOfTheOutputs) {
  const exec::ConvolutionT shape =
      makeShape(7, 1, 32, 40, {{32, 3, 32, 1, 1, 1}, {40, 3, 40, 1, 1, 1}});
  check(shape, 3);
  exec::ConvolutionT weights = shape;
  weights.result = ConvolutionTensor::weights;
  EXPECT_EQ((*Convolution::create(shape, {}, 3, 1))->getNumPieces(), 3);
  EXPECT_EQ((*Convolution::create(weights, {}, 2, 1))->getNumPieces(), 2);
}

// Calls of 7 images, the last one of fewer, whose results add up.
TEST(Convolution, WeightsOfManyImagesAreSeveralCalls) {
  for (Order order : {Order::ChannelsLast, Order::ChannelsFirst})
    checkOne(makeShape(17, 1, 3, 5,
                       {{12, 3, 12, 1, 1, 1}, {11, 2, 12, 1, 1, 1}}, order),
             ConvolutionTensor::weights, 1);
}

// Calls of 14 rows of one image; the first and the last ones see outside.
TEST(Convolution, WeightsOfLargeImagesAreSeveralCalls) {
  for (Order order : {Order::ChannelsLast, Order::ChannelsFirst}) {
    checkOne(makeShape(2, 1, 3, 5, {{70, 3, 70, 1, 1, 1}, {70, 3, 70, 1, 1, 1}},
                       order),
             ConvolutionTensor::weights, 1);
    checkOne(makeShape(2, 1, 3, 5,
                       {{101, 5, 50, 2, 1, 2}, {70, 3, 70, 1, 1, 1}}, order),
             ConvolutionTensor::weights, 1);
  }
  // The first two and the last one of these calls see nothing.
  checkOne(makeShape(1, 1, 2, 3, {{500, 2, 5120, 1, 1, 2500}}),
           ConvolutionTensor::weights, 1);
}

/// The error of sums of 0.1, in units of 2^-24 of the sum, in the middle of
/// `result`, to which `terms` add up. One accumulator comes to a third of their
/// number.
double getErrorOfEqualTerms(exec::ConvolutionT shape, ConvolutionTensor result,
                            double terms) {
  shape.result = result;
  Tensors tensors;
  for (ConvolutionTensor tensor : allTensors)
    tensors.get(tensor).assign(
        size_t(getReach(getSizes(shape, tensor), getStrides(shape, tensor))),
        tensor == ConvolutionTensor::weights ? 1.0f : 0.1f);
  if (result == ConvolutionTensor::weights)
    for (float &value : tensors.destination)
      value = 1;
  const std::string implementation = run(shape, 1, tensors);
  testing::Test::RecordProperty(exec::EnumNameConvolutionTensor(result),
                                implementation);
  const std::vector<float> &found = tensors.get(result);
  const double expected = terms * double(0.1f);
  return std::abs(double(found[found.size() / 2]) - expected) / expected *
         0x1p24;
}

TEST(Convolution, LongSumsAreBounded) {
  for (int64_t batch : {1, 16, 300}) {
    // The middle of the window sees all of the source.
    const double error = getErrorOfEqualTerms(
        makeShape(batch, 1, 2, 3,
                  {{128, 3, 128, 1, 1, 1}, {64, 3, 64, 1, 1, 1}}),
        ConvolutionTensor::weights, double(batch) * 128 * 64);
    RecordProperty("error" + std::to_string(batch), std::to_string(error));
    EXPECT_LT(error, 400);
  }
  // As long as codegen/steps/ConvForm.cpp lets them be.
  const exec::ConvolutionT wide =
      makeShape(1, 1, 910, 910, {{5, 3, 5, 1, 1, 1}, {5, 3, 5, 1, 1, 1}});
  for (ConvolutionTensor result :
       {ConvolutionTensor::destination, ConvolutionTensor::source}) {
    const double error = getErrorOfEqualTerms(wide, result, 910 * 9);
    RecordProperty("error", std::to_string(error));
    EXPECT_LT(error, 1200);
  }
}

} // namespace

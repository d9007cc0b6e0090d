#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

using exec::ConvolutionTensor;

/// oneDNN counts in 32 bits.
static constexpr int64_t maxSize = int64_t(1) << 30;

static bool checkConvolutionSizes(ExecutableChecker &checker,
                                  const exec::ConvolutionT &shape) {
  const size_t rank = shape.source.size();
  if (rank < 1 || rank > 3)
    return checker.fail(fmt::format("a convolution has {} dimensions of space, "
                                    "expected 1 to 3",
                                    rank));
  for (const auto *numbers : {&shape.weights, &shape.destination, &shape.stride,
                              &shape.dilation, &shape.pad})
    if (numbers->size() != rank)
      return checker.fail("a convolution's tensors differ in rank");
  std::vector<int64_t> sizes = {shape.batch, shape.groups, shape.inputs,
                                shape.outputs};
  for (const auto *numbers : {&shape.source, &shape.weights, &shape.destination,
                              &shape.stride, &shape.dilation})
    sizes.insert(sizes.end(), numbers->begin(), numbers->end());
  for (int64_t size : sizes)
    if (size < 1 || size > maxSize)
      return checker.fail(fmt::format(
          "a convolution has a size, stride or dilation of {}", size));
  for (size_t i = 0; i < rank; ++i) {
    const int64_t window = multiply(shape.weights[i] - 1, shape.dilation[i]);
    const int64_t steps = multiply(shape.destination[i] - 1, shape.stride[i]);
    const int64_t pad = shape.pad[i];
    if (window < 0 || window > maxSize || steps < 0 || steps > maxSize ||
        pad < -maxSize || pad > maxSize)
      return checker.fail("a convolution reaches farther than any tensor");
    // Windows see something of the source, and all that is computed of it.
    const int64_t end = steps + window + 1 - pad;
    if (std::max<int64_t>(0, -pad) >= std::min(shape.source[i], end))
      return checker.fail("a convolution sees nothing of its source");
    if (shape.result == ConvolutionTensor::source &&
        (pad < 0 || end <= shape.source[i] - shape.stride[i]))
      return checker.fail("a convolution does not compute all of its source");
  }
  return true;
}

static bool checkConvolution(ExecutableChecker &checker,
                             const exec::CommandT &command) {
  const exec::ConvolutionT &shape = *command.action.AsConvolution();
  if (checker.getData().target != exec::Target::cpu)
    return checker.fail("a convolution is of CPUs only");
  if (!isEnumerator(shape.result, ConvolutionTensor::MAX))
    return checker.fail(fmt::format(
        "a convolution computes an unknown tensor {}", int(shape.result)));
  if (command.operands.size() != 3 || command.results != 1)
    return checker.fail(
        fmt::format("a convolution has {} operands and {} results, "
                    "expected 3 and 1",
                    command.operands.size(), command.results));
  const exec::ElementType factor = command.operands[0]->element;
  const exec::ElementType result = command.operands[2]->element;
  if (factor != exec::ElementType::f32 && factor != exec::ElementType::bf16)
    return checker.fail(fmt::format(
        "a convolution of element type {} is not supported", getName(factor)));
  if (command.operands[1]->element != factor ||
      (result != factor && result != exec::ElementType::f32))
    return checker.fail("a convolution's operands differ in element type");
  if (!checkConvolutionSizes(checker, shape))
    return false;

  struct View {
    ConvolutionTensor tensor;
    std::vector<int64_t> sizes;
    const std::vector<int64_t> *space, *strides;
  };
  View views[] = {{ConvolutionTensor::source,
                   {shape.batch, shape.groups, shape.inputs},
                   &shape.source,
                   &shape.source_strides},
                  {ConvolutionTensor::weights,
                   {shape.groups, shape.outputs, shape.inputs},
                   &shape.weights,
                   &shape.weights_strides},
                  {ConvolutionTensor::destination,
                   {shape.batch, shape.groups, shape.outputs},
                   &shape.destination,
                   &shape.destination_strides}};
  // The result comes last.
  auto *last =
      std::find_if(std::begin(views), std::end(views), [&](const View &view) {
        return view.tensor == shape.result;
      });
  std::rotate(last, last + 1, std::end(views));
  std::pair<uint64_t, uint64_t> reach[3];
  for (size_t i = 0; i < 3; ++i) {
    auto &[tensor, sizes, space, strides] = views[i];
    const int64_t channels = sizes[2];
    sizes.insert(sizes.end(), space->begin(), space->end());
    if (strides->size() != sizes.size())
      return checker.fail(
          "a convolution's strides are not as many as its dimensions");
    if (!checker.checkView(i, *command.operands[i], sizes, *strides) ||
        (i == 2 && !checker.checkWritten(i, sizes, *strides)))
      return false;
    if (tensor != ConvolutionTensor::weights && shape.groups > 1 &&
        channels > 1 && (*strides)[1] != channels * (*strides)[2])
      return checker.fail("a convolution's groups of channels lie apart");
    reach[i] = checker.getReach(*command.operands[i], sizes, *strides);
  }
  for (size_t i = 0; i < 2; ++i)
    if (reach[2].first < reach[i].second && reach[i].first < reach[2].second)
      return checker.fail("a convolution reads the memory it writes");
  return true;
}

static int64_t countMostFlops(const exec::CommandT &command) {
  const exec::ConvolutionT &shape = *command.action.AsConvolution();
  int64_t flops = 2;
  for (int64_t size : {shape.batch, shape.groups, shape.inputs, shape.outputs})
    flops = multiply(flops, size);
  for (const auto *sizes : {&shape.weights, &shape.destination})
    for (int64_t size : *sizes)
      flops = multiply(flops, size);
  return flops;
}

const CommandKind runtime::convolutionKind = {.name = "convolution",
                                              .hasOwnStrides = true,
                                              .check = checkConvolution,
                                              .countMostFlops = countMostFlops};

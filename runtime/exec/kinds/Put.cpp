#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

using exec::ElementType;

static bool checkElements(ExecutableChecker &checker,
                          const exec::CommandT &command) {
  const ElementType input = command.operands[0]->element;
  const ElementType index = command.operands[1]->element;
  const ElementType result = command.operands[2]->element;
  if (index != ElementType::i32 && index != ElementType::i64)
    return checker.fail(
        fmt::format("a put has an index of element type {}", getName(index)));
  const bool isHalf = input == ElementType::bf16 || input == ElementType::f16;
  const ElementType sum = isHalf ? ElementType::f32 : input;
  if (!isHalf && input != ElementType::f32 && input != ElementType::f64)
    return checker.fail(fmt::format("a put of element type {} is not supported",
                                    getName(input)));
  if (result != sum)
    return checker.fail(fmt::format("a put of element type {} has a result of "
                                    "{}, expected {}",
                                    getName(input), getName(result),
                                    getName(sum)));
  return true;
}

static bool checkLoops(ExecutableChecker &checker, const exec::PutT &put) {
  for (const auto *strides :
       {&put.input_strides, &put.index_strides, &put.result_strides})
    if (strides->size() != put.sizes.size())
      return checker.fail(
          "a put's strides are not as many as the sizes of its loops");
  if (put.positions < 1 || put.position_stride < 1)
    return checker.fail(fmt::format("a put has {} positions and the stride {}",
                                    put.positions, put.position_stride));
  int64_t terms = 1;
  for (size_t i = 0; i < put.sizes.size(); ++i) {
    if (put.sizes[i] < 2 || put.input_strides[i] < 1 ||
        put.index_strides[i] < 0 || put.result_strides[i] < 0)
      return checker.fail(fmt::format("a put has a loop of size {}, strides "
                                      "{}, {} and {}",
                                      put.sizes[i], put.input_strides[i],
                                      put.index_strides[i],
                                      put.result_strides[i]));
    if (put.result_strides[i] > 0)
      continue;
    if (put.index_strides[i] == 0)
      return checker.fail("a put sums a loop that its index lacks");
    terms = multiply(terms, put.sizes[i]);
    if (terms < 0 || terms > maxPutTerms)
      return checker.fail("a put has 2^32 - 1 terms or more");
  }
  return true;
}

static bool checkPut(ExecutableChecker &checker,
                     const exec::CommandT &command) {
  const exec::PutT &put = *command.action.AsPut();
  if (checker.getData().target != exec::Target::cpu)
    return checker.fail("a put is of CPUs only");
  if (command.operands.size() != 3 || command.results != 1)
    return checker.fail(fmt::format("a put has {} operands and {} results, "
                                    "expected 3 and 1",
                                    command.operands.size(), command.results));
  if (!checkElements(checker, command) || !checkLoops(checker, put))
    return false;
  struct View {
    std::vector<int64_t> sizes, strides;
  };
  View views[3];
  const std::vector<int64_t> *const strides[] = {
      &put.input_strides, &put.index_strides, &put.result_strides};
  for (size_t i = 0; i < 3; ++i)
    for (size_t loop = 0; loop < put.sizes.size(); ++loop)
      if (const int64_t stride = (*strides[i])[loop]; stride > 0) {
        views[i].sizes.push_back(put.sizes[loop]);
        views[i].strides.push_back(stride);
      }
  views[2].sizes.push_back(put.positions);
  views[2].strides.push_back(put.position_stride);
  std::pair<uint64_t, uint64_t> reach[3];
  for (size_t i = 0; i < 3; ++i) {
    const exec::OperandT &operand = *command.operands[i];
    if (!checker.checkView(i, operand, views[i].sizes, views[i].strides))
      return false;
    // Else nothing that is stored bounds the terms.
    if (i < 2 && !hasEachElementOnce(views[i].sizes, views[i].strides))
      return checker.fail("a put reads one element several times");
    reach[i] = checker.getReach(operand, views[i].sizes, views[i].strides);
  }
  if (!checker.checkWritten(2, views[2].sizes, views[2].strides))
    return false;
  // All of the result is written, and nothing between its elements.
  const exec::OperandT &result = *command.operands[2];
  const int64_t written = countElements(views[2].sizes, views[2].strides);
  if (written != countElements(result.shape, result.strides) ||
      reach[2].second - reach[2].first !=
          uint64_t(written * getElementBytes(result.element)))
    return checker.fail("a put does not write all of its result");
  for (size_t i = 0; i < 2; ++i)
    if (reach[2].first < reach[i].second && reach[i].first < reach[2].second)
      return checker.fail("a put reads the memory it writes");
  return true;
}

/// An addition for each element of the input.
static int64_t countMostFlops(const exec::CommandT &command) {
  int64_t flops = 1;
  for (int64_t size : command.action.AsPut()->sizes)
    flops = multiply(flops, size);
  return flops;
}

const CommandKind runtime::putKind = {.name = "put",
                                      .hasOwnStrides = true,
                                      .overwritesResults = true,
                                      .check = checkPut,
                                      .countMostFlops = countMostFlops};

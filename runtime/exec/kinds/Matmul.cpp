#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/ExecutableChecker.h"
#include "runtime/exec/MatmulOperands.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static bool checkMatmulOverlap(ExecutableChecker &checker,
                               const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  const size_t c = command.operands.size() - 1;
  auto getShape = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape = matmul.batch;
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  std::vector<std::pair<uint64_t, uint64_t>> reach;
  for (const auto &operand : command.operands)
    reach.push_back(checker.getReach(*operand));
  reach[0] = checker.getReach(*command.operands[0],
                              getShape(matmul.m, matmul.k), matmul.a_strides);
  reach[1] = checker.getReach(*command.operands[1],
                              getShape(matmul.k, matmul.n), matmul.b_strides);
  reach[c] = checker.getReach(*command.operands[c],
                              getShape(matmul.m, matmul.n), matmul.c_strides);
  for (size_t written = c + 1 - size_t(command.results); written <= c;
       ++written)
    for (size_t other = 0; other < reach.size(); ++other)
      if (other != written && reach[other].first < reach[written].second &&
          reach[written].first < reach[other].second)
        return checker.fail(
            fmt::format("a matmul's operand {} shares memory with "
                        "operand {}, which it writes",
                        other, written));
  return true;
}

/// What only products on GPUs read and write beside their result.
static bool checkMatmulEnds(ExecutableChecker &checker,
                            const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  const MatmulOperandOrder order = getOperandOrder(matmul);
  const bool hasSums = order.sums >= 0;
  if (command.results != order.results)
    return checker.fail(fmt::format("a matmul has {} results, expected {}",
                                    command.results, order.results));
  if (!matmul.has_addend && !matmul.has_aux && !matmul.is_gradient && !hasSums)
    return true;
  if (checker.getData().target != exec::Target::cuda)
    return checker.fail("a matmul on CPUs has an end that only GPUs have");
  const exec::ElementType element = command.operands.back()->element;
  if (matmul.has_addend) {
    const exec::OperandT &addend = *command.operands[size_t(order.addend)];
    if (matmul.accumulate || matmul.activation != exec::Activation::none)
      return checker.fail(
          "a matmul with an addend accumulates or has an activation");
    if (addend.element != element)
      return checker.fail(
          "a matmul's addend and result differ in element type");
    std::vector<int64_t> shape = matmul.batch;
    shape.insert(shape.end(), {matmul.m, matmul.n});
    if (!checker.checkReach(size_t(order.addend), addend, shape,
                            matmul.c_strides))
      return false;
  }
  if (!matmul.has_aux && !matmul.is_gradient && !hasSums)
    return true;
  const bool isRelu = matmul.activation == exec::Activation::relu;
  if ((matmul.has_aux || matmul.is_gradient) && !isRelu &&
      matmul.activation != exec::Activation::gelu_tanh)
    return checker.fail(
        fmt::format("a matmul has an activation without gradient, {}",
                    int(matmul.activation)));
  if (matmul.is_gradient && (!matmul.has_aux || matmul.has_bias))
    return checker.fail(
        "a matmul with the gradient of an activation has a bias, or "
        "nothing to take it at");
  if (hasSums &&
      (matmul.has_bias ||
       matmul.is_gradient != (matmul.column_sum == exec::ColumnSum::c) ||
       (!matmul.is_gradient && matmul.activation != exec::Activation::none)))
    return checker.fail("a matmul sums columns beside a bias or another end");
  if (!matmul.batch.empty() ||
      matmul.c_strides != std::vector<int64_t>{matmul.n, 1})
    return checker.fail(
        "a matmul with such an end has batch dimensions, or a result "
        "that is not dense");
  if (hasSums) {
    const exec::OperandT &sums = *command.operands[size_t(order.sums)];
    const int64_t length =
        matmul.column_sum == exec::ColumnSum::a ? matmul.m : matmul.n;
    if (sums.element != element)
      return checker.fail(
          "a matmul's column sums and result differ in element type");
    const int64_t shape[] = {length};
    const int64_t strides[] = {1};
    if (!checker.checkReach(size_t(order.sums), sums, shape, strides))
      return false;
  }
  if (!matmul.has_aux)
    return true;
  const exec::OperandT &aux = *command.operands[size_t(order.aux)];
  if (aux.element != (isRelu ? exec::ElementType::i32 : element))
    return checker.fail(
        fmt::format("what a matmul's activation leaves behind has "
                    "element type {}",
                    getName(aux.element)));
  const int64_t width = isRelu ? getMaskRowWords(matmul.n) : matmul.n;
  const int64_t shape[] = {matmul.m, width};
  const int64_t strides[] = {width, 1};
  return checker.checkReach(size_t(order.aux), aux, shape, strides);
}

static bool checkMatmul(ExecutableChecker &checker,
                        const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  if (!isEnumerator(matmul.column_sum, exec::ColumnSum::MAX))
    return checker.fail(
        fmt::format("unknown column sum {}", int(matmul.column_sum)));
  const MatmulOperandOrder order = getOperandOrder(matmul);
  const size_t expected = order.count;
  if (command.operands.size() != expected)
    return checker.fail(fmt::format("a matmul has {} operands, expected {}",
                                    command.operands.size(), expected));
  if (!isEnumerator(matmul.activation, exec::Activation::MAX))
    return checker.fail(
        fmt::format("unknown activation {}", int(matmul.activation)));
  const exec::ElementType factor = command.operands[0]->element;
  const exec::ElementType result = command.operands.back()->element;
  if (command.operands[1]->element != factor)
    return checker.fail("a matmul's factors differ in element type");
  if (matmul.has_bias && command.operands[2]->element != result)
    return checker.fail("a matmul's bias and result differ in element type");
  bool isNarrow = false;
  switch (factor) {
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::i32:
  case exec::ElementType::i64:
    break;
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    isNarrow = true;
    break;
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    return checker.fail(fmt::format(
        "a matmul of element type {} is not supported", getName(factor)));
  }
  if (result != factor && !(isNarrow && result == exec::ElementType::f32))
    return checker.fail(
        fmt::format("a matmul of element type {} has a result of {}",
                    getName(factor), getName(result)));
  const bool isGelu = matmul.activation == exec::Activation::gelu_erf ||
                      matmul.activation == exec::Activation::gelu_tanh;
  if (isGelu &&
      (factor == exec::ElementType::i32 || factor == exec::ElementType::i64))
    return checker.fail("a matmul of integers has a gelu");
  auto getView = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape = matmul.batch;
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  std::vector<int64_t> cShape = getView(matmul.m, matmul.n);
  const size_t c = expected - 1;
  if (!checker.checkView(0, *command.operands[0], getView(matmul.m, matmul.k),
                         matmul.a_strides) ||
      !checker.checkView(1, *command.operands[1], getView(matmul.k, matmul.n),
                         matmul.b_strides) ||
      !checker.checkView(c, *command.operands[c], cShape, matmul.c_strides) ||
      !checker.checkWritten(c, cShape, matmul.c_strides))
    return false;
  // Else nothing that is stored bounds it.
  if (matmul.k > 1 && matmul.a_strides.back() == 0 &&
      matmul.b_strides[matmul.batch.size()] == 0)
    return checker.fail(
        fmt::format("a matmul sums one product {} times", matmul.k));
  if (matmul.has_bias) {
    const int64_t shape[] = {matmul.n};
    const int64_t strides[] = {1};
    if (!checker.checkReach(2, *command.operands[2], shape, strides))
      return false;
  }
  return checkMatmulEnds(checker, command) &&
         checkMatmulOverlap(checker, command);
}

static int64_t countMostFlops(const exec::CommandT &command) {
  const exec::MatmulT &matmul = *command.action.AsMatmul();
  int64_t flops = 2;
  for (int64_t size : {matmul.m, matmul.n, matmul.k})
    flops = multiply(flops, size);
  for (int64_t size : matmul.batch)
    flops = multiply(flops, size);
  return flops;
}

const CommandKind runtime::matmulKind = {.name = "matmul",
                                         .hasOwnStrides = true,
                                         .check = checkMatmul,
                                         .countMostFlops = countMostFlops};

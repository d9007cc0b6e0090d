#include "frontend/plan/kinds/PlannedKind.h"

#include <cassert>
#include <cstdlib>
#include <iterator>

using namespace meshc;
using namespace meshc::plan;

const PlannedKind &plan::getPlannedKind(exec::Action action) {
  // In the order of the schema.
  static const PlannedKind *const kinds[] = {
      nullptr,      &plannedKernel,      &plannedMatmul, &plannedCollective,
      &plannedCopy, &plannedConvolution, &plannedPut};
  static_assert(std::size(kinds) == size_t(exec::Action::MAX) + 1);
  assert(action != exec::Action::NONE && "no program has such a command");
  return *kinds[size_t(action)];
}

std::optional<layout::Machine::Price>
plan::findKernelPrice(const exec::CommandT &command,
                      const layout::Machine &machine) {
  return machine.getKernelPrice(double(command.flops), double(command.bytes));
}

std::optional<layout::MatmulType>
plan::findMatmulType(const exec::CommandT &command) {
  if (command.operands.empty())
    return std::nullopt;
  switch (command.operands.front()->element) {
  case exec::ElementType::f64:
    return layout::MatmulType::F64;
  case exec::ElementType::f32:
    return layout::MatmulType::F32;
  case exec::ElementType::f16:
    return layout::MatmulType::F16;
  case exec::ElementType::bf16:
    return layout::MatmulType::Bf16;
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    return std::nullopt;
  }
  std::abort();
}

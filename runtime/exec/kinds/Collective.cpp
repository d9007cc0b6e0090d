#include "runtime/exec/kinds/CommandKind.h"

#include "runtime/exec/Executable.h"
#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static bool checkMember(ExecutableChecker &checker,
                        const exec::CollectiveT &collective,
                        const exec::CommandT &command, size_t fromNumber,
                        size_t toNumber) {
  const exec::OperandT &from = *command.operands[fromNumber];
  const exec::OperandT &to = *command.operands[toNumber];
  if (!isEnumerator(collective.kind, exec::CollectiveKind::MAX))
    return checker.fail(
        fmt::format("unknown collective kind {}", int(collective.kind)));
  if (!checker.checkOrigin(collective.origin.get()) ||
      (collective.span && !checker.checkSpan(*collective.span)))
    return false;
  for (const auto &cause : collective.causes) {
    if (!checker.checkOrigin(cause->consumer.get()) ||
        !checker.checkOrigin(cause->operand.get()))
      return false;
    for (const exec::Span &span : cause->spans)
      if (!checker.checkSpan(span))
        return false;
  }
  if (!checker.checkLayout(collective.source.get()) ||
      !checker.checkLayout(collective.target.get()))
    return false;
  layout::Sharding over;
  over.dims.emplace_back();
  for (const exec::AxisRef &axis : collective.axes)
    over.dims.back().push_back(getAxisRef(axis));
  if (std::string violation = layout::getViolation(checker.getMesh(), over, 1);
      !violation.empty())
    return checker.fail("a collective communicates over impossible axes: " +
                        violation);
  if (getSizes(*collective.source) != getSizes(*collective.target))
    return checker.fail("a collective changes the sizes of its tensor");
  const exec::TensorLayoutT *layouts[] = {collective.source.get(),
                                          collective.target.get()};
  const exec::OperandT *operands[] = {&from, &to};
  for (size_t i = 0; i < 2; ++i) {
    if (operands[i]->element != getStored(layouts[i]->element) ||
        layouts[i]->element != layouts[0]->element)
      return checker.fail("a collective changes the element type");
    if (operands[i]->shape != getLocalShape(*layouts[i]))
      return checker.fail(fmt::format(
          "operand {} of a collective has not the shape of its block",
          i == 0 ? fromNumber : toNumber));
  }
  if (!checker.checkWritten(toNumber, to.shape, to.strides))
    return false;
  if (collective.source->partial != exec::ReduceKind::none &&
      collective.target->partial != exec::ReduceKind::none &&
      collective.source->partial != collective.target->partial)
    return checker.fail("a collective changes the kind of a partial value");
  switch (from.element) {
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  case exec::ElementType::boolean:
    if (collective.source->partial == exec::ReduceKind::sum ||
        collective.target->partial == exec::ReduceKind::sum)
      return checker.fail("a collective sums booleans");
    break;
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    // Sums of which one term is not 0 only choose it.
    for (const exec::TensorLayoutT *layout : layouts)
      if (layout->partial == exec::ReduceKind::max ||
          layout->partial == exec::ReduceKind::min)
        return checker.fail("a collective compares elements that are for data");
    break;
  }
  layout::Sharding source =
      layout::getCanonical(checker.getMesh(), getSharding(*collective.source));
  layout::Sharding target =
      layout::getCanonical(checker.getMesh(), getSharding(*collective.target));
  if (source.hasWindow())
    return checker.fail(
        "a collective reads a window, of which no device owns a part");
  // Devices read one another's operand while they write the result, so the two
  // may share memory only where every element stays where it is.
  const auto [fromBegin, fromEnd] = checker.getReach(from);
  const auto [toBegin, toEnd] = checker.getReach(to);
  const bool overlap = fromBegin < toEnd && toBegin < fromEnd;
  if (overlap && (fromBegin != toBegin || from.strides != to.strides ||
                  source.dims != target.dims || target.hasWindow()))
    return checker.fail("a collective reads the memory it writes");
  return true;
}

static bool checkCollective(ExecutableChecker &checker,
                            const exec::CommandT &command) {
  const exec::CollectiveT &collective = *command.action.AsCollective();
  const std::vector<const exec::CollectiveT *> members = getMembers(collective);
  if (command.operands.size() != 2 * members.size())
    return checker.fail(fmt::format("a collective has {} operands, expected {}",
                                    command.operands.size(),
                                    2 * members.size()));
  for (size_t i = 0; i < members.size(); ++i)
    if (!checkMember(checker, *members[i], command, i, members.size() + i))
      return false;
  auto getReduction = [](const exec::CollectiveT &member) {
    return std::max(member.source->partial, member.target->partial);
  };
  auto getAxes = [](const exec::CollectiveT &member) {
    std::vector<layout::AxisRef> axes;
    for (const exec::AxisRef &axis : member.axes)
      axes.push_back(getAxisRef(axis));
    return axes;
  };
  for (size_t i = 1; i < members.size(); ++i) {
    if (!members[i]->merged.empty())
      return checker.fail("a merged collective has merged ones of its own");
    if (members[i]->kind != collective.kind ||
        getAxes(*members[i]) != getAxes(collective) ||
        command.operands[i]->element != command.operands[0]->element ||
        getReduction(*members[i]) != getReduction(collective))
      return checker.fail(
          "merged collectives differ in kind, axes, element type or "
          "reduction");
  }
  // No member touches what another one writes.
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t other = 0; other < command.operands.size(); ++other) {
      if (other % members.size() == i)
        continue;
      const auto [begin, end] =
          checker.getReach(*command.operands[members.size() + i]);
      const auto [first, last] = checker.getReach(*command.operands[other]);
      if (begin < last && first < end)
        return checker.fail("merged collectives share memory");
    }
  return true;
}

const CommandKind runtime::collectiveKind = {.name = "collective",
                                             .check = checkCollective};

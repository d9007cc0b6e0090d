#include "runtime/exec/Loops.h"

#include "runtime/exec/ExecutableChecker.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Expands the loops of one program.
class LoopExpander {
public:
  explicit LoopExpander(exec::ProgramT &program) : program(program) {}

  /// The first defect; empty if there is none.
  std::string check();
  /// Returns, for each command, which one it was.
  std::vector<int> expand();

private:
  using Commands = std::vector<std::unique_ptr<exec::CommandT>>;

  std::string checkNesting();
  std::string checkCommand(size_t index) const;
  void expand(size_t first, size_t end, size_t loop);
  void add(size_t index);

  size_t getEnd(const exec::LoopT &loop) const {
    return size_t(loop.first) + size_t(loop.commands);
  }

  exec::ProgramT &program;
  /// By command: the loops around it, the outermost first.
  std::vector<std::vector<size_t>> around;
  Commands expanded;
  std::vector<int> sources;
  /// Where expand is: loops and their positions.
  std::vector<std::pair<const exec::LoopT *, int64_t>> positions;
};

} // namespace

/// Loops lie inside of one another, or one behind the other.
std::string LoopExpander::checkNesting() {
  std::vector<size_t> open;
  for (size_t number = 0; number < program.loops.size(); ++number) {
    const exec::LoopT &loop = *program.loops[number];
    if (loop.first < 0 || loop.commands < 1 ||
        getEnd(loop) > program.commands.size())
      return fmt::format("loop {} ('{}') has {} commands from {} on, of {}",
                         number, loop.name, loop.commands, loop.first,
                         program.commands.size());
    if (loop.iterations < 1 || loop.iterations > maxLoopCommands)
      return fmt::format("loop {} ('{}') has {} iterations, expected 1 to {}",
                         number, loop.name, loop.iterations, maxLoopCommands);
    if (number > 0 && loop.first < program.loops[number - 1]->first)
      return fmt::format("loop {} ('{}') is not in order", number, loop.name);
    while (!open.empty() &&
           getEnd(*program.loops[open.back()]) <= size_t(loop.first))
      open.pop_back();
    if (!open.empty() && getEnd(*program.loops[open.back()]) < getEnd(loop))
      return fmt::format("loop {} ('{}') ends behind the loop it begins in",
                         number, loop.name);
    open.push_back(number);
    if (open.size() > maxLoopDepth)
      return fmt::format("more than {} loops inside of one another",
                         maxLoopDepth);
    for (int i = 0; i < loop.commands; ++i)
      around[size_t(loop.first) + size_t(i)].push_back(number);
  }
  return "";
}

/// Whether its operands stay in what can be said of memory, in all iterations.
std::string LoopExpander::checkCommand(size_t index) const {
  const exec::CommandT &command = *program.commands[index];
  const std::string where =
      fmt::format("command {} ('{}'): ", index, command.name);
  for (int wait : command.waits)
    if (wait < 0 || size_t(wait) >= index)
      return where + fmt::format("it waits for command {}, which is not before "
                                 "it",
                                 wait);
  for (size_t number = 0; number < command.operands.size(); ++number) {
    const exec::OperandT &operand = *command.operands[number];
    if (operand.steps.empty())
      continue;
    if (operand.steps.size() != around[index].size())
      return where + fmt::format("operand {} moves in {} loops, expected {}",
                                 number, operand.steps.size(),
                                 around[index].size());
    int64_t reach =
        operand.offset > uint64_t(maxExtent) ? -1 : int64_t(operand.offset);
    for (size_t i = 0; i < operand.steps.size() && reach >= 0; ++i) {
      const int64_t way = multiply(
          operand.steps[i], program.loops[around[index][i]]->iterations - 1);
      // Of negative steps too: with one iteration they go nowhere.
      const bool isSound =
          operand.steps[i] >= 0 && way >= 0 && (reach += way) <= maxExtent;
      if (!isSound)
        reach = -1;
    }
    if (reach < 0)
      return where + fmt::format("operand {} moves beyond any memory", number);
  }
  return "";
}

std::string LoopExpander::check() {
  around.resize(program.commands.size());
  if (std::string defect = checkNesting(); !defect.empty())
    return defect;
  int64_t total = 0;
  for (size_t index = 0; index < program.commands.size(); ++index) {
    if (std::string defect = checkCommand(index); !defect.empty())
      return defect;
    if (program.loops.empty())
      continue;
    // No product overflows: neither factor is larger than maxLoopCommands.
    int64_t repeats = 1;
    for (size_t loop : around[index])
      repeats = std::min(repeats * program.loops[loop]->iterations,
                         maxLoopCommands + 1);
    total += repeats;
    if (total > maxLoopCommands)
      return fmt::format("it has more than {} commands in all iterations of "
                         "its loops",
                         maxLoopCommands);
  }
  return "";
}

void LoopExpander::add(size_t index) {
  auto copy = std::make_unique<exec::CommandT>(*program.commands[index]);
  copy->waits.clear();
  for (const auto &[loop, position] : positions)
    copy->name += fmt::format(" [{} = {}]", loop->name, position);
  for (const auto &operand : copy->operands) {
    for (size_t i = 0; i < operand->steps.size(); ++i)
      operand->offset += uint64_t(operand->steps[i] * positions[i].second);
    operand->steps.clear();
  }
  expanded.push_back(std::move(copy));
  sources.push_back(int(index));
}

/// Commands [first, end) at `positions`; `loop` is the first one that does not
/// begin before. There are no more than maxLoopDepth calls inside of one
/// another.
void LoopExpander::expand(size_t first, size_t end, size_t loop) {
  for (size_t index = first; index < end;) {
    if (loop == program.loops.size() ||
        size_t(program.loops[loop]->first) > index) {
      add(index++);
      continue;
    }
    const exec::LoopT &entered = *program.loops[loop++];
    positions.emplace_back(&entered, 0);
    for (int64_t i = 0; i < entered.iterations; ++i) {
      positions.back().second =
          entered.is_reversed ? entered.iterations - 1 - i : i;
      expand(index, getEnd(entered), loop);
    }
    positions.pop_back();
    index = getEnd(entered);
    while (loop < program.loops.size() &&
           size_t(program.loops[loop]->first) < index)
      ++loop;
  }
}

std::vector<int> LoopExpander::expand() {
  expand(0, program.commands.size(), 0);
  program.commands = std::move(expanded);
  program.loops.clear();
  return std::move(sources);
}

std::vector<int64_t> runtime::countRepeats(const exec::ProgramT &program) {
  std::vector<int64_t> repeats(program.commands.size(), 1);
  for (const auto &loop : program.loops)
    for (int i = 0; i < loop->commands; ++i)
      repeats[size_t(loop->first) + size_t(i)] *= loop->iterations;
  return repeats;
}

std::string runtime::expandLoops(exec::ExecutableT &data,
                                 std::vector<ExpandedProgram> &expanded) {
  for (const auto &program : data.programs) {
    LoopExpander expander(*program);
    if (const std::string defect = expander.check(); !defect.empty())
      return fmt::format("program '{}', {}", program->name, defect);
    if (program->loops.empty())
      continue;
    expanded.push_back({program.get(), expander.expand()});
  }
  return "";
}

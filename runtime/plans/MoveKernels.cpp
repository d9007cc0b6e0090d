#include "runtime/plans/MoveKernels.h"

#include "runtime/exec/GpuKernels.h"
#include "runtime/plans/CollectiveSlice.h"
#include "runtime/plans/CopyPlan.h"

#include <algorithm>
#include <set>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Whether pieces of the command's operands may need 64-bit arithmetic: boxes
/// have no more elements than the operand that they are a part of, and no two
/// further apart.
static bool needsWideMoves(const exec::CommandT &command) {
  return std::ranges::any_of(command.operands, [](const auto &operand) {
    int64_t extent = 1, elements = 1;
    for (size_t dim = 0; dim < operand->shape.size(); ++dim) {
      extent += (operand->shape[dim] - 1) * operand->strides[dim];
      elements *= operand->shape[dim];
    }
    return std::max(extent, elements) > maxNarrowElements;
  });
}

std::vector<MoveKernel>
cuda::findMoveKernels(const exec::ExecutableT &executable,
                      const layout::Mesh &mesh) {
  std::vector<MoveKernel> needed;
  auto add = [&](const exec::CommandT &command, exec::ReduceKind reduce) {
    for (bool isWide : {false, true}) {
      if (isWide && !needsWideMoves(command))
        continue;
      const MoveKernel kernel{reduce, command.operands[0]->element, isWide};
      if (std::ranges::find(needed, kernel) == needed.end())
        needed.push_back(kernel);
    }
  };
  std::set<MoveKey> seen;
  for (const auto &program : executable.programs)
    for (const auto &command : program->commands) {
      if (command->action.AsCopy() &&
          planCopy(*command).form == CopyForm::Boxes)
        add(*command, exec::ReduceKind::none);
      if (!command->action.AsCollective())
        continue;
      std::vector<Collective::Member> members =
          Collective::getMembers(executable, *command);
      if (!seen.insert(getMoveKey(executable, members)).second)
        continue;
      // What goes to another process may be packed.
      add(*command, exec::ReduceKind::none);
      const Collective collective =
          CollectiveSlice::create(mesh, std::move(members)).collective;
      for (int64_t group = 0; group < collective.getNumGroups(); ++group)
        for (const Collective::Move &move : collective.getMoves(group))
          add(*command, move.reduce);
    }
  return needed;
}

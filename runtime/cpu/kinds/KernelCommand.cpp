#include "runtime/cpu/kinds/CpuCommand.h"

#include "runtime/plans/CpuPieces.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

namespace {
class KernelCommand : public CpuCommand {
public:
  KernelCommand(meshcKernelFunction function, int64_t extent, PieceCut cut)
      : CpuCommand(cut.pieces), function(function), extent(extent),
        extentPerPiece(cut.perPiece) {}

  // UndefinedBehaviorSanitizer looks for a function's type in front of it,
  // where generated code has none, and a kernel may begin its memory.
  [[gnu::no_sanitize("function")]] Status
  run(int64_t piece, const CpuPlace &place) const override {
    const int64_t begin = piece * extentPerPiece;
    function(place.operands, place.coordinates, begin,
             std::min(begin + extentPerPiece, extent));
    return Status::success();
  }

private:
  meshcKernelFunction function;
  int64_t extent, extentPerPiece;
};
} // namespace

PreparedCpuCommand runtime::prepareKernel(const exec::CommandT &command,
                                          const CpuPreparation &preparation) {
  Result<const meshcKernelEntry *> entry = preparation.kernels.find(
      preparation.executable.data, preparation.program, command);
  if (!entry)
    return entry.getError();
  return std::unique_ptr<CpuCommand>(std::make_unique<KernelCommand>(
      (*entry)->function, command.action.AsKernel()->extent,
      cutKernel(command, preparation.workers)));
}

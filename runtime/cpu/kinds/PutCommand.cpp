#include "runtime/cpu/kinds/CpuCommand.h"

#include "runtime/cpu/Put.h"
#include "runtime/plans/CpuPieces.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

namespace {
class PutCommand : public CpuCommand {
public:
  PutCommand(const exec::CommandT &command, PieceCut cut)
      : CpuCommand(cut.pieces),
        put(*command.action.AsPut(), command.operands[0]->element,
            command.operands[1]->element),
        unitsPerPiece(cut.perPiece) {}

  uint64_t getScratchBytes() const override { return put.getScratchBytes(); }

  Status run(int64_t piece, const CpuPlace &place) const override {
    const int64_t begin = piece * unitsPerPiece;
    put.run(begin, std::min(begin + unitsPerPiece, put.getPlan().getNumUnits()),
            place.operands, place.scratch);
    return Status::success();
  }

private:
  Put put;
  int64_t unitsPerPiece;
};
} // namespace

PreparedCpuCommand runtime::preparePut(const exec::CommandT &command,
                                       const CpuPreparation &preparation) {
  return std::unique_ptr<CpuCommand>(std::make_unique<PutCommand>(
      command, cutPut(command, preparation.workers)));
}

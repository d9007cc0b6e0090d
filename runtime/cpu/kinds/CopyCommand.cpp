#include "runtime/cpu/kinds/CpuCommand.h"

#include "runtime/plans/CpuPieces.h"
#include "runtime/plans/Reduction.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

/// Copies rows [begin, end) of operand 0 to operand 1; the rows of a command
/// are the positions of all its dimensions but the last, counted row-major.
static void copyRows(const exec::CommandT &command, const std::byte *from,
                     std::byte *to, int64_t begin, int64_t end) {
  const exec::OperandT &source = *command.operands[0];
  const exec::OperandT &target = *command.operands[1];
  const int64_t bytes = getElementBytes(source.element);
  const size_t rank = source.shape.size();
  const int64_t length = rank == 0 ? 1 : source.shape.back();
  for (int64_t row = begin; row < end; ++row) {
    int64_t fromOffset = 0;
    int64_t toOffset = 0;
    int64_t rest = row;
    for (size_t i = rank > 0 ? rank - 1 : 0; i-- > 0;) {
      fromOffset += rest % source.shape[i] * source.strides[i];
      toOffset += rest % source.shape[i] * target.strides[i];
      rest /= source.shape[i];
    }
    copyRow(bytes, from + fromOffset * bytes,
            rank == 0 ? 1 : source.strides.back(), to + toOffset * bytes,
            rank == 0 ? 1 : target.strides.back(), length);
  }
}

namespace {
class CopyCommand : public CpuCommand {
public:
  CopyCommand(const exec::CommandT &command, PieceCut cut)
      : CpuCommand(cut.pieces), command(command), rows(getCopyRows(command)),
        rowsPerPiece(cut.perPiece) {}

  Status run(int64_t piece, const CpuPlace &place) const override {
    const int64_t begin = piece * rowsPerPiece;
    copyRows(command, static_cast<const std::byte *>(place.operands[0]),
             static_cast<std::byte *>(place.operands[1]), begin,
             std::min(begin + rowsPerPiece, rows));
    return Status::success();
  }

private:
  const exec::CommandT &command;
  int64_t rows, rowsPerPiece;
};
} // namespace

PreparedCpuCommand runtime::prepareCopy(const exec::CommandT &command,
                                        const CpuPreparation &preparation) {
  return std::unique_ptr<CpuCommand>(std::make_unique<CopyCommand>(
      command, cutCopy(command, preparation.workers)));
}

#include "runtime/cpu/kinds/CpuCommand.h"

#include "runtime/cpu/LibraryPrimitives.h"

using namespace meshc;
using namespace meshc::runtime;

namespace {
class MatmulCommand : public CpuCommand {
public:
  MatmulCommand(Matmul &matmul, size_t numOperands)
      : CpuCommand(matmul.getNumPieces()), matmul(matmul),
        numOperands(numOperands) {}

  Status run(int64_t piece, const CpuPlace &place) const override {
    // a, b, the bias if there is one, c.
    const bool hasBias = numOperands == 4;
    return matmul.run(piece,
                      {place.operands[0], place.operands[1],
                       place.operands[numOperands - 1],
                       hasBias ? place.operands[2] : nullptr},
                      place.worker, place.scratch);
  }

private:
  Matmul &matmul;
  size_t numOperands;
};
} // namespace

PreparedCpuCommand runtime::prepareMatmul(const exec::CommandT &command,
                                          const CpuPreparation &preparation) {
  Result<Matmul *> matmul = preparation.library.get(getMatmulShape(
      *command.action.AsMatmul(), command.operands.front()->element,
      command.operands.back()->element));
  if (!matmul)
    return matmul.getError();
  return std::unique_ptr<CpuCommand>(
      std::make_unique<MatmulCommand>(**matmul, command.operands.size()));
}

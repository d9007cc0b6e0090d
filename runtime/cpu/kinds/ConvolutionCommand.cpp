#include "runtime/cpu/kinds/CpuCommand.h"

#include "runtime/cpu/LibraryPrimitives.h"

using namespace meshc;
using namespace meshc::runtime;

namespace {
class ConvolutionCommand : public CpuCommand {
public:
  ConvolutionCommand(Convolution &convolution, exec::ConvolutionTensor result)
      : CpuCommand(convolution.getNumPieces()), convolution(convolution),
        result(result) {}

  Status run(int64_t piece, const CpuPlace &place) const override {
    return convolution.run(piece,
                           getConvolutionOperands(result, place.operands),
                           place.worker, place.scratch);
  }

private:
  Convolution &convolution;
  exec::ConvolutionTensor result;
};
} // namespace

PreparedCpuCommand
runtime::prepareConvolution(const exec::CommandT &command,
                            const CpuPreparation &preparation) {
  const exec::ConvolutionT &shape = *command.action.AsConvolution();
  Result<Convolution *> convolution =
      preparation.library.get(shape, {command.operands.front()->element,
                                      command.operands.back()->element});
  if (!convolution)
    return convolution.getError();
  return std::unique_ptr<CpuCommand>(
      std::make_unique<ConvolutionCommand>(**convolution, shape.result));
}

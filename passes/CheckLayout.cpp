// The layout table against every tensor the user wrote.

#include "passes/ModuleLayout.h"
#include "passes/Passes.h"

namespace meshc {
#define GEN_PASS_DEF_CHECKLAYOUT
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {
struct CheckLayout : meshc::impl::CheckLayoutBase<CheckLayout> {
  void runOnOperation() override {
    FailureOr<ModuleLayout> layout = ModuleLayout::create(getOperation());
    if (failed(layout))
      return signalPassFailure();
    bool failedAny = false;
    for (auto variable : getOperation().getOps<VariableOp>())
      failedAny |=
          failed(layout->getSharding(variable.getTensorType(), variable));
    for (auto program : getOperation().getOps<ProgramOp>())
      for (Operation &op : program.getBody().front())
        for (Type type : op.getResultTypes())
          failedAny |=
              failed(layout->getSharding(cast<NamedTensorType>(type), &op));
    if (failedAny)
      signalPassFailure();
  }
};
} // namespace

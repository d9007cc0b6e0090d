// The layout table against every tensor the user wrote.

#include "dialect/ProgramWalk.h"
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
    for (auto variable : getOperation().getOps<VariableOp>()) {
      failedAny |= failed(layout->getSharding(variable));
      // Updates see a gradient so, also where no state is kept.
      if (variable.getRole() == VariableRole::Parameter)
        for (auto role : {layout::Role::Gradient, layout::Role::State})
          failedAny |= failed(layout->getSharding(variable, role));
    }
    for (auto program : getOperation().getOps<ProgramOp>())
      for (Operation *op : getOperations(program))
        for (Type type : op->getResultTypes())
          if (auto named = dyn_cast<NamedTensorType>(type))
            failedAny |= failed(layout->getSharding(named, op));
    if (failedAny)
      signalPassFailure();
  }
};
} // namespace

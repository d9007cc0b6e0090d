#include "passes/Passes.h"

namespace meshc {
#define GEN_PASS_DEF_OPTIMIZECOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;

namespace {
struct OptimizeCollectives
    : meshc::impl::OptimizeCollectivesBase<OptimizeCollectives> {
  void runOnOperation() override {}
};
} // namespace

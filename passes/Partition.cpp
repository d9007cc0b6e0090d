// Turns each program on whole tensors into the program of one device.

#include "passes/Passes.h"

#include "dialect/PartitionBuilder.h"
#include "layout/ReshardPlanner.h"
#include "passes/ModuleLayout.h"

#include "mlir/IR/IRMapping.h"

namespace meshc {
#define GEN_PASS_DEF_PARTITION
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

/// Builds the program of one device beside the program it comes from.
class ProgramPartition {
public:
  ProgramPartition(ProgramOp source)
      : source(source), mesh(nd::getMesh(source)),
        plans(mesh, nd::getMachine(source)), builder(source.getContext()) {}

  LogicalResult run() {
    if (failed(verifyShardings(source)))
      return failure();
    builder.setInsertionPoint(source);
    auto target =
        spmd::ProgramOp::create(builder, source.getLoc(), source.getSymName());
    builder.setInsertionPointToStart(&target.getBody().front());
    for (Operation &op : source.getBody().front())
      if (failed(translate(op)))
        return failure();
    source.erase();
    return success();
  }

private:
  LogicalResult translate(Operation &op) {
    Location loc = op.getLoc();
    if (auto input = dyn_cast<InputOp>(op)) {
      values.map(input.getResult(),
                 spmd::InputOp::create(
                     builder, loc, getLocalType(input.getType(), mesh),
                     input.getName(), input.getType(), input.getIndexBound()));
      return success();
    }
    if (auto output = dyn_cast<OutputOp>(op)) {
      spmd::OutputOp::create(builder, loc, output.getName(),
                             output.getValue().getType(),
                             values.lookup(output.getValue()));
      return success();
    }
    if (auto read = dyn_cast<ReadOp>(op)) {
      values.map(read.getResult(),
                 spmd::ReadOp::create(builder, loc,
                                      getLocalType(read.getType(), mesh),
                                      read.getVariable()));
      return success();
    }
    if (auto write = dyn_cast<WriteOp>(op)) {
      spmd::WriteOp::create(builder, loc, write.getVariable(),
                            values.lookup(write.getValue()));
      return success();
    }
    if (auto reshard = dyn_cast<ReshardOp>(op))
      return translateReshard(reshard);
    if (auto partitioned = dyn_cast<PartitionOpInterface>(op))
      return translateOperation(partitioned);
    return op.emitError() << "'" << op.getName()
                          << "' cannot be partitioned: it has no "
                             "PartitionOpInterface";
  }

  LogicalResult translateReshard(ReshardOp op) {
    NamedTensorType type = op.getInput().getType();
    const llvm::SmallVector<int64_t> sizes = type.getSizes();
    const layout::ReshardPlan &plan =
        plans
            .get({{sizes.begin(), sizes.end()},
                  getSharding(type, mesh),
                  getSharding(op.getType(), mesh)},
                 getElementBytes(type))
            .best;
    Value value = values.lookup(op.getInput());
    const auto getElements = [&](const layout::Sharding &sharding) {
      return llvm::product_of(layout::getLocalShape(sizes, sharding));
    };
    const int64_t elements = getElements(getSharding(op.getType(), mesh));
    for (const layout::ReshardStep &step : plan.steps) {
      auto get = [&](const layout::Sharding &sharding) {
        return type.withSharding(getShardingAttr(type, mesh, sharding));
      };
      // On the way to it there may be more.
      const Location loc = getElements(step.target) > elements
                               ? asPart(op.getLoc(), OriginPart::Gathered)
                               : op.getLoc();
      value = spmd::createCollective(builder, loc, step.kind, value,
                                     get(step.source), get(step.target),
                                     op.getCausesAttr())
                  .getResult();
    }
    values.map(op.getResult(), value);
    return success();
  }

  LogicalResult translateOperation(PartitionOpInterface op) {
    SmallVector<Value> shards;
    for (Value operand : op->getOperands())
      shards.push_back(values.lookup(operand));
    PartitionBuilder local(builder, op.getLoc(), mesh);
    LocalResults results = op.buildLocal(local, shards);
    if (failed(results))
      return failure();
    for (auto [whole, block] : llvm::zip_equal(op->getResults(), *results)) {
      Type expected =
          getLocalType(cast<NamedTensorType>(whole.getType()), mesh);
      if (block.getType() != expected)
        return op->emitOpError("was partitioned into ")
               << block.getType() << ", expected " << expected;
      values.map(whole, block);
    }
    return success();
  }

  ProgramOp source;
  layout::Mesh mesh;
  layout::ReshardPlans plans;
  OpBuilder builder;
  IRMapping values; ///< whole tensors to this device's blocks
};

struct Partition : meshc::impl::PartitionBase<Partition> {
  void runOnOperation() override {
    for (auto variable : getOperation().getOps<VariableOp>())
      if (!variable.getTensorType().getSharding()) {
        variable.emitOpError("has no sharding (nd-assign-shardings gives it "
                             "one)");
        return signalPassFailure();
      }
    SmallVector<ProgramOp> programs(getOperation().getOps<ProgramOp>());
    for (ProgramOp program : programs)
      if (failed(ProgramPartition(program).run()))
        return signalPassFailure();
  }
};

} // namespace

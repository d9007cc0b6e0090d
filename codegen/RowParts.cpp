#include "codegen/RowParts.h"

#include "codegen/ExecTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Iterations of a kernel that are enough for one device: pieces for each of 8
/// threads, shared by all devices, as many as the executor makes of other
/// kernels (piecesPerWorker in runtime/Devices/CommandList.cpp). From 8 devices
/// on every one has a thread at most, as for matmuls (getMatmulPieces in
/// runtime/Devices/Executor.cpp), and parts would only cost.
static int64_t getWantedIterations(int64_t devices) {
  constexpr int64_t usualThreads = 8;
  constexpr int64_t piecesPerThread = 4;
  const int64_t threads = llvm::divideCeil(usualThreads, devices);
  return threads == 1 ? 1 : threads * piecesPerThread;
}

RowParts RowParts::get(const Step &step, const Cluster &cluster,
                       const Schedule &schedule, const PartLimits &limits) {
  RowParts result;
  for (unsigned dim : schedule.getSummed())
    result.rows *= cluster.getSizes()[dim];
  result.rowsPerPart = result.rows;
  ArrayRef<Cluster::Member> members = cluster.getMembers();
  bool hasSplatInits = true;
  for (unsigned member = 0; member < members.size(); ++member) {
    if (schedule.getRole(member) != Schedule::Role::Accumulator)
      continue;
    auto op = cast<linalg::GenericOp>(members[member].op);
    hasSplatInits &= bool(getSplat(op.getDpsInitOperand(0)->get()));
    result.accumulators.push_back(member);
  }
  const int64_t extent = schedule.getExtent(cluster);
  // The second function reads nothing but the parts.
  if (result.accumulators.empty() || !hasSplatInits || extent == 0)
    return result;
  int64_t bytes = 0;
  for (Value tensor : llvm::concat<const Value>(step.inputs, step.outputs))
    bytes += getBytes(cast<RankedTensorType>(tensor.getType()));
  const int64_t iterations = std::min(
      getWantedIterations(nd::getMesh(step.ops.front()).getNumDevices()),
      bytes / limits.minBytes);
  const int64_t parts =
      std::min(iterations / extent, result.rows / limits.minRows);
  if (parts < 2)
    return result;
  result.rowsPerPart = llvm::divideCeil(result.rows, parts);
  result.parts = llvm::divideCeil(result.rows, result.rowsPerPart);
  for (unsigned member : result.accumulators) {
    result.offsets.push_back(result.bytesPerPart);
    // Parts written at the same time share no cache line.
    constexpr uint64_t cacheLine = 64;
    result.bytesPerPart +=
        int64_t(llvm::alignTo(uint64_t(getBytes(cast<RankedTensorType>(
                                  members[member].op->getResult(0).getType()))),
                              cacheLine));
  }
  return result;
}

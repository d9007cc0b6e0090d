#include "runtime/plans/CopyPlan.h"

#include "runtime/exec/Executable.h"

#include <algorithm>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

MoveList::Box cuda::getCopyBox(const exec::CommandT &command,
                               DevicePointer fromAddress,
                               DevicePointer toAddress) {
  const exec::OperandT &from = *command.operands[0];
  const exec::OperandT &to = *command.operands[1];
  MoveList::Box box{{fromAddress}, {toAddress}, {}};
  for (size_t i = 0; i < from.shape.size(); ++i)
    box.dims.push_back({from.shape[i], from.strides[i], to.strides[i]});
  return box;
}

CopyPlan cuda::planCopy(const exec::CommandT &command) {
  CopyPlan plan;
  const exec::OperandT &from = *command.operands[0];
  for (int64_t size : from.shape)
    if (size == 0)
      return plan;
  const uint64_t bytes = uint64_t(getElementBytes(from.element));
  const std::vector<Collective::MoveDim> dims =
      mergeMoveDims(getCopyBox(command, 0, 0).dims);
  const bool hasRows = dims.empty() || (dims.back().fromStride == 1 &&
                                        dims.back().toStride == 1);
  if (!hasRows || dims.size() > 2) {
    plan.form = CopyForm::Boxes;
    return plan;
  }
  plan.widthBytes = (dims.empty() ? 1 : uint64_t(dims.back().size)) * bytes;
  plan.form = CopyForm::Linear;
  if (dims.size() < 2)
    return plan;
  plan.height = uint64_t(dims[0].size);
  plan.fromPitch = uint64_t(dims[0].fromStride) * bytes;
  plan.toPitch = uint64_t(dims[0].toStride) * bytes;
  // What every device copies. Source: CUDA 13.0, cuMemcpy2D and
  // CU_DEVICE_ATTRIBUTE_MAX_PITCH.
  constexpr uint64_t longest = INT32_MAX;
  const bool fits = std::min(plan.fromPitch, plan.toPitch) >= plan.widthBytes &&
                    std::max(plan.fromPitch, plan.toPitch) <= longest;
  plan.form = fits ? CopyForm::Rows : CopyForm::Boxes;
  return plan;
}

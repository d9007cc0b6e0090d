#include "passes/StoragePrice.h"

#include <cmath>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static NamedTensorType getInputType(EinsumOp einsum, unsigned number) {
  return cast<NamedTensorType>(einsum.getInputs()[number].getType());
}

NamedTensorType StorageReader::getRead() const {
  return getInputType(einsum, operand);
}

NamedTensorType StorageReader::getOther() const {
  return getInputType(einsum, 1 - operand);
}

NamedTensorType StorageReader::getResult() const {
  return EinsumOp(einsum).getType();
}

Order StorageReader::rename(ArrayRef<DimAttr> order) const {
  Order seen;
  for (DimAttr dim : order) {
    auto renamed = names.find(dim.getName());
    seen.push_back(renamed == names.end()
                       ? dim
                       : DimAttr::get(renamed->second, dim.getSize()));
  }
  return seen;
}

/// The positions of the dimensions for which `isMember` holds, in all pieces
/// but the largest; 1 if there is one piece. A piece is a run of `a` that is
/// adjacent and in the same order in `b`, the other tensor.
static int64_t countOuterPositions(ArrayRef<DimAttr> a, ArrayRef<DimAttr> b,
                                   llvm::function_ref<bool(DimAttr)> isMember) {
  int64_t positions = 1, piece = 1, largest = 1;
  std::optional<size_t> previousA, previousB;
  for (auto [position, dim] : llvm::enumerate(a)) {
    if (!isMember(dim) || dim.getSize() == 1)
      continue;
    size_t other = llvm::find(b, dim) - b.begin();
    if (!previousA || position != *previousA + 1 || other != *previousB + 1)
      piece = 1;
    piece *= dim.getSize();
    positions *= dim.getSize();
    largest = std::max(largest, piece);
    previousA = position;
    previousB = other;
  }
  return positions / largest;
}

/// Whether `order` and an operand end in different dimensions for which
/// `isMember` holds: one is the library's, in which it can be contiguous alone.
static bool endsInAnother(ArrayRef<DimAttr> order, ArrayRef<DimAttr> operand,
                          llvm::function_ref<bool(DimAttr)> isMember) {
  auto isLoop = [](DimAttr dim) { return dim.getSize() > 1; };
  auto last = llvm::find_if(llvm::reverse(order), isLoop);
  auto other = llvm::find_if(llvm::reverse(operand), isLoop);
  return last != order.rend() && other != operand.rend() && *last != *other &&
         isMember(*last) && isMember(*other);
}

static double getBytes(NamedTensorType type) {
  return double(llvm::product_of(type.getSizes()) * getElementBytes(type));
}

static int64_t getPs(const layout::Machine &machine, double bytes) {
  return std::llround(machine.getKernelPrice(0, bytes).us * 1e6);
}

int64_t StoragePrice::getCopyPs(NamedTensorType type) const {
  return getPs(machine, 2 * getBytes(type));
}

/// Of a tensor that a command reads `times` times instead of once.
int64_t StoragePrice::getAgainPs(NamedTensorType read, int64_t times) const {
  return getPs(machine, double(times) * getBytes(read)) -
         getPs(machine, getBytes(read));
}

int64_t StoragePrice::getWriterPs(EinsumOp einsum,
                                  ArrayRef<DimAttr> order) const {
  const NamedTensorType result = einsum.getType();
  const int64_t copyPs = getCopyPs(result);
  const std::array<NamedTensorType, 2> operands = {getInputType(einsum, 0),
                                                   getInputType(einsum, 1)};
  int64_t ps = 0, refusedPs = 0;
  for (unsigned number : {0u, 1u}) {
    const NamedTensorType operand = operands[number],
                          other = operands[1 - number];
    // Rows for the first operand, columns for the second.
    auto isFree = [&](DimAttr dim) {
      return result.hasDim(dim.getName()) && operand.hasDim(dim.getName()) &&
             !other.hasDim(dim.getName());
    };
    if (endsInAnother(order, operand.getDims(), isFree))
      refusedPs += getCopyPs(operand);
    ps += std::min(
        copyPs, getAgainPs(other, countOuterPositions(order, operand.getDims(),
                                                      isFree)));
  }
  const bool endsInBatch =
      !order.empty() && llvm::all_of(operands, [&](NamedTensorType operand) {
        return operand.hasDim(order.back().getName());
      });
  return ps + std::min(refusedPs, copyPs) + (endsInBatch ? copyPs : 0);
}

int64_t StoragePrice::getReaderPs(const StorageReader &reader,
                                  ArrayRef<DimAttr> order) const {
  const Order seen = reader.rename(order);
  const NamedTensorType other = reader.getOther();
  const NamedTensorType result = reader.getResult();
  const int64_t copyPs = getCopyPs(reader.getRead());
  auto isContracted = [&](DimAttr dim) {
    return !result.hasDim(dim.getName());
  };
  auto isFree = [&](DimAttr dim) {
    return !isContracted(dim) && !other.hasDim(dim.getName());
  };
  int64_t ps = 0;
  if (const int64_t calls =
          countOuterPositions(seen, other.getDims(), isContracted);
      calls > 1) {
    const int64_t callsPs = (calls - 1) * getCopyPs(result);
    ps += machine.getGpuConstants() ? std::min(callsPs, copyPs)
                                    : std::max(callsPs, copyPs);
  }
  // The reader's own result is chosen later: only adjacency counts.
  Order free;
  llvm::copy_if(seen, std::back_inserter(free), isFree);
  ps += std::min(copyPs,
                 getAgainPs(other, countOuterPositions(seen, free, isFree)));
  const bool isInnermost =
      !seen.empty() && (isContracted(seen.back()) || isFree(seen.back()));
  return ps + (isInnermost ? 0 : copyPs);
}

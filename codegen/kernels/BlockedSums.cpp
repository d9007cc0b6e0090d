#include "codegen/kernels/BlockedSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc::codegen;

SumLoops SumLoops::get(ArrayRef<int64_t> sizes, int64_t terms) {
  SumLoops result{{}, terms};
  for (size_t dim = sizes.size(); dim-- > 0;) {
    int64_t step = 1;
    // Positions of `step` are left at each turn, each of which adds `terms`.
    for (int64_t count = sizes[dim]; count > 1;) {
      const bool fits = count * result.terms <= sumBlock;
      // Of bodies that add more than half a block no two are one.
      const bool startsFresh = !fits && 2 * result.terms > sumBlock;
      if (startsFresh)
        result.terms = 1;
      const int64_t inBlock = std::min(count, sumBlock / result.terms);
      result.loops.push_back({unsigned(dim), step, startsFresh});
      result.terms *= inBlock;
      step *= inBlock;
      count = llvm::divideCeil(count, inBlock);
    }
  }
  std::reverse(result.loops.begin(), result.loops.end());
  return result;
}

SumLoops SumLoops::getPlain(ArrayRef<int64_t> sizes) {
  SumLoops result{{}, 1};
  for (auto [dim, size] : llvm::enumerate(sizes))
    if (size > 1)
      result.loops.push_back({unsigned(dim), 1, false});
  return result;
}

size_t SumLoops::cutInnermost(ArrayRef<int64_t> sizes, int64_t most) {
  size_t count = 0;
  int64_t positions = 1;
  for (size_t index = loops.size(); index-- > 0;) {
    SumLoop &loop = loops[index];
    if (loop.startsFresh)
      break;
    const bool isOutermost = index == 0 || loops[index - 1].dim != loop.dim;
    const int64_t turns = llvm::divideCeil(
        isOutermost ? sizes[loop.dim] : loops[index - 1].step, loop.step);
    if (positions * turns <= most) {
      positions *= turns;
      ++count;
      continue;
    }
    int64_t few = most / positions;
    // A block's last rows would go beyond it else.
    while (!isOutermost && turns % few != 0)
      --few;
    if (few > 1) {
      const SumLoop inner{loop.dim, loop.step, false};
      loop.step *= few;
      loops.insert(loops.begin() + index + 1, inner);
      ++count;
    }
    break;
  }
  return count;
}

int64_t SumLoops::countLevels() const {
  return llvm::count_if(loops,
                        [](const SumLoop &loop) { return loop.startsFresh; });
}

ArrayRef<SumLoop> SumLoops::getFirstDim(ArrayRef<SumLoop> rest) {
  return rest.take_while(
      [&](const SumLoop &loop) { return loop.dim == rest.front().dim; });
}

SumBlocks::~SumBlocks() = default;

SmallVector<Value> CarriedSums::begin(OpBuilder &builder,
                                      ArrayRef<Value> outer) {
  SmallVector<Value> own(outer);
  SmallVector<bool> isFresh(outer.size(), false);
  for (auto [place, value] : llvm::enumerate(own))
    if (Value neutral = getNeutral(builder, place)) {
      value = neutral;
      isFresh[place] = true;
    }
  open.push_back(std::move(isFresh));
  return own;
}

SmallVector<Value> CarriedSums::end(OpBuilder &builder, ArrayRef<Value> outer,
                                    ArrayRef<Value> own) {
  SmallVector<Value> results(own);
  for (auto [place, value] : llvm::enumerate(results))
    if (open.back()[place])
      value = combine(builder, place, outer[place], value);
  open.pop_back();
  return results;
}

SmallVector<Value> meshc::codegen::emitSumLoops(OpBuilder &builder,
                                                Location loc,
                                                ArrayRef<SumLoop> loops,
                                                const SumRange &range,
                                                ArrayRef<Value> carried,
                                                SumBlocks &sums, SumBody body) {
  const SumLoop &loop = loops.front();
  Type type = range.first.getType();
  auto getConstant = [&](OpBuilder &place, int64_t value) -> Value {
    return arith::ConstantOp::create(place, loc,
                                     place.getIntegerAttr(type, value));
  };
  const int64_t width = loop.step * range.unit;
  auto emitted = scf::ForOp::create(
      builder, loc, range.first, range.last, getConstant(builder, width),
      carried, [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder inner = OpBuilder::atBlockEnd(emitted.getBody());
  Value position = emitted.getInductionVar();
  auto outer = llvm::to_vector_of<Value>(emitted.getRegionIterArgs());
  SmallVector<Value> own = outer;
  if (loop.startsFresh)
    own = sums.begin(inner, outer);
  SmallVector<Value> results;
  if (loops.size() == 1) {
    results = body(inner, position, own);
  } else {
    Value end =
        arith::AddIOp::create(inner, loc, position, getConstant(inner, width));
    const bool isWhole = range.size != 0 && range.size % loop.step == 0;
    if (!isWhole)
      end = arith::MinUIOp::create(inner, loc, end, range.last);
    results = emitSumLoops(inner, loc, loops.drop_front(),
                           {position, end, range.unit, isWhole ? loop.step : 0},
                           own, sums, body);
  }
  if (loop.startsFresh)
    results = sums.end(inner, outer, results);
  scf::YieldOp::create(inner, loc, results);
  return llvm::to_vector_of<Value>(emitted.getResults());
}

// The terms of a put sorted by the row that their index says.
//
// Numbers of terms alone are moved. The sorting is stable, from the lowest
// digit of the row to the highest:
//
//   count    a block per chunk of terms, a thread per value of the digit: how
//            many terms of the chunk have it
//   place    one block: where the first of them goes, behind those of lower
//            values and those of earlier chunks
//   move     as count: the terms of the chunk go there in their order
//
//   start    a thread per row: where its terms begin, by bisection
//
// Every thread looks at all terms of its chunk, and counts or moves those that
// have its value: no two threads write to one place, nothing is atomic, and the
// order is that of the terms.

#include "codegen/gpu/PutSort.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using runtime::PutLoop;

/// Digits that a thread looks at at a time.
static constexpr int64_t digitLanes = 4;

namespace {
class PutSorter : public PutCode {
public:
  using PutCode::PutCode;

  LogicalResult emit();

private:
  Value readIndex(Value term);
  Value readRow(unsigned digit, Value term);
  void stageDigits(unsigned digit);
  Values walkDigits(Value carried,
                    llvm::function_ref<Value(Value, Value, Value)> body);
  LogicalResult emitCount(unsigned digit);
  LogicalResult emitPlace(unsigned digit);
  LogicalResult emitMove(unsigned digit);
  LogicalResult emitStart();
};
} // namespace

/// The row of a term as its index says it; shape.rows if that is none.
Value PutSorter::readIndex(Value term) {
  Value position = load(getPlace(getOperand(1), indexType,
                                 getOffset(termLoops, term, &PutLoop::index)),
                        indexType, indexType.getIntOrFloatBitWidth() / 8);
  // Unsigned, what is negative is greater as well.
  Type wide = shape.numberBits == 64 ? Type(i64) : indexType;
  if (wide != indexType)
    position = arith::ExtSIOp::create(builder, loc, wide, position);
  Value isRow = compare(arith::CmpIPredicate::ult, position,
                        constant(shape.rowsPerBatch, wide));
  Value row = convert(position, numberType);
  if (shape.rows != shape.rowsPerBatch)
    row = add(row,
              multiply(divide(term, shape.termsPerBatch), shape.rowsPerBatch));
  return select(isRow, row, constant(shape.rows));
}

/// The row of a term in the order that the sorting of digit `digit` finds.
Value PutSorter::readRow(unsigned digit, Value term) {
  return digit == 0
             ? readIndex(term)
             : loadNumber(getListPlace(shape.rowLists[(digit - 1) % 2], term));
}

/// Has the digits of the block's chunk in shared memory; no digit, -1, for what
/// is behind the last term.
void PutSorter::stageDigits(unsigned digit) {
  Value first = multiply(getBlock(), shape.chunkTerms);
  loop(getThread(), constant(shape.chunkTerms), shape.buckets, {},
       [&](Value place, ValueRange) {
         Value term = add(first, place);
         auto read = [&] {
           Value shifted = arith::ShRUIOp::create(
               builder, loc, readRow(digit, term),
               constant(int64_t(digit * shape.digitBits)));
           Value low = arith::AndIOp::create(builder, loc, shifted,
                                             constant(shape.buckets - 1));
           return convert(low, i32);
         };
         Value found = shape.isLastChunkWhole()
                           ? read()
                           : choose(isLess(term, constant(shape.terms)), i32,
                                    read, [&] { return constant(-1, i32); });
         store(found, getSharedPlace(0, i32, place), 4);
         return Values();
       });
  wait();
}

/// Goes through the digits of the chunk, some at a time: `body` gets the place
/// of the first, which of them are the thread's own, and what it has returned
/// for those before.
PutSorter::Values
PutSorter::walkDigits(Value carried,
                      llvm::function_ref<Value(Value, Value, Value)> body) {
  auto digits = VectorType::get({digitLanes}, i32);
  Value own = vector::BroadcastOp::create(builder, loc, digits,
                                          convert(getThread(), i32));
  return loop(constant(0), constant(shape.chunkTerms), digitLanes, carried,
              [&](Value place, ValueRange before) {
                Value found =
                    load(getSharedPlace(0, i32, place), digits, digitLanes * 4);
                Value isOwn = compare(arith::CmpIPredicate::eq, found, own);
                return Values{body(place, isOwn, before.front())};
              });
}

LogicalResult PutSorter::emitCount(unsigned digit) {
  if (failed(begin("count" + std::to_string(digit), shape.numChunks,
                   shape.buckets, shape.chunkTerms * 4)))
    return failure();
  stageDigits(digit);
  auto counts = VectorType::get({digitLanes}, i32);
  Value none =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(counts));
  Value each =
      walkDigits(none, [&](Value, Value isOwn, Value before) {
        return add(before, arith::ExtUIOp::create(builder, loc, counts, isOwn));
      }).front();
  Value count = vector::ReductionOp::create(builder, loc,
                                            vector::CombiningKind::ADD, each);
  Value place = add(multiply(getBlock(), shape.buckets), getThread());
  storeNumber(convert(count, numberType), getListPlace(shape.counts, place));
  return success();
}

/// Counts become the places of the first term of each chunk and digit. Each
/// thread has a digit and a part of the chunks.
LogicalResult PutSorter::emitPlace(unsigned digit) {
  const int64_t threads = shape.chunkParts * shape.buckets;
  const int64_t totals = threads * numberBytes;
  if (failed(begin("place" + std::to_string(digit), 1, threads,
                   totals + shape.buckets * numberBytes)))
    return failure();
  Value thread = getThread();
  Value value = getRest(thread, shape.buckets);
  Value part = divide(thread, shape.buckets);
  const int64_t partChunks =
      llvm::divideCeil(shape.numChunks, shape.chunkParts);
  Value first = multiply(part, partChunks);
  Value last =
      getLesser(add(first, constant(partChunks)), constant(shape.numChunks));
  auto getCount = [&](Value chunk) {
    return getListPlace(shape.counts,
                        add(multiply(chunk, shape.buckets), value));
  };
  auto addUp = [&](Value end, llvm::function_ref<Value(Value)> getNumber) {
    return loop(constant(0), end, 1, constant(0),
                [&](Value number, ValueRange sum) {
                  return Values{
                      add(sum.front(), loadNumber(getNumber(number)))};
                })
        .front();
  };
  auto getPart = [&](Value number) {
    return getSharedPlace(0, numberType,
                          add(multiply(number, shape.buckets), value));
  };
  auto getTotal = [&](Value number) {
    return getSharedPlace(totals, numberType, number);
  };
  Value count =
      loop(first, last, 1, constant(0), [&](Value chunk, ValueRange sum) {
        return Values{add(sum.front(), loadNumber(getCount(chunk)))};
      }).front();
  storeNumber(count, getSharedPlace(0, numberType, thread));
  wait();
  doIf(isLess(thread, constant(shape.buckets)), [&] {
    storeNumber(addUp(constant(shape.chunkParts), getPart), getTotal(value));
  });
  wait();
  Value place = add(addUp(value, getTotal), addUp(part, getPart));
  loop(first, last, 1, place, [&](Value chunk, ValueRange before) {
    Value own = loadNumber(getCount(chunk));
    storeNumber(before.front(), getCount(chunk));
    return Values{add(before.front(), own)};
  });
  return success();
}

LogicalResult PutSorter::emitMove(unsigned digit) {
  if (failed(begin("move" + std::to_string(digit), shape.numChunks,
                   shape.buckets, shape.chunkTerms * 4)))
    return failure();
  stageDigits(digit);
  Value first = multiply(getBlock(), shape.chunkTerms);
  Value start = loadNumber(getListPlace(
      shape.counts, add(multiply(getBlock(), shape.buckets), getThread())));
  walkDigits(start, [&](Value place, Value isOwn, Value next) {
    for (int64_t lane = 0; lane < digitLanes; ++lane)
      next = choose(
          vector::ExtractOp::create(builder, loc, isOwn, lane), numberType,
          [&] {
            Value from = add(first, add(place, constant(lane)));
            storeNumber(readRow(digit, from),
                        getListPlace(shape.rowLists[digit % 2], next));
            Value term = digit == 0
                             ? from
                             : loadNumber(getListPlace(
                                   shape.termLists[(digit - 1) % 2], from));
            storeNumber(term, getListPlace(shape.termLists[digit % 2], next));
            return add(next, constant(1));
          },
          [&] { return next; });
    return next;
  });
  return success();
}

/// For each row the number of terms whose row is lower, and for the end that of
/// all that have one.
LogicalResult PutSorter::emitStart() {
  if (failed(begin("start", llvm::divideCeil(shape.rows + 1, blockThreads),
                   blockThreads)))
    return failure();
  Value row = add(multiply(getBlock(), blockThreads), getThread());
  const int64_t list = shape.rowLists[shape.getSorted()];
  doIf(isLess(row, constant(shape.rows + 1)), [&] {
    Value lower = constant(0);
    const int64_t widest = int64_t(llvm::bit_floor(uint64_t(shape.terms)));
    for (int64_t width = widest; width > 0; width /= 2) {
      Value next = add(lower, constant(width));
      Value last = getLesser(next, constant(shape.terms));
      Value lastRow =
          loadNumber(getListPlace(list, subtract(last, constant(1))));
      Value areLower = arith::AndIOp::create(
          builder, loc, compare(arith::CmpIPredicate::eq, last, next),
          isLess(lastRow, row));
      lower = select(areLower, next, lower);
    }
    storeNumber(lower, getListPlace(shape.starts, row));
  });
  return success();
}

LogicalResult PutSorter::emit() {
  for (unsigned digit = 0; digit < shape.digits; ++digit)
    if (failed(emitCount(digit)) || failed(emitPlace(digit)) ||
        failed(emitMove(digit)))
      return failure();
  return emitStart();
}

FailureOr<std::vector<KernelLaunch>>
meshc::codegen::emitPutSort(steps::PutOp put, StringRef name,
                            ArrayRef<bool> isShared, gpu::GPUModuleOp kernels) {
  PutSorter sorter(put, name, isShared, kernels);
  if (failed(sorter.emit()))
    return failure();
  return sorter.getLaunches();
}

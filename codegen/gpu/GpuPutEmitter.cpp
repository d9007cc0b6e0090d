// A put as launches of a GPU.
//
// The terms are sorted by the row that their index says (PutSort.cpp), so that
// each row finds its own side by side. Teams of threads, whose threads have the
// columns, then add them up:
//
//   sum      a row of up to 64 terms by one team, in order; of a longer one
//            each team takes blocks of 64, whose sums are added up in order
//
// This is the order of runtime/exec/SumBlock.h, so the bits are the CPU's.

#include "codegen/gpu/GpuPutEmitter.h"

#include "codegen/ExecTypes.h"
#include "codegen/gpu/PutSort.h"

#include "runtime/exec/SumBlock.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using runtime::PutLoop;
using runtime::sumBlock;

/// Terms that a thread has on their way at once.
static constexpr int64_t termsAtOnce = 4;
/// Threads of a multiprocessor, with 64 registers each: of four accesses on
/// their way 16 have what is read.
static constexpr int64_t threadsAtOnce = 1024;

namespace {
class PutSummer : public PutCode {
public:
  using PutCode::PutCode;

  LogicalResult emit();
  int64_t countRows() const { return shape.rows; }
  int64_t getWorkspaceBytes() const { return shape.workspaceBytes; }

private:
  Type withLanes(Type type) const {
    return shape.lanes == 1 ? type : VectorType::get({shape.lanes}, type);
  }
  Value readTerm(Value number);
  Value sumTerms(Value first, Value count);
  Value sumLevel(int level, Value first, Value count);
  void storeSum(Value row, Value sum);
  std::pair<Value, Value> getTerms(Value row);
  void sumShortRows(Value rowsEnd);
  void sumLongRows(Value rowsEnd);

  Value team, teamThread, inputColumn, resultColumn, hasColumns;
  Value firstRow; ///< of the block
};
} // namespace

/// What the input has of the thread's columns for a term, by its place among
/// those that are sorted.
Value PutSummer::readTerm(Value number) {
  Value term =
      loadNumber(getListPlace(shape.termLists[shape.getSorted()], number));
  Value offset = add(getOffset(termLoops, term, &PutLoop::input), inputColumn);
  Value read =
      load(getPlace(getOperand(0), inputType, offset), withLanes(inputType),
           shape.lanes * getElementBytes(inputType));
  return inputType == sumType ? read
                              : Value(arith::ExtFOp::create(
                                    builder, loc, withLanes(sumType), read));
}

/// The sum of `count` terms from `first` on, which are a block at the most.
Value PutSummer::sumTerms(Value first, Value count) {
  Type type = withLanes(sumType);
  Value one = constant(1);
  // As the CPU begins: of a single -0 the sum is -0.
  Value sum = choose(
      isLess(constant(0), count), type, [&] { return readTerm(first); },
      [&]() -> Value {
        return arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(type));
      });
  Value rest =
      arith::MaxSIOp::create(builder, loc, subtract(count, one), constant(0));
  Value second = add(first, one);
  Value middle = add(second, multiply(divide(rest, termsAtOnce), termsAtOnce));
  auto addTerms = [&](Value from, Value to, int64_t atOnce) {
    sum = loop(from, to, atOnce, sum, [&](Value number, ValueRange before) {
            Values read;
            for (int64_t i = 0; i < atOnce; ++i)
              read.push_back(readTerm(add(number, constant(i))));
            Value next = before.front();
            for (Value term : read)
              next = arith::AddFOp::create(builder, loc, next, term);
            return Values{next};
          }).front();
  };
  addTerms(second, middle, termsAtOnce);
  addTerms(middle, add(second, rest), 1);
  return sum;
}

/// The sum of `count` terms, of which there are as many as a sum of that level
/// has at the most, by all threads of the block: each has that of its columns.
Value PutSummer::sumLevel(int level, Value first, Value count) {
  int64_t size = sumBlock;
  for (int i = 1; i < level; ++i)
    size *= sumBlock;
  Value parts = divideUp(count, size);
  auto getFirst = [&](Value part) { return add(first, multiply(part, size)); };
  auto getCount = [&](Value part) {
    return getLesser(subtract(count, multiply(part, size)), constant(size));
  };
  auto addUp = [&](llvm::function_ref<Value(Value)> getPart) {
    Type type = withLanes(sumType);
    Value none =
        arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    return loop(constant(0), parts, 1, none,
                [&](Value part, ValueRange before) {
                  Value next = getPart(part);
                  Value sum =
                      arith::AddFOp::create(builder, loc, before.front(), next);
                  Value isFirst =
                      compare(arith::CmpIPredicate::eq, part, constant(0));
                  return Values{select(isFirst, next, sum)};
                })
        .front();
  };
  if (level > 1)
    return addUp([&](Value part) {
      return sumLevel(level - 1, getFirst(part), getCount(part));
    });
  auto getShared = [&](Value part) {
    return getSharedPlace(0, withLanes(sumType),
                          add(multiply(part, shape.teamThreads), teamThread));
  };
  const int64_t alignment = shape.lanes * getElementBytes(sumType);
  loop(team, parts, shape.teams, {}, [&](Value part, ValueRange) {
    store(sumTerms(getFirst(part), getCount(part)), getShared(part), alignment);
    return Values();
  });
  wait();
  Value sum = addUp([&](Value part) {
    return load(getShared(part), withLanes(sumType), alignment);
  });
  wait();
  return sum;
}

void PutSummer::storeSum(Value row, Value sum) {
  Value offset = add(getOffset(rowLoops, row, &PutLoop::result), resultColumn);
  Value place = getPlace(getOperand(2), sumType, offset);
  const int64_t alignment = shape.lanes * getElementBytes(sumType);
  if (shape.tiles * shape.teamThreads == shape.accesses)
    store(sum, place, alignment);
  else
    doIf(hasColumns, [&] { store(sum, place, alignment); });
}

/// The first term of a row, and how many it has.
std::pair<Value, Value> PutSummer::getTerms(Value row) {
  Value first = loadNumber(getListPlace(shape.starts, row));
  Value last = loadNumber(getListPlace(shape.starts, add(row, constant(1))));
  return {first, subtract(last, first)};
}

/// Rows of one block of terms, each by a team.
void PutSummer::sumShortRows(Value rowsEnd) {
  loop(add(firstRow, team), rowsEnd, shape.teams, {},
       [&](Value row, ValueRange) {
         auto [first, count] = getTerms(row);
         auto sum = [&, first = first, count = count] {
           storeSum(row, sumTerms(first, count));
         };
         if (shape.sumLevels == 1)
           sum();
         else
           doIf(isLess(count, constant(sumBlock + 1)), sum);
         return Values();
       });
}

/// Rows of several, one after the other, by all teams.
void PutSummer::sumLongRows(Value rowsEnd) {
  loop(firstRow, rowsEnd, 1, {}, [&](Value row, ValueRange) {
    auto [first, count] = getTerms(row);
    doIf(isLess(constant(sumBlock), count), [&, first = first, count = count] {
      Value sum = sumLevel(shape.sumLevels - 1, first, count);
      doIf(compare(arith::CmpIPredicate::eq, team, constant(0)),
           [&] { storeSum(row, sum); });
    });
    return Values();
  });
}

LogicalResult PutSummer::emit() {
  const bool hasLongRows = shape.sumLevels > 1;
  if (failed(begin("sum", shape.rowBlocks * shape.tiles, blockThreads,
                   hasLongRows ? sumBlock * shape.teamThreads * shape.lanes *
                                     getElementBytes(sumType)
                               : 0)))
    return failure();
  setBlocksAtOnce(threadsAtOnce / blockThreads);
  Value block = getBlock(), thread = getThread();
  team = divide(thread, shape.teamThreads);
  teamThread = getRest(thread, shape.teamThreads);
  Value access =
      add(multiply(getRest(block, shape.tiles), shape.teamThreads), teamThread);
  hasColumns = isLess(access, constant(shape.accesses));
  // Threads beyond the last column read that one.
  Value column =
      multiply(getLesser(access, constant(shape.accesses - 1)), shape.lanes);
  inputColumn = getOffset(columnLoops, column, &PutLoop::input);
  resultColumn = getOffset(columnLoops, column, &PutLoop::result);
  firstRow = multiply(divide(block, shape.tiles), shape.blockRows);
  Value rowsEnd =
      getLesser(add(firstRow, constant(shape.blockRows)), constant(shape.rows));
  sumShortRows(rowsEnd);
  if (hasLongRows)
    sumLongRows(rowsEnd);
  return success();
}

FailureOr<EmittedKernel> meshc::codegen::emitGpuPut(steps::PutOp put,
                                                    StringRef name,
                                                    ArrayRef<bool> isShared,
                                                    gpu::GPUModuleOp kernels) {
  FailureOr<std::vector<KernelLaunch>> sort =
      emitPutSort(put, name, isShared, kernels);
  PutSummer summer(put, name, isShared, kernels);
  if (failed(sort) || failed(summer.emit()))
    return failure();
  EmittedKernel result;
  result.symbol = name.str();
  result.extent = summer.countRows();
  result.launches = std::move(*sort);
  llvm::append_range(result.launches, summer.getLaunches());
  result.workspaceBytes = uint64_t(summer.getWorkspaceBytes());
  result.workspaceContent = nd::OriginPart::Order;
  return result;
}

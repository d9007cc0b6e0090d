#include "runtime/LongMatmul.h"

#include "runtime/BlockedMatmul.h"
#include "runtime/Executable.h"
#include "runtime/HalfFloats.h"
#include "runtime/SumBlock.h"

#include <algorithm>
#include <array>

using namespace meshc;
using namespace meshc::runtime;

void runtime::writeResult(const MatmulShape &shape,
                          const MatmulOperands &operands, std::byte *c,
                          int64_t firstColumn, int64_t numRows,
                          int64_t numColumns, float *sums, int64_t rowStride) {
  const int64_t bytes = getElementBytes(shape.result);
  auto read = [&](const std::byte *source, int64_t stride, float *target) {
    if (isHalfFloat(shape.result))
      return widenRow(shape.result, source, stride, target, numColumns);
    for (int64_t j = 0; j < numColumns; ++j)
      target[j] = reinterpret_cast<const float *>(source)[j * stride];
  };
  alignas(64) float bias[maxResultColumns], old[maxResultColumns];
  if (shape.hasBias)
    read(static_cast<const std::byte *>(operands.bias) + firstColumn * bytes, 1,
         bias);
  for (int64_t i = 0; i < numRows; ++i) {
    float *row = sums + i * rowStride;
    std::byte *target = c + i * shape.m.c * bytes;
    if (shape.hasBias)
      for (int64_t j = 0; j < numColumns; ++j)
        row[j] += bias[j];
    if (shape.activation != exec::Activation::none)
      for (int64_t j = 0; j < numColumns; ++j)
        row[j] = activate(row[j], shape.activation);
    if (shape.accumulate) {
      read(target, shape.n.c, old);
      for (int64_t j = 0; j < numColumns; ++j)
        row[j] += old[j];
    }
    if (isHalfFloat(shape.result)) {
      narrowRow(shape.result, row, target, shape.n.c, numColumns);
      continue;
    }
    for (int64_t j = 0; j < numColumns; ++j)
      reinterpret_cast<float *>(target)[j * shape.n.c] = row[j];
  }
}

namespace {

class LongMatmul final : public Matmul {
public:
  LongMatmul(const MatmulShape &shape, int64_t pieces);
  /// Prepares the products of blocks.
  Status prepare(int workers);

  int64_t getNumPieces() const override {
    return (units + unitsPerPiece - 1) / unitsPerPiece;
  }
  uint64_t getScratchBytes() const override {
    return uint64_t(tiles) * tileBytes + innerScratchBytes;
  }
  const char *getImplementation() const override {
    return products[0]->getImplementation();
  }
  Status run(int64_t piece, const MatmulOperands &operands, int worker,
             void *scratch) override;

private:
  /// Rows or columns of one product of the batch.
  Status runUnit(int64_t unit, const MatmulOperands &operands, int worker,
                 std::byte *scratch);

  MatmulShape shape;
  bool cutsColumns;
  int64_t cutSize = 1, cuts = 1; ///< of the longer side, and how many
  int64_t units = 1, unitsPerPiece = 1;
  int64_t blocks;
  int64_t tiles; ///< one for a block's result, one for each level of sums
  uint64_t tileBytes = 0, innerScratchBytes = 0;
  /// Of whole cuts and the rest, of whole blocks and the rest.
  std::array<std::unique_ptr<Matmul>, 4> products;
};

LongMatmul::LongMatmul(const MatmulShape &given, int64_t pieces)
    : shape(given), cutsColumns(shape.n.size > shape.m.size),
      blocks((shape.k.size + longestMatmul - 1) / longestMatmul),
      tiles(1 + countSumLevels(blocks)) {
  int64_t batch = 1;
  for (const MatmulDim &dim : shape.batch)
    batch *= dim.size;
  const int64_t total = cutsColumns ? shape.n.size : shape.m.size;
  const int64_t wanted = std::max<int64_t>(1, pieces / batch);
  // Whole vector registers.
  constexpr int64_t grain = 16;
  cutSize = std::min(total, ((total + wanted - 1) / wanted + grain - 1) /
                                grain * grain);
  cuts = (total + cutSize - 1) / cutSize;
  units = batch * cuts;
  unitsPerPiece = std::max<int64_t>(1, (units + pieces - 1) / pieces);
  constexpr uint64_t cacheLine = 64;
  const int64_t other = cutsColumns ? shape.m.size : shape.n.size;
  tileBytes = (uint64_t(cutSize * other) * sizeof(float) + cacheLine - 1) /
              cacheLine * cacheLine;
}

Status LongMatmul::prepare(int workers) {
  MatmulShape inner = shape;
  inner.batch.clear();
  inner.result = exec::ElementType::f32;
  inner.accumulate = inner.hasBias = false;
  inner.activation = exec::Activation::none;
  MatmulDim &cut = cutsColumns ? inner.n : inner.m;
  const int64_t cutTotal = cut.size;
  for (bool isRestCut : {false, true})
    for (bool isRestBlock : {false, true}) {
      cut.size = isRestCut ? cutTotal % cutSize : cutSize;
      inner.k.size = isRestBlock ? shape.k.size % longestMatmul : longestMatmul;
      if (cut.size == 0 || inner.k.size == 0)
        continue;
      inner.m.c = inner.n.size;
      inner.n.c = 1;
      auto created = Matmul::create(inner, 1, workers);
      if (!created)
        return created.getError();
      innerScratchBytes =
          std::max(innerScratchBytes, (*created)->getScratchBytes());
      products[2 * isRestCut + isRestBlock] = std::move(*created);
    }
  return Status::success();
}

Status LongMatmul::run(int64_t piece, const MatmulOperands &operands,
                       int worker, void *scratch) {
  const int64_t begin = piece * unitsPerPiece;
  const int64_t end = std::min(units, begin + unitsPerPiece);
  for (int64_t unit = begin; unit < end; ++unit)
    if (Status ran =
            runUnit(unit, operands, worker, static_cast<std::byte *>(scratch));
        !ran)
      return ran;
  return Status::success();
}

Status LongMatmul::runUnit(int64_t unit, const MatmulOperands &operands,
                           int worker, std::byte *scratch) {
  const int64_t first = unit % cuts * cutSize;
  int64_t index = unit / cuts;
  int64_t numRows = shape.m.size, numColumns = shape.n.size;
  int64_t &cut = cutsColumns ? numColumns : numRows;
  cut = std::min(cutSize, cut - first);
  const int64_t firstColumn = cutsColumns ? first : 0;
  const int64_t firstRow = cutsColumns ? 0 : first;
  int64_t aStart = firstRow * shape.m.a;
  int64_t bStart = firstColumn * shape.n.b;
  int64_t cStart = firstRow * shape.m.c + firstColumn * shape.n.c;
  for (size_t dim = shape.batch.size(); dim-- > 0;) {
    const int64_t position = index % shape.batch[dim].size;
    index /= shape.batch[dim].size;
    aStart += position * shape.batch[dim].a;
    bStart += position * shape.batch[dim].b;
    cStart += position * shape.batch[dim].c;
  }

  const int64_t bytes = getElementBytes(shape.element);
  const int64_t count = numRows * numColumns;
  auto getTile = [&](int64_t tile) {
    return reinterpret_cast<float *>(scratch + uint64_t(tile) * tileBytes);
  };
  // Tile 0 has a block's result, tile i a sum of 64^i blocks.
  for (int64_t tile = 1; tile < tiles; ++tile)
    std::fill_n(getTile(tile), count, 0.0f);
  auto moveUp = [&](int64_t tile) {
    float *from = getTile(tile), *to = getTile(tile + 1);
    for (int64_t i = 0; i < count; ++i)
      to[i] += from[i];
    if (tile > 0)
      std::fill_n(from, count, 0.0f);
  };
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t start = block * longestMatmul;
    auto at = [&](const void *factor, int64_t offset, int64_t stride) {
      return static_cast<const std::byte *>(factor) +
             (offset + start * stride) * bytes;
    };
    Matmul &product =
        *products[2 * (cut < cutSize) + (shape.k.size - start < longestMatmul)];
    const MatmulOperands inner{at(operands.a, aStart, shape.k.a),
                               at(operands.b, bStart, shape.k.b), getTile(0),
                               nullptr};
    for (int64_t part = 0; part < product.getNumPieces(); ++part)
      if (Status ran = product.run(part, inner, worker,
                                   scratch + uint64_t(tiles) * tileBytes);
          !ran)
        return ran;
    moveUp(0);
    const int64_t whole = countWholeBlocks(block + 1);
    for (int64_t tile = 1; tile <= whole && tile + 1 < tiles; ++tile)
      moveUp(tile);
  }
  for (int64_t tile = 1; tile + 1 < tiles; ++tile)
    moveUp(tile);

  for (int64_t column = 0; column < numColumns; column += maxResultColumns)
    writeResult(shape, operands,
                static_cast<std::byte *>(operands.c) +
                    (cStart + column * shape.n.c) *
                        getElementBytes(shape.result),
                firstColumn + column, numRows,
                std::min(maxResultColumns, numColumns - column),
                getTile(tiles - 1) + column, numColumns);
  return Status::success();
}

} // namespace

Result<std::unique_ptr<Matmul>>
runtime::createLongMatmul(const MatmulShape &shape, int64_t pieces,
                          int workers) {
  auto matmul = std::make_unique<LongMatmul>(shape, pieces);
  if (Status prepared = matmul->prepare(workers); !prepared)
    return prepared.getError();
  return std::unique_ptr<Matmul>(std::move(matmul));
}

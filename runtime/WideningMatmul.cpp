#include "runtime/WideningMatmul.h"

#include "runtime/Executable.h"
#include "runtime/HalfFloats.h"
#include "runtime/LongMatmul.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Sides of the blocks, at most: 1.25 MiB of f32 in all. An element converted
/// takes part in as many multiplications as the other side of the result is
/// long.
constexpr int64_t maxRows = 256;
constexpr int64_t maxColumns = maxResultColumns;
constexpr int64_t maxDepth = 384;

/// One dimension of a product in blocks.
struct Blocks {
  Blocks(int64_t total, int64_t most)
      : total(total), size(std::max<int64_t>(1, std::min(total, most))),
        count((total + size - 1) / size) {}

  int64_t getSize(int64_t block) const {
    return std::min(size, total - block * size);
  }
  /// Whether the block is the last one and smaller than the others.
  bool isRest(int64_t block) const { return getSize(block) < size; }

  int64_t total;
  int64_t size;
  int64_t count;
};

/// A block of a factor as dense f32, its unit stride where the factor has one.
struct WideBlock {
  WideBlock(const Blocks &rows, const Blocks &columns, int64_t rowStride,
            int64_t columnStride)
      : alongRows(rowStride == 1 && columnStride != 1),
        rowStride(alongRows ? 1 : columns.size),
        columnStride(alongRows ? rows.size : 1), from{rowStride, columnStride},
        elements(rows.size * columns.size) {}

  void convert(exec::ElementType element, const std::byte *source, int64_t rows,
               int64_t columns, float *target) const {
    const int64_t lines = alongRows ? columns : rows;
    const int64_t length = alongRows ? rows : columns;
    const int64_t lineStride = alongRows ? from[1] : from[0];
    const int64_t step = alongRows ? from[0] : from[1];
    for (int64_t line = 0; line < lines; ++line)
      widenRow(element, source + line * lineStride * getElementBytes(element),
               step, target + line * (alongRows ? columnStride : rowStride),
               length);
  }

  bool alongRows;
  int64_t rowStride, columnStride; ///< of the f32 block
  std::array<int64_t, 2> from;     ///< strides of the factor
  int64_t elements;
};

class WideningMatmul final : public Matmul {
public:
  explicit WideningMatmul(const MatmulShape &shape)
      : shape(shape), rows(shape.m.size, maxRows),
        columns(shape.n.size, maxColumns), depth(shape.k.size, maxDepth),
        a(rows, depth, shape.m.a, shape.k.a),
        b(depth, columns, shape.k.b, shape.n.b) {}

  /// Prepares the products of blocks.
  Status prepare(int64_t pieces, int workers);

  int64_t getNumPieces() const override {
    return (units + unitsPerPiece - 1) / unitsPerPiece;
  }
  uint64_t getScratchBytes() const override {
    return innerScratch + innerScratchBytes;
  }
  const char *getImplementation() const override { return "widened"; }
  Status run(int64_t piece, const MatmulOperands &operands, int worker,
             void *scratch) override;

private:
  /// One block of the result.
  Status runUnit(int64_t unit, const MatmulOperands &operands, int worker,
                 std::byte *scratch);
  std::unique_ptr<Matmul> &getProduct(bool restRows, bool restColumns,
                                      bool restDepth, bool accumulates) {
    return products[restRows << 3 | restColumns << 2 | restDepth << 1 |
                    int(accumulates)];
  }

  MatmulShape shape;
  Blocks rows, columns, depth;
  WideBlock a, b;
  int64_t units = 1, unitsPerPiece = 1;
  uint64_t bOffset = 0, cOffset = 0, innerScratch = 0, innerScratchBytes = 0;
  std::array<std::unique_ptr<Matmul>, 16> products;
};

Status WideningMatmul::prepare(int64_t pieces, int workers) {
  units = rows.count * columns.count;
  for (const MatmulDim &dim : shape.batch)
    units *= dim.size;
  unitsPerPiece = std::max<int64_t>(1, (units + pieces - 1) / pieces);

  auto align = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  bOffset = align(uint64_t(a.elements) * sizeof(float)) + getMatmulSkew();
  cOffset = align(bOffset + uint64_t(b.elements) * sizeof(float));
  innerScratch =
      align(cOffset + uint64_t(rows.size * columns.size) * sizeof(float));

  MatmulShape inner;
  inner.m = {0, a.rowStride, 0, columns.size};
  inner.n = {0, 0, b.columnStride, 1};
  inner.k = {0, a.columnStride, b.rowStride, 0};
  for (int64_t i : {int64_t(0), rows.count - 1})
    for (int64_t j : {int64_t(0), columns.count - 1})
      for (int64_t p : {int64_t(0), depth.count - 1}) {
        if (i < 0 || j < 0 || p < 0)
          continue;
        for (bool accumulates : {false, true}) {
          auto &product = getProduct(rows.isRest(i), columns.isRest(j),
                                     depth.isRest(p), accumulates);
          if (product || (accumulates && depth.count == 1))
            continue;
          inner.m.size = rows.getSize(i);
          inner.n.size = columns.getSize(j);
          inner.k.size = depth.getSize(p);
          inner.accumulate = accumulates;
          auto created = Matmul::create(inner, 1, workers);
          if (!created)
            return created.getError();
          product = std::move(*created);
          innerScratchBytes =
              std::max(innerScratchBytes, product->getScratchBytes());
        }
      }
  return Status::success();
}

Status WideningMatmul::run(int64_t piece, const MatmulOperands &operands,
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

Status WideningMatmul::runUnit(int64_t unit, const MatmulOperands &operands,
                               int worker, std::byte *scratch) {
  const int64_t j = unit % columns.count;
  const int64_t i = unit / columns.count % rows.count;
  int64_t index = unit / columns.count / rows.count;
  const int64_t firstRow = i * rows.size, firstColumn = j * columns.size;
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
  float *aBlock = reinterpret_cast<float *>(scratch);
  float *bBlock = reinterpret_cast<float *>(scratch + bOffset);
  float *sums = reinterpret_cast<float *>(scratch + cOffset);
  const int64_t numRows = rows.getSize(i), numColumns = columns.getSize(j);
  if (depth.count == 0)
    std::fill_n(sums, rows.size * columns.size, 0.0f);
  for (int64_t p = 0; p < depth.count; ++p) {
    const int64_t numDepth = depth.getSize(p);
    auto at = [&](const void *factor, int64_t start, int64_t stride) {
      return static_cast<const std::byte *>(factor) +
             (start + p * depth.size * stride) * bytes;
    };
    a.convert(shape.element, at(operands.a, aStart, shape.k.a), numRows,
              numDepth, aBlock);
    b.convert(shape.element, at(operands.b, bStart, shape.k.b), numDepth,
              numColumns, bBlock);
    Matmul &product =
        *getProduct(rows.isRest(i), columns.isRest(j), depth.isRest(p), p > 0);
    for (int64_t part = 0; part < product.getNumPieces(); ++part)
      if (Status ran = product.run(part, {aBlock, bBlock, sums, nullptr},
                                   worker, scratch + innerScratch);
          !ran)
        return ran;
  }
  writeResult(shape, operands,
              static_cast<std::byte *>(operands.c) +
                  cStart * getElementBytes(shape.result),
              firstColumn, numRows, numColumns, sums, columns.size);
  return Status::success();
}

} // namespace

Result<std::unique_ptr<Matmul>>
runtime::createWideningMatmul(const MatmulShape &shape, int64_t pieces,
                              int workers) {
  auto matmul = std::make_unique<WideningMatmul>(shape);
  if (Status prepared = matmul->prepare(pieces, workers); !prepared)
    return prepared.getError();
  return std::unique_ptr<Matmul>(std::move(matmul));
}

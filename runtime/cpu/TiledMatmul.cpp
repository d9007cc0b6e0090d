#include "runtime/cpu/TiledMatmul.h"

#include "runtime/cpu/BlockedMatmul.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/SumBlock.h"

#include <algorithm>
#include <array>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Sides of the blocks that are widened, at most: 1.25 MiB of f32 in all. An
/// element converted takes part in as many multiplications as the other side of
/// the result is long.
constexpr int64_t maxWideRows = 256;
constexpr int64_t maxWideColumns = 384;
constexpr int64_t maxWideDepth = 384;

/// Where the parts of scratch memory start.
constexpr uint64_t align(uint64_t bytes) {
  constexpr uint64_t cacheLine = 64;
  return (bytes + cacheLine - 1) / cacheLine * cacheLine;
}

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
  /// A block of each size there is.
  std::vector<int64_t> getKinds() const {
    if (count == 0)
      return {};
    if (count > 1 && isRest(count - 1))
      return {0, count - 1};
    return {0};
  }

  int64_t total;
  int64_t size;
  int64_t count;
};

/// The sides of a product, and of the tiles and blocks that it is made of.
struct Tiling {
  Blocks rows, columns, depth;
  /// Whether factors are converted to f32.
  bool widens;
  /// Whether results of blocks are added up in blocks; if not, each product
  /// adds to the one before.
  bool sumsInBlocks;
};

/// What the products of blocks read of a factor: it, or a block of it as dense
/// f32, whose unit stride is where the factor has one.
class Factor {
public:
  Factor(const Tiling &tiling, const Blocks &rows, const Blocks &columns,
         exec::ElementType element, std::array<int64_t, 2> from)
      : element(element), from(from), to(from) {
    if (!tiling.widens)
      return;
    alongRows = from[0] == 1 && from[1] != 1;
    to = alongRows ? std::array<int64_t, 2>{1, rows.size}
                   : std::array<int64_t, 2>{columns.size, 1};
    bytes = uint64_t(rows.size * columns.size) * sizeof(float);
  }

  /// Strides of what is read, along rows and columns.
  const std::array<int64_t, 2> &getStrides() const { return to; }
  /// Of the f32 block; 0 where there is none.
  uint64_t getBytes() const { return bytes; }

  /// The block of `rows` x `columns` that starts at element `start` of the
  /// factor.
  const void *get(const void *factor, int64_t start, int64_t rows,
                  int64_t columns, float *block) const {
    const std::byte *source = static_cast<const std::byte *>(factor) +
                              start * getElementBytes(element);
    if (bytes == 0)
      return source;
    const int64_t lines = alongRows ? columns : rows;
    const int64_t length = alongRows ? rows : columns;
    for (int64_t line = 0; line < lines; ++line)
      widenRow(element,
               source + line * from[alongRows] * getElementBytes(element),
               from[!alongRows], block + line * to[alongRows], length);
    return block;
  }

private:
  exec::ElementType element;
  std::array<int64_t, 2> from, to;
  bool alongRows = false;
  uint64_t bytes = 0;
};

class TiledMatmul final : public Matmul {
public:
  TiledMatmul(const MatmulShape &shape, const Tiling &tiling, int64_t pieces);
  /// Prepares the products of blocks.
  Status prepare(int workers);

  int64_t getNumPieces() const override {
    return (units + unitsPerPiece - 1) / unitsPerPiece;
  }
  uint64_t getScratchBytes() const override {
    return innerScratch + innerScratchBytes;
  }
  const char *getImplementation() const override {
    return tiling.widens ? "widened" : products[0]->getImplementation();
  }
  Status run(int64_t piece, const MatmulOperands &operands, int worker,
             void *scratch) override;

private:
  /// A tile of the result: which, and where it and its rows and columns start,
  /// in elements.
  struct Tile {
    int64_t i, j;
    int64_t a, b, c;
    int64_t rows, columns;
  };
  Tile getTile(int64_t unit) const;
  Status runTile(const Tile &tile, const MatmulOperands &operands, int worker,
                 std::byte *scratch);
  /// Writes what was summed, which is used up.
  void write(const Tile &tile, const MatmulOperands &operands, float *sums);

  std::unique_ptr<Matmul> &getProduct(int64_t i, int64_t j, int64_t p) {
    const bool accumulates = !tiling.sumsInBlocks && p > 0;
    return products[tiling.rows.isRest(i) << 3 | tiling.columns.isRest(j) << 2 |
                    tiling.depth.isRest(p) << 1 | int(accumulates)];
  }

  MatmulShape shape;
  Tiling tiling;
  Factor a, b;
  int64_t units = 1, unitsPerPiece = 1;
  /// Accumulators of a tile: what products write; in blocks, one for each level
  /// of sums as well.
  int64_t levels = 1;
  uint64_t bOffset = 0, sumsOffset = 0, sumsBytes = 0, innerScratch = 0;
  uint64_t innerScratchBytes = 0;
  std::array<std::unique_ptr<Matmul>, 16> products;
};

TiledMatmul::TiledMatmul(const MatmulShape &shape, const Tiling &tiling,
                         int64_t pieces)
    : shape(shape), tiling(tiling), a(tiling, tiling.rows, tiling.depth,
                                      shape.element, {shape.m.a, shape.k.a}),
      b(tiling, tiling.depth, tiling.columns, shape.element,
        {shape.k.b, shape.n.b}) {
  units = tiling.rows.count * tiling.columns.count;
  for (const MatmulDim &dim : shape.batch)
    units *= dim.size;
  unitsPerPiece = std::max<int64_t>(1, (units + pieces - 1) / pieces);
  if (tiling.sumsInBlocks)
    levels += countSumLevels(tiling.depth.count);
  if (tiling.widens)
    bOffset = align(a.getBytes()) + getMatmulSkew();
  sumsOffset = align(bOffset + b.getBytes());
  sumsBytes =
      align(uint64_t(tiling.rows.size * tiling.columns.size) * sizeof(float));
  innerScratch = sumsOffset + uint64_t(levels) * sumsBytes;
}

Status TiledMatmul::prepare(int workers) {
  MatmulShape inner;
  if (!tiling.widens)
    inner.element = shape.element;
  inner.m = {0, a.getStrides()[0], 0, 0};
  inner.n = {0, 0, b.getStrides()[1], 1};
  inner.k = {0, a.getStrides()[1], b.getStrides()[0], 0};
  for (int64_t i : tiling.rows.getKinds())
    for (int64_t j : tiling.columns.getKinds())
      // The second block is the first that adds to another one.
      for (int64_t p : {int64_t(0), int64_t(1), tiling.depth.count - 1}) {
        if (p < 0 || p >= tiling.depth.count || getProduct(i, j, p))
          continue;
        inner.m.size = tiling.rows.getSize(i);
        inner.n.size = inner.m.c = tiling.columns.getSize(j);
        inner.k.size = tiling.depth.getSize(p);
        inner.accumulate = !tiling.sumsInBlocks && p > 0;
        auto created = Matmul::create(inner, 1, workers);
        if (!created)
          return created.getError();
        innerScratchBytes =
            std::max(innerScratchBytes, (*created)->getScratchBytes());
        getProduct(i, j, p) = std::move(*created);
      }
  return Status::success();
}

Status TiledMatmul::run(int64_t piece, const MatmulOperands &operands,
                        int worker, void *scratch) {
  const int64_t begin = piece * unitsPerPiece;
  const int64_t end = std::min(units, begin + unitsPerPiece);
  for (int64_t unit = begin; unit < end; ++unit)
    if (Status ran = runTile(getTile(unit), operands, worker,
                             static_cast<std::byte *>(scratch));
        !ran)
      return ran;
  return Status::success();
}

TiledMatmul::Tile TiledMatmul::getTile(int64_t unit) const {
  Tile tile;
  tile.j = unit % tiling.columns.count;
  tile.i = unit / tiling.columns.count % tiling.rows.count;
  const int64_t firstRow = tile.i * tiling.rows.size;
  const int64_t firstColumn = tile.j * tiling.columns.size;
  tile.a = firstRow * shape.m.a;
  tile.b = firstColumn * shape.n.b;
  tile.c = firstRow * shape.m.c + firstColumn * shape.n.c;
  int64_t index = unit / tiling.columns.count / tiling.rows.count;
  for (size_t dim = shape.batch.size(); dim-- > 0;) {
    const int64_t position = index % shape.batch[dim].size;
    index /= shape.batch[dim].size;
    tile.a += position * shape.batch[dim].a;
    tile.b += position * shape.batch[dim].b;
    tile.c += position * shape.batch[dim].c;
  }
  tile.rows = tiling.rows.getSize(tile.i);
  tile.columns = tiling.columns.getSize(tile.j);
  return tile;
}

Status TiledMatmul::runTile(const Tile &tile, const MatmulOperands &operands,
                            int worker, std::byte *scratch) {
  const Blocks &depth = tiling.depth;
  auto *const aBlock = reinterpret_cast<float *>(scratch);
  auto *const bBlock = reinterpret_cast<float *>(scratch + bOffset);
  const int64_t elements = tile.rows * tile.columns;
  // Level 0 has what products write, level i a sum of 64^i blocks.
  auto getSums = [&](int64_t level) {
    return reinterpret_cast<float *>(scratch + sumsOffset +
                                     uint64_t(level) * sumsBytes);
  };
  for (int64_t level = depth.count == 0 ? 0 : 1; level < levels; ++level)
    std::fill_n(getSums(level), elements, 0.0f);
  auto moveUp = [&](int64_t level) {
    float *from = getSums(level), *to = getSums(level + 1);
    for (int64_t i = 0; i < elements; ++i)
      to[i] += from[i];
    if (level > 0)
      std::fill_n(from, elements, 0.0f);
  };
  for (int64_t p = 0; p < depth.count; ++p) {
    const int64_t first = p * depth.size, terms = depth.getSize(p);
    const MatmulOperands inner{
        a.get(operands.a, tile.a + first * shape.k.a, tile.rows, terms, aBlock),
        b.get(operands.b, tile.b + first * shape.k.b, terms, tile.columns,
              bBlock),
        getSums(0), nullptr};
    Matmul &product = *getProduct(tile.i, tile.j, p);
    for (int64_t piece = 0; piece < product.getNumPieces(); ++piece)
      if (Status ran =
              product.run(piece, inner, worker, scratch + innerScratch);
          !ran)
        return ran;
    // The level above each whole block, and the first one in any case.
    for (int64_t level = 0;
         level <= countWholeBlocks(p + 1) && level + 1 < levels; ++level)
      moveUp(level);
  }
  for (int64_t level = 1; level + 1 < levels; ++level)
    moveUp(level);
  write(tile, operands, getSums(levels - 1));
  return Status::success();
}

void TiledMatmul::write(const Tile &tile, const MatmulOperands &operands,
                        float *sums) {
  const int64_t bytes = getElementBytes(shape.result);
  constexpr int64_t maxColumns = 384; // of rows on the stack
  alignas(64) float bias[maxColumns], old[maxColumns];
  for (int64_t first = 0; first < tile.columns; first += maxColumns) {
    const int64_t columns = std::min(maxColumns, tile.columns - first);
    auto read = [&](const std::byte *source, int64_t stride, float *target) {
      if (isHalfFloat(shape.result))
        return widenRow(shape.result, source, stride, target, columns);
      for (int64_t j = 0; j < columns; ++j)
        target[j] = reinterpret_cast<const float *>(source)[j * stride];
    };
    if (shape.hasBias)
      read(static_cast<const std::byte *>(operands.bias) +
               (tile.j * tiling.columns.size + first) * bytes,
           1, bias);
    for (int64_t i = 0; i < tile.rows; ++i) {
      float *row = sums + i * tile.columns + first;
      std::byte *target = static_cast<std::byte *>(operands.c) +
                          (tile.c + i * shape.m.c + first * shape.n.c) * bytes;
      if (shape.hasBias)
        for (int64_t j = 0; j < columns; ++j)
          row[j] += bias[j];
      if (shape.activation != exec::Activation::none)
        for (int64_t j = 0; j < columns; ++j)
          row[j] = activate(row[j], shape.activation);
      if (shape.accumulate) {
        read(target, shape.n.c, old);
        for (int64_t j = 0; j < columns; ++j)
          row[j] += old[j];
      }
      if (isHalfFloat(shape.result)) {
        narrowRow(shape.result, row, target, shape.n.c, columns);
        continue;
      }
      for (int64_t j = 0; j < columns; ++j)
        reinterpret_cast<float *>(target)[j * shape.n.c] = row[j];
    }
  }
}

/// The longer side is cut, into as many tiles as give `pieces`.
Tiling getLongTiling(const MatmulShape &shape, int64_t pieces) {
  int64_t batch = 1;
  for (const MatmulDim &dim : shape.batch)
    batch *= dim.size;
  const bool cutsColumns = shape.n.size > shape.m.size;
  const int64_t total = cutsColumns ? shape.n.size : shape.m.size;
  const int64_t wanted = std::max<int64_t>(1, pieces / batch);
  // Whole vector registers.
  constexpr int64_t grain = 16;
  const int64_t cut =
      ((total + wanted - 1) / wanted + grain - 1) / grain * grain;
  return {Blocks(shape.m.size, cutsColumns ? shape.m.size : cut),
          Blocks(shape.n.size, cutsColumns ? cut : shape.n.size),
          Blocks(shape.k.size, longestMatmul), false, true};
}

Result<std::unique_ptr<Matmul>> create(const MatmulShape &shape,
                                       const Tiling &tiling, int64_t pieces,
                                       int workers) {
  auto matmul = std::make_unique<TiledMatmul>(shape, tiling, pieces);
  if (Status prepared = matmul->prepare(workers); !prepared)
    return prepared.getError();
  return std::unique_ptr<Matmul>(std::move(matmul));
}

} // namespace

Result<std::unique_ptr<Matmul>>
runtime::createLongMatmul(const MatmulShape &shape, int64_t pieces,
                          int workers) {
  return create(shape, getLongTiling(shape, pieces), pieces, workers);
}

Result<std::unique_ptr<Matmul>>
runtime::createWideningMatmul(const MatmulShape &shape, int64_t pieces,
                              int workers) {
  const Tiling tiling{Blocks(shape.m.size, maxWideRows),
                      Blocks(shape.n.size, maxWideColumns),
                      Blocks(shape.k.size, maxWideDepth), true, false};
  return create(shape, tiling, pieces, workers);
}

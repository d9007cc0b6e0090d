#include "runtime/plans/MoveList.h"

#include "runtime/exec/GpuKernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

/// Blocks of a launch, at most: 16 for each multiprocessor of an H100 or H200,
/// which have 132 and hold 8 blocks of moveKernelThreads threads each. The same
/// on all GPUs, so that tables have one size everywhere.
/// Source: CUDA C++ Programming Guide 13.0, technical specifications per
/// compute capability (2048 threads); NVIDIA H200 data sheet.
static constexpr int64_t maxBlocks = int64_t(16) * 132;
/// Pieces have a multiple of this many elements, four for each thread, so that
/// small boxes are not cut to crumbs.
static constexpr int64_t grain = moveKernelThreads * 4;

std::vector<Collective::MoveDim> cuda::getDims(const Collective::Move &move) {
  std::vector<Collective::MoveDim> dims = move.outer;
  dims.push_back(move.inner);
  return dims;
}

std::vector<Collective::MoveDim>
cuda::mergeMoveDims(std::span<const Collective::MoveDim> dims) {
  std::vector<Collective::MoveDim> merged;
  for (const Collective::MoveDim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (!merged.empty() &&
        merged.back().fromStride == dim.size * dim.fromStride &&
        merged.back().toStride == dim.size * dim.toStride)
      merged.back() = {merged.back().size * dim.size, dim.fromStride,
                       dim.toStride};
    else
      merged.push_back(dim);
  }
  return merged;
}

void cuda::addBox(std::vector<MoveBatch> &batches, exec::ReduceKind reduce,
                  MoveList::Box box) {
  for (MoveBatch &batch : batches) {
    const bool hasBoth = reduce != exec::ReduceKind::none &&
                         batch.reduce != exec::ReduceKind::none;
    if (hasBoth && batch.reduce != reduce)
      continue;
    if (reduce != exec::ReduceKind::none)
      batch.reduce = reduce;
    batch.boxes.push_back(std::move(box));
    return;
  }
  MoveBatch &batch = batches.emplace_back();
  batch.reduce = reduce;
  batch.boxes.push_back(std::move(box));
}

std::vector<MoveBatch> cuda::getBatches(const Collective &collective,
                                        int64_t group,
                                        std::span<const DevicePointer> arenas) {
  std::vector<MoveBatch> batches;
  for (const Collective::Move &move : collective.getMoves(group)) {
    MoveList::Box box;
    for (const Collective::End &end : move.sources)
      box.sources.push_back(arenas[size_t(end.device)] + end.offset);
    for (const Collective::End &end : move.targets)
      box.targets.push_back(arenas[size_t(end.device)] + end.offset);
    box.dims = getDims(move);
    addBox(batches, move.reduce, std::move(box));
  }
  return batches;
}

/// Elements of a piece: so many that there are maxBlocks pieces at most, but
/// for the last ones of boxes.
static int64_t getPieceLength(std::span<const MoveList::Box> boxes) {
  int64_t total = 0;
  for (const MoveList::Box &box : boxes)
    total += Collective::countElements(box.dims);
  return ((total + maxBlocks - 1) / maxBlocks + grain - 1) / grain * grain;
}

/// Checks that a box of these dimensions, which are merged, has a piece.
static Status checkRank(std::span<const Collective::MoveDim> dims) {
  if (dims.size() <= size_t(maxMoveRank))
    return Status::success();
  return Error{ErrorCode::UnsupportedOnGpu,
               fmt::format("a move has {} dimensions that are not "
                           "contiguous, expected at most {}",
                           dims.size(), maxMoveRank),
               ""};
}

static Status checkNumPieces(size_t count) {
  if (count <= size_t(INT32_MAX))
    return Status::success();
  return Error{ErrorCode::UnsupportedOnGpu,
               fmt::format("a collective has {} pieces", count), ""};
}

static_assert(sizeof(MovePiece) % sizeof(uint64_t) == 0);
static constexpr size_t pieceWords = sizeof(MovePiece) / sizeof(uint64_t);

Result<uint64_t> MoveList::measure(std::span<const Box> boxes) {
  const int64_t length = getPieceLength(boxes);
  if (length == 0)
    return uint64_t(0);
  size_t ends = 0, pieces = 0;
  for (const Box &box : boxes) {
    // Boxes that are empty have places of their ends, too.
    ends += box.sources.size() + box.targets.size();
    const int64_t count = Collective::countElements(box.dims);
    if (count == 0)
      continue;
    MESHC_RETURN_IF_ERROR(checkRank(mergeMoveDims(box.dims)));
    pieces += size_t((count + length - 1) / length);
  }
  MESHC_RETURN_IF_ERROR(checkNumPieces(pieces));
  return (ends + pieces * pieceWords) * sizeof(uint64_t);
}

Result<uint64_t> cuda::measureBatches(std::span<const MoveBatch> batches) {
  uint64_t total = 0;
  for (const MoveBatch &batch : batches) {
    Result<uint64_t> bytes = MoveList::measure(batch.boxes);
    if (!bytes)
      return bytes.getError();
    total += *bytes;
  }
  return total;
}

Result<MoveList::Pieces> MoveList::add(std::span<const Box> boxes) {
  Pieces added;
  const int64_t length = getPieceLength(boxes);
  if (length == 0)
    return added;

  std::vector<MovePiece> pieces;
  std::vector<size_t> pieceBoxes;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box &box = boxes[i];
    const int64_t count = Collective::countElements(box.dims);
    if (count == 0)
      continue;
    const std::vector<Collective::MoveDim> dims = mergeMoveDims(box.dims);
    MESHC_RETURN_IF_ERROR(checkRank(dims));
    MovePiece piece{};
    piece.numSources = int64_t(box.sources.size());
    piece.numTargets = int64_t(box.targets.size());
    piece.rank = int64_t(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      piece.sizes[d] = dims[d].size;
      piece.fromStrides[d] = dims[d].fromStride;
      piece.toStrides[d] = dims[d].toStride;
    }
    if (isNarrow(piece))
      for (size_t d = 0; d < dims.size(); ++d)
        piece.divisors[d] = getMoveDivisor(dims[d].size);
    else
      added.areWide = true;
    for (piece.begin = 0; piece.begin < count; piece.begin += length) {
      piece.end = std::min(piece.begin + length, count);
      pieces.push_back(piece);
      pieceBoxes.push_back(i);
    }
  }
  MESHC_RETURN_IF_ERROR(checkNumPieces(pieces.size()));
  added.count = unsigned(pieces.size());

  // Addresses of the boxes first, then the pieces that point to them.
  std::vector<std::pair<uint64_t, uint64_t>> ends;
  for (const Box &box : boxes) {
    const uint64_t sources = getBytes();
    words.insert(words.end(), box.sources.begin(), box.sources.end());
    ends.emplace_back(sources, getBytes());
    words.insert(words.end(), box.targets.begin(), box.targets.end());
  }
  added.offset = getBytes();
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::tie(pieces[i].sources, pieces[i].targets) = ends[pieceBoxes[i]];
    places.push_back(words.size() + offsetof(MovePiece, sources) / 8);
    places.push_back(words.size() + offsetof(MovePiece, targets) / 8);
    words.resize(words.size() + pieceWords);
    std::memcpy(words.data() + words.size() - pieceWords, &pieces[i],
                sizeof(MovePiece));
  }
  return added;
}

std::vector<uint64_t> MoveList::getWords(DevicePointer address) const {
  std::vector<uint64_t> placed = words;
  for (size_t word : places)
    placed[word] += address;
  return placed;
}

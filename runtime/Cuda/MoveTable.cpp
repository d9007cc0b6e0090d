#include "runtime/Cuda/MoveTable.h"

#include "runtime/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

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

static int64_t countElements(std::span<const Collective::MoveDim> dims) {
  int64_t count = 1;
  for (const Collective::MoveDim &dim : dims)
    count *= dim.size;
  return count;
}

Result<MoveLaunch> MoveTable::add(exec::ReduceKind reduce,
                                  exec::ElementType element,
                                  std::span<const Box> boxes) {
  MoveLaunch launch;
  int64_t total = 0;
  for (const Box &box : boxes)
    total += countElements(box.dims);
  if (total == 0)
    return launch;
  Result<KernelHandle> kernel =
      gpu.getKernel(getMoveKernelName(reduce, element), 0);
  if (!kernel)
    return kernel.getError();
  launch.kernel = *kernel;

  // Some blocks for every multiprocessor, and four elements for each of their
  // threads, so that small boxes are not cut to crumbs.
  constexpr int64_t blocksPerMultiprocessor = 16;
  constexpr int64_t grain = moveKernelThreads * 4;
  const int64_t blocks =
      blocksPerMultiprocessor * gpu.getProperties().multiprocessors;
  const int64_t length =
      ((total + blocks - 1) / blocks + grain - 1) / grain * grain;

  std::vector<MovePiece> pieces;
  std::vector<size_t> pieceBoxes;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box &box = boxes[i];
    const std::vector<Collective::MoveDim> dims = mergeMoveDims(box.dims);
    if (dims.size() > size_t(maxMoveRank))
      return Error{ErrorCode::UnsupportedOnGpu,
                   fmt::format("a move has {} dimensions that are not "
                               "contiguous, expected at most {}",
                               dims.size(), maxMoveRank),
                   ""};
    MovePiece piece{};
    piece.numSources = int64_t(box.sources.size());
    piece.numTargets = int64_t(box.targets.size());
    piece.rank = int64_t(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      piece.sizes[d] = dims[d].size;
      piece.fromStrides[d] = dims[d].fromStride;
      piece.toStrides[d] = dims[d].toStride;
    }
    const int64_t count = countElements(dims);
    for (piece.begin = 0; piece.begin < count; piece.begin += length) {
      piece.end = std::min(piece.begin + length, count);
      pieces.push_back(piece);
      pieceBoxes.push_back(i);
    }
  }
  if (pieces.size() > size_t(INT32_MAX))
    return Error{ErrorCode::UnsupportedOnGpu,
                 fmt::format("a collective has {} pieces", pieces.size()), ""};
  launch.pieces = unsigned(pieces.size());

  // Addresses of the boxes first, then the pieces that point to them.
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const Box &box : boxes) {
    const uint64_t sources = getBytes();
    words.insert(words.end(), box.sources.begin(), box.sources.end());
    places.emplace_back(sources, getBytes());
    words.insert(words.end(), box.targets.begin(), box.targets.end());
  }
  launch.offset = getBytes();
  static_assert(sizeof(MovePiece) % sizeof(uint64_t) == 0);
  constexpr size_t pieceWords = sizeof(MovePiece) / sizeof(uint64_t);
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::tie(pieces[i].sources, pieces[i].targets) = places[pieceBoxes[i]];
    addresses.push_back(words.size() + offsetof(MovePiece, sources) / 8);
    addresses.push_back(words.size() + offsetof(MovePiece, targets) / 8);
    words.resize(words.size() + pieceWords);
    std::memcpy(words.data() + words.size() - pieceWords, &pieces[i],
                sizeof(MovePiece));
  }
  return launch;
}

Status MoveTable::upload(Stream stream) {
  if (words.empty())
    return Status::success();
  const Driver &driver = gpu.getDriver();
  Result<DeviceMemory> allocated = allocate(driver, getBytes());
  if (!allocated)
    return allocated.getError();
  memory = std::move(*allocated);
  for (size_t word : addresses)
    words[word] += memory.get();
  MESHC_RETURN_IF_ERROR(
      driver.memcpyHtoDAsync(memory.get(), words.data(), getBytes(), stream));
  return driver.streamSynchronize(stream);
}

Status MoveTable::launch(const MoveLaunch &launch, Stream stream) const {
  if (launch.pieces == 0)
    return Status::success();
  DevicePointer pieces = memory.get() + launch.offset;
  void *parameters[] = {&pieces};
  return gpu.getDriver().launchKernel(launch.kernel, launch.pieces, 1, 1,
                                      moveKernelThreads, 1, 1, 0, stream,
                                      parameters, nullptr);
}

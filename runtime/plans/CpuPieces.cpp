#include "runtime/plans/CpuPieces.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

/// Work worth handing to another thread: some ten microseconds, against about
/// one for the hand-over (a lock and, where a worker sleeps, a wake-up call).
static constexpr int64_t minPieceBytes = int64_t(1) << 18;
static constexpr int64_t minPieceFlops = int64_t(1) << 18;
/// Pieces per worker: enough that an unlucky worker delays the end little.
static constexpr int64_t piecesPerWorker = 4;

int64_t runtime::getMatmulPieces(int64_t devices, int workers) {
  constexpr int64_t usualThreads = 8;
  const int64_t threads = std::max<int64_t>(usualThreads, workers);
  return (threads + devices - 1) / devices;
}

int64_t runtime::limitMatmulPieces(double flops, int64_t pieces) {
  // A piece of less than about half a millisecond is not worth handing over.
  // Source: 100 to 160 GFLOP/s per core, measured with oneDNN 2.6.
  constexpr double minMatmulFlops = 5e7;
  return std::clamp<int64_t>(int64_t(flops / minMatmulFlops), 1,
                             std::max<int64_t>(1, pieces));
}

int64_t runtime::getKernelPieces(const exec::CommandT &command,
                                 int64_t iterations, int workers) {
  if (workers == 1 || iterations < 2)
    return iterations > 0 ? 1 : 0;
  int64_t worth =
      std::max(command.bytes / minPieceBytes, command.flops / minPieceFlops);
  return std::clamp<int64_t>(worth, 1,
                             std::min(iterations, workers * piecesPerWorker));
}

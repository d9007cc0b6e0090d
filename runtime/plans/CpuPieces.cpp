#include "runtime/plans/CpuPieces.h"

#include "runtime/plans/PutPlan.h"

#include <algorithm>
#include <iterator>

using namespace meshc;
using namespace meshc::runtime;

/// Work worth handing to another thread: some ten microseconds, against about
/// one for the hand-over (a lock and, where a worker sleeps, a wake-up call).
static constexpr int64_t minPieceBytes = int64_t(1) << 18;
static constexpr int64_t minPieceFlops = int64_t(1) << 18;
/// Pieces per worker: enough that an unlucky worker delays the end little.
static constexpr int64_t piecesPerWorker = 4;

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// So that pieces have a whole number of `grain`.
static PieceCut cutInto(int64_t count, int64_t pieces, int64_t grain) {
  const int64_t perPiece = divideUp(divideUp(count, pieces), grain) * grain;
  return {divideUp(count, perPiece), perPiece};
}

int64_t runtime::getMatmulPieces(int64_t devices, int workers) {
  constexpr int64_t usualThreads = 8;
  const int64_t threads = std::max<int64_t>(usualThreads, workers);
  return divideUp(threads, devices);
}

int64_t runtime::limitMatmulPieces(double flops, int64_t pieces) {
  // A piece of less than about half a millisecond is not worth handing over.
  // Source: 100 to 160 GFLOP/s per core, measured with oneDNN 2.6.
  constexpr double minMatmulFlops = 5e7;
  return std::clamp<int64_t>(int64_t(flops / minMatmulFlops), 1,
                             std::max<int64_t>(1, pieces));
}

/// Pieces of a kernel or copy with `iterations` that can be divided; 0 without
/// any.
static int64_t getKernelPieces(const exec::CommandT &command,
                               int64_t iterations, int workers) {
  if (workers == 1 || iterations < 2)
    return iterations > 0 ? 1 : 0;
  int64_t worth =
      std::max(command.bytes / minPieceBytes, command.flops / minPieceFlops);
  return std::clamp<int64_t>(worth, 1,
                             std::min(iterations, workers * piecesPerWorker));
}

PieceCut runtime::cutKernel(const exec::CommandT &command, int workers) {
  // A cut inside a vector would compute an element in a loop's scalar tail that
  // another cut computes in its vector body, with other rounding. Few
  // iterations that move much are rows, which have a loop of their own.
  constexpr int64_t vectorGrain = 64;
  constexpr int64_t rowBytes = 1024;
  const int64_t extent = command.action.AsKernel()->extent;
  const int64_t pieces = getKernelPieces(command, extent, workers);
  if (pieces == 0)
    return {};
  const bool isFewRows =
      extent / pieces < vectorGrain && command.bytes / extent >= rowBytes;
  return cutInto(extent, pieces, isFewRows ? 1 : vectorGrain);
}

int64_t runtime::getCopyRows(const exec::CommandT &command) {
  const exec::OperandT &from = *command.operands[0];
  int64_t rows = 1;
  for (size_t i = 0; i < from.shape.size(); ++i)
    if (i + 1 < from.shape.size() || from.shape[i] == 0)
      rows *= from.shape[i];
  return rows;
}

PieceCut runtime::cutCopy(const exec::CommandT &command, int workers) {
  const int64_t rows = getCopyRows(command);
  const int64_t pieces = getKernelPieces(command, rows, workers);
  return pieces == 0 ? PieceCut() : cutInto(rows, pieces, 1);
}

PieceCut runtime::cutPut(const exec::CommandT &command, int workers) {
  const PutPlan plan(*command.action.AsPut());
  const int64_t units = plan.getNumUnits();
  // Each piece reads the whole index, of a batch at least: no more pieces than
  // make that as much as everything else.
  const int64_t worth = command.bytes / (8 * getSize(plan.terms));
  return cutInto(
      units,
      std::clamp<int64_t>(worth, 1, getKernelPieces(command, units, workers)),
      1);
}

PieceCut runtime::cutConvolution(const exec::ConvolutionT &shape,
                                 int64_t pieces) {
  // Worth handing over as of products.
  double flops = 2.0 * double(shape.batch * shape.groups) *
                 double(shape.inputs * shape.outputs);
  for (const auto *sizes : {&shape.destination, &shape.weights})
    for (int64_t size : *sizes)
      flops *= double(size);
  pieces = limitMatmulPieces(flops, pieces);
  if (shape.result != exec::ConvolutionTensor::weights)
    return cutInto(shape.batch, std::min(shape.batch, pieces), 1);
  // A whole number of vector registers; outputs of groups are not together.
  constexpr int64_t vectorGrain = 16;
  PieceCut cut =
      cutInto(shape.outputs, shape.groups > 1 ? 1 : pieces, vectorGrain);
  cut.perPiece = std::min(cut.perPiece, shape.outputs);
  return cut;
}

int64_t runtime::countPieces(const exec::CommandT &command, int64_t devices,
                             int workers) {
  using Count = int64_t (*)(const exec::CommandT &, int64_t, int);
  // In the order of the schema.
  static constexpr Count kinds[] = {
      nullptr,
      [](const exec::CommandT &kernel, int64_t, int workers) {
        return cutKernel(kernel, workers).pieces;
      },
      [](const exec::CommandT &matmul, int64_t products, int) {
        return limitMatmulPieces(double(matmul.flops), products);
      },
      nullptr, // collectives have groups, each with its pieces
      [](const exec::CommandT &copy, int64_t, int workers) {
        return cutCopy(copy, workers).pieces;
      },
      [](const exec::CommandT &convolution, int64_t products, int) {
        return cutConvolution(*convolution.action.AsConvolution(), products)
            .pieces;
      },
      [](const exec::CommandT &put, int64_t, int workers) {
        return cutPut(put, workers).pieces;
      }};
  static_assert(std::size(kinds) == size_t(exec::Action::MAX) + 1);
  return kinds[size_t(command.action.type)](
      command, getMatmulPieces(devices, workers), workers);
}

#include "runtime/cpu/Convolution.h"

#include "runtime/cpu/ConvolutionCall.h"
#include "runtime/cpu/Matmul.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/SumBlock.h"
#include "runtime/plans/CpuPieces.h"

#include <dnnl_debug.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using exec::ConvolutionTensor;

ConvolutionOperands runtime::getConvolutionOperands(ConvolutionTensor result,
                                                    void *const *operands) {
  auto get = [&](size_t number) {
    return static_cast<std::byte *>(operands[number]);
  };
  switch (result) {
  case ConvolutionTensor::destination:
    return {get(0), get(1), get(2)};
  case ConvolutionTensor::source:
    return {get(2), get(0), get(1)};
  case ConvolutionTensor::weights:
    return {get(0), get(2), get(1)};
  }
  __builtin_unreachable(); // checkExecutable refuses it
}

int64_t ConvolutionElements::getBytes(ConvolutionTensor tensor,
                                      ConvolutionTensor computed) const {
  return getElementBytes(tensor == computed ? result : factor);
}

namespace {

int64_t multiplySizes(const std::vector<int64_t> &sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

Status check(dnnl_status_t status) {
  if (status == dnnl_success)
    return Status::success();
  return Error{ErrorCode::Internal,
               fmt::format("a convolution failed: {}", dnnl_status2str(status)),
               ""};
}

/// Pieces of the batch.
class ImageConvolution final : public Convolution {
public:
  ImageConvolution(const exec::ConvolutionT &shape,
                   ConvolutionElements elements, PieceCut cut, int workers)
      : batch(shape.batch), perPiece(cut.perPiece), pieces(cut.pieces),
        sourceBytes(shape.source_strides.front() *
                    elements.getBytes(ConvolutionTensor::source, shape.result)),
        destinationBytes(
            shape.destination_strides.front() *
            elements.getBytes(ConvolutionTensor::destination, shape.result)) {
    calls.emplace_back(shape, elements, perPiece, shape.outputs, workers);
    if (batch % perPiece != 0)
      calls.emplace_back(shape, elements, batch % perPiece, shape.outputs,
                         workers);
  }

  int64_t getNumPieces() const override { return pieces; }
  uint64_t getScratchBytes() const override {
    return std::max(calls.front().getScratchBytes(),
                    calls.back().getScratchBytes());
  }
  const char *getImplementation() const override {
    return calls.front().implementation.c_str();
  }
  Status run(int64_t piece, const ConvolutionOperands &operands, int worker,
             void *scratch) override {
    const int64_t begin = piece * perPiece;
    ConvolutionCall &call =
        batch - begin < perPiece ? calls.back() : calls.front();
    return check(
        call.run({operands.source + begin * sourceBytes, operands.weights,
                  operands.destination + begin * destinationBytes},
                 worker, static_cast<std::byte *>(scratch)));
  }

private:
  int64_t batch, perPiece, pieces;
  int64_t sourceBytes, destinationBytes; ///< of an image
  std::vector<ConvolutionCall> calls;    ///< the last one for the last piece
};

/// Sums over the batch: the weights, in pieces of outputs. Each is a sequence
/// of calls, whose results add up.
class WeightsConvolution final : public Convolution {
public:
  WeightsConvolution(const exec::ConvolutionT &shape,
                     ConvolutionElements elements, PieceCut cut, int workers);

  int64_t getNumPieces() const override { return pieces; }
  uint64_t getScratchBytes() const override;
  const char *getImplementation() const override {
    return sequences.front().calls.front().implementation.c_str();
  }
  Status run(int64_t piece, const ConvolutionOperands &operands, int worker,
             void *scratch) override;

private:
  /// A call of some images and rows, and where these begin (bytes).
  struct Term {
    size_t call;
    int64_t source, destination;
  };
  /// The calls of a piece. They have one order of the weights, so that what
  /// they compute is added up as it is.
  struct Sequence {
    std::vector<ConvolutionCall> calls;
    std::vector<Term> terms;
  };

  void addSequence(const exec::ConvolutionT &shape, int64_t numOutputs,
                   int workers);

  ConvolutionElements elements;
  int64_t factorBytes; ///< of an element
  int64_t outputs, outputsPerPiece, pieces;
  int64_t weightsBytes, destinationBytes; ///< of an output
  std::vector<Sequence> sequences;        ///< the last one for the last piece
};

WeightsConvolution::WeightsConvolution(const exec::ConvolutionT &shape,
                                       ConvolutionElements elements,
                                       PieceCut cut, int workers)
    : elements(elements), factorBytes(getElementBytes(elements.factor)),
      outputs(shape.outputs), outputsPerPiece(cut.perPiece), pieces(cut.pieces),
      weightsBytes(shape.weights_strides[1] * getElementBytes(elements.result)),
      destinationBytes(shape.destination_strides[2] * factorBytes) {
  addSequence(shape, outputsPerPiece, workers);
  if (outputs % outputsPerPiece != 0)
    addSequence(shape, outputs % outputsPerPiece, workers);
}

/// Rows `row` and on, `count` of them, of what `shape` computes from; where the
/// source begins, in rows, is returned.
int64_t takeRows(exec::ConvolutionT &shape, int64_t row, int64_t count) {
  const int64_t window = (shape.weights[0] - 1) * shape.dilation[0] + 1;
  const int64_t first = shape.stride[0] * row - shape.pad[0];
  const int64_t begin = std::max<int64_t>(0, first);
  const int64_t end = first + shape.stride[0] * (count - 1) + window;
  shape.source[0] = std::min(shape.source[0], end) - begin;
  shape.pad[0] = begin - first;
  shape.destination[0] = count;
  return begin;
}

void WeightsConvolution::addSequence(const exec::ConvolutionT &shape,
                                     int64_t numOutputs, int workers) {
  Sequence &sequence = sequences.emplace_back();
  const int64_t rows = shape.destination[0];
  const int64_t positions = multiplySizes(shape.destination);
  const int64_t imagesPerCall =
      std::clamp<int64_t>(longestConvolution / positions, 1, shape.batch);
  const int64_t rowsPerCall =
      imagesPerCall > 1 ? rows
                        : std::clamp<int64_t>(
                              longestConvolution / (positions / rows), 1, rows);
  // Equal calls are one, by images, rows of the source and of the destination,
  // and pad.
  std::map<std::array<int64_t, 4>, size_t> numbers;
  for (int64_t image = 0; image < shape.batch; image += imagesPerCall)
    for (int64_t row = 0; row < rows; row += rowsPerCall) {
      exec::ConvolutionT part = shape;
      const int64_t images = std::min(imagesPerCall, shape.batch - image);
      const int64_t begin =
          takeRows(part, row, std::min(rowsPerCall, rows - row));
      if (part.source[0] <= 0)
        continue; // these rows see nothing
      auto [entry, isAbsent] = numbers.try_emplace(
          {images, part.source[0], part.destination[0], part.pad[0]},
          sequence.calls.size());
      if (isAbsent) {
        std::optional<dnnl::memory::desc> order;
        if (!sequence.calls.empty())
          order = sequence.calls.front().getWeightsOrder();
        sequence.calls.emplace_back(part, elements, images, numOutputs, workers,
                                    order ? &*order : nullptr);
      }
      sequence.terms.push_back(
          {entry->second,
           factorBytes * (image * shape.source_strides[0] +
                          begin * shape.source_strides[3]),
           factorBytes * (image * shape.destination_strides[0] +
                          row * shape.destination_strides[3])});
    }
}

uint64_t WeightsConvolution::getScratchBytes() const {
  uint64_t most = 0;
  for (const Sequence &sequence : sequences) {
    uint64_t inside = 0;
    for (const ConvolutionCall &call : sequence.calls)
      inside = std::max(inside, call.getScratchBytes());
    const auto terms = int64_t(sequence.terms.size());
    const uint64_t sums = terms > 1 ? uint64_t(countSumLevels(terms)) + 1 : 0;
    most = std::max(
        most, inside + sums * alignScratch(sequence.calls[0].getResultBytes()));
  }
  return most;
}

void addTo(float *sum, const float *terms, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    sum[i] += terms[i];
}

Status WeightsConvolution::run(int64_t piece, const ConvolutionOperands &given,
                               int worker, void *scratch) {
  const int64_t begin = piece * outputsPerPiece;
  Sequence &sequence =
      outputs - begin < outputsPerPiece ? sequences.back() : sequences.front();
  const ConvolutionOperands operands = {
      given.source, given.weights + begin * weightsBytes,
      given.destination + begin * destinationBytes};
  const auto numTerms = int64_t(sequence.terms.size());
  auto runTerm = [&](const Term &term, std::byte *inside, std::byte *into) {
    return check(sequence.calls[term.call].run(
        {operands.source + term.source, operands.weights,
         operands.destination + term.destination},
        worker, inside, into));
  };
  std::byte *const term = static_cast<std::byte *>(scratch);
  if (numTerms == 1)
    return runTerm(sequence.terms[0], term, nullptr);

  // The term at hand, then the levels of accumulators, the innermost first.
  const uint64_t resultBytes = sequence.calls[0].getResultBytes();
  const uint64_t count = resultBytes / sizeof(float);
  const int levels = countSumLevels(numTerms);
  auto getLevel = [&](int level) {
    return reinterpret_cast<float *>(term + uint64_t(level + 1) *
                                                alignScratch(resultBytes));
  };
  std::byte *const inside = reinterpret_cast<std::byte *>(getLevel(levels));
  std::memset(getLevel(0), 0, uint64_t(levels) * alignScratch(resultBytes));
  for (int64_t i = 0; i < numTerms; ++i) {
    if (Status status = runTerm(sequence.terms[size_t(i)], inside, term);
        !status)
      return status;
    addTo(getLevel(0), reinterpret_cast<const float *>(term), count);
    const int whole = std::min(countWholeBlocks(i + 1), levels - 1);
    for (int level = 0; level < whole; ++level) {
      addTo(getLevel(level + 1), getLevel(level), count);
      std::memset(getLevel(level), 0, resultBytes);
    }
  }
  for (int level = 0; level + 1 < levels; ++level)
    addTo(getLevel(level + 1), getLevel(level), count);
  return check(sequence.calls[0].writeResult(
      operands, reinterpret_cast<std::byte *>(getLevel(levels - 1)), worker,
      inside));
}

} // namespace

Result<std::unique_ptr<Convolution>>
Convolution::create(const exec::ConvolutionT &shape,
                    ConvolutionElements elements, int64_t pieces, int workers) {
  const PieceCut cut = cutConvolution(shape, pieces);
  useOneMatmulThread();
  try {
    if (shape.result == ConvolutionTensor::weights)
      return std::unique_ptr<Convolution>(
          std::make_unique<WeightsConvolution>(shape, elements, cut, workers));
    return std::unique_ptr<Convolution>(
        std::make_unique<ImageConvolution>(shape, elements, cut, workers));
  } catch (const dnnl::error &error) {
    return Error{ErrorCode::Internal,
                 fmt::format("cannot prepare a convolution: {} ({})",
                             error.what(), dnnl_status2str(error.status)),
                 ""};
  }
}

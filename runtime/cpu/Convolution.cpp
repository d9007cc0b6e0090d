#include "runtime/cpu/Convolution.h"

#include "runtime/cpu/Matmul.h"
#include "runtime/exec/SumBlock.h"

#include <dnnl.hpp>
#include <dnnl_debug.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using exec::ConvolutionTensor;

using Dims = dnnl::memory::dims;

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

namespace {

int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

int64_t multiplySizes(const std::vector<int64_t> &sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

uint64_t align(uint64_t bytes) {
  constexpr uint64_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

dnnl::memory::desc describe(const Dims &sizes, const Dims &strides) {
  return {sizes, dnnl::memory::data_type::f32, strides};
}

/// Strides of a dense tensor of batch, channels and space whose channels are
/// last.
Dims getChannelsLast(const Dims &sizes) {
  Dims strides(sizes.size());
  strides[1] = 1;
  int64_t stride = sizes[1];
  for (size_t i = sizes.size(); i-- > 2; stride *= sizes[i])
    strides[i] = stride;
  strides[0] = stride;
  return strides;
}

/// What lies where in one of the three tensors of a call.
struct View {
  Dims sizes, strides;
  int64_t offset = 0; ///< elements in front of the part that is used
};

/// Gives dimensions of one element, which have any, the strides of a tensor
/// whose channels are last if that is what it is: the library compares them.
void setUnusedStrides(View &view) {
  const Dims last = getChannelsLast(view.sizes);
  for (size_t i = 0; i < last.size(); ++i)
    if (view.sizes[i] > 1 && view.strides[i] != last[i])
      return;
  view.strides = last;
}

/// A convolution of some images and outputs, in the words of oneDNN.
struct Problem {
  Problem(const exec::ConvolutionT &shape, int64_t batch, int64_t outputs);

  View source, weights, destination;
  Dims stride, dilation, padFront, padBack;
};

Problem::Problem(const exec::ConvolutionT &shape, int64_t batch,
                 int64_t outputs) {
  const size_t rank = shape.source.size();
  source.sizes = {batch, shape.groups * shape.inputs};
  destination.sizes = {batch, shape.groups * outputs};
  weights.sizes = {outputs, shape.inputs};
  auto addStrides = [](View &view, const std::vector<int64_t> &strides,
                       int64_t channels) {
    // Groups are further channels (checkExecutable).
    view.strides = {strides[0], channels > 1 ? strides[2] : strides[1]};
    view.strides.insert(view.strides.end(), strides.begin() + 3, strides.end());
  };
  addStrides(source, shape.source_strides, shape.inputs);
  addStrides(destination, shape.destination_strides, shape.outputs);
  weights.strides.assign(shape.weights_strides.begin() + 1,
                         shape.weights_strides.end());
  if (shape.groups > 1) {
    weights.sizes.insert(weights.sizes.begin(), shape.groups);
    weights.strides.insert(weights.strides.begin(),
                           shape.weights_strides.front());
  }
  for (size_t i = 0; i < rank; ++i) {
    stride.push_back(shape.stride[i]);
    dilation.push_back(shape.dilation[i] - 1); // as oneDNN counts
    const int64_t window = (shape.weights[i] - 1) * shape.dilation[i] + 1;
    const int64_t end = (shape.destination[i] - 1) * shape.stride[i] + window -
                        shape.pad[i]; // of what windows see of the source
    // What no window sees is cut off, but for what oneDNN takes.
    const int64_t begin = std::max<int64_t>(0, -shape.pad[i]);
    int64_t used = shape.source[i];
    if (end - used <= -shape.stride[i])
      used = end;
    source.offset += begin * shape.source_strides[i + 3];
    source.sizes.push_back(used - begin);
    padFront.push_back(std::max<int64_t>(0, shape.pad[i]));
    padBack.push_back(end - used);
    weights.sizes.push_back(shape.weights[i]);
    destination.sizes.push_back(shape.destination[i]);
  }
  setUnusedStrides(source);
  setUnusedStrides(destination);
}

dnnl::engine &getEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// A tensor as the program has it and as the library's convolution wants it.
class CallTensor {
public:
  CallTensor(const View &view, const dnnl::memory::desc &inside, bool isResult);

  /// Bytes of scratch memory for a copy of it; 0: it is used where it lies.
  uint64_t getCopyBytes() const {
    return reorder ? align(inside.get_size()) : 0;
  }
  uint64_t getReorderScratchBytes() const { return reorderScratchBytes; }
  bool isCopied() const { return bool(reorder); }

  View view;
  dnnl::memory::desc outside, inside;
  dnnl::reorder reorder;

private:
  uint64_t reorderScratchBytes = 0;
};

CallTensor::CallTensor(const View &view, const dnnl::memory::desc &inside,
                       bool isResult)
    : view(view), outside(describe(view.sizes, view.strides)), inside(inside) {
  if (outside == inside)
    return;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc prepared(
      getEngine(), isResult ? inside : outside, getEngine(),
      isResult ? outside : inside, attributes);
  reorder = dnnl::reorder(prepared);
  reorderScratchBytes = prepared.scratchpad_desc().get_size();
}

/// One call of oneDNN's convolution, with the memory objects of each worker.
class Call {
public:
  /// With `order`, the weights lie so inside the library. Throws dnnl::error
  /// where oneDNN refuses it.
  Call(const exec::ConvolutionT &shape, int64_t batch, int64_t outputs,
       int workers, const dnnl::memory::desc *order = nullptr);

  const dnnl::memory::desc &getWeightsOrder() const {
    return tensors[1].inside;
  }

  uint64_t getScratchBytes() const;
  /// Bytes of the result as the library writes it.
  uint64_t getResultBytes() const { return tensors[result].inside.get_size(); }

  /// Computes the result; with `into`, there, as the library has it.
  dnnl_status_t run(const ConvolutionOperands &operands, int worker,
                    std::byte *scratch, std::byte *into = nullptr);
  /// Writes a result as the library has it, at `from`, to `operands`.
  dnnl_status_t writeResult(const ConvolutionOperands &operands,
                            std::byte *from, int worker, std::byte *scratch);

  std::string implementation;

private:
  struct Worker {
    dnnl::stream stream;
    dnnl::memory outside[3], inside[3], scratch, reorderScratch[3];
  };

  /// False where there is none but the library's reference loops.
  bool prepare(const Problem &problem, const dnnl::memory::desc *descriptors);
  dnnl_status_t copy(size_t tensor, std::byte *outside, std::byte *inside,
                     Worker &worker, std::byte *scratch);

  // Tensors are numbered source, weights, destination.
  size_t result;
  std::vector<CallTensor> tensors;
  dnnl::primitive primitive;
  dnnl::memory::desc libraryScratch;
  uint64_t scratchBytes = 0; ///< of the library
  std::vector<Worker> workers;
};

size_t getNumber(ConvolutionTensor tensor) {
  switch (tensor) {
  case ConvolutionTensor::source:
    return 0;
  case ConvolutionTensor::weights:
    return 1;
  case ConvolutionTensor::destination:
    return 2;
  }
  __builtin_unreachable(); // checkExecutable refuses it
}

bool Call::prepare(const Problem &problem,
                   const dnnl::memory::desc *descriptors) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attributes;
  // The library's own scratch memory belongs to the creating thread.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::convolution_forward::primitive_desc forward(
      {result == 2 ? dnnl::prop_kind::forward_inference
                   : dnnl::prop_kind::forward_training,
       algorithm, descriptors[0], descriptors[1], descriptors[2],
       problem.stride, problem.dilation, problem.padFront, problem.padBack},
      attributes, getEngine());
  const View *views[3] = {&problem.source, &problem.weights,
                          &problem.destination};
  auto keep = [&](const auto &prepared, const dnnl::memory::desc &source,
                  const dnnl::memory::desc &weights,
                  const dnnl::memory::desc &destination) {
    implementation = prepared.impl_info_str();
    const dnnl::memory::desc *chosen[3] = {&source, &weights, &destination};
    tensors.clear();
    for (size_t i = 0; i < 3; ++i)
      tensors.emplace_back(*views[i], *chosen[i], i == result);
    libraryScratch = prepared.scratchpad_desc();
    // A hundred times slower than the others: "ref:any".
    return !std::string_view(implementation).starts_with("ref");
  };
  if (result == 2) {
    primitive = dnnl::convolution_forward(forward);
    return keep(forward, forward.src_desc(), forward.weights_desc(),
                forward.dst_desc());
  }
  if (result == 0) {
    const dnnl::convolution_backward_data::primitive_desc prepared(
        {algorithm, descriptors[0], descriptors[1], descriptors[2],
         problem.stride, problem.dilation, problem.padFront, problem.padBack},
        attributes, getEngine(), forward);
    primitive = dnnl::convolution_backward_data(prepared);
    return keep(prepared, prepared.diff_src_desc(), prepared.weights_desc(),
                prepared.diff_dst_desc());
  }
  const dnnl::convolution_backward_weights::primitive_desc prepared(
      {algorithm, descriptors[0], descriptors[1], descriptors[2],
       problem.stride, problem.dilation, problem.padFront, problem.padBack},
      attributes, getEngine(), forward);
  primitive = dnnl::convolution_backward_weights(prepared);
  return keep(prepared, prepared.src_desc(), prepared.diff_weights_desc(),
              prepared.diff_dst_desc());
}

Call::Call(const exec::ConvolutionT &shape, int64_t batch, int64_t outputs,
           int numWorkers, const dnnl::memory::desc *order)
    : result(getNumber(shape.result)) {
  const Problem problem(shape, batch, outputs);
  auto getAny = [](const View &view) {
    return dnnl::memory::desc(view.sizes, dnnl::memory::data_type::f32,
                              dnnl::memory::format_tag::any);
  };
  auto getLast = [](const View &view) {
    return describe(view.sizes, getChannelsLast(view.sizes));
  };
  // Channels last everywhere; a copy makes them so. Else as the library likes.
  const dnnl::memory::desc weights = order ? *order : getAny(problem.weights);
  const dnnl::memory::desc last[3] = {getLast(problem.source), weights,
                                      getLast(problem.destination)};
  if (!prepare(problem, last)) {
    const dnnl::memory::desc any[3] = {getAny(problem.source), weights,
                                       getAny(problem.destination)};
    prepare(problem, any);
  }
  scratchBytes = align(libraryScratch.get_size());
  for (const CallTensor &tensor : tensors)
    scratchBytes =
        std::max(scratchBytes, align(tensor.getReorderScratchBytes()));
  for (int i = 0; i < numWorkers; ++i) {
    Worker worker;
    worker.stream = dnnl::stream(getEngine());
    worker.scratch = dnnl::memory(libraryScratch, getEngine(), nullptr);
    for (size_t j = 0; j < 3; ++j) {
      worker.inside[j] = dnnl::memory(tensors[j].inside, getEngine(), nullptr);
      if (!tensors[j].isCopied())
        continue;
      worker.outside[j] =
          dnnl::memory(tensors[j].outside, getEngine(), nullptr);
      const Dims bytes = {int64_t(tensors[j].getReorderScratchBytes())};
      worker.reorderScratch[j] = dnnl::memory(
          {bytes, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a},
          getEngine(), nullptr);
    }
    workers.push_back(std::move(worker));
  }
}

uint64_t Call::getScratchBytes() const {
  uint64_t bytes = scratchBytes;
  for (const CallTensor &tensor : tensors)
    bytes += tensor.getCopyBytes();
  return bytes;
}

dnnl_status_t Call::copy(size_t number, std::byte *outside, std::byte *inside,
                         Worker &worker, std::byte *scratch) {
  worker.outside[number].set_data_handle(outside);
  worker.inside[number].set_data_handle(inside);
  worker.reorderScratch[number].set_data_handle(scratch);
  const bool isResult = number == result;
  const dnnl_exec_arg_t arguments[3] = {
      {DNNL_ARG_FROM,
       (isResult ? worker.inside : worker.outside)[number].get()},
      {DNNL_ARG_TO, (isResult ? worker.outside : worker.inside)[number].get()},
      {DNNL_ARG_SCRATCHPAD, worker.reorderScratch[number].get()}};
  return dnnl_primitive_execute(tensors[number].reorder.get(),
                                worker.stream.get(), 3, arguments);
}

dnnl_status_t Call::run(const ConvolutionOperands &operands, int number,
                        std::byte *scratch, std::byte *into) {
  Worker &worker = workers[size_t(number)];
  std::byte *given[3] = {operands.source, operands.weights,
                         operands.destination};
  std::byte *copies = scratch + scratchBytes;
  for (size_t i = 0; i < 3; ++i) {
    const CallTensor &tensor = tensors[i];
    std::byte *inside = given[i] + tensor.view.offset * int64_t(sizeof(float));
    if (tensor.isCopied()) {
      std::byte *outside = std::exchange(inside, copies);
      copies += tensor.getCopyBytes();
      if (i != result)
        if (dnnl_status_t status = copy(i, outside, inside, worker, scratch);
            status != dnnl_success)
          return status;
    }
    worker.inside[i].set_data_handle(i == result && into ? into : inside);
    given[i] = inside;
  }
  worker.scratch.set_data_handle(scratch);
  const int names[3][3] = {
      {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
      {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
      {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
  const dnnl_exec_arg_t arguments[4] = {
      {names[result][0], worker.inside[0].get()},
      {names[result][1], worker.inside[1].get()},
      {names[result][2], worker.inside[2].get()},
      {DNNL_ARG_SCRATCHPAD, worker.scratch.get()}};
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive.get(), worker.stream.get(), 4, arguments);
  if (status != dnnl_success || into)
    return status;
  return writeResult(operands, given[result], number, scratch);
}

dnnl_status_t Call::writeResult(const ConvolutionOperands &operands,
                                std::byte *from, int number,
                                std::byte *scratch) {
  std::byte *given[3] = {operands.source, operands.weights,
                         operands.destination};
  const CallTensor &tensor = tensors[result];
  if (tensor.isCopied())
    return copy(result, given[result], from, workers[size_t(number)], scratch);
  if (from != given[result])
    std::memcpy(given[result], from, tensor.inside.get_size());
  return dnnl_success;
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
  ImageConvolution(const exec::ConvolutionT &shape, int64_t pieces, int workers)
      : batch(shape.batch), perPiece(divideUp(batch, std::min(batch, pieces))),
        sourceStride(shape.source_strides.front()),
        destinationStride(shape.destination_strides.front()) {
    calls.emplace_back(shape, perPiece, shape.outputs, workers);
    if (batch % perPiece != 0)
      calls.emplace_back(shape, batch % perPiece, shape.outputs, workers);
  }

  int64_t getNumPieces() const override { return divideUp(batch, perPiece); }
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
    Call &call = batch - begin < perPiece ? calls.back() : calls.front();
    const auto bytes = int64_t(sizeof(float));
    return check(call.run(
        {operands.source + begin * sourceStride * bytes, operands.weights,
         operands.destination + begin * destinationStride * bytes},
        worker, static_cast<std::byte *>(scratch)));
  }

private:
  int64_t batch, perPiece, sourceStride, destinationStride;
  std::vector<Call> calls; ///< the last one for the last piece
};

/// Sums over the batch: the weights, in pieces of outputs. Each is a sequence
/// of calls, whose results add up.
class WeightsConvolution final : public Convolution {
public:
  WeightsConvolution(const exec::ConvolutionT &shape, int64_t pieces,
                     int workers);

  int64_t getNumPieces() const override {
    return divideUp(outputs, outputsPerPiece);
  }
  uint64_t getScratchBytes() const override;
  const char *getImplementation() const override {
    return sequences.front().calls.front().implementation.c_str();
  }
  Status run(int64_t piece, const ConvolutionOperands &operands, int worker,
             void *scratch) override;

private:
  /// A call of some images and rows, and where these begin (elements).
  struct Term {
    size_t call;
    int64_t source, destination;
  };
  /// The calls of a piece. They have one order of the weights, so that what
  /// they compute is added up as it is.
  struct Sequence {
    std::vector<Call> calls;
    std::vector<Term> terms;
  };

  void addSequence(const exec::ConvolutionT &shape, int64_t numOutputs,
                   int workers);

  int64_t outputs, outputsPerPiece;
  int64_t weightsStride, destinationStride; ///< of an output
  std::vector<Sequence> sequences;          ///< the last one for the last piece
};

WeightsConvolution::WeightsConvolution(const exec::ConvolutionT &shape,
                                       int64_t pieces, int workers)
    : outputs(shape.outputs), weightsStride(shape.weights_strides[1]),
      destinationStride(shape.destination_strides[2]) {
  // A whole number of vector registers; outputs of groups are not together.
  constexpr int64_t grain = 16;
  if (shape.groups > 1)
    pieces = 1;
  outputsPerPiece =
      std::min(outputs, divideUp(divideUp(outputs, pieces), grain) * grain);
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
        sequence.calls.emplace_back(part, images, numOutputs, workers,
                                    order ? &*order : nullptr);
      }
      sequence.terms.push_back(
          {entry->second,
           image * shape.source_strides[0] + begin * shape.source_strides[3],
           image * shape.destination_strides[0] +
               row * shape.destination_strides[3]});
    }
}

uint64_t WeightsConvolution::getScratchBytes() const {
  uint64_t most = 0;
  for (const Sequence &sequence : sequences) {
    uint64_t inside = 0;
    for (const Call &call : sequence.calls)
      inside = std::max(inside, call.getScratchBytes());
    const auto terms = int64_t(sequence.terms.size());
    const uint64_t sums = terms > 1 ? uint64_t(countSumLevels(terms)) + 1 : 0;
    most = std::max(most,
                    inside + sums * align(sequence.calls[0].getResultBytes()));
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
  constexpr auto bytes = int64_t(sizeof(float));
  const ConvolutionOperands operands = {
      given.source, given.weights + begin * weightsStride * bytes,
      given.destination + begin * destinationStride * bytes};
  const auto numTerms = int64_t(sequence.terms.size());
  auto runTerm = [&](const Term &term, std::byte *inside, std::byte *into) {
    return check(sequence.calls[term.call].run(
        {operands.source + term.source * bytes, operands.weights,
         operands.destination + term.destination * bytes},
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
    return reinterpret_cast<float *>(term +
                                     uint64_t(level + 1) * align(resultBytes));
  };
  std::byte *const inside = reinterpret_cast<std::byte *>(getLevel(levels));
  std::memset(getLevel(0), 0, uint64_t(levels) * align(resultBytes));
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
Convolution::create(const exec::ConvolutionT &shape, int64_t pieces,
                    int workers) {
  // A piece of less than about half a millisecond is not worth handing over,
  // as of products (Matmul.cpp).
  constexpr double minPieceFlops = 5e7;
  double flops = 2.0 * double(shape.batch * shape.groups) *
                 double(shape.inputs * shape.outputs);
  for (const auto *sizes : {&shape.destination, &shape.weights})
    flops *= double(multiplySizes(*sizes));
  pieces = std::clamp<int64_t>(int64_t(flops / minPieceFlops), 1,
                               std::max<int64_t>(1, pieces));
  useOneMatmulThread();
  try {
    if (shape.result == ConvolutionTensor::weights)
      return std::unique_ptr<Convolution>(
          std::make_unique<WeightsConvolution>(shape, pieces, workers));
    return std::unique_ptr<Convolution>(
        std::make_unique<ImageConvolution>(shape, pieces, workers));
  } catch (const dnnl::error &error) {
    return Error{ErrorCode::Internal,
                 fmt::format("cannot prepare a convolution: {} ({})",
                             error.what(), dnnl_status2str(error.status)),
                 ""};
  }
}

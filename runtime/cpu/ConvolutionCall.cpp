#include "runtime/cpu/ConvolutionCall.h"

#include "runtime/cpu/LibraryElement.h"
#include "runtime/exec/Executable.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

using namespace meshc;
using namespace meshc::runtime;
using exec::ConvolutionTensor;

using Dims = dnnl::memory::dims;

namespace {

dnnl::memory::desc describe(const Dims &sizes, const Dims &strides,
                            exec::ElementType element) {
  return {sizes, getDataType(element), strides};
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

/// Gives dimensions of one element, which have any, the strides of a tensor
/// whose channels are last if that is what it is: the library compares them.
void setUnusedStrides(ConvolutionView &view) {
  const Dims last = getChannelsLast(view.sizes);
  for (size_t i = 0; i < last.size(); ++i)
    if (view.sizes[i] > 1 && view.strides[i] != last[i])
      return;
  view.strides = last;
}

dnnl::engine &getEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

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

} // namespace

/// A convolution of some images and outputs, in the words of oneDNN.
struct runtime::ConvolutionProblem {
  ConvolutionProblem(const exec::ConvolutionT &shape, int64_t batch,
                     int64_t outputs);

  ConvolutionView source, weights, destination;
  Dims stride, dilation, padFront, padBack;
};

ConvolutionProblem::ConvolutionProblem(const exec::ConvolutionT &shape,
                                       int64_t batch, int64_t outputs) {
  const size_t rank = shape.source.size();
  source.sizes = {batch, shape.groups * shape.inputs};
  destination.sizes = {batch, shape.groups * outputs};
  weights.sizes = {outputs, shape.inputs};
  auto addStrides = [](ConvolutionView &view,
                       const std::vector<int64_t> &strides, int64_t channels) {
    // Groups are further channels (checkExecutable).
    view.strides = {strides[0], channels > 1 ? strides[2] : strides[1]};
    view.strides[1] = std::max<int64_t>(1, view.strides[1]);
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

CallTensor::CallTensor(const ConvolutionView &view, exec::ElementType element,
                       const dnnl::memory::desc &inside, bool isResult)
    : view(view), element(element),
      outside(describe(view.sizes, view.strides, element)), inside(inside) {
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

int64_t CallTensor::getOffsetBytes() const {
  return view.offset * getElementBytes(element);
}

bool ConvolutionCall::prepare(const ConvolutionProblem &problem,
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
  const ConvolutionView *views[3] = {&problem.source, &problem.weights,
                                     &problem.destination};
  auto keep = [&](const auto &prepared, const dnnl::memory::desc &source,
                  const dnnl::memory::desc &weights,
                  const dnnl::memory::desc &destination) {
    implementation = prepared.impl_info_str();
    const dnnl::memory::desc *chosen[3] = {&source, &weights, &destination};
    tensors.clear();
    for (size_t i = 0; i < 3; ++i)
      tensors.emplace_back(*views[i],
                           i == result ? elements.result : elements.factor,
                           *chosen[i], i == result);
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

ConvolutionCall::ConvolutionCall(const exec::ConvolutionT &shape,
                                 ConvolutionElements elements, int64_t batch,
                                 int64_t outputs, int numWorkers,
                                 const dnnl::memory::desc *order)
    : result(getNumber(shape.result)), elements(elements) {
  const ConvolutionProblem problem(shape, batch, outputs);
  constexpr auto inside = exec::ElementType::f32;
  auto getAny = [](const ConvolutionView &view) {
    return dnnl::memory::desc(view.sizes, getDataType(inside),
                              dnnl::memory::format_tag::any);
  };
  auto getLast = [](const ConvolutionView &view) {
    return describe(view.sizes, getChannelsLast(view.sizes), inside);
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
  scratchBytes = alignScratch(libraryScratch.get_size());
  for (const CallTensor &tensor : tensors)
    scratchBytes =
        std::max(scratchBytes, alignScratch(tensor.getReorderScratchBytes()));
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

uint64_t ConvolutionCall::getScratchBytes() const {
  uint64_t bytes = scratchBytes;
  for (const CallTensor &tensor : tensors)
    bytes += tensor.getCopyBytes();
  return bytes;
}

dnnl_status_t ConvolutionCall::copy(size_t number, std::byte *outside,
                                    std::byte *inside, Worker &worker,
                                    std::byte *scratch) {
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

dnnl_status_t ConvolutionCall::run(const ConvolutionOperands &operands,
                                   int number, std::byte *scratch,
                                   std::byte *into) {
  Worker &worker = workers[size_t(number)];
  std::byte *given[3] = {operands.source, operands.weights,
                         operands.destination};
  std::byte *copies = scratch + scratchBytes;
  for (size_t i = 0; i < 3; ++i) {
    const CallTensor &tensor = tensors[i];
    std::byte *inside = given[i] + tensor.getOffsetBytes();
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

dnnl_status_t ConvolutionCall::writeResult(const ConvolutionOperands &operands,
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

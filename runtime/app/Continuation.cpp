#include "runtime/app/Continuation.h"

#include "runtime/io/Escape.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/samples/TextUnits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// A program that tells which unit comes next.
struct Model {
  const exec::ProgramT *program;
  const exec::PortT *text;   ///< input, with the samples and a window
  const exec::PortT *output; ///< with the samples, positions, units
  int64_t positions, units;
};

} // namespace

/// Sizes beside that of the dim that counts samples.
static std::vector<int64_t> getSampleSizes(const exec::ExecutableT &data,
                                           const exec::PortT &port) {
  std::vector<int64_t> sizes;
  for (const auto &dim : port.layout->dims)
    if (dim->name != data.sample_dim)
      sizes.push_back(dim->size);
  return sizes;
}

/// Whether an output has a value for each unit at each position of a window,
/// or at all but the last, which then are no more than what comes next.
static bool fits(const exec::ExecutableT &data, const exec::PortT &output,
                 int64_t window, int64_t units) {
  const std::vector<int64_t> sizes = getSampleSizes(data, output);
  return output.layout->element == exec::ElementType::f32 &&
         sizes.size() == 2 && output.layout->dims.size() == 3 &&
         sizes[0] <= window && sizes[0] + 1 >= window && sizes[1] >= units;
}

static Result<Model> findModel(const Session &session, int64_t units,
                               const std::string &name) {
  const exec::ExecutableT &data = session.getExecutable().data;
  Result<const exec::ProgramT *> program = session.getProgram("eval");
  if (!program)
    return program.getError();
  Model model{*program, nullptr, nullptr, 0, units};
  model.text = findPort((*program)->inputs, data.data.front()->input);
  const std::vector<int64_t> sizes =
      model.text ? getSampleSizes(data, *model.text) : std::vector<int64_t>();
  if (sizes.size() != 1 || model.text->layout->dims.size() != 2 ||
      isFloat(model.text->layout->element))
    return Error{ErrorCode::NothingToDo,
                 "the input of the model is no window of text", ""};
  const int64_t window = sizes[0];
  std::vector<std::string> names;
  for (const auto &output : (*program)->outputs)
    if (fits(data, *output, window, units)) {
      names.push_back(output->name);
      if (name.empty() || output->name == name)
        model.output = output.get();
    }
  if (names.empty())
    return Error{ErrorCode::NothingToDo,
                 fmt::format("the model has no output that says which unit of "
                             "text comes next: f32[{}, {} positions, {} units]",
                             data.sample_dim, window - 1, units),
                 ""};
  if (!model.output)
    return Error{ErrorCode::UnknownName,
                 fmt::format("'{}' is no output that says which unit of text "
                             "comes next",
                             name),
                 listNames(names)};
  if (name.empty() && names.size() > 1)
    return Error{ErrorCode::Usage,
                 "several outputs may say which unit of text comes next",
                 fmt::format("give --of {}", fmt::join(names, " or --of "))};
  model.positions = getSampleSizes(data, *model.output)[0];
  return model;
}

/// An error where something else than a text feeds the model.
static Status checkSource(const exec::ExecutableT &data) {
  if (data.data.size() == 1 &&
      data.data.front()->reader == exec::DataReader::text)
    return Status::success();
  return Error{ErrorCode::NothingToDo,
               "a prompt is for a model whose only input is fed by a text",
               "NAME = text(...) in its data block"};
}

/// The input for what there is so far: in each place of the batch the last
/// positions of the text.
static HostArray makeInput(const Model &model, const exec::ExecutableT &data,
                           std::span<const int32_t> text) {
  const exec::TensorLayoutT &layout = *model.text->layout;
  HostArray array{layout.element, getSizes(layout), {}};
  const int64_t width = getElementBytes(layout.element);
  array.data.resize(size_t(array.getNumElements() * width));
  const bool samplesFirst = layout.dims[0]->name == data.sample_dim;
  const int64_t batch = array.shape[samplesFirst ? 0 : 1];
  const int64_t window = array.shape[samplesFirst ? 1 : 0];
  for (int64_t sample = 0; sample < batch; ++sample)
    for (size_t i = 0; i < text.size(); ++i) {
      const int64_t place = samplesFirst ? sample * window + int64_t(i)
                                         : int64_t(i) * batch + sample;
      const auto wide = int64_t(text[i]); // the low bytes come first
      std::memcpy(array.data.data() + place * width, &wide, size_t(width));
    }
  return array;
}

/// The best unit at a position of the first sample.
static Result<int64_t> findBest(const Model &model,
                                const exec::ExecutableT &data,
                                const HostArray &output, int64_t position) {
  const auto &dims = model.output->layout->dims;
  int64_t strides[2] = {}; // of positions and units
  int64_t stride = 1;
  size_t place = 2;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]->size)
    if (dims[i]->name != data.sample_dim)
      strides[--place] = stride;
  const auto *values = reinterpret_cast<const float *>(output.data.data());
  int64_t best = 0;
  float most = -INFINITY;
  for (int64_t unit = 0; unit < model.units; ++unit) {
    const float value = values[position * strides[0] + unit * strides[1]];
    if (std::isnan(value))
      return Error{ErrorCode::ValueNotFinite,
                   fmt::format("output '{}' is NaN at position {}, unit {}",
                               model.output->name, position, unit),
                   ""};
    if (value > most) {
      most = value;
      best = unit;
    }
  }
  return best;
}

/// A part of a text as a terminal may get it, line by line.
static std::string escapeLines(std::string_view text) {
  std::string lines;
  while (true) {
    const size_t end = text.find('\n');
    lines += escapeForTerminal(text.substr(0, end));
    if (end == std::string_view::npos)
      return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

Status runtime::continueText(Session &session,
                             const ContinuationRequest &request) {
  const exec::ExecutableT &data = session.getExecutable().data;
  if (Status sound = checkSource(data); !sound)
    return sound;
  const exec::DataSourceT &source = *data.data.front();
  Result<TextUnits> units = TextUnits::open(source, request.dataFolder);
  if (!units)
    return units.getError();
  Result<Model> model = findModel(session, units->getSize(), request.output);
  if (!model)
    return model.getError();
  Result<std::vector<int32_t>> text = units->encode(
      std::as_bytes(std::span(request.prompt)), "the text of --prompt");
  if (!text)
    return text.getError();
  // Other characters would be others' numbers.
  if (Status same = session.agree(
          {{"the characters of the text for training", units->getDigest()}});
      !same)
    return same;
  Result<Parameters> parameters = Parameters::open(session, request.parameters);
  if (!parameters)
    return parameters.getError();
  if (Status set = parameters->set(session); !set)
    return set;
  std::string shown = request.prompt; // what a terminal has not got
  for (int64_t i = 0; i < request.count; ++i) {
    const size_t used = std::min(text->size(), size_t(model->positions));
    Status ran = session.setInput(
        *model->program, model->text->name,
        makeInput(*model, data, std::span(*text).last(used)), "--prompt");
    if (ran)
      ran = session.run(*model->program, i + 1);
    if (!ran)
      return ran;
    Result<HostArray> output = session.read(*model->output);
    if (!output)
      return output.getError();
    Result<int64_t> best = findBest(*model, data, *output, int64_t(used) - 1);
    if (!best)
      return best.getError();
    text->push_back(int32_t(*best));
    shown += units->decode(*best);
    if (!session.isFirst() || (shown.back() != '\n' && shown.size() < 60))
      continue;
    printOutput(escapeLines(shown));
    shown.clear();
  }
  if (session.isFirst())
    printOutput(escapeLines(shown) + "\n");
  return Status::success();
}

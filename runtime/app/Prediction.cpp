#include "runtime/app/Prediction.h"

#include "runtime/app/OutputFile.h"
#include "runtime/app/PredictionInputs.h"
#include "runtime/app/SampleLoop.h"
#include "runtime/data/Npy.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// An output that is nobody's (SampleLoop.cpp).
static constexpr std::string_view retryOutput = "fp16/retry";

/// An error if a file would be written that is one of those that are `read`, or
/// written a second time.
static Status checkOverwriting(const PredictionRequest &request,
                               const std::vector<std::string> &read) {
  TakenFiles taken;
  for (const std::string &path : read)
    taken.add(path);
  for (const auto *files : {&request.outputs, &request.gradients})
    for (const NamedFile &file : *files)
      if (Status added = taken.addWritten(file.path, file.name); !added)
        return added;
  return Status::success();
}

/// Finds the output each file is for before anything is computed.
static Result<std::vector<const exec::PortT *>>
findOutputs(const Executable &executable, const exec::ProgramT &program,
            std::string_view kind, std::string_view prefix,
            const std::vector<NamedFile> &files) {
  std::vector<const exec::PortT *> ports;
  for (const NamedFile &file : files) {
    ports.push_back(findPort(program.outputs, std::string(prefix) + file.name));
    if (ports.back())
      continue;
    std::vector<std::string> names;
    for (const auto &port : program.outputs)
      if (port->name.starts_with(prefix) && port->name != retryOutput &&
          (!prefix.empty() || !port->name.starts_with(gradientPrefix)))
        names.push_back(port->name.substr(prefix.size()));
    const exec::VariableT *variable = executable.findVariable(file.name);
    const bool isState =
        variable && variable->role == exec::BufferRole::model_state;
    return Error{ErrorCode::UnknownName,
                 fmt::format("there is no {} '{}'", kind, file.name),
                 prefix.empty() && isState
                     ? "it is state: with --training this is what a step would "
                       "leave"
                     : listNames(names)};
  }
  return ports;
}

/// The program that gives what is asked for.
static Result<const exec::ProgramT *>
findProgram(Session &session, const PredictionRequest &request) {
  // A model that computes the same in both has no program for training.
  const bool isTraining =
      request.isTraining && session.getExecutable().findProgram("training");
  if (request.gradients.empty())
    return session.getProgram(isTraining ? "training" : "eval");
  Result<const exec::ProgramT *> program =
      session.getProgram(isTraining ? "training_gradient" : "gradient");
  if (program)
    return program;
  return Error{
      ErrorCode::UnknownProgram,
      "this executable was compiled without gradients",
      fmt::format("compile it with --grad {}", request.gradients.front().name)};
}

/// How many samples there are, and in a batch.
static Samples countSamples(const exec::ProgramT &program,
                            const PredictionInputs &inputs) {
  Samples samples{inputs.getBatchDim(), 1, 1};
  for (const auto *ports : {&program.inputs, &program.outputs})
    for (const auto &port : *ports)
      if (std::optional<size_t> axis = samples.findAxis(*port->layout))
        samples.batchSize = port->layout->dims[*axis]->size;
  samples.count = inputs.getNumSamples().value_or(samples.batchSize);
  return samples;
}

/// An error if an output cannot be given for so many samples.
static Status checkOutput(const exec::PortT &port, const Samples &samples) {
  if (samples.areOneBatch() || samples.findAxis(*port.layout))
    return Status::success();
  if (port.layout->dims.empty() && isFloat(port.layout->element))
    return samples.count > 0
               ? Status::success()
               : Error{ErrorCode::OneBatchOnly,
                       fmt::format("output '{}' is a mean over samples, of "
                                   "which the inputs have none",
                                   port.name),
                       ""};
  return Error{
      ErrorCode::OneBatchOnly,
      fmt::format("output '{}' is {}, of a batch as a whole, which has {} "
                  "samples along '{}': found {}",
                  port.name, toString(*port.layout), samples.batchSize,
                  samples.dim, samples.count),
      fmt::format("give as many, compile the model with -D {}={}, or leave the "
                  "output out",
                  samples.dim, samples.count)};
}

static Status checkGradients(const Samples &samples) {
  if (samples.areOneBatch())
    return Status::success();
  return Error{ErrorCode::OneBatchOnly,
               fmt::format("gradients are of one batch, which has {} samples "
                           "along '{}': found {}",
                           samples.batchSize, samples.dim, samples.count),
               fmt::format("give as many, or compile the model with -D {}={}",
                           samples.dim, samples.count)};
}

/// A scalar as an array of the type of the output that it is the mean of.
static HostArray makeScalar(const exec::PortT &port, double value) {
  HostArray array{port.layout->element, {}, {}};
  auto set = [&](auto number) {
    array.data.resize(sizeof(number));
    std::memcpy(array.data.data(), &number, sizeof(number));
  };
  if (array.element == exec::ElementType::f64)
    set(value);
  else
    set(float(value));
  return array;
}

namespace {

/// The outputs that are asked for.
class Outputs {
public:
  /// Prints a table of one, on the first rank, which reads the labels.
  Status showTop(const exec::PortT &port, const Samples &samples,
                 const TopRequest &request, bool prints) {
    if (prints) {
      Result<TopTable> created = TopTable::create(port, samples, request);
      if (!created)
        return created.getError();
      table = std::move(*created);
    }
    shown = &port;
    // One that is written too is read once.
    if (std::none_of(outputs.begin(), outputs.end(), [&](const Output &output) {
          return output.port == &port;
        }))
      outputs.push_back({&port, "", false, std::nullopt});
    return Status::success();
  }

  /// Creates the files, on the first rank; all know what is asked for.
  Status open(const std::vector<const exec::PortT *> &ports,
              const std::vector<NamedFile> &files, const Samples &samples,
              bool writes) {
    for (size_t i = 0; i < ports.size(); ++i) {
      const bool isMean =
          !samples.areOneBatch() && !samples.findAxis(*ports[i]->layout);
      outputs.push_back({ports[i], files[i].path, isMean, std::nullopt});
      if (!writes)
        continue;
      if (isMean) {
        if (Status isWritable = checkWritable(files[i].path); !isWritable)
          return isWritable;
        continue;
      }
      Result<OutputFile> file =
          OutputFile::create(*ports[i], files[i].path, samples);
      if (!file)
        return file.getError();
      outputs.back().file = std::move(*file);
    }
    return Status::success();
  }

  bool hasMeans() const {
    return std::any_of(outputs.begin(), outputs.end(),
                       [](const Output &output) { return output.isMean; });
  }

  /// Takes what a batch has given; `truth` is for the table.
  Status add(Session &session, int64_t first, int64_t count,
             std::span<const int64_t> truth) {
    for (Output &output : outputs) {
      if (output.isMean)
        continue;
      // By all ranks, each of which may have a part of it.
      Result<HostArray> batch = session.read(*output.port);
      if (!batch)
        return batch.getError();
      if (table && output.port == shown)
        table->add(*batch, first, count, truth);
      if (!output.file)
        continue;
      if (Status added = output.file->add(*batch, first, count); !added)
        return added;
    }
    return Status::success();
  }

  /// Has the files appear.
  Status commit(const std::vector<NamedValue> &means) {
    for (Output &output : outputs) {
      Status written = Status::success();
      if (output.file)
        written = output.file->commit();
      for (const NamedValue &mean : means)
        if (output.isMean && mean.name == output.port->name)
          written = writeNpy(output.path, makeScalar(*output.port, mean.value));
      if (!written)
        return written;
    }
    return Status::success();
  }

private:
  struct Output {
    const exec::PortT *port;
    std::string path;
    bool isMean;
    std::optional<OutputFile> file;
  };

  std::vector<Output> outputs;
  const exec::PortT *shown = nullptr;
  std::optional<TopTable> table;
};

} // namespace

/// Prints the outputs of one element, of one batch, or the means of those
/// without dims.
static Status printScalars(Session &session, const exec::ProgramT &program,
                           const Samples &samples,
                           const std::vector<NamedValue> &means) {
  std::vector<NamedValue> values;
  for (const auto &port : program.outputs)
    if (samples.areOneBatch() && getGlobalElements(*port->layout) == 1) {
      Result<HostArray> array = session.read(*port);
      if (!array)
        return array.getError();
      values.push_back({port->name, getScalar(*array)});
    }
  if (!session.isFirst())
    return Status::success();
  for (const NamedValue &value : samples.areOneBatch() ? values : means)
    printOutput(fmt::format("{} {:.9g}\n", value.name, value.value));
  return Status::success();
}

/// Whether nothing is asked for.
static bool printsScalars(const PredictionRequest &request) {
  return request.outputs.empty() && request.gradients.empty() &&
         request.top.count == 0;
}

/// The numbers of samples, of inputs and of outputs, fit each other.
static Status checkSamples(const exec::ProgramT &program,
                           const PredictionRequest &request,
                           const std::vector<const exec::PortT *> &outputs,
                           const Samples &samples) {
  if (!request.gradients.empty())
    if (Status fits = checkGradients(samples); !fits)
      return fits;
  for (const exec::PortT *port : outputs)
    if (Status fits = checkOutput(*port, samples); !fits)
      return fits;
  if (printsScalars(request) && samples.count == 0)
    for (const auto &port : program.outputs)
      if (port->layout->dims.empty())
        return checkOutput(*port, samples);
  return Status::success();
}

/// Whether the table may be of this output (findTopOutput), by its name alone
/// or, without one, its type; `countsSamples`: a dim of the inputs does so.
static bool mayBeTop(const exec::PortT &port, const TopRequest &request,
                     bool countsSamples) {
  if (request.count == 0)
    return false;
  return request.output.empty()
             ? isFloat(port.layout->element) &&
                   port.layout->dims.size() > (countsSamples ? 1 : 0) &&
                   !port.name.starts_with(gradientPrefix)
             : port.name == request.output;
}

Status runtime::predict(Session &session, const PredictionRequest &request) {
  Result<const exec::ProgramT *> program = findProgram(session, request);
  if (!program)
    return program.getError();
  Result<std::vector<const exec::PortT *>> outputs = findOutputs(
      session.getExecutable(), **program, "output", "", request.outputs);
  if (!outputs)
    return outputs.getError();
  Result<std::vector<const exec::PortT *>> gradients =
      findOutputs(session.getExecutable(), **program, "gradient of",
                  gradientPrefix, request.gradients);
  if (!gradients)
    return gradients.getError();
  for (auto [kind, files] : {std::pair{"output", &request.outputs},
                             std::pair{"gradient of", &request.gradients},
                             std::pair{"input", &request.inputs}})
    if (Status unique = checkUnique(kind, *files); !unique)
      return unique;

  const bool countsSamples = !request.batchDim.empty() ||
                             !session.getExecutable().data.sample_dim.empty();
  // Scalars are printed where nothing else is asked for.
  std::vector<const exec::PortT *> asked = *outputs;
  asked.insert(asked.end(), gradients->begin(), gradients->end());
  for (const auto &port : (*program)->outputs)
    if (printsScalars(request) || port->name == retryOutput ||
        mayBeTop(*port, request.top, countsSamples))
      asked.push_back(port.get());
  Result<PredictionInputs> inputs =
      PredictionInputs::open(session, **program, request, asked);
  if (!inputs)
    return inputs.getError();
  const Samples samples = countSamples(**program, *inputs);
  Status ready = checkSamples(**program, request, *outputs, samples);
  const exec::PortT *top = nullptr;
  const exec::PortT *truth = nullptr;
  if (ready && request.top.count > 0) {
    Result<const exec::PortT *> found =
        findTopOutput(**program, samples, request.top);
    if (!found)
      return found.getError();
    top = *found;
    found = findTruth(**program, samples, request.top);
    if (!found)
      return found.getError();
    truth = *found;
    if (truth && !inputs->has(*truth))
      return Error{ErrorCode::MissingInput,
                   fmt::format("--truth {}, but that input is given nowhere",
                               truth->name),
                   fmt::format("give it as --in {}=FILE.npy", truth->name)};
    ready = checkOutput(*top, samples);
  }
  if (!ready)
    return ready;
  ParameterRequest given = request.parameters;
  given.isOfStep = request.isTraining;
  Result<Parameters> parameters = Parameters::open(session, given);
  if (!parameters)
    return parameters.getError();
  std::vector<std::string> read = parameters->getFiles();
  for (const std::string &path : inputs->getPaths())
    read.push_back(path);
  for (const std::string &path : {request.parameters.names, request.top.labels})
    if (!path.empty())
      read.push_back(path);
  ready = checkOverwriting(request, read);
  // Ranks run as often as each other.
  if (ready && session.hasOtherRanks())
    ready = session.agree(inputs->getShapes());
  Outputs files;
  if (ready)
    ready = files.open(*outputs, request.outputs, samples, session.isFirst());
  if (ready)
    ready =
        files.open(*gradients, request.gradients, samples, session.isFirst());
  if (ready && top)
    ready = files.showTop(*top, samples, request.top, session.isFirst());
  if (ready)
    ready = parameters->set(session);
  if (!ready)
    return ready;

  const bool prints = printsScalars(request);
  // A table on a terminal says by itself how far it is.
  const bool showsTable = top && isatty(STDOUT_FILENO) == 1;
  const SampleLoop loop{
      .program = **program,
      .batchSize = samples.batchSize,
      .numSamples = samples.count,
      .feed =
          [&](std::span<const int64_t> places) {
            return inputs->feed(session.getDevices(), places);
          },
      .visit =
          [&](int64_t first, int64_t count) {
            Result<std::vector<int64_t>> positions = std::vector<int64_t>();
            if (truth)
              positions = inputs->getIntegers(*truth, first, count);
            return positions ? files.add(session, first, count, *positions)
                             : Status(positions.getError());
          },
      .needsMeans = files.hasMeans() || (prints && !samples.areOneBatch()),
      .name = "prediction",
      .firstRun = request.firstRun,
      .quietTime = showsTable ? Progress::Clock::duration::max()
                              : Progress::Clock::duration(quietTime)};
  Result<std::vector<NamedValue>> means = loop.run(session);
  if (!means)
    return means.getError();
  if (session.hasOtherRanks())
    if (Status same = session.agree(inputs->getDigests()); !same)
      return same;
  if (prints)
    return printScalars(session, **program, samples, *means);
  return session.isFirst() ? files.commit(*means) : Status::success();
}

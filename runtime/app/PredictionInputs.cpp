#include "runtime/app/PredictionInputs.h"

#include "runtime/app/OutputFile.h"
#include "runtime/app/Progress.h"
#include "runtime/exec/NeededInputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

using namespace meshc;
using namespace meshc::runtime;

/// The dims that may count samples where the program does not say which does:
/// those of inputs that no parameter has.
static std::vector<std::string> findSampleDims(const exec::ExecutableT &data,
                                               const exec::ProgramT &program) {
  std::vector<std::string> dims;
  for (const auto &input : program.inputs)
    for (const auto &dim : input->layout->dims)
      if (std::find(dims.begin(), dims.end(), dim->name) == dims.end() &&
          std::none_of(data.variables.begin(), data.variables.end(),
                       [&](const auto &variable) {
                         return isOfModel(variable->role) &&
                                findDim(*variable->layout, dim->name);
                       }))
        dims.push_back(dim->name);
  return dims;
}

/// The dim that counts samples; empty if there is none.
static Result<std::string> findBatchDim(const exec::ExecutableT &data,
                                        const exec::ProgramT &program,
                                        const std::string &asked) {
  if (asked.empty())
    return data.sample_dim;
  const std::vector<std::string> dims = findSampleDims(data, program);
  if (std::find(dims.begin(), dims.end(), asked) != dims.end())
    return asked;
  return Error{ErrorCode::UnknownName,
               fmt::format("'{}' is no dim of an input that may count samples, "
                           "which no parameter has",
                           asked),
               listNames(dims)};
}

/// "; outputs 'logits' and 'accuracy' do without it": what could be asked for
/// without an input; empty if nothing.
static std::string nameOutputsWithout(const exec::ExecutableT &data,
                                      const exec::ProgramT &program,
                                      const exec::PortT *input) {
  std::vector<std::string> names;
  for (const auto &output : program.outputs) {
    const exec::PortT *asked[] = {output.get()};
    const auto needed = findNeededInputs(data, program, asked);
    // A constant is of no use.
    if (!needed.empty() && !output->name.starts_with(gradientPrefix) &&
        std::find(needed.begin(), needed.end(), input) == needed.end())
      names.push_back(output->name);
  }
  if (names.empty())
    return "";
  if (names.size() == 1)
    return fmt::format("; output '{}' does without it", names[0]);
  if (names.size() == 2)
    return fmt::format("; outputs '{}' and '{}' do without it", names[0],
                       names[1]);
  return fmt::format("; output '{}' and {} more do without it", names[0],
                     names.size() - 1);
}

/// Opens the files of the inputs. Those that are given nowhere are `missing`:
/// an error where `outputs` need them.
static Result<InputFiles>
openInputs(const Session &session, const exec::ProgramT &program,
           const std::vector<NamedFile> &files, const std::string &batchDim,
           std::span<const exec::PortT *const> outputs,
           std::vector<const exec::PortT *> &missing) {
  std::set<std::string_view> given;
  std::vector<std::pair<const exec::PortT *, std::string>> ports;
  for (const NamedFile &file : files) {
    Result<const exec::PortT *> input = session.getInput(program, file.name);
    if (!input)
      return input.getError();
    given.insert(file.name);
    ports.push_back({*input, file.path});
  }
  const exec::ExecutableT &data = session.getExecutable().data;
  const auto needed = findNeededInputs(data, program, outputs);
  for (const auto &input : program.inputs) {
    if (given.count(input->name))
      continue;
    if (std::find(needed.begin(), needed.end(), input.get()) == needed.end()) {
      missing.push_back(input.get());
      continue;
    }
    return Error{ErrorCode::MissingInput,
                 fmt::format("input '{}' is missing: expected {}", input->name,
                             toString(*input->layout)),
                 fmt::format("give it as --in {}=FILE.npy{}", input->name,
                             nameOutputsWithout(data, program, input.get()))};
  }
  Result<InputFiles> opened =
      InputFiles::open(std::move(ports), batchDim, session.hasOtherRanks());
  if (opened || !batchDim.empty() ||
      opened.getError().code != ErrorCode::WrongArray)
    return opened;
  Error error = opened.getError();
  const std::vector<std::string> dims =
      findSampleDims(session.getExecutable().data, program);
  if (!dims.empty())
    error.note = fmt::format(
        "no data block says which dim counts samples; for any number of them "
        "--batch {}",
        fmt::join(dims, " or --batch "));
  return error;
}

PredictionInputs::PredictionInputs(std::variant<InputFiles, Dataset> source,
                                   std::string batchDim)
    : source(std::move(source)), batchDim(std::move(batchDim)) {
  if (const auto *files = std::get_if<InputFiles>(&this->source))
    numSamples = files->getNumSamples();
  else
    numSamples = std::get<Dataset>(this->source).getNumSamples();
}

Result<PredictionInputs>
PredictionInputs::open(const Session &session, const exec::ProgramT &program,
                       const PredictionRequest &request,
                       std::span<const exec::PortT *const> outputs) {
  const Executable &executable = session.getExecutable();
  Result<std::string> batchDim =
      findBatchDim(executable.data, program, request.batchDim);
  if (!batchDim)
    return batchDim.getError();
  std::optional<PredictionInputs> inputs;
  if (request.dataFolder) {
    ByteProgress progress("test data read");
    Result<Dataset> dataset =
        Dataset::load(executable, program, Dataset::Split::Test,
                      *request.dataFolder, progress.listen(session.isFirst()));
    if (!dataset)
      return dataset.getError();
    Result<std::string> digest = std::string();
    if (session.hasOtherRanks())
      digest = dataset->getDigest();
    if (!digest)
      return digest.getError();
    inputs = PredictionInputs(std::move(*dataset), *batchDim);
    inputs->digest = *digest;
  } else {
    std::vector<const exec::PortT *> missing;
    Result<InputFiles> files = openInputs(session, program, request.inputs,
                                          *batchDim, outputs, missing);
    if (!files)
      return files.getError();
    inputs = PredictionInputs(std::move(*files), *batchDim);
    inputs->missing = std::move(missing);
  }
  if (request.maxSamples && !inputs->numSamples)
    return Error{ErrorCode::Usage,
                 fmt::format("--samples {}, but no input has a dim that counts "
                             "samples",
                             *request.maxSamples),
                 ""};
  if (request.maxSamples)
    inputs->numSamples = std::min(*inputs->numSamples, *request.maxSamples);
  return std::move(*inputs);
}

std::vector<std::string> PredictionInputs::getPaths() const {
  return std::visit([](const auto &files) { return files.getPaths(); }, source);
}

Status PredictionInputs::feed(DeviceSet &devices,
                              std::span<const int64_t> samples) {
  // Each time: a run may put other values there, and what is computed of them
  // in vain is then the same in every batch.
  for (const exec::PortT *port : missing) {
    const auto bytes = uint64_t(getLocalElements(*port->layout) *
                                getElementBytes(port->layout->element));
    const int64_t count = devices.getExecutable().getNumDevices();
    for (int64_t device = 0; device < count; ++device)
      if (Status written = devices.write(
              device, port->buffer, bytes,
              [&](std::byte *block) { std::memset(block, 0, size_t(bytes)); });
          !written)
        return written;
  }
  return std::visit([&](auto &files) { return files.feed(devices, samples); },
                    source);
}

Result<std::vector<int64_t>>
PredictionInputs::getIntegers(const exec::PortT &port, int64_t first,
                              int64_t count) const {
  if (const auto *files = std::get_if<InputFiles>(&source))
    return files->getIntegers(port, count);
  return std::get<Dataset>(source).getIntegers(port, first, count);
}

Agreements PredictionInputs::getShapes() const {
  if (const auto *files = std::get_if<InputFiles>(&source))
    return files->getShapes();
  return {{"the test data", digest}};
}

Agreements PredictionInputs::getDigests() const {
  if (const auto *files = std::get_if<InputFiles>(&source))
    return files->getDigests();
  return {}; // before the run all of the test data was compared
}

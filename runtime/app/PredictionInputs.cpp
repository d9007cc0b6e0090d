#include "runtime/app/PredictionInputs.h"

#include <fmt/format.h>

#include <algorithm>
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
                         return variable->trainable &&
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

/// Opens the file of every input.
static Result<InputFiles> openInputs(const Session &session,
                                     const exec::ProgramT &program,
                                     const std::vector<NamedFile> &files,
                                     const std::string &batchDim) {
  std::set<std::string_view> given;
  std::vector<std::pair<const exec::PortT *, std::string>> ports;
  for (const NamedFile &file : files) {
    Result<const exec::PortT *> input = session.getInput(program, file.name);
    if (!input)
      return input.getError();
    given.insert(file.name);
    ports.push_back({*input, file.path});
  }
  for (const auto &input : program.inputs)
    if (!given.count(input->name))
      return Error{ErrorCode::MissingInput,
                   fmt::format("input '{}' is missing: expected {}",
                               input->name, toString(*input->layout)),
                   fmt::format("give it as --in {}=FILE.npy", input->name)};
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
                       const PredictionRequest &request) {
  const Executable &executable = session.getExecutable();
  Result<std::string> batchDim =
      findBatchDim(executable.data, program, request.batchDim);
  if (!batchDim)
    return batchDim.getError();
  std::optional<PredictionInputs> inputs;
  if (request.dataFolder) {
    Result<Dataset> dataset = Dataset::load(
        executable, program, Dataset::Split::Test, *request.dataFolder);
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
    Result<InputFiles> files =
        openInputs(session, program, request.inputs, *batchDim);
    if (!files)
      return files.getError();
    inputs = PredictionInputs(std::move(*files), *batchDim);
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

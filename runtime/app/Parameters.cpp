#include "runtime/app/Parameters.h"

#include "runtime/app/Progress.h"
#include "runtime/checkpoint/CheckpointParameters.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/weights/WeightParameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

static uint64_t getGlobalBytes(const exec::TensorLayoutT &layout) {
  return uint64_t(getGlobalElements(layout) * getElementBytes(layout.element));
}

bool runtime::hasOtherNames(const std::string &path) {
  // A checkpoint has safetensors files, too.
  return !isCheckpoint(path) && TensorFiles::isAny(path);
}

Result<std::unique_ptr<ParameterSource>>
runtime::openSource(const std::string &path, const NameMap *map,
                    std::span<const exec::VariableT *const> parameters,
                    bool isOfStep) {
  if (hasOtherNames(path))
    return WeightParameters::open(path, map, parameters);
  if (!isCheckpoint(path))
    return openParameterSource(path);
  return CheckpointParameters::open(
      path, isOfStep ? std::span<const exec::VariableT *const>() : parameters);
}

Result<std::optional<NameMap>> runtime::openNames(const std::string &path) {
  if (path.empty())
    return std::optional<NameMap>();
  Result<NameMap> map = readNameMap(path);
  if (!map)
    return map.getError();
  return std::optional<NameMap>(std::move(*map));
}

Status runtime::checkUnique(std::string_view kind,
                            const std::vector<NamedFile> &files) {
  std::set<std::string_view> given;
  for (const NamedFile &file : files)
    if (!given.insert(file.name).second)
      return Error{ErrorCode::RepeatedInput,
                   fmt::format("{} '{}' is given twice", kind, file.name), ""};
  return Status::success();
}

/// An error if a parameter of the model is given by no file.
static Status checkComplete(const Session &session,
                            const std::vector<NamedFile> &files) {
  std::set<std::string_view> given;
  for (const NamedFile &file : files)
    given.insert(file.name);
  std::vector<const exec::VariableT *> missing;
  for (const exec::VariableT *parameter : session.getParameters())
    if (!given.count(parameter->name))
      missing.push_back(parameter);
  if (missing.empty())
    return Status::success();
  if (missing.size() == 1)
    return Error{ErrorCode::MissingInput,
                 fmt::format("parameter '{}' is missing: expected {}",
                             missing[0]->name, toString(*missing[0]->layout)),
                 fmt::format("give it as --param {}=FILE.npy, or --init random "
                             "to evaluate one that is not trained",
                             missing[0]->name)};
  constexpr size_t most = 4; // names in a message
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(missing.size(), most); ++i)
    names.push_back(fmt::format("'{}'", missing[i]->name));
  if (missing.size() > most)
    names.push_back(fmt::format("{} more", missing.size() - most));
  const std::string last = std::move(names.back());
  names.pop_back();
  return Error{ErrorCode::MissingInput,
               fmt::format("{} parameters are missing: {} and {}",
                           missing.size(), fmt::join(names, ", "), last),
               "give a folder of them as --from DIR, each as --param "
               "NAME=FILE.npy, or --init random to evaluate those that are not "
               "given untrained"};
}

Result<Parameters> Parameters::open(const Session &session,
                                    const ParameterRequest &request) {
  Status ready = checkUnique("parameter", request.files);
  for (const NamedFile &file : request.files)
    if (ready)
      if (auto parameter = session.getParameter(file.name); !parameter)
        ready = parameter.getError();
  if (ready && request.from.empty() && !request.drawsMissing)
    ready = checkComplete(session, request.files);
  if (!ready)
    return ready.getError();

  Parameters result;
  result.seed = request.seed;
  if (!request.files.empty()) {
    Result<std::unique_ptr<ParameterSource>> files =
        openParameterFiles(request.files);
    if (!files)
      return files.getError();
    result.files = std::move(*files);
  }
  if (!request.from.empty()) {
    if (!request.names.empty() && !hasOtherNames(request.from))
      return Error{ErrorCode::Usage,
                   fmt::format("--names is for safetensors files; '{}' is {}",
                               request.from,
                               isCheckpoint(request.from)
                                   ? "a checkpoint, which has the spec's names"
                                   : "none"),
                   ""};
    Result<std::optional<NameMap>> map = openNames(request.names);
    if (!map)
      return map.getError();
    Result<std::unique_ptr<ParameterSource>> from =
        openSource(request.from, *map ? &**map : nullptr,
                   session.getParameters(), request.isOfStep);
    if (!from)
      return from.getError();
    result.from = std::move(*from);
    ready = compareParameters(
        *result.from, request.from, session.getParameters(),
        [&](const exec::VariableT &parameter) {
          return (result.files && result.files->find(parameter.name)) ||
                 (request.drawsMissing && !result.from->find(parameter.name));
        });
    if (!ready)
      return ready.getError();
  }
  for (const exec::VariableT *parameter : session.getParameters())
    for (const auto *source : {result.files.get(), result.from.get()}) {
      const ParameterSource::Entry *entry =
          source ? source->find(parameter->name) : nullptr;
      if (!entry)
        continue;
      ready = checkArray("parameter", parameter->name, *parameter->layout,
                         entry->element, entry->shape, entry->place);
      if (!ready)
        return ready.getError();
      const exec::VariableT *mean = nullptr;
      for (const auto &variable : session.getExecutable().data.variables)
        if (!parameter->mean.empty() && variable->name == parameter->mean)
          mean = variable.get();
      result.settings.push_back({parameter, mean, source, entry});
      break; // what is given by name comes first
    }
  return result;
}

std::vector<std::string> Parameters::getFiles() const {
  std::vector<std::string> paths;
  for (const auto *source : {files.get(), from.get()})
    if (source)
      for (std::string &path : source->getFiles())
        paths.push_back(std::move(path));
  return paths;
}

Status Parameters::setOne(Session &session, const Setting &setting,
                          const exec::VariableT &variable) {
  DeviceSet &devices = session.getDevices();
  const layout::Mesh &mesh = session.getExecutable().mesh;
  const exec::TensorLayoutT &layout = *variable.layout;
  const auto bytes =
      uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
  Status status = Status::success();
  for (int64_t device = 0; device < mesh.getNumDevices() && status; ++device) {
    const Placement placement =
        getPlacement(mesh, getSizes(layout), getSharding(layout), device);
    Status filled = Status::success();
    auto fill = [&](std::byte *block) {
      filled = setting.source->readBlock(*setting.entry, placement, block);
    };
    status = devices.write(device, variable.buffer, bytes, fill);
    if (status)
      status = filled;
  }
  return status;
}

Status Parameters::compareRanks(Session &session) const {
  if (!session.hasOtherRanks())
    return Status::success();
  Agreements items;
  for (const exec::VariableT *parameter : session.getParameters()) {
    auto setting = std::find_if(
        settings.begin(), settings.end(),
        [&](const Setting &setting) { return setting.parameter == parameter; });
    Result<std::string> digest("not given");
    if (setting != settings.end())
      digest = setting->source->getDigest(*setting->entry);
    if (!digest)
      return digest.getError();
    items.push_back({fmt::format("parameter '{}'", parameter->name), *digest});
  }
  return session.agree(items);
}

Status Parameters::set(Session &session) const {
  Status status = session.initialise(seed);
  uint64_t allBytes = 0;
  for (const Setting &setting : settings)
    allBytes += getGlobalBytes(*setting.parameter->layout);
  uint64_t bytes = 0;
  ByteProgress progress("parameters");
  for (size_t i = 0; i < settings.size() && status; ++i) {
    status = setOne(session, settings[i], *settings[i].parameter);
    if (status && settings[i].mean)
      status = setOne(session, settings[i], *settings[i].mean);
    bytes += getGlobalBytes(*settings[i].parameter->layout);
    if (session.isFirst())
      progress.show(bytes, allBytes);
  }
  return status ? compareRanks(session) : status;
}

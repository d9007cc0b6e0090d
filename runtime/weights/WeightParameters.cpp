#include "runtime/weights/WeightParameters.h"

#include "runtime/exec/Executable.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

Result<const FileTensor *>
WeightParameters::findTensor(const StoredPart &part, const NameMap *map) const {
  const std::string &name = part.tensor;
  std::vector<std::string> names = {name};
  if (map)
    for (size_t i = 0; i < part.numPrefixes; ++i)
      names.push_back(map->prefixes[i] + name);
  else if (name.find('/') != std::string::npos)
    std::ranges::replace(names.emplace_back(name), '/', '.');
  const FileTensor *found = nullptr;
  for (const std::string &each : names) {
    auto tensor = files.getTensors().find(each);
    if (tensor == files.getTensors().end())
      continue;
    if (found)
      return Error{ErrorCode::WrongParameters,
                   fmt::format("'{}' has both '{}' and '{}'",
                               found->file->getPath(), found->entry.name, each),
                   "either may be meant"};
    found = &tensor->second;
  }
  return found;
}

/// "gpt2.map:7 says": who expects something of a tensor.
static std::string getReason(const StoredPart &part, const NameMap *map,
                             const std::string &parameter) {
  return map ? fmt::format("{}:{} has it for '{}'", map->path, part.line,
                           parameter)
             : fmt::format("it is parameter '{}'", parameter);
}

Status WeightParameters::add(StoredParameter &stored, const NameMap *map) {
  const std::string &name = stored.parameter->name;
  const exec::TensorLayoutT &layout = *stored.parameter->layout;
  std::vector<Part> found;
  const StoredPart *missing = nullptr;
  for (StoredPart &part : stored.parts) {
    Result<const FileTensor *> tensor = findTensor(part, map);
    if (!tensor)
      return tensor.getError();
    if (*tensor)
      found.push_back({part, *tensor});
    else if (!missing)
      missing = &part;
  }
  if (found.empty())
    return Status::success(); // it is missing as a whole
  const FileTensor &first = *found[0].tensor;
  if (missing)
    return Error{ErrorCode::WrongParameters,
                 fmt::format("there is a tensor '{}', but no '{}'",
                             first.entry.name, missing->tensor),
                 getReason(*missing, map, name)};
  Entry entry{name, layout.element, getSizes(layout),
              fmt::format("{}: {}", first.file->getPath(), first.entry.name)};
  if (found.size() > 1)
    entry.place += fmt::format(" and {} more", found.size() - 1);
  for (const Part &part : found) {
    const SafetensorsEntry &tensor = part.tensor->entry;
    if (!tensor.foreignType.empty())
      return Error{ErrorCode::UnsupportedArray,
                   fmt::format("'{}: {}' has elements of type {}, which are "
                               "not read",
                               part.tensor->file->getPath(), tensor.name,
                               tensor.foreignType),
                   getReason(part.stored, map, name)};
    if (tensor.shape != part.stored.shape ||
        !isExact(tensor.element, layout.element))
      return Error{ErrorCode::WrongArray,
                   fmt::format("'{}: {}' is {}, expected {}",
                               part.tensor->file->getPath(), tensor.name,
                               toString(tensor.element, tensor.shape),
                               toString(layout.element, part.stored.shape)),
                   getReason(part.stored, map, name)};
    taken.insert(part.tensor);
  }
  parts.emplace(name, std::move(found));
  entries.push_back(std::move(entry));
  return Status::success();
}

Result<std::unique_ptr<ParameterSource>>
WeightParameters::open(const std::string &path, const NameMap *map,
                       std::span<const exec::VariableT *const> parameters) {
  Result<TensorFiles> files = TensorFiles::open(path);
  if (!files)
    return files.getError();
  std::unique_ptr<WeightParameters> source(
      new WeightParameters(std::move(*files)));
  Result<std::vector<StoredParameter>> stored = applyNames(map, parameters);
  if (!stored)
    return stored.getError();
  for (StoredParameter &each : *stored)
    if (Status added = source->add(each, map); !added)
      return added.getError();
  for (const auto &[name, tensor] : source->files.getTensors())
    if (!source->taken.count(&tensor) && !(map && map->ignores(name))) {
      const std::string place =
          fmt::format("{}: {}", tensor.file->getPath(), name);
      if (!tensor.entry.foreignType.empty())
        return Error{ErrorCode::UnsupportedArray,
                     fmt::format("'{}' has elements of type {}, which are not "
                                 "read, and is no parameter",
                                 place, tensor.entry.foreignType),
                     "a map of names can leave it out: ignore \"...\""};
      source->entries.push_back(
          {place, tensor.entry.element, tensor.entry.shape, place});
    }
  std::ranges::sort(source->entries, {}, &Entry::name);
  return std::unique_ptr<ParameterSource>(std::move(source));
}

std::vector<std::string> WeightParameters::getFiles() const {
  std::set<std::string> paths;
  for (const auto &[name, tensor] : files.getTensors())
    paths.insert(tensor.file->getPath());
  return {paths.begin(), paths.end()};
}

Status WeightParameters::readBlock(const Entry &entry,
                                   const Placement &placement,
                                   std::byte *target) const {
  const int64_t width = getElementBytes(entry.element);
  Status status = Status::success();
  for (const Part &part : parts.find(entry.name)->second) {
    TensorReader reader(*part.tensor);
    StoredRuns(part.stored, placement).visit([&](const StoredRun &run) {
      for (int64_t done = 0; done < run.count && status;) {
        const int64_t count =
            std::min(run.count - done, TensorReader::maxElements);
        Result<std::span<const std::byte>> elements =
            reader.read(run.stored + done, count);
        if (!elements) {
          status = elements.getError();
          return;
        }
        convert(part.tensor->entry.element, *elements, entry.element,
                target + (run.local + done * run.stride) * width, run.stride);
        done += count;
      }
    });
    if (!status)
      return status;
  }
  return status;
}

Result<std::string> WeightParameters::getDigest(const Entry &entry) const {
  RunningDigest digest;
  for (const Part &part : parts.find(entry.name)->second) {
    TensorReader reader(*part.tensor);
    int64_t count = 1;
    for (int64_t size : part.stored.shape)
      count *= size;
    for (int64_t first = 0; first < count; first += TensorReader::maxElements) {
      Result<std::span<const std::byte>> elements = reader.read(
          first, std::min(count - first, TensorReader::maxElements));
      if (!elements)
        return elements.getError();
      digest.add(*elements);
    }
  }
  return digest.get();
}

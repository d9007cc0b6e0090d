#include "runtime/checkpoint/CheckpointParameters.h"

#include "runtime/exec/Executable.h"

#include <algorithm>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;

bool runtime::isCheckpoint(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/" + manifestName, ignored))
    return true;
  const Result<std::vector<int64_t>> steps = listSteps(path);
  return steps && !steps->empty();
}

CheckpointParameters::CheckpointParameters(
    Checkpoint opened, std::span<const exec::VariableT *const> parameters)
    : checkpoint(std::move(opened)) {
  for (const exec::VariableT *parameter : parameters) {
    const StoredTensor *own = checkpoint.getManifest().find(parameter->name);
    const StoredTensor *mean = checkpoint.getManifest().find(parameter->mean);
    if (own && mean && mean->getSizes() == own->getSizes() &&
        mean->element == own->element)
      means[parameter->name] = mean;
  }
  for (const StoredTensor &tensor : checkpoint.getManifest().tensors)
    if (isOfModel(tensor.role))
      entries.push_back({tensor.name, tensor.element, tensor.getSizes(),
                         checkpoint.getPath() + ": " + tensor.name});
  std::ranges::sort(entries, {}, &Entry::name);
}

Result<std::unique_ptr<ParameterSource>>
CheckpointParameters::open(const std::string &path,
                           std::span<const exec::VariableT *const> parameters) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint)
    return checkpoint.getError();
  return std::unique_ptr<ParameterSource>(
      new CheckpointParameters(std::move(*checkpoint), parameters));
}

std::vector<std::string> CheckpointParameters::getFiles() const {
  const std::string folder = checkpoint.getPath() + "/";
  std::vector<std::string> files = {folder + manifestName};
  for (const StoredFile &file : checkpoint.getManifest().files)
    files.push_back(folder + file.name);
  return files;
}

Status CheckpointParameters::readBlock(const Entry &entry,
                                       const Placement &placement,
                                       std::byte *target) const {
  const auto mean = means.find(entry.name);
  return checkpoint.readBlock(mean == means.end()
                                  ? *checkpoint.getManifest().find(entry.name)
                                  : *mean->second,
                              placement, target);
}

Result<std::string> CheckpointParameters::getDigest(const Entry &) const {
  return checkpoint.getDigest();
}

#include "runtime/data/ParameterSource.h"

#include "runtime/data/NpyParameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

const ParameterSource::Entry *
ParameterSource::find(std::string_view name) const {
  auto entry = std::lower_bound(entries.begin(), entries.end(), name,
                                [](const Entry &entry, std::string_view name) {
                                  return entry.name < name;
                                });
  return entry != entries.end() && entry->name == name ? &*entry : nullptr;
}

std::vector<std::string> ParameterSource::getFiles() const {
  std::vector<std::string> files;
  for (const Entry &entry : entries)
    files.push_back(entry.place);
  return files;
}

Result<std::unique_ptr<ParameterSource>>
runtime::openParameterSource(const std::string &path) {
  std::error_code failed; // listing it tells why
  if (std::filesystem::is_regular_file(path, failed))
    return Error{ErrorCode::CannotRead,
                 fmt::format("cannot read '{}': it is a file, expected a "
                             "checkpoint, a .safetensors file, or a folder of "
                             ".npy files",
                             path),
                 "a single parameter is given as --param NAME=FILE.npy"};
  return NpyParameters::openFolder(path);
}

Result<std::unique_ptr<ParameterSource>>
runtime::openParameterFiles(const std::vector<NamedFile> &files) {
  return NpyParameters::open(files);
}

static bool isState(const exec::VariableT &variable) {
  return variable.role != exec::BufferRole::parameter;
}

/// "3 parameters are missing: 'a' (f32[2]), 'b' (f32[3]) and 'c' (f32)", with
/// no more than ten of them; nothing of none.
static void describe(std::vector<std::string> names, const std::string &one,
                     const std::string &several,
                     std::vector<std::string> &parts) {
  constexpr size_t most = 10;
  if (names.empty())
    return;
  const size_t count = names.size();
  if (count > most) {
    names.resize(most);
    names.push_back(fmt::format("{} more", count - most));
  }
  std::string list = std::move(names.back());
  names.pop_back();
  if (!names.empty())
    list = fmt::format("{} and {}", fmt::join(names, ", "), list);
  parts.push_back(count == 1 ? fmt::format("1 {}: {}", one, list)
                             : fmt::format("{} {}: {}", count, several, list));
}

Status runtime::compareParameters(
    const ParameterSource &source, const std::string &path,
    const std::vector<const exec::VariableT *> &parameters,
    const std::function<bool(const exec::VariableT &)> &mayLack) {
  std::vector<std::string> missing, missingState, superfluous, other;
  std::set<std::string_view> known;
  for (const exec::VariableT *parameter : parameters) {
    known.insert(parameter->name);
    const ParameterSource::Entry *entry = source.find(parameter->name);
    const exec::TensorLayoutT &layout = *parameter->layout;
    if (mayLack(*parameter))
      continue;
    if (!entry)
      (isState(*parameter) ? missingState : missing)
          .push_back(
              fmt::format("'{}' ({})", parameter->name, toString(layout)));
    else if (entry->element != layout.element ||
             entry->shape != getSizes(layout))
      other.push_back(fmt::format("'{}' is {}, expected {}", entry->place,
                                  toString(entry->element, entry->shape),
                                  toString(layout)));
  }
  for (const ParameterSource::Entry &entry : source.getEntries())
    if (!known.count(entry.name))
      superfluous.push_back(fmt::format("'{}'", entry.place));
  // What the one who reads it may do about it.
  std::vector<std::string> advice;
  if (!missing.empty() || !missingState.empty())
    advice.emplace_back(
        "--param NAME=FILE.npy gives what is missing, --init random starts it "
        "as a training does");
  if (!superfluous.empty() && source.getUnit() != "file")
    advice.emplace_back("a map of names (--names) can leave tensors of "
                        "safetensors files out, which export writes");
  std::vector<std::string> parts;
  describe(std::move(missing), "parameter is missing", "parameters are missing",
           parts);
  describe(std::move(missingState), "state is missing", "states are missing",
           parts);
  const std::string one = source.getUnit(), several = one + "s";
  describe(std::move(other), one + " has another type or shape",
           several + " have another type or shape", parts);
  describe(std::move(superfluous), one + " is for no parameter",
           several + " are for no parameter", parts);
  if (parts.empty())
    return Status::success();
  return Error{ErrorCode::WrongParameters,
               fmt::format("'{}' does not fit the model: {}", path,
                           fmt::join(parts, "; ")),
               fmt::format("{}", fmt::join(advice, "; "))};
}

#include "runtime/data/NpyParameters.h"

#include "runtime/io/FileErrors.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;

static constexpr std::string_view suffix = ".npy";

void NpyParameters::add(std::string name, NpyFile file) {
  entries.push_back(
      {std::move(name), file.getElement(), file.getShape(), file.getPath()});
  if (const std::optional<FileState> state = file.getState())
    states.emplace(file.getPath(), *state);
  else
    kept.emplace(file.getPath(), std::move(file));
}

Result<std::unique_ptr<ParameterSource>>
NpyParameters::open(std::vector<NamedFile> files) {
  std::sort(files.begin(), files.end(),
            [](const auto &a, const auto &b) { return a.name < b.name; });
  auto source = std::make_unique<NpyParameters>();
  for (NamedFile &named : files) {
    Result<NpyFile> file = NpyFile::open(named.path);
    if (!file)
      return file.getError();
    source->add(std::move(named.name), std::move(*file));
  }
  return std::unique_ptr<ParameterSource>(std::move(source));
}

/// What is said of a folder that has other files alone.
static Error getUnread(const std::string &path,
                       std::vector<std::string> others) {
  std::ranges::sort(others);
  const bool hasTorch = std::ranges::any_of(others, [](const auto &name) {
    return name.ends_with(".bin") || name.ends_with(".pt") ||
           name.ends_with(".pth") || name.ends_with(".ckpt");
  });
  constexpr size_t most = 4; // names in a message
  const size_t count = others.size();
  others.resize(std::min(count, most));
  std::string names = fmt::format("'{}'", fmt::join(others, "', '"));
  if (count > most)
    names += fmt::format(" and {} more", count - most);
  return {ErrorCode::WrongParameters,
          fmt::format("'{}' has no file that parameters are read from, which "
                      "are .npy and .safetensors; it has {}",
                      path, names),
          hasTorch ? "PyTorch's own files run code when they are read; "
                     "safetensors.torch.save_file writes what is read here"
                   : ""};
}

Result<std::unique_ptr<ParameterSource>>
NpyParameters::openFolder(const std::string &path) {
  namespace fs = std::filesystem;
  std::vector<NamedFile> files;
  std::vector<std::string> others;
  std::error_code failed;
  for (fs::directory_iterator file(path, failed), end; !failed && file != end;
       file.increment(failed)) {
    std::string name = file->path().filename().string();
    if (!name.ends_with(suffix) || name.size() == suffix.size()) {
      others.push_back(std::move(name));
      continue;
    }
    name.resize(name.size() - suffix.size());
    std::replace(name.begin(), name.end(), '.', '/');
    files.push_back({std::move(name), file->path().string()});
  }
  if (failed)
    return Error{ErrorCode::CannotRead,
                 fmt::format("cannot read '{}': {}", path, failed.message()),
                 ""};
  if (files.empty() && !others.empty())
    return getUnread(path, std::move(others));
  return open(std::move(files));
}

Result<const NpyFile *> NpyParameters::getFile(const Entry &entry) const {
  if (auto file = kept.find(entry.place); file != kept.end())
    return &file->second;
  if (!last || last->getPath() != entry.place) {
    Result<NpyFile> file = NpyFile::open(entry.place);
    if (!file)
      return file.getError();
    if (file->getState() != states.at(entry.place))
      return getChanged(entry.place);
    last = std::move(*file);
  }
  return &*last;
}

Status NpyParameters::readBlock(const Entry &entry, const Placement &placement,
                                std::byte *target) const {
  Result<const NpyFile *> file = getFile(entry);
  if (!file)
    return file.getError();
  const int64_t bytes = getElementBytes(entry.element);
  Status status = Status::success();
  // Rows that follow one another in the file and in the block are one.
  int64_t first = 0, place = 0, length = 0;
  auto read = [&] {
    if (status && length > 0)
      status = (*file)->read(
          first, std::span(target + place * bytes, size_t(length * bytes)));
  };
  forEachRow(entry.shape, placement,
             [&](int64_t whole, int64_t block, int64_t count) {
               if (whole != first + length || block != place + length) {
                 read();
                 first = whole;
                 place = block;
                 length = 0;
               }
               length += count;
             });
  read();
  return status;
}

Result<std::string> NpyParameters::getDigest(const Entry &entry) const {
  Result<const NpyFile *> file = getFile(entry);
  if (!file)
    return file.getError();
  const int64_t bytes = getElementBytes(entry.element);
  const int64_t count =
      int64_t(*countBytes(entry.element, entry.shape)) / bytes;
  RunningDigest digest;
  std::vector<std::byte> chunk(size_t(1) << 20);
  const int64_t step = int64_t(chunk.size()) / bytes;
  for (int64_t first = 0; first < count; first += step) {
    const auto part =
        std::span(chunk).first(size_t(std::min(step, count - first) * bytes));
    Status filled = (*file)->read(first, part);
    if (!filled)
      return filled.getError();
    digest.add(part);
  }
  return digest.get();
}

#include "runtime/weights/TensorFiles.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/data/Npy.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/io/File.h"
#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

namespace fs = std::filesystem;

static constexpr std::string_view suffix = ".safetensors";
static constexpr std::string_view indexSuffix = ".safetensors.index.json";

/// Bytes that are read at once: seldom more calls than a disk has requests, and
/// no more memory than matters.
static constexpr uint64_t pieceBytes = uint64_t(1) << 20;

/// The files that an index names, in the order of their names.
static Result<std::vector<std::string>> readIndex(const std::string &path) {
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.getError();
  Result<nlohmann::json> json = parseStrictJson(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()}, path,
      JsonScalars::Any);
  if (!json)
    return json.getError();
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty())
    return getDamage(path, "it has no weight_map, which names the file of "
                           "each tensor");
  std::set<std::string> names;
  for (const auto &[tensor, file] : map->items()) {
    if (!file.is_string())
      return getDamage(
          path, fmt::format("the file of tensor '{}' is no text", tensor));
    names.insert(file.get<std::string>());
  }
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> files;
  for (const std::string &name : names) {
    const std::string file = (folder / name).string();
    std::error_code ignored;
    if (fs::path(name).filename() != name ||
        !fs::is_regular_file(file, ignored))
      return Error{
          ErrorCode::WrongData,
          fmt::format("'{}' names the file '{}', which is not beside it", path,
                      name),
          "all files that it names are the model"};
    files.push_back(file);
  }
  return files;
}

/// The index of a folder: that of a model, or the only one; empty if there is
/// none.
static std::string findIndex(const std::string &folder) {
  std::error_code failed;
  const fs::path model =
      fs::path(folder) / ("model" + std::string(indexSuffix));
  if (fs::exists(model, failed))
    return model.string();
  std::vector<std::string> indices;
  for (fs::directory_iterator file(folder, failed), end; !failed && file != end;
       file.increment(failed))
    if (file->path().filename().string().ends_with(indexSuffix))
      indices.push_back(file->path().string());
  return indices.size() == 1 ? indices.front() : std::string();
}

static Result<std::vector<std::string>> listFiles(const std::string &path) {
  if (path.ends_with(indexSuffix))
    return readIndex(path);
  std::error_code failed;
  if (!fs::is_directory(path, failed))
    return std::vector<std::string>{path};
  if (const std::string index = findIndex(path); !index.empty())
    return readIndex(index);
  std::vector<std::string> files;
  for (fs::directory_iterator file(path, failed), end; !failed && file != end;
       file.increment(failed)) {
    const std::string name = file->path().filename().string();
    if (name.ends_with(suffix) && name.size() > suffix.size())
      files.push_back(file->path().string());
  }
  if (failed)
    return Error{ErrorCode::CannotRead,
                 fmt::format("cannot read '{}': {}", path, failed.message()),
                 ""};
  std::ranges::sort(files);
  return files;
}

bool TensorFiles::isAny(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return path.ends_with(suffix) || path.ends_with(indexSuffix);
  const Result<std::vector<std::string>> files = listFiles(path);
  // Opening an index that is wrong says why.
  return !files || !files->empty();
}

Status TensorFiles::add(const std::string &path) {
  Result<RandomAccessFile> opened = RandomAccessFile::open(path);
  if (!opened)
    return opened.getError();
  auto file = std::make_unique<RandomAccessFile>(std::move(*opened));
  auto read = [&](uint64_t place, std::span<std::byte> target) {
    return file->read(place, target);
  };
  Result<SafetensorsHeader> header =
      readSafetensorsHeader(read, file->getSize(), path);
  if (!header)
    return header.getError();
  for (SafetensorsEntry &entry : header->entries) {
    std::string name = entry.name;
    const auto [other, isFirst] =
        tensors.try_emplace(std::move(name), file.get(), std::move(entry));
    if (!isFirst)
      return Error{ErrorCode::DamagedFile,
                   fmt::format("'{}' and '{}' both have a tensor '{}'",
                               other->second.file->getPath(), path,
                               other->first),
                   "a folder's files are taken together"};
  }
  files.push_back(std::move(file));
  return Status::success();
}

Result<TensorFiles> TensorFiles::open(const std::string &path) {
  const Result<std::vector<std::string>> paths = listFiles(path);
  if (!paths)
    return paths.getError();
  TensorFiles result;
  for (const std::string &each : *paths)
    if (Status added = result.add(each); !added)
      return added.getError();
  return result;
}

Result<std::span<const std::byte>> TensorReader::read(int64_t first,
                                                      int64_t count) {
  const auto width = uint64_t(getElementBytes(tensor.entry.element));
  const uint64_t place = tensor.entry.begin + uint64_t(first) * width;
  const size_t bytes = size_t(count) * width;
  if (place < begin || place + bytes > end) {
    piece.resize(size_t(std::min(std::max<uint64_t>(bytes, pieceBytes),
                                 tensor.entry.end - place)));
    begin = end = place;
    Status filled = tensor.file->read(place, piece);
    if (filled)
      filled =
          checkBooleans(tensor.entry.element, piece, tensor.file->getPath());
    if (!filled)
      return filled.getError();
    end = place + piece.size();
  }
  return std::span<const std::byte>(piece).subspan(size_t(place - begin),
                                                   bytes);
}

static bool isHalf(exec::ElementType element) {
  return element == exec::ElementType::bf16 ||
         element == exec::ElementType::f16;
}

bool runtime::isExact(exec::ElementType from, exec::ElementType to) {
  if (from == to)
    return true;
  // f32 has the exponents and the digits of both, f64 those of f32.
  return (to == exec::ElementType::f32 && isHalf(from)) ||
         (to == exec::ElementType::f64 &&
          (isHalf(from) || from == exec::ElementType::f32));
}

/// Calls `read(place)` for each element, and writes what it returns.
template <typename Reader>
static void writeAll(size_t bytes, size_t width, std::byte *target,
                     int64_t stride, Reader &&read) {
  for (size_t place = 0; place < bytes; place += width) {
    const auto value = read(place);
    std::memcpy(target, &value, sizeof(value));
    target += stride * int64_t(sizeof(value));
  }
}

/// Writes elements of T, each as the number that `getFloat` makes of it.
template <typename T, typename Getter>
static void writeFloats(std::span<const std::byte> elements,
                        exec::ElementType to, std::byte *target, int64_t stride,
                        Getter &&getFloat) {
  auto read = [&](size_t place) {
    T value;
    std::memcpy(&value, &elements[place], sizeof(T));
    return getFloat(value);
  };
  if (to == exec::ElementType::f64)
    writeAll(elements.size(), sizeof(T), target, stride,
             [&](size_t place) { return double(read(place)); });
  else
    writeAll(elements.size(), sizeof(T), target, stride, read);
}

void runtime::convert(exec::ElementType from,
                      std::span<const std::byte> elements, exec::ElementType to,
                      std::byte *target, int64_t stride) {
  if (from == to) {
    const auto width = size_t(getElementBytes(from));
    if (stride == 1) {
      std::ranges::copy(elements, target);
      return;
    }
    for (size_t place = 0; place < elements.size(); place += width) {
      std::memcpy(target, &elements[place], width);
      target += stride * int64_t(width);
    }
  } else if (from == exec::ElementType::bf16) {
    writeFloats<BFloat16>(elements, to, target, stride,
                          [](BFloat16 value) { return value.toFloat(); });
  } else if (from == exec::ElementType::f16) {
    writeFloats<Float16>(elements, to, target, stride,
                         [](Float16 value) { return value.toFloat(); });
  } else {
    writeFloats<float>(elements, to, target, stride,
                       [](float value) { return value; });
  }
}

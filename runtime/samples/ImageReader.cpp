// Samples that are images in folders, each folder a class.

#include "runtime/io/FileErrors.h"
#include "runtime/io/FilePattern.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/samples/ImageFile.h"
#include "runtime/samples/Readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>

using namespace meshc;
using namespace meshc::runtime;

namespace fs = std::filesystem;

/// Images that several devices take a part of are unpacked once.
static constexpr size_t cacheBytes = size_t(1) << 26;

/// What is in a folder, in the order of names, without what is hidden.
static Result<std::vector<fs::path>> list(const std::string &folder) {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, failed), end;
       !failed && entry != end; entry.increment(failed))
    if (!entry->path().filename().string().starts_with('.'))
      entries.push_back(entry->path());
  if (failed)
    return Error{ErrorCode::CannotRead,
                 fmt::format("cannot read '{}': {}", folder, failed.message()),
                 ""};
  std::sort(entries.begin(), entries.end());
  return entries;
}

static Result<std::vector<fs::path>> listClasses(const std::string &folder) {
  Result<std::vector<fs::path>> entries = list(folder);
  if (!entries)
    return entries;
  std::error_code ignored;
  for (const fs::path &entry : *entries)
    if (!fs::is_directory(entry, ignored))
      return Error{ErrorCode::WrongData,
                   fmt::format("'{}' is no folder: each class has one in '{}'",
                               entry.string(), folder),
                   ""};
  return entries;
}

static std::string getLowerExtension(const fs::path &path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return extension;
}

/// The images of all classes, class by class.
static Result<std::vector<fs::path>> listImages(const std::string &folder) {
  Result<std::vector<fs::path>> classes = listClasses(folder);
  if (!classes)
    return classes;
  std::vector<fs::path> images;
  for (const fs::path &place : *classes) {
    Result<std::vector<fs::path>> files = list(place.string());
    if (!files)
      return files;
    for (const fs::path &file : *files) {
      const std::string extension = getLowerExtension(file);
      if (extension != ".png" && extension != ".jpg" && extension != ".jpeg")
        return Error{
            ErrorCode::WrongData,
            fmt::format("'{}' is no image, by its name: expected .png, "
                        ".jpg or .jpeg",
                        file.string()),
            ""};
      images.push_back(file);
    }
  }
  return images;
}

namespace {

class ImageSamples : public SampleArray {
public:
  ImageSamples(std::string path, SampleShape shape, ImageSize size,
               std::vector<fs::path> images)
      : SampleArray(std::move(path), std::move(shape)), size(size),
        images(std::move(images)) {}

  Status read(int64_t first, std::span<std::byte> target) const override;
  /// Packed, so that it would be all of them.
  int64_t getUnreadBytes() const override { return INT64_MAX; }
  Result<std::string> getDigest(bool readsAll) const override;

private:
  using Pixels = std::shared_ptr<const std::vector<std::byte>>;
  Result<Pixels> getPixels(int64_t image) const;

  ImageSize size;
  std::vector<fs::path> images;
  mutable std::mutex mutex; // of what follows
  mutable std::map<int64_t, Pixels> cache;
  mutable std::deque<int64_t> order; ///< in which they came into the cache
};

} // namespace

Result<ImageSamples::Pixels> ImageSamples::getPixels(int64_t image) const {
  {
    const std::lock_guard lock(mutex);
    if (auto found = cache.find(image); found != cache.end())
      return found->second;
  }
  const std::string path = images[size_t(image)].string();
  Result<std::vector<std::byte>> read =
      takeMemory(path, [&] { return readImage(path, size); });
  if (!read)
    return read.getError();
  const size_t bytes = read->size();
  Pixels pixels =
      std::make_shared<const std::vector<std::byte>>(std::move(*read));
  const std::lock_guard lock(mutex);
  if (cache.emplace(image, pixels).second)
    order.push_back(image);
  while (order.size() > 1 && order.size() * bytes > cacheBytes) {
    cache.erase(order.front());
    order.pop_front();
  }
  return pixels;
}

Status ImageSamples::read(int64_t first, std::span<std::byte> target) const {
  const int64_t stride = getShape().stride; // elements are bytes
  while (!target.empty()) {
    Result<Pixels> pixels = getPixels(first / stride);
    if (!pixels)
      return pixels.getError();
    const auto begin = size_t(first % stride);
    const size_t count = std::min(target.size(), size_t(stride) - begin);
    std::memcpy(target.data(), (*pixels)->data() + begin, count);
    target = target.subspan(count);
    first += int64_t(count);
  }
  return Status::success();
}

/// Of names and lengths: what is in the files is too much to read it twice.
Result<std::string> ImageSamples::getDigest(bool) const {
  RunningDigest digest;
  for (const fs::path &image : images) {
    std::error_code failed;
    const std::string line =
        fmt::format("{} {}\n", fs::relative(image, getPath(), failed).string(),
                    fs::file_size(image, failed));
    digest.add(std::as_bytes(std::span(line)));
  }
  return digest.get();
}

Result<Samples> runtime::openImages(const SampleRequest &request) {
  Result<std::vector<fs::path>> images = listImages(request.path);
  if (!images)
    return images.getError();
  const std::vector<int64_t> &sizes = request.sizes;
  if (sizes.size() < 2 || sizes.size() > 3 ||
      (sizes.size() == 3 && sizes[2] != 1 && sizes[2] != 3))
    return Error{
        ErrorCode::WrongData,
        fmt::format("images cannot feed input '{}'", request.source.input), ""};
  SampleShape shape;
  shape.sizes = sizes;
  shape.stride = shape.getSampleElements();
  shape.numSamples = int64_t(images->size());
  const ImageSize size{sizes[0], sizes[1], sizes.size() == 3 ? sizes[2] : 1};
  return Samples(std::make_unique<ImageSamples>(request.path, std::move(shape),
                                                size, std::move(*images)));
}

Result<Samples> runtime::openClasses(const SampleRequest &request) {
  // Those for training have the numbers: others may lack some.
  std::map<fs::path, int32_t> numbers;
  Result<std::vector<std::string>> folders =
      findFiles(request.folder, request.source.train);
  if (!folders)
    return folders.getError();
  for (const std::string &folder : *folders) {
    Result<std::vector<fs::path>> classes = listClasses(folder);
    if (!classes)
      return classes.getError();
    for (const fs::path &place : *classes)
      numbers.emplace(place.filename(), 0);
  }
  int32_t next = 0;
  for (auto &[name, number] : numbers)
    number = next++;
  Result<std::vector<fs::path>> images = listImages(request.path);
  if (!images)
    return images.getError();
  std::vector<int32_t> labels;
  for (const fs::path &image : *images) {
    const auto found = numbers.find(image.parent_path().filename());
    if (found == numbers.end())
      return Error{ErrorCode::WrongData,
                   fmt::format("'{}' is in a class that '{}' does not have",
                               image.string(), fmt::join(*folders, "', '")),
                   ""};
    labels.push_back(found->second);
  }
  SampleShape shape;
  shape.element = SampleElement::i32;
  shape.numSamples = int64_t(labels.size());
  const auto bytes = std::as_bytes(std::span(labels));
  return Samples(std::make_unique<SamplesInMemory>(
      request.path, std::move(shape),
      std::vector<std::byte>(bytes.begin(), bytes.end())));
}

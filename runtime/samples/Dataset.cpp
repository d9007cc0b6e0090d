#include "runtime/samples/Dataset.h"

#include "runtime/io/FileErrors.h"
#include "runtime/io/FilePattern.h"
#include "runtime/samples/Readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

using namespace meshc;
using namespace meshc::runtime;

bool runtime::hasTestFiles(const exec::ExecutableT &data) {
  return !data.data.empty() && !data.data.front()->test.empty();
}

/// An error where samples have not what an input takes of each.
static Status checkShape(const SampleArray &array, const exec::PortT &port,
                         const std::vector<int64_t> &sizes) {
  int64_t expected = 1;
  for (int64_t size : sizes)
    expected *= size;
  const SampleShape &shape = array.getShape();
  if (shape.getSampleElements() == expected)
    return Status::success();
  std::vector<int64_t> found = {shape.numSamples};
  found.insert(found.end(), shape.sizes.begin(), shape.sizes.end());
  return Error{ErrorCode::WrongData,
               fmt::format("'{}' has {} elements per sample (sizes {}), input "
                           "'{}' expects {}: {}",
                           array.getPath(), shape.getSampleElements(),
                           fmt::join(found, " x "), port.name, expected,
                           toString(*port.layout)),
               ""};
}

/// An error where an element of a file is out of range.
static Status checkElements(const SampleArray &array,
                            const Conversion &conversion) {
  const SampleShape &shape = array.getShape();
  const int64_t width = getBytes(shape.element);
  return forEachPart(
      array, [&](int64_t first, std::span<const std::byte> bytes) -> Status {
        const int64_t count = int64_t(bytes.size()) / width;
        for (int64_t begin = 0; begin < count;) {
          const std::optional<int64_t> wrong =
              conversion.check(bytes.data() + begin * width, count - begin);
          if (!wrong)
            break;
          const int64_t element = first + begin + *wrong;
          // What lies between windows is not read.
          if (element % shape.stride < shape.getSampleElements())
            return conversion.getError(array, element);
          begin += *wrong + 1;
        }
        return Status::success();
      });
}

/// Opens the files of an input one by one; `request` is of the first one.
static Result<SampleFiles> openFiles(SampleRequest request,
                                     const std::vector<std::string> &paths,
                                     const exec::PortT &port,
                                     std::string name) {
  SampleFiles files(std::move(name));
  for (const std::string &path : paths) {
    request.path = path;
    Result<Samples> array =
        takeMemory(path, [&] { return openSamples(request); });
    if (!array)
      return array.getError();
    if (Status fits = checkShape(**array, port, request.sizes); !fits)
      return fits.getError();
    files.add(std::move(*array));
    request.first = files.getFiles().front().get();
  }
  return files;
}

Result<Dataset::Source> Dataset::open(const exec::ExecutableT &data,
                                      const exec::DataSourceT &source,
                                      const exec::PortT &port, Split split,
                                      const std::string &folder,
                                      const ByteListener &listener) {
  std::vector<int64_t> sizes = getSizes(*port.layout);
  const auto &dims = port.layout->dims;
  const auto counting =
      std::find_if(dims.begin(), dims.end(), [&](const auto &dim) {
        return dim->name == data.sample_dim;
      });
  if (counting == dims.end())
    return Error{ErrorCode::WrongData,
                 fmt::format("input '{}' is {}: it has no dim '{}', which "
                             "counts samples",
                             port.name, toString(*port.layout),
                             data.sample_dim),
                 ""};
  const auto axis = size_t(counting - dims.begin());
  sizes.erase(sizes.begin() + ptrdiff_t(axis));
  const std::string &name = split == Split::Train ? source.train : source.test;
  Result<std::vector<std::string>> paths = findFiles(folder, name);
  if (!paths)
    return paths.getError();
  Result<SampleFiles> files =
      openFiles({source, "", folder, sizes, port.layout->element, listener},
                *paths, port, getPathBelow(folder, name));
  if (!files)
    return files.getError();
  // All of them have the same elements.
  Result<Conversion> conversion =
      Conversion::create(*files->getFiles().front(), port);
  if (!conversion)
    return conversion.getError();
  if (files->isQuick() && !conversion->takesAll())
    for (const auto &file : files->getFiles())
      if (Status sound = checkElements(*file, *conversion); !sound)
        return sound.getError();
  return Source{&port, axis, std::move(*files), *conversion};
}

Status Dataset::checkSamples(const Source &next) const {
  if (sources.empty())
    return Status::success();
  const SampleFiles &first = sources[0].files, &files = next.files;
  auto getError = [](int64_t found, const std::string &name, int64_t expected,
                     const std::string &other) {
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} samples, '{}' has {}", name, found,
                             other, expected),
                 ""};
  };
  if (files.getNumSamples() != numSamples)
    return getError(files.getNumSamples(), files.getName(), numSamples,
                    first.getName());
  // Else samples of one file would get the labels of another.
  if (files.getFiles().size() != first.getFiles().size())
    return Status::success();
  for (size_t i = 0; i < files.getFiles().size(); ++i) {
    const SampleArray &file = *files.getFiles()[i];
    const SampleArray &other = *first.getFiles()[i];
    if (file.getShape().numSamples != other.getShape().numSamples)
      return getError(file.getShape().numSamples, file.getPath(),
                      other.getShape().numSamples, other.getPath());
  }
  return Status::success();
}

/// `error` with the place in the spec that asks for the data.
static Error locate(Error error, const exec::ExecutableT &data,
                    const exec::DataSourceT &source) {
  const exec::Span *span = source.span.get();
  if (!error.note.empty() || !span || span->file() < 0)
    return error;
  error.note = fmt::format("input '{}' reads it: {}:{}:{}", source.input,
                           data.files[size_t(span->file())], span->line(),
                           span->column());
  return error;
}

Result<Dataset> Dataset::load(const Executable &executable,
                              const exec::ProgramT &program, Split split,
                              const std::string &folder,
                              const ByteListener &listener) {
  const exec::ExecutableT &data = executable.data;
  std::set<std::string_view> fed;
  for (const auto &source : data.data)
    fed.insert(source->input);
  for (const auto &input : program.inputs)
    if (!fed.count(input->name))
      return Error{
          ErrorCode::NothingToDo,
          fmt::format("the model reads no data for input '{}'", input->name),
          "name a file for it in the data block of the spec"};
  if (split == Split::Test && !data.data.empty() && !hasTestFiles(data))
    return Error{ErrorCode::NothingToDo, "the data block names no test files",
                 fmt::format("name one behind \"{}\": test = \"FILE\"",
                             data.data.front()->train)};
  Dataset dataset;
  if (split == Split::Train && data.training)
    dataset.numParts = data.training->parts;
  for (const auto &source : data.data) {
    const exec::PortT *port = findPort(program.inputs, source->input);
    // A program may do without an input of another one.
    if (!port)
      continue;
    Result<Source> opened = open(data, *source, *port, split, folder, listener);
    if (!opened)
      return locate(opened.getError(), data, *source);
    if (Status same = dataset.checkSamples(*opened); !same)
      return locate(same.getError(), data, *source);
    dataset.numSamples = opened->files.getNumSamples();
    dataset.runSize = port->layout->dims[opened->axis]->size;
    dataset.sources.push_back(std::move(*opened));
  }
  if (dataset.sources.empty())
    return Error{ErrorCode::NothingToDo, "the model has no data block", ""};
  const std::string &first = dataset.sources[0].files.getName();
  if (dataset.numSamples == 0)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has no samples", first), ""};
  // An epoch of training needs a whole batch, an evaluation a sample.
  if (split == Split::Train && dataset.numSamples < dataset.getBatchSize())
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} samples, one batch needs {}", first,
                             dataset.numSamples, dataset.getBatchSize()),
                 "compile the model with a smaller batch"};
  return dataset;
}

Status Dataset::copyRun(const Source &source, const Run &run,
                        std::byte *target) {
  const SampleFiles::Place place = source.files.find(run.sample);
  const int64_t width = getElementBytes(source.port->layout->element);
  const int64_t stored = getBytes(place.file.getShape().element);
  const int64_t first = place.element + run.first;
  target += run.place * width;
  if (source.conversion.isCopy())
    return place.file.read(first, {target, size_t(run.count * width)});
  std::byte part[1 << 14];
  const int64_t most = int64_t(sizeof(part)) / stored;
  for (int64_t done = 0; done < run.count; done += most) {
    const int64_t count = std::min(most, run.count - done);
    Status read =
        place.file.read(first + done, std::span(part, size_t(count * stored)));
    if (!read)
      return read;
    const std::optional<int64_t> wrong =
        source.conversion.convert(part, count, target + done * width);
    if (wrong)
      return source.conversion.getError(place.file, first + done + *wrong);
  }
  return Status::success();
}

int64_t Dataset::getSampleBytes(size_t input) const {
  const Source &source = sources[input];
  return source.files.getFiles().front()->getShape().getSampleElements() *
         getElementBytes(source.port->layout->element);
}

Status Dataset::readSamples(size_t input, int64_t first, int64_t count,
                            std::vector<std::byte> &room) const {
  const Source &source = sources[input];
  const int64_t elements =
      getSampleBytes(input) / getElementBytes(source.port->layout->element);
  room.resize(size_t(getSampleBytes(input) * count));
  // Samples that lie side by side in one file are read at once.
  const SampleFiles::Place begin = source.files.find(first);
  const SampleFiles::Place last = source.files.find(first + count - 1);
  if (&begin.file == &last.file &&
      last.element == begin.element + (count - 1) * elements)
    return copyRun(source, {first, 0, count * elements, 0}, room.data());
  for (int64_t i = 0; i < count; ++i)
    if (Status read = copyRun(source, {first + i, 0, elements, i * elements},
                              room.data());
        !read)
      return read;
  return Status::success();
}

Status Dataset::fill(size_t input, const layout::Mesh &mesh, int64_t device,
                     std::span<const int64_t> samples,
                     std::byte *target) const {
  const Source &source = sources[input];
  const exec::TensorLayoutT &layout = *source.port->layout;
  const std::vector<int64_t> sizes = getSizes(layout);
  int64_t inner = 1; // elements behind the dim that counts samples
  for (size_t i = source.axis + 1; i < sizes.size(); ++i)
    inner *= sizes[i];
  Run run{0, 0, 0, 0};
  Status done = Status::success();
  auto end = [&] {
    if (done && run.count > 0)
      done = copyRun(source, run, target);
    run.count = 0;
  };
  auto add = [&](int64_t whole, int64_t place, int64_t count) {
    const int64_t outer = whole / (inner * runSize);
    const int64_t sample = samples[size_t(whole / inner % runSize)];
    const int64_t first = outer * inner + whole % inner;
    if (run.count > 0 && run.sample == sample &&
        run.first + run.count == first && run.place + run.count == place) {
      run.count += count;
      return;
    }
    end();
    run = {sample, first, count, place};
  };
  forEachRow(sizes, getPlacement(mesh, sizes, getSharding(layout), device),
             [&](int64_t whole, int64_t place, int64_t count) {
               // Rows of the last dim; where that counts samples, each element
               // is another one's.
               if (inner > 1 || source.axis + 1 < sizes.size())
                 return add(whole, place, count);
               for (int64_t i = 0; i < count; ++i)
                 add(whole + i, place + i, 1);
             });
  end();
  return done;
}

Result<std::vector<std::pair<std::string, std::string>>>
Dataset::getDigests() const {
  std::vector<std::pair<std::string, std::string>> digests;
  for (const Source &source : sources) {
    Result<std::string> digest = source.files.getDigest();
    if (!digest)
      return digest.getError();
    digests.emplace_back(source.port->name, *digest);
  }
  return digests;
}

Result<std::string> Dataset::getDigest() const {
  Result<std::vector<std::pair<std::string, std::string>>> all = getDigests();
  if (!all)
    return all.getError();
  std::string digests;
  for (const auto &[input, digest] : *all)
    digests += digest + " ";
  return digests;
}

std::vector<std::string> Dataset::getPaths() const {
  std::vector<std::string> paths;
  for (const Source &source : sources)
    for (const auto &file : source.files.getFiles())
      paths.push_back(file->getPath());
  return paths;
}

Result<std::vector<int64_t>> Dataset::getIntegers(const exec::PortT &port,
                                                  int64_t first,
                                                  int64_t count) const {
  const auto source =
      std::find_if(sources.begin(), sources.end(),
                   [&](const Source &source) { return source.port == &port; });
  std::vector<int64_t> integers;
  for (int64_t sample = first; sample < first + count; ++sample) {
    int64_t value = 0;
    const SampleFiles::Place place = source->files.find(sample);
    Status read = place.file.readInteger(place.element, value);
    if (!read)
      return read.getError();
    integers.push_back(value);
  }
  return integers;
}

Status Dataset::feed(DeviceSet &devices,
                     std::span<const int64_t> samples) const {
  const layout::Mesh &mesh = devices.getExecutable().mesh;
  for (size_t input = 0; input < sources.size(); ++input) {
    const exec::TensorLayoutT &layout = *sources[input].port->layout;
    const uint64_t bytes =
        uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
      Status filled = Status::success();
      Status written = devices.write(
          device, sources[input].port->buffer, bytes, [&](std::byte *target) {
            filled = fill(input, mesh, device, samples, target);
          });
      if (!filled)
        return filled;
      if (!written)
        return written;
    }
  }
  return Status::success();
}

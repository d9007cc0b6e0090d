#include "runtime/data/Dataset.h"

#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

std::string runtime::getBatchDim(const exec::ExecutableT &data) {
  if (data.training && !data.training->batch_dim.empty())
    return data.training->batch_dim;
  if (data.data.empty())
    return "";
  for (const auto &program : data.programs)
    if (const exec::PortT *port =
            findPort(program->inputs, data.data.front()->input);
        port && !port->layout->dims.empty())
      return port->layout->dims.front()->name;
  return "";
}

/// Checks one file against the input that it feeds.
static Status checkFile(const IdxFile &file, const exec::PortT &port) {
  const std::vector<int64_t> sizes = getSizes(*port.layout);
  int64_t expected = 1;
  for (size_t i = 1; i < sizes.size(); ++i)
    expected *= sizes[i];
  if (file.getItemSize() != expected)
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' has {} elements per sample (sizes {}), input "
                    "'{}' expects {}: {}",
                    file.path, file.getItemSize(), fmt::join(file.sizes, " x "),
                    port.name, expected, toString(*port.layout)),
        ""};
  if (isFloat(port.layout->element))
    return Status::success();
  if (!file.isInteger())
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has floating-point elements, input '{}' "
                             "expects {}",
                             file.path, port.name, toString(*port.layout)),
                 ""};
  // Type boundaries are not reached: no element has more than 32 bits.
  if (port.index_bound == 0)
    return Status::success();
  const int64_t count = file.getNumItems() * file.getItemSize();
  for (int64_t i = 0; i < count; ++i)
    if (const double value = file.getElement(i);
        value < 0 || value >= double(port.index_bound))
      return Error{ErrorCode::ValueOutOfRange,
                   fmt::format("'{}': sample {} is {}, input '{}' expects at "
                               "least 0 and less than {}",
                               file.path, i / file.getItemSize(), value,
                               port.name, port.index_bound),
                   ""};
  return Status::success();
}

Result<Dataset::Source> Dataset::loadSource(const exec::ExecutableT &data,
                                            const exec::DataSourceT &source,
                                            const exec::PortT &port,
                                            Split split,
                                            const std::string &folder) {
  const std::string &name = split == Split::Train ? source.train : source.test;
  if (port.layout->dims.empty() ||
      port.layout->dims[0]->name != getBatchDim(data))
    return Error{ErrorCode::WrongData,
                 fmt::format("input '{}' is {}: samples need a leading batch "
                             "dimension",
                             port.name, toString(*port.layout)),
                 ""};
  if (port.layout->element == exec::ElementType::boolean)
    return Error{ErrorCode::WrongData,
                 fmt::format("input '{}' is {}: data for booleans is not "
                             "supported",
                             port.name, toString(*port.layout)),
                 ""};
  // 0 is a field that was not written.
  const double divide = source.divide == 0 ? 1 : source.divide;
  if (divide != 1 && !isFloat(port.layout->element))
    return Error{ErrorCode::WrongData,
                 fmt::format("input '{}' is {}: only floats can be divided",
                             port.name, toString(*port.layout)),
                 ""};
  Result<IdxFile> file = readIdx(
      folder.empty() || name.starts_with('/') ? name : folder + "/" + name);
  if (!file)
    return file.getError();
  Status fits = checkFile(*file, port);
  if (!fits)
    return fits.getError();
  Source loaded{&port, std::move(*file), divide, {}};
  if (port.layout->element == exec::ElementType::f32 &&
      loaded.file.type == IdxType::U8)
    for (int value = 0; value < 256; ++value)
      loaded.scaled.push_back(float(value / divide));
  return loaded;
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
                              const std::string &folder) {
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
  Dataset dataset;
  for (const auto &source : data.data) {
    const exec::PortT *port = findPort(program.inputs, source->input);
    // A program may do without an input of another one.
    if (!port)
      continue;
    Result<Source> loaded = loadSource(data, *source, *port, split, folder);
    if (!loaded)
      return locate(loaded.getError(), data, *source);
    const IdxFile &file = loaded->file;
    if (!dataset.sources.empty() && file.getNumItems() != dataset.numSamples)
      return locate(
          {ErrorCode::WrongData,
           fmt::format("'{}' has {} samples, '{}' has {}", file.path,
                       file.getNumItems(), dataset.sources[0].file.path,
                       dataset.numSamples),
           ""},
          data, *source);
    dataset.numSamples = file.getNumItems();
    dataset.batchSize = port->layout->dims[0]->size;
    dataset.sources.push_back(std::move(*loaded));
  }
  if (dataset.sources.empty())
    return Error{ErrorCode::NothingToDo, "the model has no data block", ""};
  if (dataset.numSamples == 0)
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' has no samples", dataset.sources[0].file.path), ""};
  // An epoch of training needs a whole batch, an evaluation a sample.
  if (split == Split::Train && dataset.numSamples < dataset.batchSize)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} samples, one batch needs {}",
                             dataset.sources[0].file.path, dataset.numSamples,
                             dataset.batchSize),
                 "compile the model with a smaller batch"};
  return dataset;
}

void Dataset::fillBlock(const Source &source, const Placement &placement,
                        std::span<const int64_t> samples, std::byte *target) {
  const exec::TensorLayoutT &layout = *source.port->layout;
  const std::vector<int64_t> sizes = getSizes(layout);
  const int64_t itemSize = source.file.getItemSize();
  auto write = [&]<typename T>() {
    T *block = reinterpret_cast<T *>(target);
    forEachRow(
        sizes, placement, [&](int64_t whole, int64_t local, int64_t count) {
          // A row of a one-dimensional input runs over samples, any
          // other one lies inside a sample.
          for (int64_t i = 0; i < count;) {
            const int64_t place = whole + i;
            const int64_t first =
                samples[place / itemSize] * itemSize + place % itemSize;
            const int64_t length =
                std::min(count - i, itemSize - place % itemSize);
            const std::byte *bytes = source.file.data.data() + first;
            if (!source.scaled.empty())
              for (int64_t j = 0; j < length; ++j)
                block[local + i + j] = T(source.scaled[size_t(bytes[j])]);
            else
              for (int64_t j = 0; j < length; ++j)
                block[local + i + j] =
                    T(source.file.getElement(first + j) / source.divide);
            i += length;
          }
        });
  };
  switch (layout.element) {
  case exec::ElementType::f32:
    return write.template operator()<float>();
  case exec::ElementType::f64:
    return write.template operator()<double>();
  case exec::ElementType::i32:
    return write.template operator()<int32_t>();
  case exec::ElementType::i64:
    return write.template operator()<int64_t>();
  case exec::ElementType::boolean:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // load() and checkExecutable refuse the others
}

std::vector<std::pair<std::string, std::string>> Dataset::getDigests() const {
  std::vector<std::pair<std::string, std::string>> digests;
  for (const Source &source : sources)
    digests.emplace_back(source.port->name, runtime::getDigest(std::as_bytes(
                                                std::span(source.file.data))));
  return digests;
}

std::string Dataset::getDigest() const {
  std::string digests;
  for (const auto &[input, digest] : getDigests())
    digests += digest + " ";
  return digests;
}

std::vector<std::string> Dataset::getPaths() const {
  std::vector<std::string> paths;
  for (const Source &source : sources)
    paths.push_back(source.file.path);
  return paths;
}

std::vector<int64_t> Dataset::getIntegers(const exec::PortT &port,
                                          int64_t first, int64_t count) const {
  const auto source =
      std::find_if(sources.begin(), sources.end(),
                   [&](const Source &source) { return source.port == &port; });
  std::vector<int64_t> integers;
  for (int64_t sample = first; sample < first + count; ++sample)
    integers.push_back(int64_t(source->file.getElement(sample)));
  return integers;
}

Status Dataset::feed(DeviceSet &devices,
                     std::span<const int64_t> samples) const {
  const layout::Mesh &mesh = devices.getExecutable().mesh;
  for (const Source &source : sources) {
    const exec::TensorLayoutT &layout = *source.port->layout;
    const uint64_t bytes =
        uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
      auto fill = [&](std::byte *target) {
        fillBlock(
            source,
            getPlacement(mesh, getSizes(layout), getSharding(layout), device),
            samples, target);
      };
      Status written = devices.write(device, source.port->buffer, bytes, fill);
      if (!written)
        return written;
    }
  }
  return Status::success();
}

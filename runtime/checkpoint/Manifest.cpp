#include "runtime/checkpoint/Manifest.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/StrictJson.h"
#include "runtime/exec/Executable.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/Json.h"
#include "runtime/settings/Settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

using nlohmann::json;

static constexpr const char *format = "meshc.checkpoint";

std::vector<int64_t> StoredTensor::getSizes() const {
  std::vector<int64_t> sizes;
  for (const StoredDim &dim : dims)
    sizes.push_back(dim.size);
  return sizes;
}

uint64_t StoredTensor::getBytes() const {
  return uint64_t(getVolume(getWhole(getSizes())) * getElementBytes(element));
}

std::string StoredTensor::getName(const Box &box) const {
  return box == getWhole(getSizes()) ? name : name + toString(box);
}

std::string runtime::toString(exec::ElementType element,
                              const std::vector<StoredDim> &dims) {
  std::string text = getName(element);
  for (size_t i = 0; i < dims.size(); ++i)
    text +=
        fmt::format("{}{}={}", i == 0 ? "[" : ", ", dims[i].name, dims[i].size);
  return dims.empty() ? text : text + "]";
}

const StoredTensor *Manifest::find(std::string_view name) const {
  for (const StoredTensor &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

uint64_t Manifest::getBytes() const {
  uint64_t bytes = 0;
  for (const StoredFile &file : files)
    bytes += file.bytes;
  return bytes;
}

std::string runtime::getShardName(int64_t number, int64_t count) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", number, count);
}

bool runtime::isShardName(std::string_view name) {
  int64_t number = -1, count = -1;
  auto take = [&](std::string_view text) {
    const bool fits = name.starts_with(text);
    name.remove_prefix(fits ? text.size() : 0);
    return fits;
  };
  auto takeNumber = [&](int64_t &value) {
    const auto [end, failed] =
        std::from_chars(name.data(), name.data() + name.size(), value);
    name.remove_prefix(size_t(end - name.data()));
    return failed == std::errc();
  };
  const std::string_view whole = name;
  return take("shard-") && takeNumber(number) && take("-of-") &&
         takeNumber(count) && number >= 0 && number < count &&
         whole == getShardName(number, count);
}

static constexpr std::string_view getBestName(bool isHighest) {
  return isHighest ? "highest" : "lowest";
}

std::string runtime::toString(const Criterion &criterion) {
  return fmt::format("{} '{}'", getBestName(criterion.isHighest),
                     criterion.output);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string toJson(const Box &box) {
  std::string text = "[";
  for (const layout::Range &range : box)
    text += fmt::format("{}[{}, {}]", text.size() > 1 ? ", " : "", range.offset,
                        range.offset + range.count);
  return text + "]";
}

static std::string toJson(const StoredTensor &tensor) {
  std::string dims, blocks;
  for (const StoredDim &dim : tensor.dims)
    dims += fmt::format("{}{{\"name\": {}, \"size\": {}}}",
                        dims.empty() ? "" : ", ", toJson(dim.name), dim.size);
  for (const StoredBlock &block : tensor.blocks)
    blocks +=
        fmt::format("{}{{\"file\": {}, \"box\": {}}}",
                    blocks.empty() ? "" : ", ", block.file, toJson(block.box));
  return fmt::format("{{\"name\": {}, \"role\": \"{}\", \"dtype\": \"{}\", "
                     "\"dims\": [{}],\n     \"blocks\": [{}]}}",
                     runtime::toJson(tensor.name),
                     exec::EnumNameBufferRole(tensor.role),
                     getSafetensorsName(tensor.element), dims, blocks);
}

/// A line with what an evaluation has given, if there was one. Numbers of these
/// files are integers, others are text.
static std::string toJson(const std::optional<Evaluation> &evaluation) {
  if (!evaluation)
    return "";
  const Criterion &criterion = evaluation->criterion;
  return fmt::format("  \"evaluation\": {{\"output\": {}, \"best\": \"{}\", "
                     "\"value\": \"{}\", \"samples\": {}, \"data\": {}}},\n",
                     runtime::toJson(criterion.output),
                     getBestName(criterion.isHighest), evaluation->value,
                     criterion.samples, runtime::toJson(criterion.data));
}

/// A line with the numbers that were set, if there are.
static std::string toJson(const std::map<std::string, Number> &settings) {
  std::string text;
  for (const auto &[name, value] : settings)
    text += fmt::format("{}{{\"name\": {}, \"value\": \"{}\"}}",
                        text.empty() ? "" : ", ", runtime::toJson(name),
                        toExpression(value));
  return text.empty() ? "" : fmt::format("  \"settings\": [{}],\n", text);
}

/// Between the text that is digested and its digest; and behind that.
static constexpr std::string_view digestField = ",\n  \"digest\": \"",
                                  end = "\"\n}\n";

std::string runtime::renderManifest(const Manifest &manifest) {
  const TrainingPosition &position = manifest.position;
  std::string data, files, tensors;
  for (const auto &[input, digest] : position.data)
    data += fmt::format("{}\n    {{\"input\": {}, \"digest\": {}}}",
                        data.empty() ? "" : ",", toJson(input), toJson(digest));
  for (const StoredFile &file : manifest.files) {
    std::string pieces;
    for (const Digest &piece : file.pieces)
      pieces += fmt::format("{}\"{}\"", pieces.empty() ? "" : ",\n      ",
                            toHex(piece));
    files += fmt::format("{}\n    {{\"name\": {}, \"bytes\": {}, \"pieces\": "
                         "[\n      {}]}}",
                         files.empty() ? "" : ",", toJson(file.name),
                         file.bytes, pieces);
  }
  for (const StoredTensor &tensor : manifest.tensors)
    tensors += (tensors.empty() ? "\n    " : ",\n    ") + ::toJson(tensor);
  std::string text = fmt::format(
      "{{\n"
      "  \"format\": \"{}\",\n"
      "  \"version\": {},\n"
      "  \"producer\": {},\n"
      "  \"model\": {},\n"
      "  \"spec_sha256\": {},\n"
      "  \"mesh\": {},\n"
      "  \"precision\": {},\n"
      "  \"processes\": {},\n"
      "  \"saved_at\": {},\n"
      "  \"step\": {},\n"
      "  \"seed\": {},\n"
      "  \"batch\": {},\n"
      "  \"samples\": {},\n"
      "  \"data\": [{}],\n"
      "{}{}"
      "  \"piece_bytes\": {},\n"
      "  \"files\": [{}],\n"
      "  \"tensors\": [{}]",
      format, Manifest::version, toJson(manifest.producer),
      toJson(manifest.model), toJson(manifest.specSha256),
      toJson(manifest.mesh), toJson(manifest.precision), manifest.processes,
      manifest.savedAt, position.step, position.seed, position.batch,
      position.samples, data, ::toJson(position.settings),
      ::toJson(manifest.evaluation), pieceBytes, files, tensors);
  return sealManifest(std::move(text));
}

std::string runtime::sealManifest(std::string text) {
  const Digest sum = digest(std::as_bytes(std::span(text)));
  return fmt::format("{}{}{}{}", text, digestField, toHex(sum), end);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// Reads the parts of a manifest; the first defect is kept.
class ManifestReader {
public:
  std::string defect;

  void readFiles(const json &list, std::vector<StoredFile> &files) {
    std::set<std::string> names;
    for (const json &object : list) {
      JsonFields fields(object);
      StoredFile file;
      file.name = fields.getText("name");
      file.bytes = uint64_t(fields.getNumber("bytes", int64_t(1) << 60));
      const json &pieces = fields.getList("pieces");
      if (!fields.getDefect().empty())
        return fail(fmt::format("file {}", files.size()), fields.getDefect());
      if (!isShardName(file.name))
        return fail(fmt::format("file '{}'", file.name),
                    "is not called like one of a checkpoint, "
                    "shard-NNNNN-of-NNNNN.safetensors");
      if (!names.insert(file.name).second)
        return fail(fmt::format("file '{}'", file.name), "is named twice");
      if (int64_t(pieces.size()) != getNumPieces(file.bytes))
        return fail(fmt::format("file '{}'", file.name),
                    fmt::format("has {} digests, expected {} for {} bytes",
                                pieces.size(), getNumPieces(file.bytes),
                                file.bytes));
      for (const json &piece : pieces) {
        const std::optional<Digest> value =
            piece.is_string() ? fromHex(piece.get_ref<const std::string &>())
                              : std::nullopt;
        if (!value)
          return fail(fmt::format("file '{}'", file.name),
                      "has a digest that is not of 64 hexadecimal digits");
        file.pieces.push_back(*value);
      }
      files.push_back(std::move(file));
    }
  }

  void readTensors(const json &list, const std::vector<StoredFile> &files,
                   std::vector<StoredTensor> &tensors) {
    std::set<std::string> names;
    for (const json &object : list) {
      StoredTensor tensor;
      if (!readTensor(object, files, tensor)) {
        defect = fmt::format(
            "tensor {}{} {}", tensors.size(),
            tensor.name.empty() ? "" : " '" + tensor.name + "'", defect);
        return;
      }
      if (!names.insert(tensor.name).second)
        return fail(fmt::format("tensor '{}'", tensor.name), "is there twice");
      tensors.push_back(std::move(tensor));
    }
  }

private:
  void fail(const std::string &where, const std::string &what) {
    defect = where + " " + what;
  }

  bool readTensor(const json &object, const std::vector<StoredFile> &files,
                  StoredTensor &tensor) {
    JsonFields fields(object);
    tensor.name = fields.getText("name");
    const std::string role = fields.getText("role");
    const std::string dtype = fields.getText("dtype");
    const json &dims = fields.getList("dims");
    const json &blocks = fields.getList("blocks");
    defect = fields.getDefect();
    const auto known =
        std::ranges::find_if(variableRoles, [&](exec::BufferRole candidate) {
          return role == exec::EnumNameBufferRole(candidate);
        });
    if (defect.empty() && known == std::end(variableRoles))
      defect = fmt::format("has the role '{}'", role);
    if (!defect.empty())
      return false;
    tensor.role = *known;
    constexpr exec::ElementType last = exec::ElementType::MAX;
    int number = 0;
    while (number <= int(last) &&
           dtype != getSafetensorsName(exec::ElementType(number)))
      ++number;
    if (number > int(last))
      defect = fmt::format("has elements '{}'", dtype);
    else
      tensor.element = exec::ElementType(number);
    return defect.empty() && readDims(dims, tensor) &&
           readBlocks(blocks, files, tensor);
  }

  bool readDims(const json &list, StoredTensor &tensor) {
    constexpr size_t maxRank = 64;
    constexpr int64_t maxBytes = int64_t(1) << 60;
    int64_t bytes = getElementBytes(tensor.element);
    for (const json &object : list) {
      JsonFields fields(object);
      StoredDim dim{fields.getText("name"), fields.getNumber("size")};
      if (fields.getDefect().empty() &&
          (dim.size == 0 || dim.size > maxBytes / bytes ||
           tensor.dims.size() == maxRank)) {
        defect = fmt::format("has dimensions that no tensor has");
        return false;
      }
      defect = fields.getDefect();
      if (!defect.empty())
        return false;
      bytes *= dim.size;
      tensor.dims.push_back(std::move(dim));
    }
    return true;
  }

  bool readBlocks(const json &list, const std::vector<StoredFile> &files,
                  StoredTensor &tensor) {
    const std::vector<int64_t> sizes = tensor.getSizes();
    std::vector<Box> boxes;
    for (const json &object : list) {
      JsonFields fields(object);
      StoredBlock block;
      block.file = fields.getNumber("file", int64_t(files.size()) - 1);
      const json &box = fields.getList("box");
      defect = fields.getDefect();
      if (defect.empty() && box.size() != sizes.size())
        defect = "has a block with another number of dimensions";
      for (size_t i = 0; i < sizes.size() && defect.empty(); ++i) {
        const json &range = box[i];
        const bool isRange = range.is_array() && range.size() == 2 &&
                             range[0].is_number_integer() &&
                             range[1].is_number_integer();
        const int64_t begin = isRange ? range[0].get<int64_t>() : -1;
        const int64_t past = isRange ? range[1].get<int64_t>() : -1;
        if (begin < 0 || begin >= past || past > sizes[i])
          defect = "has a block that is not inside of it";
        block.box.push_back({begin, past - begin});
      }
      if (!defect.empty())
        return false;
      boxes.push_back(block.box);
      tensor.blocks.push_back(std::move(block));
    }
    if (!tiles(sizes, boxes))
      defect = "has blocks that overlap or leave something out";
    return defect.empty();
  }
};

} // namespace

/// Whether the digest in the end is that of the text in front of it.
static bool isSealed(std::string_view text) {
  constexpr size_t digits = 2 * sizeof(Digest);
  const size_t tail = digestField.size() + digits + end.size();
  if (text.size() < tail || !text.ends_with(end))
    return false;
  const std::string_view body = text.substr(0, text.size() - tail);
  return text.substr(body.size(), digestField.size()) == digestField &&
         text.substr(body.size() + digestField.size(), digits) ==
             toHex(digest(std::as_bytes(std::span(body))));
}

/// What an evaluation has given; `defect` tells what is wrong with it.
static Evaluation readEvaluation(const json &object, std::string &defect) {
  JsonFields fields(object);
  Evaluation evaluation;
  evaluation.criterion.output = fields.getText("output");
  const std::string best = fields.getText("best");
  const std::string value = fields.getText("value");
  evaluation.criterion.samples = fields.getNumber("samples");
  evaluation.criterion.data = fields.getText("data");
  evaluation.criterion.isHighest = best == getBestName(true);
  const char *end = value.data() + value.size();
  const auto [rest, failed] =
      std::from_chars(value.data(), end, evaluation.value);
  defect = fields.getDefect();
  if (defect.empty() &&
      (failed != std::errc() || rest != end ||
       (best != getBestName(true) && best != getBestName(false))))
    defect = fmt::format("has the {} value '{}'", best, value);
  return evaluation;
}

/// The numbers that were set; `defect` tells what is wrong with them.
static std::map<std::string, Number> readSettings(const json &list,
                                                  std::string &defect) {
  std::map<std::string, Number> settings;
  for (const json &object : list) {
    JsonFields fields(object);
    const std::string name = fields.getText("name");
    const std::string text = fields.getText("value");
    defect = fields.getDefect();
    const std::optional<Number> value = parseNumber(text);
    if (defect.empty() && !value)
      defect = fmt::format("have the number '{}'", text);
    if (defect.empty() && !settings.emplace(name, *value).second)
      defect = fmt::format("have '{}' twice", name);
    if (!defect.empty())
      break;
  }
  return settings;
}

Result<Manifest> runtime::parseManifest(std::string_view text,
                                        const std::string &path) {
  Result<json> parsed = parseStrictJson(text, path);
  if (!parsed)
    return parsed.getError();
  JsonFields fields(*parsed);
  if (fields.getText("format") != format)
    return getDamage(path, fmt::format("its format is not '{}'", format));
  const int64_t version = fields.getNumber("version");
  // A field that is missing or no number is damage, told below.
  if (fields.getDefect().empty() && version != Manifest::version)
    return Error{
        ErrorCode::CheckpointVersion,
        fmt::format("'{}' has version {}, expected {}", path, version,
                    Manifest::version),
        fmt::format("{} meshc has written it",
                    version > Manifest::version ? "a newer" : "an older")};
  if (!isSealed(text))
    return getDamage(path, "its digest is not that of its text");
  Manifest manifest;
  TrainingPosition &position = manifest.position;
  manifest.producer = fields.getText("producer");
  manifest.model = fields.getText("model");
  manifest.specSha256 = fields.getText("spec_sha256");
  manifest.mesh = fields.getText("mesh");
  manifest.precision = fields.getText("precision");
  manifest.processes = fields.getNumber("processes");
  manifest.savedAt = fields.getNumber("saved_at");
  position.step = fields.getNumber("step");
  position.seed = fields.getInteger("seed");
  position.batch = fields.getNumber("batch");
  position.samples = fields.getNumber("samples");
  const json &data = fields.getList("data");
  const int64_t pieces = fields.getNumber("piece_bytes");
  const json &files = fields.getList("files");
  const json &tensors = fields.getList("tensors");
  if (!fields.getDefect().empty())
    return getDamage(path, "it " + fields.getDefect());
  if (pieces != int64_t(pieceBytes))
    return getDamage(path, fmt::format("its pieces have {} bytes, expected {}",
                                       pieces, pieceBytes));
  for (const json &object : data) {
    JsonFields source(object);
    position.data.emplace_back(source.getText("input"),
                               source.getText("digest"));
    if (!source.getDefect().empty())
      return getDamage(path, "its data " + source.getDefect());
  }
  if (parsed->contains("settings")) {
    std::string defect;
    const json &settings = fields.getList("settings");
    position.settings = readSettings(settings, defect);
    if (!fields.getDefect().empty())
      return getDamage(path, "it " + fields.getDefect());
    if (!defect.empty())
      return getDamage(path, "its settings " + defect);
  }
  if (const auto found = parsed->find("evaluation"); found != parsed->end()) {
    std::string defect;
    manifest.evaluation = readEvaluation(*found, defect);
    if (!defect.empty())
      return getDamage(path, "its evaluation " + defect);
  }
  ManifestReader reader;
  reader.readFiles(files, manifest.files);
  if (reader.defect.empty())
    reader.readTensors(tensors, manifest.files, manifest.tensors);
  if (!reader.defect.empty())
    return getDamage(path, reader.defect);
  return manifest;
}

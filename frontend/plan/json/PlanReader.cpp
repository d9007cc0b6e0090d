#include "frontend/plan/json/PlanReader.h"

#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Quantities.h"
#include "frontend/plan/json/PlanJson.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <sys/stat.h>

using namespace meshc;
using namespace meshc::plan;
using nlohmann::json;

//===-- Words -------------------------------------------------------------===//

std::string plan::joinAxes(const std::vector<std::string> &axes) {
  return fmt::format("{}", fmt::join(axes, "+"));
}

int64_t plan::addUp(int64_t left, int64_t right) {
  int64_t sum = 0;
  return __builtin_add_overflow(left, right, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

std::string plan::describe(const ReadSplit &split) {
  std::vector<std::string> pieces;
  for (const ReadSplit::Dim &dim : split.dims)
    pieces.push_back(
        fmt::format("{} {}{}", dim.name, dim.localSize,
                    dim.axes.empty() ? "" : "@" + joinAxes(dim.axes)));
  if (pieces.empty())
    pieces.emplace_back("one number");
  if (!split.partialKind.empty())
    pieces.push_back(fmt::format("partial {} over {}", split.partialKind,
                                 joinAxes(split.partialAxes)));
  return fmt::format("{}", fmt::join(pieces, ", "));
}

std::string ReadPlan::describeSubject() const {
  std::string text = model + " on";
  for (const auto &[axis, size] : mesh)
    text += fmt::format(" {}={}", axis, size);
  return text + ", " + target;
}

std::string ReadPlan::describeLayout() const {
  return rules.empty() ? "nothing is split"
                       : fmt::format("{}", fmt::join(rules, ", "));
}

//===-- Fields ------------------------------------------------------------===//

/// Bytes, counts and sizes. Throws of what is none.
static int64_t getCount(const json &object, const char *field) {
  const json &value = object.at(field);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())) ||
      (!value.is_number_unsigned() && value.get<int64_t>() < 0))
    throw std::runtime_error(fmt::format("'{}' is no count", field));
  return value.get<int64_t>();
}

static std::string getText(const json &object, const char *field) {
  return object.at(field).get<std::string>();
}

static std::vector<std::string> getAxes(const json &object) {
  return object.at("axes").get<std::vector<std::string>>();
}

static std::optional<double> getTime(const json &totals, const char *field) {
  if (!totals.contains(field))
    return std::nullopt;
  constexpr double mostUs = 1e15; // thirty years
  const auto us = totals.at(field).get<double>();
  if (!totals.at(field).is_number() || !(us >= 0 && us < mostUs))
    throw std::runtime_error(fmt::format("'{}' is no time", field));
  return us;
}

static ReadSplit getSplit(const json &tensor) {
  ReadSplit split;
  for (const json &dim : tensor.at("dims"))
    split.dims.push_back({getText(dim, "name"), getCount(dim, "size"),
                          getCount(dim, "local_size"), getAxes(dim)});
  if (tensor.contains("partial")) {
    split.partialKind = getText(tensor.at("partial"), "kind");
    split.partialAxes = getAxes(tensor.at("partial"));
  }
  return split;
}

std::string plan::describeDamage(const std::exception &damage) {
  const std::string_view what = damage.what();
  // "[json.exception.out_of_range.403] key 'ops' not found"
  if (dynamic_cast<const json::exception *>(&damage)) {
    const size_t end = what.find("] ");
    return std::string(end == std::string_view::npos ? what
                                                     : what.substr(end + 2));
  }
  // Of a map: "map::at".
  return dynamic_cast<const std::out_of_range *>(&damage)
             ? "an id in it stands for nothing"
             : std::string(what);
}

//===-- Values and messages -----------------------------------------------===//

namespace {
struct Names {
  std::string name, pattern;
};
} // namespace

/// By id of a tensor.
static std::map<std::string, Names> getNames(const json &plan) {
  std::map<std::string, std::string> scopes, models;
  for (const json &scope : plan.at("scopes"))
    scopes[getText(scope, "id")] = getText(scope, "name");
  for (const json &scope : plan.at("scopes"))
    models[getText(scope, "id")] = scopes.at(getText(scope, "like"));
  std::map<std::string, Names> names;
  for (const json &tensor : plan.at("tensors")) {
    Names both{getText(tensor, "name"), getText(tensor, "name")};
    if (const json &id = tensor.at("scope"); !id.is_null()) {
      const std::string &scope = scopes.at(id.get<std::string>());
      if (const size_t at = both.name.find(scope + "/");
          at != std::string::npos)
        both.pattern.replace(at, scope.size(),
                             models.at(id.get<std::string>()));
    }
    if (getText(tensor, "role") == "output")
      both = {"output " + both.name, "output " + both.pattern};
    names[getText(tensor, "id")] = std::move(both);
  }
  return names;
}

static std::vector<ReadValue>
getValues(const json &tensors, const std::map<std::string, Names> &names) {
  std::map<std::string, int64_t> counts;
  for (const json &tensor : tensors)
    ++counts[getText(tensor, "fold")];
  std::vector<ReadValue> values;
  for (const json &tensor : tensors) {
    if (tensor.at("inside").get<bool>())
      continue;
    const std::string id = getText(tensor, "id");
    const Names &both = names.at(id);
    values.push_back({both.name, both.pattern, getSplit(tensor),
                      getCount(tensor, "bytes_per_device"),
                      getText(tensor, "fold") == id ? counts.at(id) : 0});
  }
  return values;
}

static std::vector<ReadMessage>
getMessages(const json &collectives,
            const std::map<std::string, Names> &names) {
  std::vector<ReadMessage> messages;
  for (const json &collective : collectives) {
    const json &tensor = collective.at("tensor");
    const Names both =
        tensor.is_null() ? Names() : names.at(tensor.get<std::string>());
    messages.push_back({getText(collective, "kind"), getAxes(collective),
                        getCount(collective, "payload_bytes"),
                        getCount(collective, "wire_bytes_per_device"),
                        both.name, both.pattern});
  }
  return messages;
}

//===-- The whole ---------------------------------------------------------===//

/// Throws json::exception or std::out_of_range where something is missing.
static ReadPlan read(const json &object) {
  ReadPlan plan;
  plan.model = getText(object, "model");
  plan.program =
      object.at("program").is_null() ? "" : getText(object, "program");
  plan.target = getText(object, "target");
  plan.sha256 = getText(object, "sha256");
  plan.specSha256 = getText(object.at("spec"), "sha256");
  if (object.contains("machine")) {
    plan.machine = getText(object.at("machine"), "label");
    plan.isUnpriced = object.at("machine").contains("cannot_run");
  }
  for (const json &axis : object.at("mesh").at("axes"))
    plan.mesh.emplace_back(getText(axis, "name"), getCount(axis, "size"));
  for (const json &dim : object.at("dims"))
    plan.dims.push_back(
        {getText(dim, "name"), getCount(dim, "size"), 0, getAxes(dim)});
  if (object.contains("rules")) // plans of earlier versions have none
    for (const json &rule : object.at("rules"))
      plan.rules.push_back(getText(rule, "text"));
  else
    for (const ReadSplit::Dim &dim : plan.dims)
      if (!dim.axes.empty())
        plan.rules.push_back(dim.name + " -> " + joinAxes(dim.axes));

  const json &memory = object.at("memory");
  plan.memory = getCount(memory, "peak_bytes_per_device");
  if (memory.contains("limit_bytes"))
    plan.memoryLimit = getCount(memory, "limit_bytes");
  for (size_t index = 0; index < numMemoryCategories; ++index) {
    const char *category = getName(MemoryCategory(index));
    // Plans of before models had state do without that category.
    plan.memoryOf[category] =
        MemoryCategory(index) == MemoryCategory::ModelState &&
                !memory.contains(category)
            ? 0
            : getCount(memory, category);
  }
  const json &totals = object.at("totals");
  plan.flops = getCount(totals, "flops_per_device");
  plan.payload = getCount(totals, "collective_payload_bytes");
  plan.sent = getCount(totals, "wire_bytes_per_device");
  plan.transfers = getCount(totals, "transfers");
  plan.stepUs = getTime(totals, "step_us");
  plan.computeUs = getTime(totals, "compute_us");
  plan.exposedUs = getTime(totals, "exposed_us");
  if (totals.contains("first_parts")) {
    const json &parts = totals.at("first_parts");
    const int64_t runs = getCount(parts, "runs");
    plan.flops += runs * getCount(parts, "flops_per_device");
    plan.payload += runs * getCount(parts, "collective_payload_bytes");
    plan.sent += runs * getCount(parts, "wire_bytes_per_device");
    plan.transfers += runs * getCount(parts, "transfers");
    if (const std::optional<double> us = getTime(parts, "step_us");
        us && plan.stepUs)
      *plan.stepUs += double(runs) * *us;
  }

  const std::map<std::string, Names> names = getNames(object);
  plan.values = getValues(object.at("tensors"), names);
  plan.messages = getMessages(object.at("collectives"), names);
  return plan;
}

/// Fields that are read of an object of a plan, by how many are around it.
static bool isRead(int depth, const std::string &field) {
  static const std::set<std::string, std::less<>> top = {
      "schema", "model",   "program", "target",  "sha256",
      "spec",   "machine", "mesh",    "dims",    "rules",
      "memory", "totals",  "scopes",  "tensors", "collectives"};
  static const std::set<std::string, std::less<>> unread = {
      "after", "at_peak",       "before", "buffers", "cause", "constants",
      "files", "merged_causes", "path",   "span",    "window"};
  return depth == 1 ? top.contains(field) : !unread.contains(field);
}

/// Characters that would command a terminal: those below a blank, and from DEL
/// to U+009F.
static bool hasControls(const std::string &text) {
  for (size_t index = 0; index < text.size(); ++index) {
    const auto byte = static_cast<unsigned char>(text[index]);
    if (byte < 0x20 || byte == 0x7F ||
        (byte == 0xC2 && index + 1 < text.size() &&
         static_cast<unsigned char>(text[index + 1]) < 0xA0))
      return true;
  }
  return false;
}

namespace {
/// What plans do not have, although JSON may.
struct ForeignContent {
  const char *reason;
};

/// Keeps the fields of a plan that are read. Throws ForeignContent.
///
/// The library's own filter of a parser looks through all siblings behind every
/// object, which took minutes for lists of 10^5.
class FieldReader : public nlohmann::json_sax<json> {
public:
  json takeRoot() { return std::move(root); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string &) override {
    return add(value);
  }
  bool string(std::string &value) override {
    // Names of files may be any; they are in fields that are not read.
    if (!isSkipping() && hasControls(value))
      throw ForeignContent{"a name in it has a control character"};
    return add(std::move(value));
  }
  bool binary(json::binary_t &) override { return false; } // JSON has none
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string &value) override {
    if (depth <= skippedBelow)
      skippedBelow = none;
    if (isSkipping())
      return true;
    if (isRead(depth, value))
      field = &(*containers.back())[value];
    else
      skippedBelow = depth;
    return true;
  }
  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &) override {
    return false;
  }

private:
  static constexpr int none = std::numeric_limits<int>::max();

  /// Whether what comes is in a field that is not read, or is its value.
  bool isSkipping() const { return skippedBelow <= depth; }
  bool add(json value) {
    if (!isSkipping())
      place(std::move(value));
    return true;
  }
  json *place(json value) {
    if (containers.empty())
      return &(root = std::move(value));
    if (json &container = *containers.back(); container.is_array())
      return &container.emplace_back(std::move(value));
    return &(*field = std::move(value));
  }
  bool open(json container) {
    // Plans have nine levels; memory for more would not be bounded by the
    // file's.
    constexpr int maxDepth = 32;
    if (depth >= maxDepth)
      throw ForeignContent{"it is nested deeper than a plan is"};
    if (!isSkipping())
      containers.push_back(place(std::move(container)));
    ++depth;
    return true;
  }
  bool close() {
    --depth;
    if (skippedBelow > depth)
      skippedBelow = none;
    if (!isSkipping())
      containers.pop_back();
    return true;
  }

  json root;
  std::vector<json *> containers; ///< those that are open and kept
  json *field = nullptr;          ///< of the innermost, that its value goes to
  int depth = 0;                  ///< containers that are open
  int skippedBelow = none;        ///< depth of the field that is not read
};
} // namespace

/// The fields of a plan that are read; no object if it is none or damaged.
/// Throws ForeignContent.
static json parse(std::string_view text) {
  FieldReader reader;
  if (!json::sax_parse(text, &reader))
    return {};
  return reader.takeRoot();
}

bool plan::looksLikeJson(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && text[start] == '{';
}

std::optional<ReadPlan> plan::readPlan(std::string_view text,
                                       std::string &error) {
  json object;
  try {
    object = parse(text);
  } catch (const ForeignContent &foreign) {
    error = foreign.reason;
    return std::nullopt;
  }
  if (!object.is_object()) {
    error = "it is no JSON object, or only a part of one";
    return std::nullopt;
  }
  const auto schema = object.find("schema");
  if (schema == object.end() || !schema->is_string()) {
    error = "it is no plan of meshc: it has no \"schema\"";
    return std::nullopt;
  }
  if (*schema != planSchema) {
    error = fmt::format("it has the schema \"{}\", expected \"{}\"",
                        schema->get<std::string>(), planSchema);
    return std::nullopt;
  }
  try {
    return read(object);
  } catch (const std::exception &damage) {
    // Whatever was written by hand or cut off: fields or types are missing.
    error = "it is damaged: " + describeDamage(damage);
    return std::nullopt;
  }
}

//===-- Files -------------------------------------------------------------===//

namespace {
struct Close {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
} // namespace

std::optional<std::string> plan::readPlanText(const std::string &path,
                                              std::string &error) {
  // 2^17 commands, the most that a program has, are a tenth of it.
  constexpr size_t maxBytes = size_t(1) << 30;
  auto fail = [&](std::string reason) {
    error = std::move(reason);
    return std::nullopt;
  };
  const std::string tooLarge =
      "it has more than " + formatBytes(int64_t(maxBytes));
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  struct stat status {};
  if (!file || fstat(fileno(file.get()), &status) != 0)
    return fail(std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    return fail("it is a directory");
  const bool isRegular = S_ISREG(status.st_mode);
  if (isRegular && uint64_t(status.st_size) > maxBytes)
    return fail(tooLarge);
  std::string text;
  if (isRegular)
    text.reserve(size_t(status.st_size));
  std::array<char, size_t(1) << 16> block;
  while (const size_t count =
             std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), count);
    if (text.size() > maxBytes)
      return fail(tooLarge);
  }
  if (std::ferror(file.get()))
    return fail(std::strerror(errno));
  return text;
}

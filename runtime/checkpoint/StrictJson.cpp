#include "runtime/checkpoint/StrictJson.h"

#include <fmt/format.h>

#include <set>

using namespace meshc;
using namespace meshc::runtime;

using nlohmann::json;

namespace {

/// Says what of a text is not as it has to be, before any of it is kept.
class JsonChecker : public nlohmann::json_sax<json> {
public:
  explicit JsonChecker(JsonScalars scalars)
      : takesAny(scalars == JsonScalars::Any) {}

  std::string defect;

  bool null() override { return takesAny || fail("has a null"); }
  bool boolean(bool) override { return takesAny || fail("has a boolean"); }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t value) override {
    return takesAny || value <= uint64_t(INT64_MAX) ||
           fail("has an integer of more than 63 bits");
  }
  bool number_float(number_float_t, const string_t &text) override {
    return takesAny || fail(fmt::format("has the number {}, expected integers",
                                        text.substr(0, 40)));
  }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return fail("has binary data"); }
  bool start_object(size_t) override {
    keys.emplace_back();
    return enter();
  }
  bool key(string_t &text) override {
    return keys.back().insert(text).second ||
           fail(fmt::format("has the key '{}' twice in an object", text));
  }
  bool end_object() override {
    keys.pop_back();
    --depth;
    return true;
  }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override {
    --depth;
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return fail(fmt::format("is no JSON from byte {} on", position));
  }

private:
  bool enter() {
    constexpr int maxDepth = 8;
    return ++depth <= maxDepth ||
           fail(fmt::format("is nested more than {} deep", maxDepth));
  }
  bool fail(std::string what) {
    defect = std::move(what);
    return false;
  }

  bool takesAny;
  int depth = 0;
  std::vector<std::set<std::string>> keys; ///< of the objects around
};

} // namespace

Result<json> runtime::parseStrictJson(std::string_view text,
                                      const std::string &path,
                                      JsonScalars scalars) {
  auto getDamage = [&](const std::string &what) {
    return Error{ErrorCode::DamagedFile,
                 fmt::format("'{}' is damaged: its JSON {}", path, what), ""};
  };
  if (text.size() > maxJsonBytes)
    return getDamage(fmt::format("has {} bytes, expected at most {}",
                                 text.size(), maxJsonBytes));
  JsonChecker checker(scalars);
  if (!json::sax_parse(text.begin(), text.end(), &checker))
    return getDamage(checker.defect);
  json parsed = json::parse(text.begin(), text.end(), nullptr,
                            /*allow_exceptions=*/false);
  if (!parsed.is_object())
    return getDamage("is no object");
  return parsed;
}

const json *JsonFields::find(const char *key, const char *kind) {
  if (!defect.empty())
    return nullptr;
  const auto found = object.find(key);
  if (found != object.end())
    return &*found;
  defect = fmt::format("has no {} '{}'", kind, key);
  return nullptr;
}

int64_t JsonFields::getInteger(const char *key) {
  const json *value = find(key, "integer");
  if (value && value->is_number_integer())
    return value->get<int64_t>();
  if (value)
    defect = fmt::format("has no integer '{}'", key);
  return 0;
}

int64_t JsonFields::getNumber(const char *key, int64_t most) {
  const int64_t value = getInteger(key);
  if (defect.empty() && (value < 0 || value > most)) {
    defect = fmt::format("has {} as '{}', expected 0 to {}", value, key, most);
    return 0;
  }
  return value;
}

std::string JsonFields::getText(const char *key) {
  const json *value = find(key, "text");
  if (value && value->is_string())
    return value->get<std::string>();
  if (value)
    defect = fmt::format("has no text '{}'", key);
  return "";
}

const json &JsonFields::getList(const char *key) {
  static const json empty = json::array();
  const json *value = find(key, "list");
  if (value && value->is_array())
    return *value;
  if (value)
    defect = fmt::format("has no list '{}'", key);
  return empty;
}

#include "JsonSchema.h"

using namespace meshc;
using nlohmann::json;

static bool isType(const json &value, const std::string &type) {
  if (type == "string")
    return value.is_string();
  if (type == "integer")
    return value.is_number_integer();
  if (type == "number")
    return value.is_number();
  if (type == "boolean")
    return value.is_boolean();
  throw std::invalid_argument("schema: no type " + type);
}

static std::vector<std::string> findObjectViolations(const json &value,
                                                     const json &schema,
                                                     const std::string &place) {
  std::vector<std::string> found;
  for (const auto &[key, fieldSchema] : schema.items()) {
    bool isOptional = key.ends_with('?');
    std::string name = isOptional ? key.substr(0, key.size() - 1) : key;
    if (value.contains(name)) {
      auto inner =
          plan::findViolations(value[name], fieldSchema, place + "." + name);
      found.insert(found.end(), inner.begin(), inner.end());
    } else if (!isOptional) {
      found.push_back(place + ": has no " + name);
    }
  }
  for (const auto &[key, field] : value.items())
    if (!schema.contains(key) && !schema.contains(key + "?"))
      found.push_back(place + ": has " + key);
  return found;
}

std::vector<std::string> plan::findViolations(const json &value,
                                              const json &schema,
                                              const std::string &place) {
  if (schema.is_string()) {
    if (isType(value, schema))
      return {};
    return {place + ": " + value.dump() + " is no " +
            schema.get<std::string>()};
  }
  if (schema.contains("nullable")) {
    if (value.is_null())
      return {};
    return findViolations(value, schema["nullable"], place);
  }
  if (schema.contains("one of")) {
    for (const json &candidate : schema["one of"])
      if (value == candidate)
        return {};
    return {place + ": " + value.dump() + " is not one of " +
            schema["one of"].dump()};
  }
  if (schema.contains("list")) {
    if (!value.is_array())
      return {place + ": is no list"};
    std::vector<std::string> found;
    for (size_t index = 0; index < value.size(); ++index) {
      auto inner = findViolations(value[index], schema["list"],
                                  place + "[" + std::to_string(index) + "]");
      found.insert(found.end(), inner.begin(), inner.end());
    }
    return found;
  }
  if (!value.is_object())
    return {place + ": is no object"};
  return findObjectViolations(value, schema, place);
}

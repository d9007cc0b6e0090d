#ifndef MESHC_RUNTIME_CHECKPOINT_STRICTJSON_H
#define MESHC_RUNTIME_CHECKPOINT_STRICTJSON_H

#include "runtime/exec/Error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// JSON of a file that may be damaged or made to do harm: an object, of at most
/// 32 MiB and nested 8 deep, of strings and integers of 64 bits, in which no
/// key stands twice in an object.
/// Errors: DamagedFile, with `path` and what is wrong where.
enum class JsonScalars : uint8_t {
  Strict, ///< strings and integers
  Any,    ///< null, booleans and other numbers too: others write the file
};
Result<nlohmann::json>
parseStrictJson(std::string_view text, const std::string &path,
                JsonScalars scalars = JsonScalars::Strict);

inline constexpr size_t maxJsonBytes = size_t(1) << 25;

/// Reads fields of an object of a file; the first one that is missing or is of
/// another kind is kept, and everything from there on is empty.
class JsonFields {
public:
  explicit JsonFields(const nlohmann::json &object) : object(object) {}

  /// An integer in [0, most].
  int64_t getNumber(const char *key, int64_t most = INT64_MAX);
  /// Any integer of 64 bits.
  int64_t getInteger(const char *key);
  std::string getText(const char *key);
  /// An array; empty where there is none.
  const nlohmann::json &getList(const char *key);

  /// "has no integer 'step'"; empty: nothing is wrong.
  const std::string &getDefect() const { return defect; }

private:
  const nlohmann::json *find(const char *key, const char *kind);

  const nlohmann::json &object;
  std::string defect;
};

} // namespace meshc::runtime

#endif

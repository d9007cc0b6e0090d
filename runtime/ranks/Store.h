#ifndef MESHC_RUNTIME_RANKS_STORE_H
#define MESHC_RUNTIME_RANKS_STORE_H

#include "runtime/exec/Error.h"

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// Texts by key, with a bound on the memory that they take.
class StoreValues {
public:
  static constexpr size_t maxValues = size_t(1) << 20;
  static constexpr size_t maxBytes = size_t(1) << 28; ///< keys and values
  static constexpr size_t maxKeyBytes = 1024;

  /// Null if there is none of this key.
  const std::string *find(std::string_view key) const;
  /// Sets a value; an earlier one is replaced. Errors: DoesNotFit.
  Status set(std::string_view key, std::string value);
  /// See Store. Errors: Internal where the value is no integer; DoesNotFit.
  Result<int64_t> add(std::string_view key, int64_t increment);

private:
  std::map<std::string, std::string, std::less<>> values;
  size_t bytes = 0;
};

/// Short texts by key that all processes of a run see: what they agree on
/// before they can talk by better means. Calls may come from any thread.
///
/// Every call fails with the same error once a process of the run has failed or
/// ended (see Ranks.h).
class Store {
public:
  virtual ~Store() = default;

  /// Sets a value; an earlier one is replaced. Errors: DoesNotFit where the
  /// store is full, see StoreValues.
  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// Waits for a value. Errors: MissingRank when nobody has set it in time.
  virtual Result<std::string> get(std::string_view key, double seconds) = 0;
  /// Adds to an integer that begins as 0; returns the sum. Such a value reads
  /// as a decimal number. Errors: Internal where the value is no integer;
  /// DoesNotFit.
  virtual Result<int64_t> add(std::string_view key, int64_t increment) = 0;
  /// Returns when every rank has called it with this name; a name can be used
  /// again. Errors: MissingRank, naming those that did not come in time.
  virtual Status barrier(std::string_view name, double seconds) = 0;
};

/// The store of a run of one process.
class LocalStore : public Store {
public:
  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, double seconds) override;
  Result<int64_t> add(std::string_view key, int64_t increment) override;
  Status barrier(std::string_view name, double seconds) override;

private:
  std::mutex mutex;
  std::condition_variable changed;
  StoreValues values;
};

} // namespace meshc::runtime

#endif

#include "runtime/Ranks/Store.h"

#include "runtime/Ranks/Socket.h"

#include <fmt/format.h>

#include <charconv>

using namespace meshc;
using namespace meshc::runtime;

bool runtime::addToNumber(std::string &text, int64_t increment, int64_t &sum) {
  int64_t value = 0;
  if (!text.empty()) {
    const char *end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end)
      return false;
  }
  if (__builtin_add_overflow(value, increment, &sum))
    return false;
  text = std::to_string(sum);
  return true;
}

Status LocalStore::set(std::string_view key, std::string_view value) {
  std::lock_guard<std::mutex> lock(mutex);
  values[std::string(key)] = value;
  changed.notify_all();
  return Status::success();
}

Result<std::string> LocalStore::get(std::string_view key, double seconds) {
  std::unique_lock<std::mutex> lock(mutex);
  auto isSet = [&] { return values.find(key) != values.end(); };
  if (!changed.wait_until(lock, getDeadline(seconds), isSet))
    return Error{ErrorCode::MissingRank,
                 fmt::format("nobody has set '{}' within {:g} s", key, seconds),
                 ""};
  return values.find(key)->second;
}

Result<int64_t> LocalStore::add(std::string_view key, int64_t increment) {
  std::lock_guard<std::mutex> lock(mutex);
  int64_t sum = 0;
  if (!addToNumber(values[std::string(key)], increment, sum))
    return Error{ErrorCode::Internal,
                 fmt::format("'{}' of the store is no integer", key), ""};
  changed.notify_all();
  return sum;
}

Status LocalStore::barrier(std::string_view, double) {
  return Status::success();
}

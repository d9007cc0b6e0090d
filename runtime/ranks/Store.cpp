#include "runtime/ranks/Store.h"

#include "runtime/ranks/Socket.h"

#include <fmt/format.h>

#include <charconv>

using namespace meshc;
using namespace meshc::runtime;

const std::string *StoreValues::find(std::string_view key) const {
  auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

Status StoreValues::set(std::string_view key, std::string value) {
  if (key.size() > maxKeyBytes)
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("a key of the store has {} bytes, expected at "
                             "most {}",
                             key.size(), maxKeyBytes),
                 ""};
  auto found = values.find(key);
  const bool isNew = found == values.end();
  const size_t before = isNew ? 0 : key.size() + found->second.size();
  const size_t after = bytes - before + key.size() + value.size();
  if (after > maxBytes || (isNew && values.size() == maxValues))
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("the store of the run is full: it holds at most "
                             "{} values and {} bytes",
                             maxValues, maxBytes),
                 ""};
  bytes = after;
  if (isNew)
    values.emplace(key, std::move(value));
  else
    found->second = std::move(value);
  return Status::success();
}

Result<int64_t> StoreValues::add(std::string_view key, int64_t increment) {
  int64_t value = 0;
  int64_t sum = 0;
  bool isNumber = true;
  if (const std::string *text = find(key)) {
    const char *end = text->data() + text->size();
    auto [rest, error] = std::from_chars(text->data(), end, value);
    isNumber = error == std::errc() && rest == end;
  }
  if (!isNumber || __builtin_add_overflow(value, increment, &sum))
    return Error{ErrorCode::Internal,
                 fmt::format("'{}' of the store is no integer", key), ""};
  Status set = this->set(key, std::to_string(sum));
  return set ? Result<int64_t>(sum) : set.getError();
}

Status LocalStore::set(std::string_view key, std::string_view value) {
  std::lock_guard<std::mutex> lock(mutex);
  changed.notify_all();
  return values.set(key, std::string(value));
}

Result<std::string> LocalStore::get(std::string_view key, double seconds) {
  std::unique_lock<std::mutex> lock(mutex);
  auto isSet = [&] { return values.find(key) != nullptr; };
  if (!changed.wait_until(lock, getDeadline(seconds), isSet))
    return Error{ErrorCode::MissingRank,
                 fmt::format("nobody has set '{}' within {:g} s", key, seconds),
                 ""};
  return *values.find(key);
}

Result<int64_t> LocalStore::add(std::string_view key, int64_t increment) {
  std::lock_guard<std::mutex> lock(mutex);
  changed.notify_all();
  return values.add(key, increment);
}

Status LocalStore::barrier(std::string_view, double) {
  return Status::success();
}

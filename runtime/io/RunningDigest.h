#ifndef MESHC_RUNTIME_IO_RUNNINGDIGEST_H
#define MESHC_RUNTIME_IO_RUNNINGDIGEST_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace meshc::runtime {

/// FNV-1a over 64 bits, of bytes that come in parts and of their number: the
/// same however they are parted.
class RunningDigest {
public:
  void add(std::span<const std::byte> bytes);
  /// As hexadecimal digits.
  std::string get() const;

private:
  uint64_t hash = 0xcbf29ce484222325;
  uint64_t count = 0;
};

/// That of all bytes at once.
std::string getDigest(std::span<const std::byte> bytes);

} // namespace meshc::runtime

#endif

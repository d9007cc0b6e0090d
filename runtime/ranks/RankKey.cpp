#include "runtime/ranks/RankKey.h"

#include "runtime/ranks/Socket.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// 128 bits where every one is random.
static constexpr size_t minKeyBytes = 16;
static constexpr size_t maxKeyBytes = 4096;

/// Finds what this processor has; libsodium works without, more slowly, so that
/// its answer decides nothing.
static void initialise() {
  [[maybe_unused]] static const int done = sodium_init();
}

std::string runtime::getRandomBytes(size_t count) {
  initialise();
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string RankKey::makeText() {
  std::string text;
  for (unsigned char byte : getRandomBytes(32))
    text += fmt::format("{:02x}", byte);
  return text;
}

Result<RankKey> RankKey::fromText(std::string_view source,
                                  std::string_view text) {
  if (text.size() < minKeyBytes || text.size() > maxKeyBytes)
    return Error{ErrorCode::StoreKey,
                 fmt::format("{}: expected a key of {} to {} bytes, found {}",
                             source, minKeyBytes, maxKeyBytes, text.size()),
                 "take random bytes: head -c 32 /dev/urandom | base64"};
  RankKey key;
  key.secret = text;
  return key;
}

Result<RankKey> RankKey::fromFile(const std::string &path) {
  const std::string source = fmt::format("--store-key '{}'", path);
  // Of a pipe, what it is is known before anybody writes to it.
  Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.isOpen() || fstat(file.get(), &status) != 0)
    return Error{ErrorCode::CannotRead,
                 fmt::format("{}: {}", source, std::strerror(errno)), ""};
  auto refuse = [&](std::string why, std::string note = "") {
    return Error{ErrorCode::StoreKey, fmt::format("{}: {}", source, why),
                 std::move(note)};
  };
  if (!S_ISREG(status.st_mode))
    return refuse("expected a regular file");
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return refuse("the file belongs to another user");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return refuse(
        fmt::format("others may read or change the file, which has mode {:o}",
                    status.st_mode & 07777),
        fmt::format("chmod 600 {}", path));
  std::array<char, maxKeyBytes + 1> bytes;
  const ssize_t size = read(file.get(), bytes.data(), bytes.size());
  if (size < 0)
    return Error{ErrorCode::CannotRead,
                 fmt::format("{}: {}", source, std::strerror(errno)), ""};
  const std::string_view text(bytes.data(), size_t(size));
  return fromText(source, text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

static std::array<unsigned char, crypto_auth_hmacsha256_BYTES>
authenticate(std::string_view key,
             std::initializer_list<std::string_view> fields) {
  initialise();
  auto getBytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char *>(text.data());
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, getBytes(key), key.size());
  for (std::string_view field : fields) {
    // With its size, so that no other fields read the same.
    std::array<unsigned char, 8> size;
    for (size_t i = 0; i < size.size(); ++i)
      size[i] = (unsigned char)(uint64_t(field.size()) >> (8 * i));
    crypto_auth_hmacsha256_update(&state, size.data(), size.size());
    crypto_auth_hmacsha256_update(&state, getBytes(field), field.size());
  }
  std::array<unsigned char, crypto_auth_hmacsha256_BYTES> proof;
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

std::string
RankKey::prove(std::initializer_list<std::string_view> fields) const {
  const auto proof = authenticate(secret, fields);
  return {proof.begin(), proof.end()};
}

bool RankKey::isProven(std::string_view proof,
                       std::initializer_list<std::string_view> fields) const {
  const auto expected = authenticate(secret, fields);
  return proof.size() == expected.size() &&
         sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

RankKey RankKey::derive(std::initializer_list<std::string_view> purpose) const {
  RankKey key;
  key.secret = prove(purpose);
  return key;
}

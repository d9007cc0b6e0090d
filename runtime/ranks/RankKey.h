#ifndef MESHC_RUNTIME_RANKS_RANKKEY_H
#define MESHC_RUNTIME_RANKS_RANKKEY_H

#include "runtime/exec/Error.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// The secret of a run: whoever has it is one of its processes. It is never
/// sent; a process proves that it has it. HMAC-SHA-256 of libsodium.
class RankKey {
public:
  /// No secret: everyone can prove that he has it.
  RankKey() = default;

  /// One that nobody can guess, as text.
  static std::string makeText();
  /// `source` says where the text came from. Errors: StoreKey where it has
  /// less than 16 or more than 4096 bytes.
  static Result<RankKey> fromText(std::string_view source,
                                  std::string_view text);
  /// Reads a file, less the white space at its end. Errors: StoreKey as above,
  /// and where it is no regular file, belongs to neither this user nor root, or
  /// others may read or write it; CannotRead.
  static Result<RankKey> fromFile(const std::string &path);

  bool isGiven() const { return !secret.empty(); }

  /// What only those can say of `fields`, in this order, who have the key.
  std::string prove(std::initializer_list<std::string_view> fields) const;
  /// Whether `proof` is what prove() returns, in a time that does not tell
  /// where it differs.
  bool isProven(std::string_view proof,
                std::initializer_list<std::string_view> fields) const;
  /// A key for another purpose that tells nothing of this one.
  RankKey derive(std::initializer_list<std::string_view> purpose) const;

private:
  std::string secret;
};

/// Holds the text of the key where no file is given.
inline constexpr const char *storeKeyVariable = "MESHC_STORE_KEY";

/// Random bytes that nobody can guess.
std::string getRandomBytes(size_t count);

} // namespace meshc::runtime

#endif

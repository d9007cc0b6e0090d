#ifndef MESHC_RUNTIME_SAMPLES_TEXTUNITS_H
#define MESHC_RUNTIME_SAMPLES_TEXTUNITS_H

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/io/ByteListener.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A text, unpacked where it is in gzip. Errors: CannotRead, DamagedFile.
Result<std::vector<std::byte>> readText(const std::string &path,
                                        ByteListener listener = {});

/// What the positions of a text are: its bytes, or the numbers of its
/// characters among those of the text for training, in ascending order.
class TextUnits {
public:
  /// Those that the reader `source` says; where they are characters, the text
  /// for training below `folder` is read. Errors: those of findFiles and
  /// readText; DamagedFile where a file is no UTF-8.
  static Result<TextUnits> open(const exec::DataSourceT &source,
                                const std::string &folder);

  bool areBytes() const { return alphabet.empty(); }
  /// How many there are.
  int64_t getSize() const {
    return areBytes() ? 256 : int64_t(alphabet.size());
  }
  /// Equal for equal units.
  std::string getDigest() const;
  /// The numbers of a text; `path` is for messages. Errors: DamagedFile where
  /// it is no UTF-8, WrongData for a character that is none of them.
  Result<std::vector<int32_t>> encode(std::span<const std::byte> text,
                                      const std::string &path) const;
  /// The text of a number below getSize().
  std::string decode(int64_t number) const;

private:
  std::vector<char32_t> alphabet; ///< ascending; empty: bytes
};

} // namespace meshc::runtime

#endif

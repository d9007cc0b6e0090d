#ifndef MESHC_RUNTIME_IO_FILEKIND_H
#define MESHC_RUNTIME_IO_FILEKIND_H

#include "runtime/io/File.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// As many of the first bytes of a file tell its kind.
inline constexpr size_t kindBytes = 512;

inline constexpr std::string_view safetensorsKind = "a safetensors file";
inline constexpr std::string_view pngKind = "a PNG image";
inline constexpr std::string_view jpegKind = "a JPEG image";

/// What a file is that begins so: "a NumPy array (.npy)", for what other
/// readers read and people mistake for ids, text, tables and weights. Empty
/// where it may be anything: a mark counts where bytes that were not written as
/// one have it by chance in less than one of 10^9 files. `fileBytes` is the
/// length of the file.
std::string_view findFileKind(std::span<const std::byte> start,
                              uint64_t fileBytes);

/// The same for files of numbers that have no mark of their own: text, too.
std::string_view findNumbersKind(std::span<const std::byte> start,
                                 uint64_t fileBytes);

/// "'PATH' is KIND, expected EXPECTED", of code WrongData.
Error getWrongKind(const std::string &path, std::string_view kind,
                   std::string_view expected, std::string note = "");

/// What is said of a file that has not the mark of its format, `start` being
/// where it should: getWrongKind() where it has another one's, else
/// DamagedFile, or what `rest` says, of which a little more is read. `expected`
/// is what has the mark: "an IDX file".
Error getUnmarked(std::span<const std::byte> start, ByteReader &rest,
                  const std::string &path, std::string_view expected);

} // namespace meshc::runtime

#endif

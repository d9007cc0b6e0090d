#ifndef MESHC_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define MESHC_RUNTIME_CHECKPOINT_SAFETENSORS_H

/// The safetensors format: eight bytes with the length of a header, the header,
/// and the elements of all tensors, little-endian and in C order.
///
///   {"__metadata__": {"step": "12"},
///    "w1": {"dtype": "F32", "shape": [784, 1024], "data_offsets": [0,
///    3211264]},
///    ...}
///
/// Offsets count from the end of the header, which blanks may fill up. The
/// tensors cover what is behind it without holes and overlaps.
/// Source: github.com/huggingface/safetensors, README.md, "Format".

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

struct SafetensorsEntry {
  std::string name;
  exec::ElementType element = exec::ElementType::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0; ///< bytes of the file
  /// The type of its elements where no tensor of a program has those, and
  /// nothing of it can be read; empty: `element` is it.
  std::string foreignType = {};
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries; ///< as they lie in the file
  std::map<std::string, std::string> metadata;
  uint64_t bytes = 0; ///< with its length: where elements begin
};

/// "F32".
const char *getSafetensorsName(exec::ElementType element);

/// Lays tensors out in their order: sets their places and the header's bytes,
/// a multiple of 4096. Where those with the widest elements come first, all
/// elements lie at multiples of their width. Returns the first bytes of the
/// file, up to the elements.
std::string layOut(SafetensorsHeader &header);

/// Fills `target` with the bytes of a file from a place on, all of which there
/// are.
using ReadAt =
    std::function<Status(uint64_t place, std::span<std::byte> target)>;

/// Reads the header of a file of `fileBytes`. Takes no more memory than some
/// times the header, which has at most 32 MiB.
/// Errors: those of `read`; DamagedFile where the header is not of this format
/// or does not cover the file. `path` is for messages.
Result<SafetensorsHeader> readSafetensorsHeader(const ReadAt &read,
                                                uint64_t fileBytes,
                                                const std::string &path);

} // namespace meshc::runtime

#endif

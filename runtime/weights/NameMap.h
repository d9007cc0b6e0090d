#ifndef MESHC_RUNTIME_WEIGHTS_NAMEMAP_H
#define MESHC_RUNTIME_WEIGHTS_NAMEMAP_H

/// What the tensors of another program's files are in a model: a text with a
/// rule in each line. The README of this folder describes it.
///
///   prefix transformer.
///   ignore h.*.attn.bias
///   words         = wte.weight
///   layer/attn/wq = h.{layers}.attn.c_attn.weight
///                   [d_model, 1 of 3 heads d_head]       (in one line)

#include "runtime/exec/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// One of `count` equal slices, counted from 0.
struct Slice {
  int64_t index = 0;
  int64_t count = 1;
};

/// Where one parameter, or a slice of it, is stored.
struct NameRule {
  /// Characters of a tensor's name, and then a position of a dim.
  struct Part {
    std::string text;
    std::string dim;                    ///< empty: none
    std::vector<std::string> positions; ///< their names; empty: numbers
  };
  /// An axis of a tensor: dims of the parameter, merged in C order.
  struct Axis {
    Slice slice; ///< of the axis
    std::vector<std::string> dims;
  };

  int64_t line = 0;
  std::string parameter;
  std::string slicedDim; ///< of the parameter; empty: the rule is for all of it
  Slice slice;           ///< of that dim
  std::vector<Part> name;
  std::optional<std::vector<Axis>> axes; ///< none: each dim that is in no name
  size_t numPrefixes = 0; ///< of the map's, those that stand above it
};

struct NameMap {
  std::string path;
  /// That names of the rules below may have in front; written names have the
  /// first.
  std::vector<std::string> prefixes;
  std::vector<std::string> ignored; ///< patterns; '*' stands for anything
  std::vector<NameRule> rules;

  /// Whether a tensor is one of those that no parameter takes.
  bool ignores(std::string_view tensor) const;
};

/// Reads the text of a map. Errors: WrongParameters, with path and line.
Result<NameMap> parseNameMap(std::string_view text, const std::string &path);

/// The same of a file. Errors: CannotRead, too.
Result<NameMap> readNameMap(const std::string &path);

/// "gpt2.map:7: `what`", of code WrongParameters.
Error getMapError(const std::string &path, int64_t line,
                  const std::string &what);

} // namespace meshc::runtime

#endif

#ifndef MESHC_RUNTIME_WEIGHTS_STOREDPART_H
#define MESHC_RUNTIME_WEIGHTS_STOREDPART_H

/// Parts of parameters, and where their elements lie in stored tensors.
///
/// A parameter wq: [layers, d_model, heads, d_head] that a map has in
/// "h.{layers}.c_attn.weight [d_model, 1 of 3 heads d_head]" has a part for
/// each layer. Its element (layer, i, j, k) is element (i, j * d_head + k) of a
/// tensor of shape [d_model, 3 * heads * d_head]: each dim has a stride.

#include "runtime/checkpoint/Box.h"
#include "runtime/data/Values.h"
#include "runtime/weights/NameMap.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

struct StoredPart {
  std::string tensor;         ///< without prefix
  std::vector<int64_t> shape; ///< of the tensor, as far as it is known
  Box box;                    ///< of the parameter
  int64_t first = 0;          ///< element of the tensor that the box begins at
  /// Elements of the tensor from one place of a dim to the next.
  std::vector<int64_t> strides;
  int64_t line = 0;       ///< of the map; 0: there is none
  size_t numPrefixes = 0; ///< of the map's, that the name may have in front
};

struct StoredParameter {
  const exec::VariableT *parameter;
  std::vector<StoredPart> parts; ///< that tile it; none: no rule is for it
};

/// What the rules of a map say of each parameter; without a map each is a
/// tensor of its own name, in its own shape.
/// Errors: WrongParameters, with the line, where a rule does not fit them.
Result<std::vector<StoredParameter>>
applyNames(const NameMap *map,
           std::span<const exec::VariableT *const> parameters);

/// Elements of a part that follow one another in the tensor.
struct StoredRun {
  int64_t stored; ///< the first in the tensor
  int64_t local;  ///< in the block
  int64_t count;
  int64_t stride; ///< from one to the next in the block
};

/// The loops over the elements of a part that a block of a device has, in the
/// order in which they lie in the tensor.
class StoredRuns {
public:
  StoredRuns(const StoredPart &part, const Placement &placement);

  template <typename Visitor> void visit(Visitor &&visitor) const {
    for (int64_t run = 0; run < numRuns; ++run) {
      StoredRun each = inner;
      int64_t rest = run;
      for (size_t i = loops.size(); i-- > 0; rest /= loops[i].count) {
        each.stored += rest % loops[i].count * loops[i].stored;
        each.local += rest % loops[i].count * loops[i].local;
      }
      visitor(each);
    }
  }

private:
  struct Loop {
    int64_t count, stored, local;
  };

  std::vector<Loop> loops; ///< the outermost first
  StoredRun inner{0, 0, 1, 1};
  int64_t numRuns = 1;
};

} // namespace meshc::runtime

#endif

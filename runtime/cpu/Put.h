#ifndef MESHC_RUNTIME_CPU_PUT_H
#define MESHC_RUNTIME_CPU_PUT_H

#include "runtime/plans/PutPlan.h"

#include <cstddef>
#include <cstdint>

namespace meshc::runtime {

/// A put (exec.fbs) on CPUs. Positions of the index are listed by the row that
/// they say, in their order, and the rows of the result are then written one
/// after the other, each the sum of its terms in blocks of 64 (SumBlock.h): the
/// same bits however units are cut into pieces.
class Put {
public:
  Put(const exec::PutT &put, exec::ElementType input, exec::ElementType index);

  const PutPlan &getPlan() const { return plan; }
  /// Bytes of scratch memory, 64-byte aligned, that run() needs.
  uint64_t getScratchBytes() const;

  /// Computes units [begin, end) of the plan. `operands` are input, index and
  /// result.
  void run(int64_t begin, int64_t end, void *const *operands,
           std::byte *scratch) const;

private:
  template <typename Sum, typename Index> class Run;

  PutPlan plan;
  exec::ElementType input, index;
  int64_t numTerms; ///< of a batch, less than 2^32 - 1
  /// Rows that are listed at a time: as many as there are terms, so that
  /// reading the index again costs no more than writing the rows.
  int64_t listedRows;
};

} // namespace meshc::runtime

#endif

#ifndef MESHC_RUNTIME_DATA_SAMPLEORDER_H
#define MESHC_RUNTIME_DATA_SAMPLEORDER_H

#include <cstdint>

namespace meshc::runtime {

/// The order of the samples in one epoch: a permutation of [0, count) that is a
/// pure function of seed, epoch and index. No mesh, layout or number of threads
/// enters, so every mesh trains on the same batches, and training can go on at
/// any step without replaying what was before.
///
/// A Feistel network over the smallest power of two that holds `count`, walked
/// until it falls below `count`; its round function is Philox, keyed by the
/// seed. Source: Black, Rogaway 2002, "Ciphers with arbitrary finite domains",
/// method 2; Salmon et al. 2011 for Philox.
class SampleOrder {
public:
  SampleOrder(int64_t seed, int64_t epoch, int64_t count);

  /// The sample at place `index` of the epoch, 0 <= index < count.
  int64_t getSample(int64_t index) const;

private:
  uint64_t permute(uint64_t index) const;

  uint64_t seed;
  uint64_t epoch;
  int64_t count;
  int lowBits;  ///< of an index's lower part
  int highBits; ///< of its upper part
};

} // namespace meshc::runtime

#endif

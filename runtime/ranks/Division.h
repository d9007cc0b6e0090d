#ifndef MESHC_RUNTIME_RANKS_DIVISION_H
#define MESHC_RUNTIME_RANKS_DIVISION_H

#include <cstdint>

namespace meshc::runtime {

/// How the logical devices of a mesh are divided over the processes of a run:
/// in order, in contiguous parts that are equal up to one device. Five devices
/// on two processes are {0, 1} and {2, 3, 4}.
struct Division {
  int64_t devices = 1;
  int64_t ranks = 1; ///< at most as many as devices
  int64_t rank = 0;  ///< of this process

  int64_t getBegin(int64_t ofRank) const { return devices * ofRank / ranks; }
  /// First device of this process, and one past its last.
  int64_t getBegin() const { return getBegin(rank); }
  int64_t getEnd() const { return getBegin(rank + 1); }
  int64_t getNumLocal() const { return getEnd() - getBegin(); }
  bool isLocal(int64_t device) const {
    return device >= getBegin() && device < getEnd();
  }
  int64_t getRank(int64_t device) const {
    return ((device + 1) * ranks + devices - 1) / devices - 1;
  }
};

} // namespace meshc::runtime

#endif

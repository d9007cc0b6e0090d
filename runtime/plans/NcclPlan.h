#ifndef MESHC_RUNTIME_PLANS_NCCLPLAN_H
#define MESHC_RUNTIME_PLANS_NCCLPLAN_H

/// How a collective between processes with one device each is given to NCCL;
/// arithmetic alone, without the library.

#include "runtime/plans/Collective.h"
#include "runtime/plans/MoveList.h"

#include <cstdint>
#include <vector>

namespace meshc::runtime::cuda {

/// A collective of NCCL that does the same as a group of moves.
struct NativeCollective {
  enum class Kind : uint8_t { AllReduce, AllGather, ReduceScatter };
  Kind kind;
  /// The group's devices in the order in which NCCL counts them.
  std::vector<int64_t> devices;
  int64_t elements; ///< that a device brings in (all_gather) or takes
  exec::ReduceKind reduce;
  /// Per device, in this order: bytes into its arena.
  std::vector<uint64_t> from, to;
};

/// The collectives of NCCL for a group of moves, one for each member; one for
/// neighbouring members of an all_reduce whose blocks lie one behind the other.
/// Empty where blocks of any member are not contiguous, not of one size or not
/// in the order of any numbering, or members number the devices differently.
std::vector<NativeCollective> findNative(const Collective &collective,
                                         int64_t group);

/// What a device sends and receives for a collective that NCCL has not: boxes,
/// packed into staging memory where they are not contiguous, and combined from
/// there in the order of device numbers.
struct NcclMessages {
  /// A box on its way: in the arena or in staging memory (bytes into it).
  struct Message {
    int64_t peer = 0;
    bool isStaged = false;
    uint64_t offset = 0;
    int64_t elements = 0;
  };
  std::vector<Message> sends, receives;
  std::vector<MoveBatch> pack, unpack; ///< before and after them
  uint64_t stagingBytes = 0;
};

/// Plans the messages of device `self`, which belongs to a group and whose
/// memory is at `arena` and `staging`.
NcclMessages planMessages(const Collective &collective, int64_t self,
                          DevicePointer arena, DevicePointer staging);

} // namespace meshc::runtime::cuda

#endif

#ifndef MESHC_RUNTIME_CUDA_PEERS_H
#define MESHC_RUNTIME_CUDA_PEERS_H

#include "runtime/exec/Error.h"

#include <cstdint>
#include <string>

namespace meshc::runtime::cuda {

/// The processes of a run, as far as NCCL needs them to find one another.
class Peers {
public:
  virtual ~Peers() = default;

  virtual int64_t getRank() const = 0;
  virtual int64_t getNumRanks() const = 0;
  /// What rank 0 gives as `value`, in every process; called by all.
  virtual Result<std::string> shareFirst(const std::string &name,
                                         const std::string &value) = 0;
  /// An error where another process is known to have failed.
  virtual Status check() = 0;
};

} // namespace meshc::runtime::cuda

#endif

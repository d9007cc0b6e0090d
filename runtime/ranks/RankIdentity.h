#ifndef MESHC_RUNTIME_RANKS_RANKIDENTITY_H
#define MESHC_RUNTIME_RANKS_RANKIDENTITY_H

#include "runtime/exec/Error.h"
#include "runtime/ranks/RankKey.h"
#include "runtime/ranks/Socket.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace meshc::runtime {

/// Who told a process its rank; earlier ones are asked first.
enum class RankSource : uint8_t {
  Flags,    ///< --rank, --ranks, --store
  Launcher, ///< this executable's own, see Launcher.h
  Torchrun,
  OpenMpi,
  Hydra, ///< MPICH, Intel MPI and others that speak PMI
  Slurm,
  Single ///< nobody: a run of one process
};

/// "torchrun", "Open MPI", ...
const char *getName(RankSource source);

/// --rank, --ranks, --store and --store-key as given.
struct RankFlags {
  std::optional<int64_t> rank;
  std::optional<int64_t> ranks;
  std::string store;
  std::string storeKey; ///< path of a file
};

/// The place of a process among those that run one program together.
struct RankIdentity {
  RankSource source = RankSource::Single;
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Among the processes of the same machine; -1 where nobody told.
  int64_t localRank = 0;
  int64_t localRanks = 1;
  /// Where rank 0 keeps the store; none known where the host is empty, which
  /// is left to MPI.
  Address store;
  /// Processes with another one belong to another run. A name, that others may
  /// know or guess.
  std::string job;
  /// Processes without it belong to no run that has one.
  RankKey key;
  /// A listening socket for the store that rank 0 has been given; -1: none.
  int listener = -1;
  /// A pipe from which rank 0 reads the numbers of ranks, as int64_t, that have
  /// ended otherwise than well; -1: none.
  int endings = -1;
};

/// Reads a variable of the environment; null if it is not set.
using Environment = std::function<const char *(const char *name)>;

/// Finds out who this process is, asking in the order of RankSource. The first
/// source with one of its variables set decides, whatever the later ones say.
///
/// Errors: WrongRanks where a value is malformed, missing or contradicts
/// another one, naming it; those of RankKey.
Result<RankIdentity> detectRank(const RankFlags &flags,
                                const Environment &environment);

/// "rank 1 of 4 (torchrun)".
std::string toString(const RankIdentity &identity);

/// First host of a list in Slurm's notation: "node003" of "node[003-005],b1".
std::string getFirstHost(const std::string &nodeList);

} // namespace meshc::runtime

#endif

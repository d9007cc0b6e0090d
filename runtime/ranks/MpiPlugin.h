#ifndef MESHC_RUNTIME_RANKS_MPIPLUGIN_H
#define MESHC_RUNTIME_RANKS_MPIPLUGIN_H

#include <cstddef>

/// What the runtime needs of MPI, in a library of its own, libmeshc_mpi.so: an
/// executable starts on machines without MPI, and does not care which one it
/// was.
///
/// Functions return what went wrong in MPI's words, valid until the next call,
/// or null. After `start`, one thread at a time may call them.
extern "C" {

struct meshcMpiFunctions {
  int version; ///< meshcMpiVersion
  /// Starts MPI; `maxTag` is the largest tag.
  const char *(*start)(int *rank, int *ranks, int *maxTag);
  /// Ends MPI; waits for all ranks.
  const char *(*finish)();
  /// Gives all ranks what rank 0 has.
  const char *(*broadcast)(void *data, size_t bytes);
  /// Begin to send or receive, and set `request`.
  const char *(*send)(int peer, int tag, const void *data, size_t bytes,
                      void **request);
  const char *(*receive)(int peer, int tag, void *data, size_t bytes,
                         void **request);
  /// Whether a request is complete; it is gone then.
  const char *(*test)(void *request, int *isComplete);
};

/// The one symbol of the library.
using meshcGetMpiFunction = const meshcMpiFunctions *();
const meshcMpiFunctions *meshcGetMpi();
}

inline constexpr int meshcMpiVersion = 1;

#endif

#ifndef MESHC_TESTS_EMULATION_EXTENSION_H
#define MESHC_TESTS_EMULATION_EXTENSION_H

/// What the emulated libcuda offers the emulated cuBLASLt and NCCL beyond the
/// driver's interface: work of their own in streams, the record of calls, and
/// the tests' injected failures.

#include "CudaAbi.h"

extern "C" {

/// Work that a library puts into a stream. `begin` is called once whenever the
/// work is queued, with a graph that holds it also whenever that is launched,
/// in the order in which it was submitted. `poll` is called until it is done;
/// while it waits other work may run.
struct meshcEmulationWork {
  const char *text; ///< for messages and the record
  void *data;       ///< owned: `destroy` frees it
  bool waits;       ///< for other processes: then the queue runs by itself too
  void *(*begin)(void *data);
  /// 0: done; 1: still waiting for other processes; otherwise it failed with
  /// the CUresult that is minus the value, after a message on standard error.
  int (*poll)(void *execution);
  void (*end)(void *execution);
  void (*destroy)(void *data);
};

CUresult meshcEmulationSubmit(CUstream stream, const meshcEmulationWork *work);

/// Counts a call of `function` and tells whether a test wants it to fail, with
/// what in `code`. The record gets the line {"call": function, `arguments`},
/// the latter being members of a JSON object such as "\"bytes\": 4".
bool meshcEmulationCall(const char *function, const char *arguments, int *code);

/// CUDA_SUCCESS if [address, address + bytes) lies in one allocation of the
/// GPU; 0 bytes always do.
CUresult meshcEmulationCheckRange(CUdeviceptr address, size_t bytes);

/// Makes events that are recorded from now on this much later: for work that
/// takes as long as a test wants.
void meshcEmulationTakeTime(int64_t microseconds);

/// Number of the current context's GPU on the machine; -1 without one.
int meshcEmulationCurrentBus(void);

} // extern "C"

#endif

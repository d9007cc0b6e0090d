#ifndef MESHC_RUNTIME_CUDA_NCCLCOMMUNICATOR_H
#define MESHC_RUNTIME_CUDA_NCCLCOMMUNICATOR_H

#include "runtime/cuda/Communicator.h"
#include "runtime/cuda/Peers.h"
#include "runtime/cuda/library/Nccl.h"
#include "runtime/plans/NcclPlan.h"

#include <chrono>
#include <map>
#include <vector>

namespace meshc::runtime::cuda {

/// Collectives between processes with one device each: device r is rank r's.
///
/// all_reduce, all_gather and reduce_scatter of contiguous blocks are NCCL's
/// own, on a communicator for each way to group the devices; those of one
/// command are one group of calls, which NCCL launches together. Everything
/// else goes box by box: boxes are packed into staging memory where they are
/// not contiguous, sent and received in one group of messages, and combined
/// from there in the order of device numbers.
///
/// Every process issues the same collectives in the same order. Communicators
/// do not block: while anything is under way, errors of this process and of
/// others are looked for, and a deadline ends the wait for what hangs.
///
/// Communicators end in good order or, after an error, with the process. There
/// is no ncclCommAbort: it waits for the end of every graph that has captured
/// the communicator (commDestroySync in init.cc of NCCL 2.28, which the flag
/// that ends the kernels does not end), and of kernels of other communicators.
class NcclCommunicator : public Communicator {
public:
  /// Errors: see Nccl::get.
  static Result<std::unique_ptr<NcclCommunicator>>
  create(Gpu &gpu, Peers &peers, std::chrono::seconds deadline);
  ~NcclCommunicator() override;

  /// Called by all processes, before anything else. After an error NCCL may
  /// still write to this object.
  /// Errors: see Peers; TooFewGpus, GpuCallFailed, CommunicationFailed.
  Status connect();

  Result<size_t> add(Collective collective) override;
  NcclNeed getNcclNeed() const override;
  Status build(MoveTable &table, std::span<const DevicePointer> arenas,
               DevicePointer staging) override;
  Status issue(size_t number, std::span<const Stream> streams) override;
  Status broadcast(int64_t device, DevicePointer source, DevicePointer target,
                   uint64_t bytes, Stream stream) override;
  bool waitsOnGpu() const override { return true; }
  Status wait(Stream stream) override;

private:
  NcclCommunicator(Gpu &gpu, const Nccl &nccl, Peers &peers,
                   std::chrono::seconds deadline)
      : gpu(gpu), nccl(nccl), peers(peers), deadline(deadline) {}

  struct Entry {
    Collective collective;
    int64_t group = -1; ///< of this process's device
    std::vector<NativeCollective> native;
    NcclComm comm = nullptr;
    NcclMessages messages; ///< where `native` is empty
    std::vector<MoveLaunch> pack, unpack;
  };

  Status issueNative(const Entry &entry, Stream stream);
  /// The communicator for these groups of all devices; splits off a new one
  /// where there is none yet.
  Result<NcclComm> getComm(const std::vector<std::vector<int64_t>> &groups);
  /// Waits until `comm`, the parent where it was split, is ready again after a
  /// call that gave `status`.
  Status settle(NcclComm comm, const char *symbol, int status);
  /// Ends a group of calls for `comm`, the last of which gave `status`.
  Status endGroup(NcclComm comm, const char *symbol, int status);
  /// An error of any communicator or process.
  Status check();

  Gpu &gpu;
  const Nccl &nccl;
  Peers &peers;
  std::chrono::seconds deadline;
  NcclComm world = nullptr;
  std::map<std::vector<std::vector<int64_t>>, NcclComm> splits;
  std::vector<Entry> entries;
  bool isSound = true; ///< no call has failed
  int failure = 0;     ///< the status of the call that has
  DevicePointer arena = 0;
  DevicePointer stagingMemory = 0;
  const MoveTable *moves = nullptr;
};

} // namespace meshc::runtime::cuda

#endif

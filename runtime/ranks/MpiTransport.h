#ifndef MESHC_RUNTIME_RANKS_MPITRANSPORT_H
#define MESHC_RUNTIME_RANKS_MPITRANSPORT_H

#include "runtime/ranks/MpiPlugin.h"
#include "runtime/ranks/RankIdentity.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Transport.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace meshc::runtime {

/// Messages by MPI, all from one thread. MPI has no way to sleep until one
/// arrives: the thread asks again after pauses that become longer, and sleeps
/// while there is nothing to wait for.
class MpiTransport : public Transport {
public:
  /// Loads libmeshc_mpi.so and starts MPI if that has not been done.
  /// Errors: NoMpi where it is not there, cannot be loaded or fails; WrongRanks
  /// where MPI has other ranks than `ranks`.
  static Result<std::unique_ptr<Transport>> create(const Ranks &ranks);
  ~MpiTransport() override;

  void start(Listener &listener) override;
  void receive(std::span<const TransportMessage> messages) override;
  void send(std::span<const TransportMessage> messages) override;

private:
  struct Operation {
    TransportMessage message;
    bool isReceive;
    void *request = nullptr;
  };

  explicit MpiTransport(const meshcMpiFunctions &mpi) : mpi(mpi) {}

  void add(std::span<const TransportMessage> messages, bool isReceive);
  void work();
  /// Begins an operation, or asks whether it is complete; false on an error,
  /// which has been reported.
  bool begin(Operation &operation);
  bool test(Operation &operation, bool &isComplete);

  const meshcMpiFunctions &mpi;
  Listener *listener = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Operation> added; ///< guarded by `mutex`
  bool stopping = false;        ///< guarded by `mutex`
  std::thread thread;
};

/// For an MPI launcher that does not tell where rank 0 is: lets MPI tell it.
/// Rank 0 listens on an address of this machine then. Errors as in create.
Status findStoreByMpi(RankIdentity &identity);

/// Ends MPI if it has been started, which waits for all ranks.
void finishMpi();

} // namespace meshc::runtime

#endif

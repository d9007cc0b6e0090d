#ifndef MESHC_RUNTIME_RANKS_HANDSHAKE_H
#define MESHC_RUNTIME_RANKS_HANDSHAKE_H

/// How two processes find out that they belong to one run, before either
/// believes anything else that the other one says:
///
///   caller                                      whoever is called
///     Hello: who it is, a random number ------->
///       <-------- Challenge: another number, a proof of key, Hello and number
///     Proof of key, Hello and number ---------->
///       <-------------------------------------- Value, or Error and why
///
/// Both have the key of the run then, and both proofs are of this conversation
/// and of these roles. What is said afterwards is neither encrypted nor proven:
/// whoever can change packets on their way can change that.

#include "runtime/ranks/RankKey.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/StoreMessage.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// What a caller says of itself.
struct Caller {
  std::string place; ///< that it looks for: "the store"
  std::string job;
  int64_t rank = 0;
  int64_t ranks = 1;
  /// The same in every Hello of a process, another one in each process.
  std::string instance;
  std::string process; ///< "process 123 on node1"
};

/// The error of a process without key whose run others could join.
Error getNoKey(const Address &store);

/// Calls: returns when the other side has accepted. It may take this long for
/// its first answer; one that has proven the key has until the deadline.
/// `address` is for messages.
///
/// Errors: StoreKey where the other one does not have the key; MissingRank
/// where it says nothing; CannotConnect where there is another run, or none;
/// what the other one refused with after it had proven the key.
Status introduce(const Socket &socket, const Address &address,
                 const RankKey &key, const Caller &caller, double answerSeconds,
                 Deadline deadline);

/// The side that is called, of one connection.
class Reception {
public:
  enum class State : uint8_t {
    Waiting, ///< for the next message
    Known,   ///< the caller has the key; Value or Error is to be sent
    Stranger ///< the connection is to be closed
  };

  /// Takes the body of a caller's next message. `answer` is to be sent, even to
  /// a stranger.
  State take(const RankKey &key, std::string_view place, std::string_view job,
             std::string_view body, std::string &answer);

  /// Who has called; of a stranger, not to be believed.
  const Caller &getCaller() const { return caller; }
  /// Why one is a stranger: "it does not have the key of this run".
  const char *getReason() const { return reason; }

private:
  Caller caller;
  std::string hello;     ///< as it was received; empty: not yet
  std::string challenge; ///< the random number that was sent
  const char *reason = "";
};

} // namespace meshc::runtime

#endif

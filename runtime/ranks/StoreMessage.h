#ifndef MESHC_RUNTIME_RANKS_STOREMESSAGE_H
#define MESHC_RUNTIME_RANKS_STOREMESSAGE_H

/// What the store's server and its clients say to each other.
///
/// A message is a frame of four bytes with the size of the rest, one with the
/// kind, four with the number of the request, and the fields of its kind, all
/// little-endian; a text is four bytes with its size and the bytes. A
/// connection begins as Handshake.h says, that between two ranks for data too.

#include "runtime/exec/Error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshc::runtime {

enum class StoreMessage : uint8_t {
  // From a client.
  Hello,   ///< magic, place, job, rank, ranks, instance, number, process
  Proof,   ///< of the number of Challenge
  Set,     ///< key, value
  Get,     ///< key, milliseconds
  Add,     ///< key, increment
  Barrier, ///< name, milliseconds
  Ping,
  Stop, ///< signal, without an answer: rank 0 is to stop after a step
  Fail, ///< error: the run is over; endedAnswer where it has ended well before
  Bye,  ///< the connection will be closed in good order
  // From the server.
  Challenge, ///< number, proof of the number of Hello
  Value,     ///< the answer to a request: a text
  Error,     ///< the answer to a request that failed: an error
  Notice,    ///< an error: the run is over
  Pong
};

/// The place that callers of the store look for.
inline constexpr std::string_view storePlace = "store";
/// To a rank that wants to end a run that has ended well.
inline constexpr std::string_view endedAnswer = "ended";
/// Bytes of a frame behind its size: before the two know each other, and of any
/// other message.
inline constexpr uint32_t maxHelloBytes = 4096;
inline constexpr uint32_t maxStoreMessageBytes = uint32_t(1) << 26;

/// Appends fields to a message.
class MessageWriter {
public:
  MessageWriter(StoreMessage kind, uint32_t request);

  MessageWriter &number(uint64_t value);
  MessageWriter &text(std::string_view value);
  MessageWriter &error(const runtime::Error &value);
  /// The whole frame.
  std::string finish();

private:
  std::string frame;
};

/// Takes fields from a message; what is not there reads as 0 or empty and
/// makes isValid() false.
class MessageReader {
public:
  /// `body`: a frame without its size.
  explicit MessageReader(std::string_view body);

  StoreMessage getKind() const { return kind; }
  uint32_t getRequest() const { return request; }
  uint64_t number();
  std::string text();
  runtime::Error error();
  /// Whether all fields were there so far.
  bool isValid() const { return valid; }
  /// Whether they were, and nothing is left.
  bool isComplete() const { return valid && rest.empty(); }

private:
  std::string_view take(size_t bytes);

  std::string_view rest;
  bool valid = true;
  StoreMessage kind = StoreMessage::Ping;
  uint32_t request = 0;
};

/// Takes the first whole frame off the bytes received so far and returns it
/// without its size; nothing if there is none yet. `tooLong` is set where one
/// is announced that has more than `maxBytes`.
std::optional<std::string> takeFrame(std::string &received, uint32_t maxBytes,
                                     bool &tooLong);

} // namespace meshc::runtime

#endif

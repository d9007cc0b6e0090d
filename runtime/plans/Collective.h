#ifndef MESHC_RUNTIME_PLANS_COLLECTIVE_H
#define MESHC_RUNTIME_PLANS_COLLECTIVE_H

/// Collectives between the devices of a mesh: inside one process straight from
/// the memory of the devices that have the data into the memory of those that
/// need it.
///
/// A collective is a set of moves: the same box of elements is read from one or
/// several devices, added (or max, min) in the order of their numbers, and
/// written to one or several devices. On two devices an all_reduce of four
/// elements is one move from {0, 1} to {0, 1}; an all_gather of two elements
/// each is two moves, from {0} to {0, 1} and from {1} to {0, 1}.
///
/// Devices that share a move form a group: a group's moves run when all its
/// devices have arrived, and it waits for no one else. The moves are cut into
/// pieces that different threads may run in any order: no element is read in
/// one piece and written in another.
///
/// A command may hold several collectives that travel together, its members:
/// their moves are those of one collective.
///
/// Where the devices are divided over several processes, each of them has the
/// moves into its own devices. What these read from a device of another process
/// comes in a message that holds the boxes one after the other; it is received
/// into staging memory, which the move then reads in place of that device. So
/// terms are added in the same order wherever the devices are. A group first
/// packs what the others need, and combines when everything has come:
///
///   devices {0, 1} here, {2} there; reduce_scatter of six elements
///   pack      0 -> staging, 1 -> staging; one message goes out, one comes in
///   combine   {0, 1, staging} -> 0, {0, 1, staging} -> 1
///
/// A sum that several processes need is combined once: the box is divided over
/// them, each gets the terms of its share and spreads the result.
///
///   devices {0}, {1}, {2}; all_reduce of three elements, seen from {0}
///   pack      element 1 of 0 -> staging for {1}, element 2 -> for {2}
///   combine   element 0: {0, staging, staging} -> {0, staging, staging}
///   spread    element 1: staging of {1} -> 0, element 2: staging of {2} -> 0

#include "layout/EqualTransfers.h"
#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/plans/CollectivePieces.h"
#include "runtime/ranks/Division.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meshc::runtime {

class Collective {
public:
  /// One dimension of a box and its steps in both operands (elements).
  struct MoveDim {
    int64_t size;
    int64_t fromStride;
    int64_t toStride;
  };
  /// Of a box of these dimensions.
  static int64_t countElements(std::span<const MoveDim> dims);

  /// Where the box starts in a device's arena (bytes); in staging memory it is
  /// contiguous, its rows one after the other.
  struct End {
    int64_t device;
    uint64_t offset;
    bool isStaged = false;
  };
  /// In one process, ends have ascending devices. A device has one end at most
  /// among sources; among targets it has several where zeros of one shape fill
  /// several places of its block.
  struct Move {
    std::vector<End> sources; ///< empty: the identity of the reduction
    std::vector<End> targets;
    std::vector<MoveDim> outer;
    MoveDim inner;
    exec::ReduceKind reduce;
    size_t member = 0; ///< whose move it is

    int64_t countElements() const {
      return inner.size * Collective::countElements(outer);
    }
  };

  /// One collective of a command: its operands, and their places in the arena
  /// (bytes).
  struct Member {
    layout::ShardingChange change;
    const exec::OperandT *from;
    uint64_t fromOffset;
    const exec::OperandT *to;
    uint64_t toOffset;
  };
  /// The members of a command of `data`.
  static std::vector<Member> getMembers(const exec::ExecutableT &data,
                                        const exec::CommandT &command);

  /// What a group sends to another process, or gets from it.
  struct Message {
    int64_t peer;
    uint64_t offset; ///< in staging memory, bytes
    uint64_t bytes;
  };

  /// What a group does one after the other: what a stage writes to staging
  /// memory goes out when it is over, and the next one begins when what the
  /// others send for it has come, too. In one process all is in Combine.
  enum class Stage : uint8_t { Pack, Combine, Spread };
  static constexpr size_t numStages = 3;

  static Collective create(const layout::Mesh &mesh,
                           std::span<const Member> members);
  /// The part of one process; what it stages lies in staging memory from byte
  /// `stagingBytes` on, to which its size is added.
  static Collective create(const layout::Mesh &mesh,
                           std::span<const Member> members,
                           const Division &division, uint64_t &stagingBytes);

  /// Groups have the same numbers in all processes.
  int64_t getNumGroups() const { return int64_t(groups.size()); }
  /// The group of a device; -1 if it neither gives nor takes.
  int64_t getGroup(int64_t device) const { return groupOf[device]; }
  /// Those of this process.
  std::span<const int64_t> getDevices(int64_t group) const {
    return groups[group].devices;
  }
  /// What has to come before a stage begins.
  std::span<const Message> getIncoming(int64_t group, Stage stage) const {
    return getPart(group, stage).incoming;
  }
  /// What goes out when a stage is over; nothing if it has no pieces.
  std::span<const Message> getOutgoing(int64_t group, Stage stage) const {
    return getPart(group, stage).outgoing;
  }
  /// Whether a group has messages in this process.
  bool isExchanged(int64_t group) const;
  exec::ElementType getElement() const { return element; }
  /// A move belongs to the group of its targets. Of several processes, those of
  /// this one.
  std::span<const Move> getMoves(int64_t group) const {
    const Group &owner = groups[group];
    return std::span(moves).subspan(owner.firstMove, owner.numMoves);
  }
  int64_t getNumPieces(int64_t group, Stage stage = Stage::Combine) const {
    return getPart(group, stage).pieces.getNumPieces();
  }
  /// Runs one piece; `arenas` has the memory of every device of this process.
  void run(int64_t group, Stage stage, int64_t piece,
           std::span<std::byte *const> arenas, std::byte *staging) const {
    const StagePart &part = getPart(group, stage);
    part.pieces.visit(piece, [&](size_t move, const Strip &strip) {
      runStrip(moves[part.moves[move]], strip, arenas, staging);
    });
  }

private:
  struct StagePart {
    std::vector<Message> incoming;
    std::vector<size_t> moves;
    CollectivePieces pieces; ///< of these moves
    std::vector<Message> outgoing;
  };
  struct Group {
    std::vector<int64_t> devices;
    size_t firstMove = 0;
    size_t numMoves = 0;
    std::array<StagePart, numStages> stages;

    StagePart &operator[](Stage stage) { return stages[size_t(stage)]; }
  };

  const StagePart &getPart(int64_t group, Stage stage) const {
    return groups[group].stages[size_t(stage)];
  }

  // The part of one process, in CollectiveParts.cpp.
  /// The part in a move of the whole mesh.
  void addPart(const Move &whole, Group &group, const Division &division);
  /// The same where the processes `combiners` combine what `takers` need. They
  /// are these, or one of them, from which the others get the result.
  void addShare(const Move &share, std::span<const int64_t> combiners,
                std::span<const int64_t> takers, Group &group,
                const Division &division);
  void addMove(Move move, StagePart &stage);
  /// Gives the messages of all groups their place in staging memory.
  void placeMessages(uint64_t &stagingBytes);
  /// Bytes read and written for one element of a move.
  int64_t getBytesPerElement(const Move &move) const;
  void runStrip(const Move &move, const Strip &strip,
                std::span<std::byte *const> arenas, std::byte *staging) const;

  exec::ElementType element = exec::ElementType::f32;
  std::vector<Move> moves; ///< one group's after the other's
  std::vector<Group> groups;
  std::vector<int64_t> groupOf;
};

} // namespace meshc::runtime

#endif

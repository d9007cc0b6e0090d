#ifndef MESHC_RUNTIME_DEVICES_COLLECTIVE_H
#define MESHC_RUNTIME_DEVICES_COLLECTIVE_H

/// Collectives inside one process: straight from the memory of the devices that
/// have the data into the memory of those that need it.
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

#include "layout/Mesh.h"
#include "runtime/Error.h"
#include "runtime/exec_generated.h"

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
  /// Where the box starts in a device's arena (bytes).
  struct End {
    int64_t device;
    uint64_t offset;
  };
  struct Move {
    std::vector<End> sources; ///< empty: the identity of the reduction
    std::vector<End> targets;
    std::vector<MoveDim> outer;
    MoveDim inner;
    exec::ReduceKind reduce;
  };

  /// `from` and `to` are the command's operands, `fromOffset` and `toOffset`
  /// their places in the arena (bytes).
  static Collective create(const layout::Mesh &mesh,
                           const exec::CollectiveT &collective,
                           const exec::OperandT &from, uint64_t fromOffset,
                           const exec::OperandT &to, uint64_t toOffset);

  int64_t getNumGroups() const { return int64_t(groups.size()); }
  /// The group of a device; -1 if it neither gives nor takes.
  int64_t getGroup(int64_t device) const { return groupOf[device]; }
  std::span<const int64_t> getDevices(int64_t group) const {
    return groups[group].devices;
  }
  exec::ElementType getElement() const { return element; }
  /// Of all groups; a move belongs to the group of its targets.
  std::span<const Move> getMoves() const { return moves; }
  int64_t getNumPieces(int64_t group) const {
    return int64_t(groups[group].pieces.size());
  }
  /// Runs one piece; `arenas` has the memory of every device.
  void run(int64_t group, int64_t piece,
           std::span<std::byte *const> arenas) const;

private:
  /// Rows [rowBegin, rowEnd) of a move, elements [begin, end) of each.
  struct Piece {
    size_t move;
    int64_t rowBegin, rowEnd;
    int64_t begin, end;
  };
  struct Group {
    std::vector<int64_t> devices;
    std::vector<Piece> pieces;
  };

  void cutIntoPieces(size_t move, Group &group) const;

  exec::ElementType element = exec::ElementType::f32;
  std::vector<Move> moves;
  std::vector<Group> groups;
  std::vector<int64_t> groupOf;
};

} // namespace meshc::runtime

#endif

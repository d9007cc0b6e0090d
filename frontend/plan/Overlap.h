#ifndef MESHC_FRONTEND_PLAN_OVERLAP_H
#define MESHC_FRONTEND_PLAN_OVERLAP_H

#include "frontend/plan/Plan.h"

namespace meshc::plan {

/// One or several collectives that go together, and what is computed while they
/// are under way.
///
/// Take the commands
///
///   o0 matmul   o1 matmul   c1 (after o0)   o3 matmul   o4 kernel (after c1)
///
/// On a GPU commands of one queue run in order, and those of the two queues
/// beside each other where no wait forbids it: c1 may take as long as o3 does
/// before o4 has to wait. Which commands those are follows from the order and
/// the waits alone; how long they take is not known here. A CPU device takes
/// all commands in this order, one after the other: while it waits for c1, its
/// threads compute for other devices.
struct Transfer {
  std::string id;               ///< "x3": the third of the program
  std::vector<int> collectives; ///< positions in Plan.commands
  /// The one that brings in most, of equals the first: what is told of the
  /// transfer as a whole is told of it.
  int largest = -1;
  int64_t payloadBytes = 0; ///< of all, what one device brings in
  /// Commands that compute behind it in the list, before one has to wait for
  /// it; positions in Plan.commands.
  std::vector<int> beside;
  int64_t matmuls = 0;          ///< among these
  int64_t flops = 0, bytes = 0; ///< that these compute, read and write
  int reader = -1; ///< the command that waits for it first; -1: none
};

/// The transfers of the plan, in the order in which they start.
std::vector<Transfer> findTransfers(const Plan &plan);

/// "2 matmuls and 1 other command"; empty of none.
std::string describeBeside(const Transfer &transfer);

} // namespace meshc::plan

#endif

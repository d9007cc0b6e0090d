#ifndef MESHC_LAYOUT_RESHARDSTEP_H
#define MESHC_LAYOUT_RESHARDSTEP_H

#include "layout/Machine.h"
#include "layout/Sharding.h"

#include <cstdint>
#include <span>
#include <vector>

namespace meshc::layout {

/// One collective (or local slice) of a reshard: takes every device's block
/// under `source` to its block under `target`.
///
/// What each kind may do, in a tensor whose blocks are d@(axes...) + partial:
///
///   all_reduce      completes partial axes
///   reduce_scatter  completes partial axes; some become minor axes of
///                   dimensions: d@x partial (a, b) -> d@(x, a); the others
///                   replicate, as if an all_gather over them followed
///   all_gather      drops minor axes of dimensions: d@(x, a) -> d@x
///   all_to_all      moves minor axes of dimensions to the minor end of others:
///                   d@(x, a), e -> d@x, e@a
///   permute         the same set of blocks on other devices:
///                   d@(x, a) -> d@(a, x)
///   exchange        anything
///   slice           unused axes become minor axes of dimensions, or partial
///                   (all but the first coordinate then hold the identity)
///
/// Axes and sizes need not divide: where a block has padding, so have its
/// parts. But a block must be a whole number of parts in the way of all
/// collectives, which x:(1)2 -> x does not give for 9 elements on an axis of 4
/// (5 + 4 holds no 3 + 3 + 3 + 0); only an exchange does that.
///
/// To a target with windows goes an exchange, or a slice where every device
/// holds all it wants. A source has no windows.
struct ReshardStep {
  CollectiveKind kind = CollectiveKind::Exchange;
  Sharding source;
  Sharding target;
  /// The axes it communicates over, sorted: every device takes what it needs
  /// from devices that differ from it on these only. For a slice those it
  /// splits over, or makes partial.
  std::vector<AxisRef> axes;
  int64_t groupSize = 1; ///< devices that talk to one another; 1 for a slice
  /// reduce_scatter: devices that end with the same part, 1 if each has its
  /// own.
  int64_t gatherSize = 1;
  /// What one device brings in: its block under `source`; 0 for a slice.
  int64_t payloadElements = 0;
  /// What one device sends or takes, whichever is more, on the device where
  /// that is most; its own elements and padding do not travel. Of an all_reduce
  /// what getWireBytes gives for the payload. Terms that several devices need
  /// are combined in shares where that sends less: what a reduce_scatter sends
  /// together with the all_gather that it may hold.
  int64_t wireElements = 0;
  /// all_reduce, reduce_scatter, all_gather: whether what each device brings in
  /// or takes is as large as that of every other, is contiguous in memory, and
  /// is nobody else's. A library such as NCCL has a call for no other step; it
  /// is then sent as an exchange. Operands are taken to be contiguous.
  bool hasContiguousBlocks = true;
  /// The same where each device gets every term of what it needs; 0 for a
  /// slice.
  int64_t exchangedElements = 0;
};

/// How a machine sends a step.
struct StepSending {
  /// As which kind: a library that needs contiguous blocks sends box by box
  /// what it has no call for.
  CollectiveKind kind;
  /// What goes over the link of the device that sends or takes most.
  int64_t wireBytes;
};
/// The one figure for what a step sends: by it steps are priced, and this is
/// what a plan says of them.
StepSending getSending(const ReshardStep &step, int64_t elementBytes,
                       const Machine &machine);

/// Whether a collective of this kind can make the change; what a step must
/// fulfil. Sizes matter where blocks do not divide.
bool isReshardStep(const Mesh &mesh, std::span<const int64_t> sizes,
                   CollectiveKind kind, const Sharding &source,
                   const Sharding &target);

/// The step with its axes, group, payload and wire elements.
/// Requires: isReshardStep.
ReshardStep getReshardStep(const Mesh &mesh, std::span<const int64_t> sizes,
                           CollectiveKind kind, const Sharding &source,
                           const Sharding &target);

/// Microseconds that the step takes on the machine for a tensor of these sizes.
double getCost(const Mesh &mesh, std::span<const int64_t> sizes,
               int64_t elementBytes, const ReshardStep &step,
               const Machine &machine);

} // namespace meshc::layout

#endif

// Passes in pipeline order. Each describes what it needs and leaves, with the
// program before and after.

#ifndef MESHC_PASSES
#define MESHC_PASSES

include "passes/LoopPasses.td"
include "passes/ProgramPasses.td"
include "passes/ShardingPasses.td"
include "passes/PartitionPasses.td"

#endif

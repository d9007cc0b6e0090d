#ifndef MESHC_RUNTIME_EXEC_PLANIDS_H
#define MESHC_RUNTIME_EXEC_PLANIDS_H

/// What plans and traces call the commands of a program, so that what one says
/// of a command can be put beside what the other says.

#include "runtime/exec/exec_generated.h"

#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// What the traces say that they are.
inline constexpr const char *traceSchema = "meshc.trace/1";

/// Whether a command sends something; a slice does not, which is a collective
/// too.
bool isMessage(const exec::CommandT &command);

/// Of each command of a program its ids: "c3" of a collective, those of all
/// that a transfer carries, and "o12" of anything else. Numbers of the latter
/// count every id in front of them. Plans have loops as such; where they are
/// expanded, `sources` says which command of the loop each is an iteration of
/// (ExpandedProgram), and all of these have its ids.
std::vector<std::vector<std::string>>
getPlanIds(const exec::ProgramT &program, std::span<const int> sources = {});

/// What a command is called there: "matmul", "kernel", "slice", "all_reduce".
const char *getPlanKind(const exec::CommandT &command);

/// "batch -> data, params: * -> data", "nothing is split".
std::string describeLayout(const exec::ExecutableT &executable);

/// Which plan a program is: in hexadecimal digits the SHA-256 of lines, each
/// ended by a line break. The first is "mesh data=2 model=3"; one for each id
/// follows, in the order of commands: id, kind, phase, and then flops and bytes
/// of each device or, of a collective, the bytes of its payload and those that
/// each device sends: "o4 matmul forward 120 64", "c1 all_reduce forward 8 8".
/// A command of a loop has one line; `sources` as for getPlanIds.
std::string getPlanDigest(const exec::ExecutableT &executable,
                          const exec::ProgramT &program,
                          std::span<const int> sources = {});

} // namespace meshc::runtime

#endif

#ifndef MESHC_TESTS_CHECKPOINT_STATEPROGRAM_H
#define MESHC_TESTS_CHECKPOINT_STATEPROGRAM_H

/// A program that only has variables, of every element type, split in several
/// ways or whole, over any mesh.

#include "runtime/app/Session.h"
#include "runtime/exec/Executable.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime::test {

/// The sizes of the axes of a mesh; at most three.
using MeshSizes = std::vector<int64_t>;

/// Sizes that no mesh of the tests divides: 7, 5, 3, 2. `bigRows` gives
/// variable "w" other rows than 7.
Executable makeStateProgram(const MeshSizes &mesh, int64_t bigRows = 7);

/// On CPU devices, of one process or as one of several.
std::unique_ptr<Session> makeStateSession(const MeshSizes &mesh,
                                          Ranks *ranks = nullptr,
                                          int64_t bigRows = 7);

/// What the variables are, by name.
using State = std::map<std::string, std::vector<std::byte>>;

/// Random bytes.
State makeState(const Executable &executable, uint32_t seed);
void setState(Session &session, const State &state);
State getState(Session &session);

} // namespace meshc::runtime::test

#endif

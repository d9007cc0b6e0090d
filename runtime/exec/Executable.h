#ifndef MESHC_RUNTIME_EXEC_EXECUTABLE_H
#define MESHC_RUNTIME_EXEC_EXECUTABLE_H

/// The exec program as the runtime uses it: read, verified, never trusted.
///
/// A file is verified twice before anything is executed: by FlatBuffers (every
/// offset lies inside the file) and by checkExecutable (every index, size and
/// byte range means something). Code behind load() may therefore index without
/// checks of its own.

#include "layout/EqualTransfers.h"
#include "layout/Mesh.h"
#include "layout/Sharding.h"
#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>

namespace meshc::runtime {

/// The version of exec.fbs that this runtime reads and codegen writes: another
/// one whenever a reader of the previous one would misread a program.
inline constexpr int32_t execVersion = 16;

/// Bytes of one element of a type.
int64_t getElementBytes(exec::ElementType type);
/// What operands of commands have of a type: i8 for u8, itself for any other.
/// Commands move elements or call kernels, which know the signs.
exec::ElementType getStored(exec::ElementType type);
/// Whether elements of a type are moved, compared and converted, but not
/// computed with: u8, i8, i16. A collective may sum them, to choose: of the
/// terms of an element at most one is not 0 (nd.gather).
bool isForData(exec::ElementType type);

layout::AxisRef getAxisRef(const exec::AxisRef &ref);
layout::Sharding getSharding(const exec::TensorLayoutT &layout);
/// Global sizes of the dimensions, in storage order.
std::vector<int64_t> getSizes(const exec::TensorLayoutT &layout);
/// Shape of one device's block.
std::vector<int64_t> getLocalShape(const exec::TensorLayoutT &layout);
/// Elements of one device's block.
int64_t getLocalElements(const exec::TensorLayoutT &layout);
/// Elements of the whole tensor.
int64_t getGlobalElements(const exec::TensorLayoutT &layout);

/// The members of a collective: itself, and those merged with it.
std::vector<const exec::CollectiveT *>
getMembers(const exec::CollectiveT &collective);

/// What one member of a collective changes.
layout::ShardingChange getShardingChange(const exec::CollectiveT &member);

/// "f32", "i64", ... as in the spec language.
const char *getName(exec::ElementType type);

/// The roles that variables have.
inline constexpr exec::BufferRole variableRoles[] = {
    exec::BufferRole::parameter, exec::BufferRole::model_state,
    exec::BufferRole::state};
/// Whether the model declares a variable of this role: a parameter or state of
/// its own, which evaluation reads, files give and exports have.
bool isOfModel(exec::BufferRole role);
/// "parameter" or "state", for messages.
const char *getKind(const exec::VariableT &variable);
/// "f32[batch=256, class=10]".
std::string toString(const exec::TensorLayoutT &layout);

struct Executable {
  exec::ExecutableT data;
  layout::Mesh mesh;
  /// By name of a program that had loops: of each command the number that it
  /// has with loops (ExpandedProgram).
  std::map<std::string, std::vector<int>, std::less<>> sources = {};

  /// Reads, expands loops and verifies. Errors are ErrorCode::DamagedProgram.
  static Result<Executable> load(std::span<const uint8_t> bytes);
  /// Expands loops and verifies, of a program that was built in memory.
  static Result<Executable> create(exec::ExecutableT data);

  /// Those of `program`; empty if it had no loops.
  std::span<const int> getSources(const exec::ProgramT &program) const;
  int64_t getNumDevices() const { return mesh.getNumDevices(); }
  /// The program called `name`; null if there is none.
  const exec::ProgramT *findProgram(std::string_view name) const;
  const exec::VariableT *findVariable(std::string_view name) const;
};

const exec::PortT *
findPort(const std::vector<std::unique_ptr<exec::PortT>> &ports,
         std::string_view name);

/// What is wrong with `data` beyond its encoding, the first defect found;
/// empty if nothing is. Checks versions, enumerators, mesh size, indices,
/// shardings, and that every operand, port and variable lies inside its buffer
/// and every buffer inside the arena; in every iteration of loops.
std::string checkExecutable(const exec::ExecutableT &data);
/// The same of one whose loops are expanded.
std::string checkExpanded(const exec::ExecutableT &data);

} // namespace meshc::runtime

#endif

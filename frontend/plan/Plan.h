#ifndef MESHC_FRONTEND_PLAN_PLAN_H
#define MESHC_FRONTEND_PLAN_PLAN_H

/// What a command list says about itself, read once for every view of the plan.
///
/// A command list knows buffers and memory; a reader of the plan thinks in the
/// named values of the spec. Operands say which named value they are; what has
/// none is followed from the command that writes it to those that read it: a
/// place in a buffer stands for whatever was written there last. A value
/// without a name
/// ("the product inside h = relu(x w + b)") belongs to the named value that it
/// leads to.

#include "layout/Layout.h"
#include "layout/Mesh.h"
#include "runtime/exec/exec_generated.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace meshc::plan {

/// Where an operand of a command comes from.
struct ValueSource {
  int tensor = -1;  ///< index into Executable.tensors, -1 for an unnamed value
  int command = -1; ///< the command that wrote it; -1: there from the start
};

/// A command; of one that is several collectives in one transfer, one of them.
struct PlannedCommand {
  const exec::CommandT *command = nullptr;
  int position = -1; ///< of the command in the program
  /// How often it runs in one step: iterations of the loops that it is in.
  int64_t repeats = 1;
  /// The collective that it is or, in a transfer of several, that it stands
  /// for; null unless it communicates.
  const exec::CollectiveT *collective = nullptr;
  std::string id; ///< "c3" of a collective, "o12" of anything else
  std::vector<ValueSource> inputs;
  std::vector<ValueSource> outputs;
  /// The named value it computes or helps to compute; -1 if there is none.
  int tensor = -1;
  /// Whether it only helps to compute it.
  bool isInside = false;
};

/// The plan of one training step, or of an evaluation where nothing is trained.
/// Of a step of parts it is that of the last one.
struct Plan {
  explicit Plan(const exec::ExecutableT &executable);
  /// That of another program of the executable.
  Plan(const exec::ExecutableT &executable, const exec::ProgramT &program);
  /// The plan refers to the executable.
  explicit Plan(exec::ExecutableT &&) = delete;

  const exec::ExecutableT &executable;
  const exec::ProgramT *program; ///< null if there is neither step nor eval
  layout::Mesh mesh;
  layout::Layout layout;
  std::vector<PlannedCommand> commands; ///< in program order

  /// How often the program runs in a step of parts.
  int64_t getRuns() const;
  /// "each training step", "the last of the 4 parts of each training step".
  std::string describeProgram() const;
  /// Id of a tensor, "t7".
  static std::string getTensorId(int tensor);
  /// The tensor called `name` with one of `roles`, the first of them that there
  /// is; -1 if none.
  int findTensor(std::string_view name,
                 std::initializer_list<exec::BufferRole> roles) const;
  const exec::TensorT &getTensor(int tensor) const {
    return *executable.tensors[size_t(tensor)];
  }
  /// The values that `id` names: one by its id ("t4"), all of the name, or the
  /// one that has it behind its scopes: "scores", "gradient of scores"; of
  /// several the only parameter; or as rules call it, without iterations,
  /// "layer/h", that of the first. Empty if there is none or it could be
  /// several.
  std::vector<int> findTensors(std::string_view id) const;
  /// That there is no `id` in the plan, with a suggestion.
  /// Where only values are meant, none of collectives is.
  std::string getUnknownMessage(std::string_view id,
                                bool isOfValue = false) const;
  /// "data=2 x model=2: 4 devices", "1 device" without a mesh.
  std::string describeMesh() const;
  /// "batch -> data, hidden -> model", "nothing is split".
  std::string describeLayout() const;
  /// The name of a tensor; "inside h" where only something inside is computed.
  std::string getName(int tensor) const;
  /// Whether the value is ever in memory as a whole: what is computed and read
  /// within one fused operation is not, nor what is computed in tiles.
  bool isStored(int tensor) const;
  /// Whether the value is computed in tiles, of which there is one at a time.
  bool isInTiles(int tensor) const {
    return getTileBytes(tensor) > 0 && !isStored(tensor);
  }
  int64_t getTileBytes(int tensor) const { return tileBytes[size_t(tensor)]; }
  /// The tensor in whose memory a value lies that has none of its own, as a
  /// slice has; -1: there is none.
  int getWhole(int tensor) const { return wholes[size_t(tensor)]; }

private:
  Plan(const exec::ExecutableT &executable, const exec::ProgramT *program);
  void readLayout();
  void followValues();
  void addCommands(const exec::CommandT &command, int position,
                   const std::vector<std::string> &ids, int64_t repeats);
  void noteWritten(const exec::OperandT &operand, int position);

  /// By name, the tensors of the executable, in their order.
  std::unordered_map<std::string_view, std::vector<int>> tensorsNamed;
  /// Of each tensor, whether a command writes it.
  std::vector<bool> isWritten;
  std::vector<int> wholes;        ///< by tensor: getWhole()
  std::vector<int64_t> tileBytes; ///< by tensor
};

/// The program of all parts of a training step but the last; null: it has one
/// part alone.
const exec::ProgramT *findAccumulate(const exec::ExecutableT &executable);

/// Null: there is no dim of this name.
const exec::NamedDimT *findDim(const Plan &plan, std::string_view name);

/// What the layout says of a tensor. A gradient leaves its operation as its
/// dims say; a collective has it lie as those of its parameter.
layout::TensorLayout askLayout(const Plan &plan, int tensor);

/// Why a rule that `asked` lists does not split a tensor.
std::string explainLost(const Plan &plan, int tensor,
                        const layout::TensorLayout &asked,
                        const layout::LostRule &lost);

layout::AxisRef getAxis(const exec::AxisRef &axis);
std::vector<layout::AxisRef> getAxes(const std::vector<exec::AxisRef> &axes);
/// Elements of dimension `dim` of a tensor that one device's block holds.
int64_t getLocalSize(const exec::TensorLayoutT &layout, size_t dim);
/// The spelling of dumps and messages, "<batch@data> partial sum over model".
std::string getSharding(const layout::Mesh &mesh,
                        const exec::TensorLayoutT &layout);

/// "forward", "backward", "update".
const char *getName(exec::Phase phase);
const char *getName(exec::CollectiveKind kind);
const char *getName(exec::ReduceKind kind);
const char *getName(exec::ElementType element);

} // namespace meshc::plan

#endif

#ifndef MESHC_CODEGEN_EXECTYPES_H
#define MESHC_CODEGEN_EXECTYPES_H

#include "dialect/Locations.h"
#include "dialect/SPMD.h"

#include "runtime/exec/exec_generated.h"

#include <map>
#include <memory>

namespace meshc::codegen {

/// Puts what MLIR knows into the words of the exec schema.
class ExecTypes {
public:
  ExecTypes(layout::Mesh mesh, exec::ExecutableT &executable);

  const layout::Mesh &getMesh() const { return mesh; }

  /// Of tensors of the model and of blocks, where unsigned integers are those
  /// of the same size (runtime::getStored).
  exec::ElementType getElementType(mlir::Type type) const;
  std::unique_ptr<exec::TensorLayoutT>
  getLayout(nd::NamedTensorType type) const;
  std::vector<exec::AxisRef>
  getAxes(llvm::ArrayRef<layout::AxisRef> axes) const;
  std::unique_ptr<exec::CauseT> getCause(nd::CauseAttr cause);
  /// The span of `loc`; file -1 if it has none. Adds its file to the
  /// executable's list.
  exec::Span getSpan(mlir::Location loc);
  /// Null of null, and of what has no name. Adds its scopes to the
  /// executable's.
  std::unique_ptr<exec::OriginT> getOrigin(nd::OriginAttr origin);
  /// What memory of this origin is called (runtime::getBufferName).
  std::string getBufferName(nd::OriginAttr origin);
  static exec::Phase getPhase(mlir::Location loc);
  static exec::Phase getPhase(nd::Phase phase);

private:
  /// The number of a scope in the executable's; -1 of null.
  int getScope(nd::ScopeAttr scope);

  layout::Mesh mesh;
  exec::ExecutableT &executable;
  /// By parent, name and iteration.
  std::map<std::tuple<int, std::string, int64_t>, int> scopes;
};

/// What memory of a variable is for.
exec::BufferRole getBufferRole(nd::VariableRole role);

/// Bytes of one element in memory; a boolean takes one.
int64_t getElementBytes(mlir::Type type);
/// Bytes of a dense tensor.
int64_t getBytes(mlir::RankedTensorType type);
int64_t getTensorBytes(mlir::Value tensor);

/// Named values of the program that the plan is about (@step, or @eval where
/// nothing is trained), with their shardings: to be called on a module after
/// nd-assign-shardings, before nd-partition takes the dimensions' names away.
void collectTensors(mlir::ModuleOp module, exec::ExecutableT &executable);

/// Finds the collected tensor that a value of an exec program is.
class TensorIndex {
public:
  explicit TensorIndex(const exec::ExecutableT &executable);

  /// Position in Executable.tensors of the tensor that `value` is or is inside
  /// of; -1 if it belongs to none.
  int find(mlir::Value value) const;
  int findVariable(llvm::StringRef name) const;
  /// The same as find, of whatever role: a copy of a parameter belongs to that.
  int findOwner(mlir::Value value) const;
  /// The one of this name that has the first of these roles that there is.
  int find(llvm::StringRef name, llvm::ArrayRef<exec::BufferRole> roles) const;

private:
  std::map<std::pair<std::string, exec::BufferRole>, int> positions;
};

} // namespace meshc::codegen

#endif

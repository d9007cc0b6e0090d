#ifndef MESHC_PASSES_STEPPARTS_H
#define MESHC_PASSES_STEPPARTS_H

#include "dialect/ND.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/StringMap.h"

namespace meshc {

/// Makes a step of parts out of one of a whole batch. All parts but the last
/// run @accumulate, which leaves what it adds up in variables that are
/// `in_step`; the last one runs the step itself, which adds its own and applies
/// the mean. Of a sum that is pending on several devices each device keeps its
/// terms (passes/AssignShardings.cpp), so that it travels once a step.
///
///   @accumulate   part i = 0 .. m - 2    G = i == 0 ? g : G + g
///   @step         part m - 1             (G + g) / m
class StepParts {
public:
  /// `step` has the gradients of a part, and what a part sets of the model's
  /// state, but no updates yet. It becomes @accumulate and itself.
  StepParts(nd::ProgramOp step, int64_t numParts);

  /// Adds up the gradient of a parameter: what all parts have of it, and its
  /// mean over them.
  struct Sum {
    mlir::Value sum, mean;
  };
  Sum addGradient(llvm::StringRef parameter, mlir::Value gradient);
  /// Makes each output without dimensions the mean over all parts: of integers
  /// and truths one of f32. Other outputs are not a step's to give.
  void averageOutputs();
  /// Has the variables that a part sets remembered as they were before the
  /// step, by which a step can be taken back.
  void rememberState();
  /// What `variable` was before the step; null unless it is remembered.
  mlir::Value getBefore(llvm::StringRef variable) const {
    return before.lookup(variable);
  }

private:
  /// Declares a variable of what one part leaves for the next.
  nd::VariableOp declare(const llvm::Twine &name, mlir::Location loc,
                         nd::NamedTensorType type);
  /// Adds `value` up in both programs, under this name; the sum of all parts.
  mlir::Value addUp(const llvm::Twine &name, mlir::Location loc,
                    mlir::Value value);
  mlir::Value getMean(mlir::Value sum, mlir::Location loc);

  nd::ProgramOp step, accumulate;
  int64_t numParts;
  mlir::IRMapping inAccumulate; ///< of values of the step
  mlir::Value isFirst;          ///< in @accumulate
  llvm::StringMap<mlir::Value> before;
};

} // namespace meshc

#endif

#ifndef MESHC_PASSES_OPTIMIZERBUILDER_H
#define MESHC_PASSES_OPTIMIZERBUILDER_H

#include "dialect/ND.h"
#include "passes/Optimizers.h"

namespace meshc {

/// Appends the updates of parameters to a program, as ordinary nd operations:
/// elementwise on the parameter's dimensions and on scalars, so that all of one
/// parameter's update is one kernel. What an optimizer remembers becomes state
/// variables of the module, called after it and the parameter: "adam/m/w1".
class OptimizerBuilder {
public:
  /// Checks the recipe's optimizer and hyper-parameters; errors are reported at
  /// the recipe.
  static mlir::FailureOr<OptimizerBuilder> create(nd::TrainingOp training,
                                                  nd::ProgramOp program);

  /// Updates `parameter`, which was read as `value`, by its gradient.
  void update(nd::VariableOp parameter, mlir::Value value,
              mlir::Value gradient);

private:
  OptimizerBuilder(nd::TrainingOp training, nd::ProgramOp program,
                   const Optimizer &optimizer);

  /// The state `state` of `parameter`, "adam/m": as large, of zeros at first.
  nd::VariableOp declareState(nd::VariableOp parameter, llvm::StringRef state);
  /// A state variable of zeros, called as `at` says, declared after `after`.
  nd::VariableOp declareState(nd::VariableOp after, mlir::Location at,
                              nd::NamedTensorType type);
  /// Adam's per-step scalars, built before the first update.
  void countStep(nd::VariableOp first);

  mlir::Value updateSgd(mlir::Value value, mlir::Value gradient);
  mlir::Value updateMomentum(nd::VariableOp parameter, mlir::Value value,
                             mlir::Value gradient);
  mlir::Value updateAdam(nd::VariableOp parameter, mlir::Value value,
                         mlir::Value gradient);

  double getHyper(llvm::StringRef name);
  mlir::Value splat(double value, mlir::Type elementType);

  /// decay * average + (1 - decay) * term, written to `variable`.
  mlir::Value average(nd::VariableOp variable, double decay, double weight,
                      mlir::Value term);

  nd::TrainingOp training;
  const Optimizer *optimizer;
  mlir::OpBuilder builder;
  mlir::Location loc; ///< of the update under construction
  /// adam: lr / (1 - beta1^t) and 1 / (1 - beta2^t), f32 scalars.
  mlir::Value rate, spread;
};

} // namespace meshc

#endif

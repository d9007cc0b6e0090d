#ifndef MESHC_PASSES_LOSSSCALE_H
#define MESHC_PASSES_LOSSSCALE_H

#include "dialect/ND.h"

#include <optional>

namespace meshc {

/// The factor that keeps gradients inside the range of fp16: the loss is
/// multiplied by it before it is differentiated, the gradients are divided by
/// it in f32. It is a power of two, so that neither rounds; it is halved
/// whenever a gradient is infinite or NaN, in a step that changes nothing else,
/// and doubled after `growth_steps` steps in a row without (Micikevicius et
/// al., "Mixed precision training", ICLR 2018, 3.2; the defaults of
/// nd.precision, 2^16 and 2000, are those of torch.amp.GradScaler). It stays in
/// [2^-24, 2^24], so that a model whose gradients are NaN for another reason
/// does not take it to 0.
///
/// State of the module: "fp16/loss_scale" (f32), "fp16/good_steps" (i32) and
/// "fp16/skipped_steps" (i32), scalars.
class LossScale {
public:
  /// The loss scale of `program`, read at its end; nothing if the module does
  /// not compute in fp16. Declares the state unless that has been done.
  static std::optional<LossScale> create(nd::ProgramOp program);

  /// The factor, a scalar of f32.
  mlir::Value getScale() const { return scale; }
  /// Appends `gradient` divided by the scale; null if it is null.
  mlir::Value unscale(mlir::Value gradient);

  /// Appends what makes a step out of `gradients`, scaled, not null: if one of
  /// them has an element that is no finite number, every write that `program`
  /// has until then leaves its variable alone, or as `getBefore` has it, if
  /// that is not null. Then the scale is updated, and given out beside the
  /// number of steps skipped so far, under the names of the state.
  void
  guard(llvm::ArrayRef<mlir::Value> gradients,
        llvm::function_ref<mlir::Value(llvm::StringRef variable)> getBefore);

  /// Appends what has an evaluation find the largest scale that its
  /// `gradients`, scaled, null or not, fit: if one of them has an element that
  /// is no finite number although all `outputs`, the values they are of, are,
  /// the scale is halved. The output "fp16/retry", i32, is then 1: the program
  /// is to run again on the same values. At the lowest scale it is 0.
  void search(llvm::ArrayRef<mlir::Value> outputs,
              llvm::ArrayRef<mlir::Value> gradients);

private:
  LossScale(nd::ProgramOp program, nd::PrecisionOp precision);

  mlir::Value read(llvm::StringRef name);
  void write(llvm::StringRef name, mlir::Value value);
  void giveOut(llvm::StringRef name, mlir::Value value);
  mlir::Value splat(mlir::TypedAttr value);
  mlir::Value splat(double value);
  mlir::Value splat(int32_t value);
  mlir::Value buildIsFinite(llvm::ArrayRef<mlir::Value> gradients);
  mlir::Value buildHalved();

  nd::ProgramOp program;
  nd::PrecisionOp precision;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Value scale, inverse;
};

} // namespace meshc

#endif

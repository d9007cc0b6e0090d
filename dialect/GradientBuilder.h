#ifndef MESHC_DIALECT_GRADIENTBUILDER_H
#define MESHC_DIALECT_GRADIENTBUILDER_H

#include "dialect/ND.h"

namespace meshc::nd {

/// Builds the gradients of one program, and knows of the values that are there
/// what keeps the zeros of choices zero (`select` in NDElementwise.td).
///
/// What it is asked about a value it remembers: values are built, not changed,
/// as long as it is asked.
class GradientBuilder : public mlir::OpBuilder {
public:
  using OpBuilder::OpBuilder;

  /// Zeros that choices left in a gradient.
  struct ChoiceZeros {
    /// A term of the gradient is a choice, up to operations on one value.
    bool anyTerm = false;
    /// Every term is one, up to products with slopes and contractions: where
    /// no choice took anything, the gradient is 0.
    bool allTerms = false;
  };
  ChoiceZeros getChoiceZeros(mlir::Value gradient);

  /// Says that `argument`, of the region of a loop, is the gradient `gradient`
  /// or part of it, in the first iteration at least; null if it is 0 there.
  void setOrigin(mlir::Value argument, mlir::Value gradient) {
    origins[argument] = gradient;
  }

  /// Whether `value` may hold one of `classes`; see FloatClassOpInterface. What
  /// the program is given is finite.
  bool mayHold(mlir::Value value, llvm::FPClassTest classes);

private:
  llvm::SmallVector<mlir::Value> getGradientOperands(mlir::Value value) const;
  ChoiceZeros findChoiceZeros(mlir::Value value);
  llvm::FPClassTest findClasses(mlir::Value value);

  llvm::DenseMap<mlir::Value, mlir::Value> origins;
  llvm::DenseMap<mlir::Value, ChoiceZeros> choiceZeros;
  llvm::DenseMap<mlir::Value, llvm::FPClassTest> classes;
};

} // namespace meshc::nd

#endif

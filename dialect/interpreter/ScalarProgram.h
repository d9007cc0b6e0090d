#ifndef MESHC_DIALECT_INTERPRETER_SCALARPROGRAM_H
#define MESHC_DIALECT_INTERPRETER_SCALARPROGRAM_H

#include "dialect/interpreter/Tensor.h"

#include "mlir/IR/Block.h"

namespace meshc::interpreter {

/// A sequence of scalar operations (`arith`, `math`, `linalg.index`,
/// `tensor.extract`), looked up once and run for many points.
///
/// Every scalar value has a slot. Values from outside the sequence (block
/// arguments, captured values) are put into their slots before a run; captured
/// tensors are given as pointers.
template <class Domain> class ScalarProgram {
public:
  /// What one run works on.
  struct Frame {
    std::vector<Scalar<Domain>> slots;
    std::vector<const Tensor<Domain> *> tensors;
    llvm::ArrayRef<int64_t> point; ///< what linalg.index gives
    std::string error;             ///< set by an access out of bounds
  };

  /// Adds an operation. Fails with an error at one that is unknown.
  mlir::LogicalResult append(mlir::Operation *op);
  /// Adds every operation of `body` but the terminator.
  mlir::LogicalResult appendBody(mlir::Block &body);

  unsigned getSlot(mlir::Value scalar);
  /// Scalars that the operations use and do not define, `body`'s arguments
  /// included.
  llvm::SmallVector<std::pair<mlir::Value, unsigned>>
  getCapturedScalars() const;
  /// Tensors the operations read, in the order of Frame::tensors.
  llvm::ArrayRef<mlir::Value> getCapturedTensors() const { return tensors; }

  Frame makeFrame() const;
  void run(Frame &frame) const;

private:
  using Step = std::function<void(Frame &)>;

  mlir::LogicalResult appendFunction(mlir::Operation *op,
                                     ScalarFunction<Domain> function);
  mlir::LogicalResult appendExtract(mlir::Operation *op);
  mlir::LogicalResult appendWideProduct(mlir::Operation *op, bool isSigned);

  llvm::DenseMap<mlir::Value, unsigned> slots;
  llvm::SmallVector<mlir::Value> scalars; // by slot
  llvm::DenseSet<mlir::Value> defined;
  llvm::SmallVector<mlir::Value> tensors;
  std::vector<Step> steps;
};

} // namespace meshc::interpreter

#endif

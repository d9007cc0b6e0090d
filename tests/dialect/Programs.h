#ifndef MESHC_TESTS_DIALECT_PROGRAMS_H
#define MESHC_TESTS_DIALECT_PROGRAMS_H

#include "dialect/SPMD.h"
#include "dialect/interpreter/NDInterpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <initializer_list>

namespace meshc::test {

using F64Tensor = interpreter::Tensor<interpreter::F64>;
using F64State = interpreter::ProgramState<interpreter::F64>;

/// A context with the dialects of nd and spmd programs.
inline std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(
      mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<nd::NDDialect, spmd::SPMDDialect,
                       mlir::arith::ArithDialect, mlir::linalg::LinalgDialect,
                       mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  return context;
}

/// A module, verified; null with diagnostics on standard error otherwise.
inline mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context,
                                               llvm::StringRef text) {
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

inline F64Tensor floats(llvm::ArrayRef<int64_t> sizes,
                        std::initializer_list<double> elements) {
  F64Tensor tensor(sizes);
  llvm::copy(elements, tensor.elements.begin());
  return tensor;
}

inline F64Tensor ints(llvm::ArrayRef<int64_t> sizes,
                      std::initializer_list<int64_t> elements) {
  F64Tensor tensor(sizes);
  llvm::copy(elements, tensor.elements.begin());
  return tensor;
}

} // namespace meshc::test

namespace meshc::interpreter {

/// Lets GoogleTest print what differs.
inline void PrintTo(const Tensor<F64> &tensor, std::ostream *out) {
  *out << "[";
  for (int64_t size : tensor.sizes)
    *out << size << " ";
  *out << "]{";
  for (const Scalar<F64> &element : tensor.elements) {
    if (isPoison<F64>(element))
      *out << " poison";
    else if (std::holds_alternative<double>(element))
      *out << " " << asNumber<F64>(element);
    else
      *out << " int " << asInteger<F64>(element);
  }
  *out << " }";
}

} // namespace meshc::interpreter

#endif

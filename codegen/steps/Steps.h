#ifndef MESHC_CODEGEN_STEPS_STEPS_H
#define MESHC_CODEGEN_STEPS_STEPS_H

#include "dialect/SPMD.h"

#include <vector>

namespace meshc::codegen {

/// Which library multiplies: what a product can end with.
enum class MatmulLibrary : uint8_t { OneDnn, CublasLt };

/// What a product on a GPU may end with, by cuBLASLt's word for it: everything,
/// a bias alone, or nothing. A tensor that is added is no epilogue.
enum class MatmulEpilogues : uint8_t { All, Bias, None };

/// What a library matmul applies to its result.
enum class MatmulActivation : uint8_t { None, Relu, GeluErf, GeluTanh };

/// Of which matrix a library matmul sums the columns beside its product: the
/// result over its rows, or a factor over what is contracted.
enum class ColumnSum : uint8_t { None, Result, FirstFactor, SecondFactor };

/// A piece of an spmd program that becomes one command: a fused kernel, a
/// library matmul or a collective. Target-independent: the CPU and GPU emitters
/// start from the same steps.
struct Step {
  enum class Kind : uint8_t {
    Kernel,     ///< fused `linalg` operations, generated code
    Matmul,     ///< one contraction and the operations its library call absorbs
    Collective, ///< CollectiveOpInterface operations in one transfer, each
                ///< with one input and one output, in this order
  };
  Kind kind;
  /// The operations, in order. Operations that cost nothing to compute again
  /// (splats, positions, broadcasts) may be in several steps.
  std::vector<mlir::Operation *> ops;
  /// Tensors of other steps (or inputs, variables) that this step reads; no
  /// duplicates, in the order of the command's operands.
  std::vector<mlir::Value> inputs;
  /// Tensors that other steps, outputs or variables read; the command's last
  /// operands.
  std::vector<mlir::Value> outputs;
  /// Matmul only. ops.front() is the contraction; the rest is absorbed, of an
  /// activation its last operation alone:
  /// result = activation(a * b + addend + bias), the bias along the result's
  /// last dimensions, an activation only where there is no addend. The result,
  /// addend and bias have one element type; a and b have another one, of 16
  /// bits, where the result is f32 all the same. All is computed in f32; 16
  /// bits are rounded to once, where the program rounds in between too. The
  /// result's memory is the addend's where mayShare says so.
  mlir::Value addend, bias;
  MatmulActivation activation = MatmulActivation::None;
  /// What an activation leaves behind for its gradient, an output then: its
  /// argument for gelu; for relu a comparison with 0, which is one bit for each
  /// element in memory. Null: nothing.
  mlir::Value aux;
  /// Whether the result is a * b times the slope of the activation at what
  /// `aux`, an input then, stands for.
  bool isGradient = false;
  /// Sums over rows, the last output, and of what.
  mlir::Value columnSum;
  ColumnSum columnSumOf = ColumnSum::None;
  /// mayShare[o] lists the inputs whose memory output o may take: every element
  /// is read before that element is written, and by no other iteration.
  std::vector<std::vector<unsigned>> mayShare;
  /// Kernel only: independent kernels with the same body that run in its place
  /// (KernelGroups.h). Operations and operands are all of theirs. Empty for a
  /// kernel by itself.
  std::vector<Step> members;
};

/// Divides a program into steps in an order that respects every dependency.
/// Fails with a diagnostic at an operation no step can hold.
mlir::FailureOr<std::vector<Step>>
formSteps(spmd::ProgramOp program, MatmulLibrary library,
          MatmulEpilogues epilogues = MatmulEpilogues::All);

} // namespace meshc::codegen

#endif

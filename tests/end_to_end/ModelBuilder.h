#ifndef MESHC_TESTS_END_TO_END_MODELBUILDER_H
#define MESHC_TESTS_END_TO_END_MODELBUILDER_H

#include "tests/dialect/Programs.h"

#include <map>

namespace meshc::test {

/// A model as a test writes it, and what random values suit its inputs.
struct Model {
  /// Random floats are uniform in [low, high), integers in [low, high).
  struct Bounds {
    double low, high;
  };
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, Bounds> bounds; ///< of inputs, by name
};

/// Builds a module with the program @forward, one call per value.
///
/// Elements are f64: what the interpreter computes then is what the program
/// says, without constants that were rounded to f32.
class ModelBuilder {
public:
  using Dims = llvm::ArrayRef<llvm::StringRef>;

  /// Dimensions by name, with their sizes.
  ModelBuilder(mlir::MLIRContext &context,
               std::map<std::string, int64_t> sizes);

  mlir::Value input(llvm::StringRef name, Dims dims,
                    Model::Bounds bounds = {-1, 1});
  /// Integers; those in [0, bound) unless bounds say otherwise.
  mlir::Value indexInput(llvm::StringRef name, Dims dims, int64_t bound);
  mlir::Value indexInput(llvm::StringRef name, Dims dims, Model::Bounds bounds);
  /// All elements of a type for data, by default.
  mlir::Value dataInput(llvm::StringRef name, Dims dims,
                        mlir::Type elementType);
  mlir::Value parameter(llvm::StringRef name, Dims dims);
  mlir::Value constant(double value, Dims dims = {});
  mlir::Value iota(llvm::StringRef dim);
  mlir::Value random(nd::Distribution distribution, Dims dims, mlir::Value seed,
                     int64_t key, double first, double second, Dims order = {});

  /// An elementwise operation: `make<nd::AddOp>(x, y)`.
  template <class Op, class... Operands>
  mlir::Value make(Operands... operands) {
    return Op::create(builder, builder.getUnknownLoc(), operands...);
  }
  mlir::Value scale(mlir::Value x, double factor);
  mlir::Value compare(nd::Predicate predicate, mlir::Value lhs,
                      mlir::Value rhs);
  mlir::Value cast(mlir::Value x, mlir::Type elementType);

  mlir::Value einsum(mlir::ValueRange inputs, Dims dims);
  /// Over every dimension that is not in `dims`.
  mlir::Value reduce(nd::Reduction kind, mlir::Value x, Dims dims);
  mlir::Value argReduce(nd::ArgKind kind, mlir::Value x, llvm::StringRef dim);
  mlir::Value broadcast(mlir::Value x, Dims dims);
  mlir::Value rename(mlir::Value x, llvm::StringRef from, llvm::StringRef to);
  /// `x` on the whole mesh but for `dim`, which is split over `axis`; an empty
  /// `dim` splits nothing.
  mlir::Value constrain(mlir::Value x, llvm::StringRef dim,
                        llvm::StringRef axis);
  mlir::Value gather(mlir::Value x, mlir::Value index, llvm::StringRef dim);
  /// `x` at `access` of the loops `loops` along `dim`; they replace it.
  mlir::Value view(mlir::Value x, llvm::StringRef dim,
                   const layout::Access &access, Dims loops);
  mlir::Value stack(mlir::ValueRange parts, llvm::StringRef dim);
  mlir::ResultRange unstack(mlir::Value x, llvm::StringRef dim);
  /// What an iteration of a loop makes.
  struct Iteration {
    llvm::SmallVector<mlir::Value> carried, stacked, summed;
  };
  /// The results of a loop over `dim`; `body` is given the arguments of the
  /// region: the position, then carried values, then slices.
  mlir::ResultRange loop(llvm::StringRef dim, mlir::ValueRange initial,
                         mlir::ValueRange sliced,
                         llvm::function_ref<Iteration(mlir::ValueRange)> body);

  /// Over `dim`, with the maximum taken out as a library would.
  mlir::Value softmax(mlir::Value x, llvm::StringRef dim);
  mlir::Value layerNorm(mlir::Value x, llvm::StringRef dim, mlir::Value gain,
                        mlir::Value bias);
  mlir::Value relu(mlir::Value x);
  /// x/2 (1 + erf(x / sqrt 2))
  mlir::Value gelu(mlir::Value x);
  /// -log softmax(logits)[label], per example.
  mlir::Value crossEntropy(mlir::Value logits, mlir::Value label,
                           llvm::StringRef dim);

  void output(llvm::StringRef name, mlir::Value value);
  void write(llvm::StringRef variable, mlir::Value value);
  /// The recipe: `train("loss", "sgd", {{"lr", 0.1}})`.
  void train(llvm::StringRef minimize, llvm::StringRef optimizer,
             std::map<std::string, double> hyper);

  Model take();
  mlir::OpBuilder &getBuilder() { return builder; }

private:
  nd::NamedTensorType getType(Dims dims, mlir::Type elementType);
  /// The names of `value`'s dimensions without `dim`.
  llvm::SmallVector<llvm::StringRef> getOthers(mlir::Value value,
                                               llvm::StringRef dim);

  mlir::OpBuilder builder;
  std::map<std::string, int64_t> sizes;
  Model model;
  nd::ProgramOp program;
};

} // namespace meshc::test

#endif

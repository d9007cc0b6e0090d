#ifndef MESHC_TESTS_END_TO_END_HARNESS_H
#define MESHC_TESTS_END_TO_END_HARNESS_H

#include "layout/Layout.h"
#include "tests/end_to_end/ModelBuilder.h"

#include "gtest/gtest.h"

#include <random>

namespace meshc::test {

/// A mesh and a layout, as a user writes them: {"data=2,model=3",
/// "batch=data,hidden=model+data"}, or "batch -> data, params: * -> model".
struct Layout {
  std::string mesh;
  std::string rules;

  std::vector<layout::MeshAxis> getAxes() const;
  /// Each rule as it is written.
  std::vector<std::string> getLines() const;
  /// Of rules in the first form.
  std::vector<layout::LayoutRule> getRules() const;
};
void PrintTo(const Layout &layout, std::ostream *out);

/// Every table that gives each of `dims` no axis, one axis of the mesh or, with
/// `maxAxes` 2, two axes in either order.
std::vector<Layout> enumerateLayouts(llvm::StringRef mesh,
                                     llvm::ArrayRef<std::string> dims,
                                     unsigned maxAxes);

/// Whether no tensor of the model has two dimensions on one axis: the error of
/// a user, which the compiler has to name.
bool isLegal(mlir::ModuleOp model, const Layout &layout);

/// A legal one of them: dimensions in random order get a random choice if that
/// is legal beside the others. Of all tables few are.
Layout drawLegalLayout(mlir::ModuleOp model, llvm::StringRef mesh,
                       llvm::ArrayRef<std::string> dims, unsigned maxAxes,
                       std::mt19937_64 &random);

/// `count` legal ones, fewer if that many are hard to find, and some illegal
/// ones, chosen by `seed`; all tables if there are no more than `count`.
std::vector<Layout> sampleLayouts(mlir::ModuleOp model, llvm::StringRef mesh,
                                  llvm::ArrayRef<std::string> dims,
                                  unsigned maxAxes, size_t count,
                                  uint64_t seed);

/// A model taken through the pipeline, beside what it means.
struct Compiled {
  mlir::OwningOpRef<mlir::ModuleOp> meaning; ///< nd, nothing decomposed yet
  mlir::OwningOpRef<mlir::ModuleOp> local;   ///< spmd
  std::string diagnostics;                   ///< of a pipeline that failed

  explicit operator bool() const { return bool(local); }
};

/// Runs the pipeline; the IR is verified after every pass.
Compiled compile(const Model &model, const Layout &layout);

/// Random values for everything `program` reads, the same for every layout.
/// Parameters lie in [-1, 1), state in [0.5, 1.5): what optimizers keep there
/// is positive.
F64State makeState(const Model &model, nd::ProgramOp program, uint64_t seed);

/// Terms summed by the reductions of `program`, over all of them: the longest
/// chain of them is no longer.
int64_t countTerms(nd::ProgramOp program);

/// Runs every program of the model under the layout on all devices and whole,
/// and compares outputs and variables.
///
/// Bound: a program that sums n terms in all, over its reductions, may differ
/// by 4 n 2^-53 times the largest magnitude in the tensor compared (at least
/// 1), because every order of summation differs from the exact sum by at most
/// n 2^-53 relative to the terms, and each end has its own order. Integers and
/// booleans are equal.
/// `slack` widens the bound.
/// An illegal layout has to fail with a diagnostic instead.
::testing::AssertionResult matches(const Model &model, const Layout &layout,
                                   uint64_t seed = 1, double slack = 1);

/// What the collectives of a program move.
struct Traffic {
  int64_t count = 0;
  int64_t elements = 0; ///< what one device brings in, summed

  bool operator==(const Traffic &) const = default;
};
void PrintTo(const Traffic &traffic, std::ostream *out);

/// By kind and axes, such as "all_reduce data" or "all_gather data+model".
std::map<std::string, Traffic> getTraffic(mlir::ModuleOp local,
                                          llvm::StringRef program);

} // namespace meshc::test

#endif

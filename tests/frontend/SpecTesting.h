#ifndef MESHC_TESTS_FRONTEND_SPECTESTING_H
#define MESHC_TESTS_FRONTEND_SPECTESTING_H

#include "dialect/Locations.h"
#include "dialect/ND.h"
#include "frontend/Spec.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace meshc::frontend {

/// One compilation of a spec given as text.
struct SpecRun {
  explicit SpecRun(std::string text, SpecOptions options = {"test.mesh"},
                   size_t limit = 20)
      : diagnostics(sources, limit) {
    options.text = std::move(text);
    run(options);
  }
  explicit SpecRun(const SpecOptions &options) : diagnostics(sources) {
    run(options);
  }

  SourceSet sources;
  Diagnostics diagnostics;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;

  std::string getText() const {
    return render(diagnostics, MessageFormat::Text);
  }
  std::string printModule() {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    return text;
  }

private:
  void run(const SpecOptions &options) {
    module = compileSpec(options, context, sources, diagnostics);
  }
};

//===-- What is in a module -----------------------------------------------===//

inline std::vector<std::string> getParameterNames(SpecRun &run) {
  std::vector<std::string> names;
  run.module->walk([&](nd::VariableOp op) {
    if (op.getRole() != nd::VariableRole::State) // of the optimizer
      names.push_back(op.getSymName().str());
  });
  return names;
}

/// The names of values that are more than something inside a value.
inline std::vector<std::string> getOwnNames(SpecRun &run) {
  std::vector<std::string> names;
  run.module->lookupSymbol<nd::ProgramOp>("forward").walk(
      [&](mlir::Operation *op) {
        if (op->getNumResults() && !isInside(op->getLoc()))
          names.push_back(getValueName(op->getLoc()));
      });
  return names;
}

/// The operation of this kind; there is one.
template <typename Op> Op getOnly(SpecRun &run) {
  Op found;
  run.module->walk([&](Op op) {
    EXPECT_FALSE(found);
    found = op;
  });
  return found;
}

inline std::vector<std::string> getDims(mlir::Value value) {
  std::vector<std::string> names;
  for (nd::DimAttr dim :
       mlir::cast<nd::NamedTensorType>(value.getType()).getDims())
    names.push_back(dim.getName().str());
  return names;
}

} // namespace meshc::frontend

#endif

#ifndef MESHC_TESTS_FUZZ_COMPILATION_H
#define MESHC_TESTS_FUZZ_COMPILATION_H

/// A spec on its way through the compiler, and what is said of it.

#include "frontend/Spec.h"
#include "tests/end_to_end/Harness.h"
#include "tests/fuzz/Precision.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>

namespace meshc::fuzz {

/// One spec in a context of its own.
class Compilation {
public:
  Compilation(const std::string &text,
              const std::optional<meshc::test::Layout> &layout,
              Precision precision = Precision::F32)
      : context(mlir::MLIRContext::Threading::DISABLED), diagnostics(sources),
        passErrors(context, diagnostics) {
    context.printOpOnDiagnostic(false);
    frontend::SpecOptions options;
    options.path = "random.mesh";
    options.text = text;
    options.mesh = layout ? layout->mesh : "a=1,c=1";
    options.layout = layout ? layout->rules : "";
    options.precision = getName(precision);
    module = frontend::compileSpec(options, context, sources, diagnostics);
  }

  bool run(mlir::ModuleOp target,
           llvm::function_ref<void(mlir::OpPassManager &)> build) {
    mlir::PassManager manager(&context);
    manager.enableVerifier(true);
    build(manager);
    return succeeded(manager.run(target));
  }
  std::string getErrors() const {
    return frontend::render(diagnostics, frontend::MessageFormat::Text);
  }
  /// "MC0607", or "without a word".
  std::string getCode() const {
    return diagnostics.hasErrors()
               ? frontend::getInfo(diagnostics.getErrors().front().code).id
               : "without a word";
  }
  /// Two dims of one tensor on one axis: not legal, if within a loop.
  bool isSplitTwice() const {
    return llvm::any_of(diagnostics.getErrors(), [](const auto &error) {
      return error.code == frontend::Code::SharedAxis ||
             error.message.find("are both split over") != std::string::npos;
    });
  }

  mlir::MLIRContext context;
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics;
  frontend::PassErrors passErrors;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace meshc::fuzz

#endif

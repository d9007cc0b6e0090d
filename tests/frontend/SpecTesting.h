#ifndef MESHC_TESTS_FRONTEND_SPECTESTING_H
#define MESHC_TESTS_FRONTEND_SPECTESTING_H

#include "frontend/Spec.h"

#include "mlir/IR/MLIRContext.h"

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

} // namespace meshc::frontend

#endif

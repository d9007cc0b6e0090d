#ifndef MESHC_FRONTEND_DRIVER_SPECSESSION_H
#define MESHC_FRONTEND_DRIVER_SPECSESSION_H

#include "frontend/Spec.h"
#include "frontend/driver/Commands.h"
#include "frontend/driver/Compiler.h"

#include "mlir/IR/MLIRContext.h"

namespace meshc::driver {

/// How errors are printed: in colour on a terminal that has any, unless the
/// user asks for none by NO_COLOR (https://no-color.org).
frontend::MessageFormat getMessageFormat(const SpecArguments &arguments);

/// What to plan for `target`: kernels are the same for every GPU.
CompileOptions getPlanOptions(const SpecArguments &spec,
                              const std::string &target);

/// One spec on its way through the compiler, and the errors found on the way.
class SpecSession {
public:
  explicit SpecSession(const SpecArguments &arguments);

  /// Parses, checks and elaborates. False if there are errors.
  bool elaborate();
  /// The text of a file of the spec, also of one that came by standard input;
  /// none of any other.
  std::optional<std::string> readSource(std::string_view path) const;
  /// Checks the arguments of --grad, NAME or NAME=FILE, and of --of against the
  /// elaborated spec. False if there are errors.
  bool checkGradients(const std::vector<std::string> &bindings,
                      const std::string &of);
  /// `names`, or all names that gradients can be by if "*" is one of them.
  std::vector<std::string>
  expandGradients(const std::vector<std::string> &names);
  /// Checks that writing to `path` spares the files of the elaborated spec.
  /// False if there are errors.
  bool checkOutput(llvm::StringRef path);
  /// Takes the module to `stage` and prints what the user may not expect on
  /// standard error. False if there are errors, of --strict too.
  bool compile(const CompileOptions &options, Stage stage);
  /// Compiles kernels and links. False if there are errors.
  bool link(const CompileOptions &options, llvm::StringRef output);
  /// "gpt: 12 parameters of 124 M elements, 8 devices", of a module with
  /// shardings.
  std::string summarize();
  /// Prints the errors on standard error; returns the exit code they mean.
  int reportErrors() const;
  /// The errors, as they are printed.
  std::string renderErrors(frontend::MessageFormat format) const;

  mlir::ModuleOp getModule() { return *module; }
  Compilation &getCompilation() { return compilation; }
  const Compilation &getCompilation() const { return compilation; }

private:
  /// Reports that nobody says which output gradients are of, as `asked` for on
  /// the command line: the spec minimizes none, or several where one is by an
  /// input, and `of` is empty or no scalar of floats.
  void checkObjective(const std::string &asked, bool isInput,
                      const std::string &of);
  /// Notes what the plan of the compiled program says of unused devices.
  void noteWaste();
  /// Reports the reshardings that --strict forbids. False if there are any.
  bool checkReshardings();

  SpecArguments arguments;
  mlir::MLIRContext context;
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics;
  frontend::PassErrors passErrors;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Compilation compilation;
};

} // namespace meshc::driver

#endif

#ifndef MESHC_FRONTEND_SPEC_H
#define MESHC_FRONTEND_SPEC_H

/// From a .mesh file to an nd module.

#include "frontend/syntax/Diagnostics.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>
#include <vector>

namespace meshc::frontend {

struct SpecOptions {
  std::string path;
  /// The text of the file, if it is not to be read from `path`.
  std::optional<std::string> text = std::nullopt;
  /// `-D name=value`: expressions that replace dims and numbers of the spec;
  /// what is derived from these follows.
  std::vector<std::string> defines = {};
  /// `--mesh data=4,model=2` replaces the spec's mesh; empty is one device.
  std::optional<std::string> mesh = std::nullopt;
  /// `--layout batch=data+model,hidden=model` replaces the spec's table; empty
  /// splits nothing.
  std::optional<std::string> layout = std::nullopt;
  /// `--precision bf16` replaces the precision of the training recipe, and
  /// gives one to a spec without a recipe.
  std::optional<std::string> precision = std::nullopt;
  /// `--recompute "layer/*"` replaces what the training recipe says of that.
  std::vector<std::string> recompute = {};
};

/// Parses, checks and elaborates a spec. The result holds nd.mesh, nd.dim,
/// nd.rule, nd.variable, nd.data, nd.training or nd.objective, and nd.precision
/// declarations and
/// the program
/// @forward and, where the model reads `training`, @training for the step,
/// every operation with its place in the spec; null if there are errors, which
/// are then in `diagnostics`.
///
/// This is all of `meshc check`. `sources` is the set that `diagnostics` was
/// made with.
mlir::OwningOpRef<mlir::ModuleOp> compileSpec(const SpecOptions &options,
                                              mlir::MLIRContext &context,
                                              SourceSet &sources,
                                              Diagnostics &diagnostics);

/// While it lives, errors that passes emit at places in a spec are reported as
/// diagnostics of code Refused, or that of their ErrorKind, with their notes as
/// labels and notes; warnings and remarks as notices of code NoEffect.
class PassErrors {
public:
  PassErrors(mlir::MLIRContext &context, Diagnostics &diagnostics);

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace meshc::frontend

#endif

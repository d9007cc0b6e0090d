#ifndef MESHC_TESTS_CODEGEN_PROGRAMTEXT_H
#define MESHC_TESTS_CODEGEN_PROGRAMTEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meshc::test {

/// Where a maximum of f32 begins: -infinity.
inline const std::string lowestF32 = "0xFF800000";

/// Writes spmd programs of one device, in the form partitioning leaves.
///
///   ProgramText text;
///   text.dim("b", 3);
///   text.dim("d", 5);
///   text.input("x", "b d");
///   text.reduce("m", "b", {"x"}, "arith.maximumf", "0xFF800000");
///   text.pointwise("y", "b d", {"x", "m"}, "%r = arith.subf %a0, %a1 : f32");
///   text.output("y");
///
/// A body computes %r from the inputs' elements %a0, %a1, ...; without one a
/// single input is passed on. $name in a body is the position along a dimension
/// (of type index).
class ProgramText {
public:
  /// Text in front of the program: a mesh, attributes.
  std::string header;
  /// "backward": operations get their names, and are of this phase.
  std::string phase;

  void dim(const std::string &name, int64_t size) { sizes[name] = size; }
  void input(const std::string &name, const std::string &dims,
             const std::string &type = "f32");
  void pointwise(const std::string &name, const std::string &dims,
                 const std::vector<std::string> &inputs,
                 const std::string &body, const std::string &type = "f32");
  /// Combines with `combiner` from `init` over the dimensions of the inputs
  /// that `dims` lacks.
  void reduce(const std::string &name, const std::string &dims,
              const std::vector<std::string> &inputs,
              const std::string &combiner, const std::string &init,
              const std::string &body = "", const std::string &type = "f32");
  /// Of 16-bit factors it is f32.
  void contraction(const std::string &name, const std::string &dims,
                   const std::string &lhs, const std::string &rhs);
  /// Completes the terms that the devices along `axes` have ("x, y").
  void allReduce(const std::string &name, const std::string &input,
                 const std::string &axes);
  /// Tensors of one shape along a dimension `dim` of as many, the first one.
  void stack(const std::string &name, const std::string &dim,
             const std::vector<std::string> &parts);
  void constant(const std::string &name, const std::string &dims,
                const std::string &value, const std::string &type = "f32");
  /// Any line, for scalars outside of bodies.
  void line(const std::string &text) { body += "    " + text + "\n"; }
  void output(const std::string &name);

  std::string str() const;
  std::string getTensorType(const std::string &name) const;

private:
  struct TensorInfo {
    std::vector<std::string> dims;
    std::string type;
  };

  std::string getTensorType(const TensorInfo &info) const;
  std::string getGlobalType(const TensorInfo &info,
                            const std::string &sharding = "<>") const;
  std::string getLocation(const std::string &name) const;
  void generic(const std::string &name, const TensorInfo &info,
               const std::vector<std::string> &inputs,
               const std::vector<std::string> &reduced, const std::string &init,
               const std::string &scalars, const std::string &result);

  std::map<std::string, int64_t> sizes;
  std::map<std::string, TensorInfo> tensors;
  std::string body;
  int fresh = 0;
};

/// The module of `text` as the compiler hands it to code generation: it has
/// decided what is computed as one operation. Null, with diagnostics on
/// standard error, if it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parseFused(mlir::MLIRContext &context,
                                             const std::string &text);

/// The operations of its programs that kernels are made of.
std::vector<mlir::Operation *> getComputations(mlir::ModuleOp module);

} // namespace meshc::test

#endif

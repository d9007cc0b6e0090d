#ifndef MESHC_TESTS_CODEGEN_STEPSPROGRAM_H
#define MESHC_TESTS_CODEGEN_STEPSPROGRAM_H

/// Programs of steps, from their IR to numbers: places in memory, copies,
/// commands, and what the runtime makes of them. All numbers are small
/// integers, so that every result is exact.

#include "runtime/cpu/Executor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meshc::test {

using Numbers = std::vector<float>;

/// A program @p of steps, compiled for this processor and run on one device.
class StepsProgram {
public:
  explicit StepsProgram(const std::string &steps,
                        const std::string &variables = "");
  ~StepsProgram();

  /// The commands as compiled, loops not expanded.
  const exec::ProgramT &getProgram() const { return *data.programs.front(); }
  size_t countCopies() const {
    return size_t(llvm::count_if(getProgram().commands, [](auto &command) {
      return command->action.AsCopy() != nullptr;
    }));
  }
  const std::string &getObject() const { return object; }

  /// Outputs, by name, of the second of two runs of these inputs.
  std::map<std::string, Numbers>
  run(const std::map<std::string, Numbers> &inputs);

private:
  void build();
  void link();

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  exec::ExecutableT data;
  std::string program, object;
  void *library = nullptr;
  std::span<const meshcKernelEntry> kernels;
};

//===-- Text of programs --------------------------------------------------===//

std::string getType(std::vector<int64_t> shape);
std::string addInput(const std::string &name, std::vector<int64_t> shape);
std::string addOutput(const std::string &name, const std::string &value,
                      std::vector<int64_t> shape);
/// %result = a kernel of %x and %y, `size` numbers each.
std::string addKernel(const std::string &result, const std::string &x,
                      const std::string &y, int64_t size,
                      const std::string &formula = "arith.addf");

/// `size` numbers from `first` on, each by 1 larger, of which eleven repeat.
Numbers count(int64_t size, float first = 1);

} // namespace meshc::test

#endif

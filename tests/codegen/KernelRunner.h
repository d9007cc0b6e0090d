#ifndef MESHC_TESTS_CODEGEN_KERNELRUNNER_H
#define MESHC_TESTS_CODEGEN_KERNELRUNNER_H

#include "codegen/cpu/KernelEmitter.h"
#include "codegen/kernels/KernelTarget.h"
#include "tests/codegen/ProgramText.h"
#include "tests/dialect/Programs.h"
#include "tests/emulation/Fibers.h"

#include <map>
#include <memory>

namespace meshc::test {

/// An spmd program whose kernels were compiled to machine code and loaded.
///
/// Runs the steps of one device: kernels as compiled, matmuls as plain loops,
/// collectives not at all. Outputs take the memory of dead inputs wherever a
/// step says that they may, and the iterations of a kernel run in pieces from
/// the last to the first, so that a wrong promise shows in the numbers.
class KernelRunner {
public:
  /// Compiles the program @p of `text`; null, with a test failure, if that
  /// fails.
  static std::unique_ptr<KernelRunner>
  create(const std::string &text, llvm::StringRef cpu = "native",
         const codegen::PartLimits &limits = {});
  /// The same for kernels for GPUs, whose threads run as fibers.
  static std::unique_ptr<KernelRunner> createGpu(const std::string &text);
  ~KernelRunner();

  /// In which order the threads of GPU kernels take their turns.
  void setOrder(emulation::FiberOrder newOrder) { order = newOrder; }

  /// Sets state.outputs from state.inputs. Tensors are one device's blocks.
  void run(F64State &state, std::vector<int64_t> coordinates = {0});

  const std::vector<steps::StepOpInterface> &getSteps() const { return all; }
  /// The step with this number, as what the test says it is.
  template <typename Op> Op getStep(size_t number) const {
    return mlir::cast<Op>(
        steps::StepOpInterface(all.at(number)).getOperation());
  }
  /// Inputs, then outputs of a step.
  static llvm::SmallVector<mlir::Value> getTensors(steps::StepOpInterface step);
  /// Which operands' memory the results of a step may take.
  steps::Sharing getSharing(steps::StepOpInterface step) {
    return step.getSharing(bodies);
  }
  unsigned countKernels() const;
  steps::ProgramOp getProgram() { return program; }
  /// The program @p as it was, without steps.
  spmd::ProgramOp getSource();
  /// The object file.
  const std::string &getObject() const { return object; }
  /// How many different functions the kernels have.
  size_t countFunctions() const;

  /// Memory of a tensor as kernels see it.
  struct Block {
    std::shared_ptr<char[]> bytes;
    char *data = nullptr;
    size_t size = 0;
    /// Whether nothing was written in front of it or behind it.
    bool isIntact() const;
  };
  using Function = void (*)(void *const *, const int64_t *, int64_t, int64_t);
  /// Calls kernel `step`, its iterations in pieces from the last to the first.
  /// `operands`: inputs, then outputs of the step.
  void call(unsigned step, llvm::ArrayRef<void *> operands,
            llvm::ArrayRef<int64_t> coordinates = {0},
            int64_t pieces = 1) const;
  /// The CPU kernel of a step.
  const codegen::EmittedKernel &getKernel(unsigned step) const {
    return kernels[step];
  }
  /// Whether a kernel sums across rows in parts.
  bool hasParts() const;

private:
  explicit KernelRunner(codegen::SumPlace place) : bodies(place) {}
  bool parse(const std::string &text, codegen::MatmulLibrary library,
             bool groups);
  bool link();
  /// Memory of a step's inputs, then outputs.
  llvm::SmallVector<void *> getOperands(steps::StepOpInterface step) const;
  void runGpuKernel(unsigned step, llvm::ArrayRef<int64_t> coordinates);
  void runMatmul(steps::MatmulOp step);
  void allocate(unsigned step);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module, source;
  steps::ProgramOp program;
  std::vector<steps::StepOpInterface> all;
  codegen::KernelBodies bodies;
  std::vector<codegen::EmittedKernel> kernels; ///< by step
  std::map<std::string, Function> functions;
  std::optional<emulation::HostImage> image;
  emulation::FiberOrder order;
  std::string object;
  void *library = nullptr;
  llvm::DenseMap<mlir::Value, Block> blocks;
};

/// Emits the code of a step, if it has any: that of a kernel, a group or, on
/// GPUs, a put.
mlir::FailureOr<codegen::EmittedKernel> emitStep(steps::StepOpInterface step,
                                                 codegen::KernelBodies &bodies,
                                                 codegen::KernelTarget &target,
                                                 const std::string &name,
                                                 llvm::ArrayRef<bool> isShared);
/// The same, where no operand lies where another one does, or all do.
mlir::FailureOr<codegen::EmittedKernel> emitStep(steps::StepOpInterface step,
                                                 codegen::KernelTarget &target,
                                                 const std::string &name,
                                                 bool areShared = false);

/// Stores a tensor as kernels see it, in memory for its bytes.
void writeBlock(const F64Tensor &tensor, mlir::RankedTensorType type,
                char *data);

/// Expects that what the kernels compute, on the processor with and without
/// parts of sums across rows and as GPU kernels under several orders of
/// threads, is what the interpreter computes in f64,
/// elements differing by at most `tolerance` of the largest of the tensor.
/// Inputs that `state` lacks are drawn from `seed`: normal floats, integers
/// from [0, 3). Runs nothing where KernelCases.h has it written instead.
void expectAgreement(const std::string &text, F64State state = {},
                     double tolerance = 2e-6, unsigned seed = 1);
inline void expectAgreement(const ProgramText &text, F64State state = {},
                            double tolerance = 2e-6, unsigned seed = 1) {
  expectAgreement(text.str(), std::move(state), tolerance, seed);
}

} // namespace meshc::test

#endif

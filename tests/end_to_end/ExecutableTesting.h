#ifndef MESHC_TESTS_END_TO_END_EXECUTABLETESTING_H
#define MESHC_TESTS_END_TO_END_EXECUTABLETESTING_H

#include "dialect/interpreter/NDInterpreter.h"
#include "runtime/exec/exec_generated.h"

#include <map>
#include <string>
#include <vector>

namespace meshc::test {

/// A run of `predict` on as many samples as the reference has.
struct Prediction {
  std::string batchDim;
  int batchSize; ///< that the program is compiled for
  std::string mesh, layout;
  std::string flags = ""; ///< of `predict`
  int gpus = 0;           ///< emulated ones, in a process each; 0: on CPUs
};

/// A spec with fixed sizes, random inputs and parameters, and what the
/// un-partitioned program computes from them in f64: outputs by name and
/// gradients as "grad:NAME" for every parameter and float input.
class Reference {
public:
  /// In which precision a program computes, and how far roundings to 16 bits
  /// may take it: see compare().
  struct Precision {
    std::string name = "f32";
    int64_t roundings = 0;
  };

  /// `spec` is a path; `defines` as after -D. `reductionLength` is the number
  /// of terms along the longest chain of sums of the program.
  Reference(std::string spec, std::vector<std::string> defines,
            int64_t reductionLength, unsigned seed = 1,
            Precision precision = {"f32", 0});

  /// Runs `meshc run SPEC --eval` on this mesh and layout, with `options` too,
  /// and compares every output and gradient. Empty if all agree, else what does
  /// not.
  ///
  /// The bound on an element's error is
  ///   4 * reductionLength * 2^-24 * (largest element of the tensor):
  /// a sum of n terms in f32 is wrong by at most n * 2^-24 times the sum of the
  /// terms' magnitudes (Higham 2002, 4.2); 4 covers the functions in between
  /// and the magnitude of terms that cancel. For an f64 tensor 2^-53 takes the
  /// place of 2^-24: such a one must not depend on results in f32. Integers and
  /// booleans are equal.
  ///
  /// In bf16 and fp16 the interpreter rounds where the program does. A rounding
  /// can still come out differently, by one place, where the numbers rounded
  /// differ by as little as above, devices round each term of a sum, and a
  /// library call leaves roundings out between what it takes along. The bound
  /// grows by `roundings` units roundoff, 2^-8 or 2^-11, of the largest element
  /// of the tensor: one for each rounding on the longest way from an input to a
  /// result, times what the operations after it multiply relative errors by.
  std::string compare(const std::string &mesh, const std::string &layout,
                      const std::string &options = "") const;
  /// The same of an executable for GPUs on `devices` emulated ones, in a
  /// process each, compiled with `options` too.
  std::string compareOnGpus(const std::string &mesh, const std::string &layout,
                            int devices, const std::string &options = "") const;
  /// Compiles the program for batches of another size, has `predict` put
  /// together what they give for the samples of this reference, and compares
  /// every output. `cache` is the folder for compiled programs.
  ///
  /// A mean has the rounding of up to two runs for each batch, of which the
  /// last one counts up to twice: the bound is three times that of compare().
  std::string comparePrediction(const Prediction &prediction,
                                const std::string &cache) const;
  /// Compares the results on these numbers of threads, bit by bit. Empty if all
  /// are the same.
  std::string compareThreads(const std::string &mesh, const std::string &layout,
                             const std::vector<int> &threads,
                             const std::string &options = "") const;
  /// The same of these orders of threads on emulated GPUs, see compareOnGpus.
  std::string compareGpuOrders(const std::string &mesh,
                               const std::string &layout, int devices,
                               const std::vector<std::string> &orders) const;

private:
  struct Tensor {
    interpreter::Tensor<interpreter::F64> values;
    exec::ElementType element; ///< of the array it stands for
  };
  void fill(mlir::ModuleOp module, unsigned seed);
  std::string getCommand(const std::string &folder, const std::string &mesh,
                         const std::string &layout) const;
  std::string writeInputs(const std::string &folder) const;
  /// Runs a command; its output, if it fails.
  static std::string runCommand(const std::string &folder,
                                const std::string &command);
  /// What is in front of a command, and behind it.
  struct Surroundings {
    std::string variables, flags;
  };
  /// Compares the results of these commands bit by bit.
  std::string compareBits(const std::string &mesh, const std::string &layout,
                          const std::vector<Surroundings> &commands) const;
  /// `variables` are in front of the command, `flags` behind.
  std::string compareRun(const std::string &variables, const std::string &mesh,
                         const std::string &layout,
                         const std::string &flags) const;
  /// Compares what is in the files of `folder`, outputs and, with
  /// `hasGradients`, gradients.
  std::string compareFiles(const std::string &folder, int64_t length,
                           bool hasGradients) const;

  std::string spec;
  std::vector<std::string> defines;
  int64_t reductionLength;
  Precision precision;
  std::map<std::string, Tensor> inputs, parameters, expected;
};

/// A folder that is removed at the end of the scope.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string &getPath() const { return path; }

private:
  std::string path;
};

} // namespace meshc::test

#endif

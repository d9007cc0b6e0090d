#ifndef MESHC_TESTS_EMULATION_ENVIRONMENT_H
#define MESHC_TESTS_EMULATION_ENVIRONMENT_H

/// What a test asks of the emulation: the variables MESHC_EMULATION_*, which
/// README.md explains. Counts begin with 1; 0 means never.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meshc::emulation {

/// The `call`-th call of `function` gives `code`.
struct Failure {
  std::string function;
  int64_t call = 0;
  int code = 0;
};

/// The `call`-th collective of `rank`.
struct RankCall {
  int rank = -1;
  int64_t call = 0;
};

/// The first `algorithms` of cuBLASLt's split sums into `splits` parts.
struct SplitSums {
  int splits = 1;
  int algorithms = 0;
};

struct Environment {
  int devices = 1; ///< that the process sees
  /// Numbers of those on the machine, by CUDA_VISIBLE_DEVICES; the process
  /// counts from 0.
  std::vector<int> visible;
  size_t memoryBytes = size_t(8) << 30;
  int driverVersion = 13000;
  /// Of the GPU's memory, that each communicator of NCCL takes at first use.
  size_t ncclBytes = 0;
  int blasLtVersion = 130100, ncclVersion = 22809;
  int major = 9, minor = 0;
  std::string name = "meshc emulated GPU";
  uint64_t seed = 0;
  std::string log;
  int64_t dropWait = 0;
  int64_t shiftOffset = 0;
  /// Milliseconds that each of cuBLASLt's algorithms pretends to take.
  std::vector<int> matmulTimes;
  /// The same in addition where it is not part of a graph.
  std::vector<int> matmulLaunchTimes;
  /// Percent by which products take longer than that at most, by chance.
  int matmulNoise = 0;
  /// Epilogues that cuBLASLt has no algorithm for, by cublasLt.h's numbers.
  std::vector<int> missingEpilogues;
  std::vector<int> missingBatches; ///< the same of batches alone
  int missingStatus = 15;          ///< what it answers then
  SplitSums splitSums;
  std::vector<Failure> failures;
  RankCall swapCollectives;
  RankCall kill;
  /// Of what runs, not of what is called.
  RankCall networkError, hang;
};

/// Reads the variables at the first call. Ends the process with a message and
/// code 2 where one says something that has no meaning.
const Environment &getEnvironment();

} // namespace meshc::emulation

#endif

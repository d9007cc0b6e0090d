#ifndef MESHC_FRONTEND_DRIVER_COMMANDS_H
#define MESHC_FRONTEND_DRIVER_COMMANDS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What the commands of meshc do once the command line is read. Each returns
/// the exit code of the process. No MLIR in this header.
namespace meshc::driver {

inline constexpr int exitSuccess = 0;
inline constexpr int exitWrongInput = 1;
inline constexpr int exitUsage = 2;
inline constexpr int exitCheckFailed = 3;
inline constexpr int exitDamaged = 4;
inline constexpr int exitInternal = 70;

/// Bytes of compiled programs that `run` keeps where it is not told: those of
/// the samples have 6.1 MB each, so some 40 of that size, more than one works
/// with at a time.
inline constexpr uint64_t defaultCacheBytes = uint64_t(256) << 20;

struct SpecArguments {
  std::string path;
  std::vector<std::string> defines;     ///< NAME=VALUE
  std::vector<std::string> recompute;   ///< patterns of scopes
  std::optional<std::string> mesh;      ///< data=4,model=2
  std::optional<std::string> layout;    ///< batch=data+model,hidden=...
  std::optional<std::string> precision; ///< f32, bf16 or fp16
  std::string messageFormat = "text";   ///< text or json
  /// Of collectives that go in one transfer; absent: by the cost model.
  std::optional<int64_t> bucketBytes;
  /// By which what is gathered is sent ahead; absent: as the target has it.
  std::optional<int64_t> prefetchLayers;
  /// Of a large value at a time; 0: all; absent: as the target has it.
  std::optional<int64_t> tileBytes;
  /// Of which sizes of 16-bit matmuls that are one dimension are made
  /// multiples; 1: none; absent: where the target saves time by it.
  std::optional<int64_t> matmulMultiple;
  bool fuses = true; ///< no: each operation is a command of its own
  /// Bytes above which a resharding that the compiler inserts is an error.
  std::optional<int64_t> strict;
  /// Kind of machine to plan for, and to predict times of; empty: none.
  std::string machine;
  bool assumesMachine = false; ///< nobody named it: the target has GPUs
  /// all, bias or none; on GPUs alone.
  std::string matmulEpilogues = "all";
};

struct PlanArguments {
  std::string target = "cpu";     ///< cpu or cuda
  bool isEvaluation = false;      ///< of a training: of its evaluation
  std::string emit = "text";      ///< text, json or html
  std::string output = "-";       ///< standard output
  std::optional<int64_t> memory;  ///< of a device, in bytes
  std::string tensor;             ///< to say who holds what of it; empty: none
  std::optional<int64_t> device;  ///< of which to show what it holds
  std::string sort;               ///< of values; empty: as the program has them
  std::optional<size_t> top;      ///< of each list
  std::vector<std::string> tries; ///< layouts to compare with
  std::vector<std::string> compared; ///< specs or plans to compare
  bool remarks = false;              ///< whether the text tells them
  std::string trace;                 ///< of a run, to show beside; empty: none
  std::string check; ///< a stored plan to compare with; empty: none
};

struct CompileArguments {
  std::string target = "cpu";       ///< cpu or cuda
  std::string gpus = "sm_80,sm_90"; ///< architectures, for cuda alone
  std::string cpu = "native";
  std::string emit = "exe"; ///< exe, nd, sharded, spmd or kernels
  std::string output;
  std::vector<std::string> grad; ///< names; "*": all there are
  std::string of; ///< the output that gradients by inputs are of; empty: none
};

struct RunArguments {
  bool eval = false;
  std::vector<std::string> in, param, out, grad; ///< NAME=FILE.npy
  bool drawsParameters = false; ///< those that --eval is not given
  bool isTraining = false;      ///< --eval computes as a training step does
  std::optional<int64_t> step;  ///< the one that it computes
  std::optional<int64_t> seed, bench, threads;
  bool profile = false;
  uint64_t cacheBytes = defaultCacheBytes;   ///< to keep compiled programs in
  std::vector<std::string> programArguments; ///< after --
};

struct CacheArguments {
  bool clear = false;
  std::optional<uint64_t> bytes; ///< to keep
};

struct ExplainArguments {
  std::string id;
  std::string target = "cpu"; ///< cpu or cuda
};

/// What messages without a code begin with: "meshc: error: ".
std::string getErrorPrefix();
/// Prints on standard error, where nothing can be done about a failure.
void printError(const std::string &text);

int runCheck(const SpecArguments &spec);
int runPlan(const SpecArguments &spec, const PlanArguments &plan);
int runCompile(const SpecArguments &spec, const CompileArguments &compile);
/// Replaces the process by the program.
int runRun(const SpecArguments &spec, const CompileArguments &compile,
           const RunArguments &run);
/// Why `text` is no list of architectures of GPUs, or empty.
std::string checkGpus(const std::string &text);

int runExplain(const SpecArguments &spec, const ExplainArguments &explain);
/// Shows what `run` has kept, after removing what is asked to be removed.
int runCache(const CacheArguments &arguments);
/// Shows what this machine has for programs on GPUs, whatever that is, and what
/// was measured of it, after measuring if `measures`.
int runDoctor(bool measures);

} // namespace meshc::driver

#endif

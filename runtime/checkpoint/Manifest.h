#ifndef MESHC_RUNTIME_CHECKPOINT_MANIFEST_H
#define MESHC_RUNTIME_CHECKPOINT_MANIFEST_H

/// What a checkpoint has, and where: the file manifest.json in its folder.
///
/// The last field of the file is the digest of the text in front of it, so that
/// no bit of the file changes unnoticed.

#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/Digest.h"
#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/settings/Numbers.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshc::runtime {

/// What a training needs, besides the values of variables, to go on where it
/// was, and what tells it from another one.
struct TrainingPosition {
  int64_t step = 0; ///< steps that are over
  int64_t seed = 0;
  int64_t batch = 0;   ///< samples in a step
  int64_t samples = 0; ///< in an epoch's files
  /// Inputs and the digests of the samples that they read.
  std::vector<std::pair<std::string, std::string>> data;
  /// Numbers of the spec that were set for it, by name.
  std::map<std::string, Number> settings = {};
};

/// By what a checkpoint is the best one of its training.
struct Criterion {
  std::string output;     ///< whose mean over the test samples counts
  bool isHighest = false; ///< else the lowest one is best
  int64_t samples = 0;    ///< of the test files, that are evaluated
  std::string data;       ///< their digest
};

/// "lowest 'loss'".
std::string toString(const Criterion &criterion);

/// What an evaluation behind the step of a checkpoint has given.
struct Evaluation {
  Criterion criterion;
  double value = 0;
};

/// A file of safetensors.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::vector<Digest> pieces; ///< of each pieceBytes, the last may be shorter
};

/// A part of a tensor that lies in a file as a tensor of its own.
struct StoredBlock {
  int64_t file = 0; ///< number in Manifest::files
  Box box;
};

struct StoredDim {
  std::string name;
  int64_t size = 0;
  bool operator==(const StoredDim &) const = default;
};

struct StoredTensor {
  std::string name;
  /// Of its variable: parameter, model_state or state.
  exec::BufferRole role = exec::BufferRole::state;
  exec::ElementType element = exec::ElementType::f32;
  std::vector<StoredDim> dims;
  std::vector<StoredBlock> blocks; ///< that tile it

  std::vector<int64_t> getSizes() const;
  uint64_t getBytes() const;
  /// The name of a block's tensor in its file: the tensor's, and of a part also
  /// which, "w1[0:784, 512:1024]".
  std::string getName(const Box &box) const;
};

/// "f32[pixel=784, hidden=1024]".
std::string toString(exec::ElementType element,
                     const std::vector<StoredDim> &dims);

struct Manifest {
  static constexpr int64_t version = 2;

  std::string producer; ///< "meshc 0.1.0"
  std::string model;
  std::string specSha256;
  std::string mesh; ///< "data = 2, model = 2"
  std::string precision;
  int64_t processes = 1;
  int64_t savedAt = 0; ///< seconds since 1970
  TrainingPosition position;
  std::optional<Evaluation> evaluation; ///< of one that was the best
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;

  /// Null if there is none.
  const StoredTensor *find(std::string_view name) const;
  /// Of all files.
  uint64_t getBytes() const;
};

std::string renderManifest(const Manifest &manifest);
/// Ends a manifest whose fields are there with the digest of its text.
std::string sealManifest(std::string text);

/// Errors: DamagedFile where the text is not well-formed, names files other
/// than shards of its folder or blocks that do not tile their tensor;
/// CheckpointVersion. `path` is for messages.
Result<Manifest> parseManifest(std::string_view text, const std::string &path);

/// "shard-00002-of-00004.safetensors".
std::string getShardName(int64_t number, int64_t count);
/// Whether a name is of that form.
bool isShardName(std::string_view name);

} // namespace meshc::runtime

#endif

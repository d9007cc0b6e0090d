#ifndef MESHC_RUNTIME_CHECKPOINT_SAVER_H
#define MESHC_RUNTIME_CHECKPOINT_SAVER_H

/// Saves a training beside it.
///
/// save() copies what this process has to write into the pieces of a file
/// (PieceWriter.h), and returns: a state that does not fit into the memory for
/// pieces waits for the disk with the rest. A thread sees to what follows, in
/// all processes together:
///
///   rank 0                          the others
///   makes the folder                wait for it                  barrier
///   writes and syncs its shard      each its own, hand over
///                                   its digests                  barrier
///   writes the manifest, commits    wait for it                  barrier
///   removes old checkpoints
///
/// Of replicas, the device that comes first in the mesh has its block written,
/// by the process that has the device.

#include "runtime/checkpoint/BestFolder.h"
#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/PieceWriter.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/io/ByteListener.h"
#include "runtime/ranks/Ranks.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace meshc::runtime {

struct SaveRequest {
  std::string folder;                ///< empty: nothing is saved
  std::optional<int64_t> everySteps; ///< neither: when the training ends
  std::optional<double> everySeconds;
  int64_t keep = 3; ///< checkpoints; the oldest ones go
  /// By which the best one is kept, too (BestFolder.h); none: it is not.
  std::optional<Criterion> best;
  /// The training may have begun before, without a checkpoint by now.
  bool continues = false;
  /// Of pieces that wait for the disk, in each process.
  uint64_t bufferBytes = uint64_t(192) << 20;
};

class Saver {
public:
  /// Takes the folder, which may have no checkpoints behind step
  /// `position.step`, with which the training begins; and none at all where it
  /// does not go on with one of them, `resumesFromFolder`. `ranks`: as of the
  /// devices. All processes call it.
  /// Errors: CannotWrite, FolderInUse, HasCheckpoints; RanksDiffer where it is
  /// not the same folder on all machines.
  static Result<std::unique_ptr<Saver>> create(DeviceSet &devices, Ranks *ranks,
                                               const SaveRequest &request,
                                               const TrainingPosition &position,
                                               bool resumesFromFolder);
  /// Waits for what is being written.
  ~Saver();

  /// On rank 0: whether the training is to be saved behind this step.
  bool isDue(int64_t step);
  /// Saves behind this step, once; the state may change when it returns. All
  /// processes call it. Waits for the one before. Errors: as of check().
  Status save(int64_t step);
  /// On rank 0: whether a value of the criterion is better than all before.
  bool isBest(double value) const { return best && best->isBetter(value); }
  /// The same as save(), into the folder of the best one.
  Status saveBest(int64_t step, double value);
  const std::optional<Criterion> &getCriterion() const { return request.best; }
  /// The best one so far; null where there is none, and on other ranks.
  const BestFolder *getBest() const {
    return best && best->getStep() ? &*best : nullptr;
  }
  /// Has save() and finish() tell, while they wait, how many bytes of this
  /// process are written.
  void listen(ByteListener listener) { written = std::move(listener); }
  /// What has gone wrong since. Errors: CannotWrite; those of Store.
  Status check();
  /// Waits until what was saved is there. Errors: as of check().
  Status finish();

  /// The checkpoint that save() wrote last, or the training began with.
  int64_t getLastStep() const { return lastStep; }

private:
  /// A block that this process writes, and where it comes from.
  struct Part {
    int64_t device;
    int buffer;
    BoxRuns runs;
  };
  struct Block {
    size_t tensor; ///< number in `tensors`
    Box box;
    std::vector<Part> parts;
  };

  /// A checkpoint to be written.
  struct Job {
    int64_t step;
    std::string folder;
    std::optional<Evaluation> evaluation; ///< of the best one
  };

  Saver(DeviceSet &devices, Ranks *ranks, const SaveRequest &request,
        const TrainingPosition &position);

  bool isFirst() const { return !ranks || ranks->isFirst(); }
  int64_t getNumRanks() const { return ranks ? ranks->getNumRanks() : 1; }
  int64_t getRank() const { return ranks ? ranks->getRank() : 0; }
  Status lock(bool resumesFromFolder);
  Status prepareBlocks();
  void addBlocks(const exec::VariableT &variable);
  /// Copies the state, and has the thread write it.
  Status start(Job job);
  SafetensorsHeader makeHeader(int64_t step) const;
  /// Copies the state into pieces.
  Status copyState(const SafetensorsHeader &header, const std::string &front);
  /// Copies bytes [begin, end) of a block of the file to `target`.
  Status copyBlock(const Block &block, int64_t begin, int64_t end,
                   std::byte *target);

  // In the thread.
  Status write(const Job &job, uint64_t bytes);
  const SaveFolder &getFolder(const Job &job) const {
    return job.evaluation ? best->getFolder() : *folder;
  }
  Status waitForAll(const char *name);
  /// Gives rank 0 what this process has written.
  Status report(const StoredFile &file);
  Status commit(const Job &job, const StoredFile &own);

  DeviceSet &devices;
  Ranks *ranks;
  SaveRequest request;
  TrainingPosition position;
  std::optional<SaveFolder> folder;  ///< on rank 0
  std::optional<BestFolder> best;    ///< there, if it is asked for
  std::vector<StoredTensor> tensors; ///< without blocks
  /// In the order of the file.
  std::vector<Block> blocks;
  PieceWriter writer;
  int64_t lastStep;
  std::chrono::steady_clock::time_point lastTime;
  ByteListener written;
  std::thread thread; ///< of the save in progress
  std::mutex mutex;   ///< of what follows
  std::condition_variable changed;
  bool isWriting = false;
  std::optional<Error> failure;
};

} // namespace meshc::runtime

#endif

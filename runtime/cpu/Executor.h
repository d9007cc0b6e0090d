#ifndef MESHC_RUNTIME_CPU_EXECUTOR_H
#define MESHC_RUNTIME_CPU_EXECUTOR_H

/// Runs the programs of an executable on a mesh of logical CPU devices.
///
/// Every device has its own arena and executes the same command list. Devices
/// are tasks, not threads: a few worker threads take them in turn. Take four
/// devices and two workers:
///
///   worker 0   device 0: kernel, matmul, arrives   device 2: kernel, ...
///   worker 1   device 1: kernel, matmul, arrives   device 3: kernel, ...
///                                       all_reduce of {0, 1, 2, 3} | goes on
///
/// The last device of a group to arrive at a collective makes it a job: pieces
/// that any worker may take. Large kernels, products and copies are jobs too,
/// so a worker without a device of its own takes pieces of another's. A device
/// starts its commands in the order of the list, and goes on beside a job whose
/// pieces have all been taken, or a collective at which it has arrived, as far
/// as its next command does not wait for it. Where it does, the device is
/// parked, and its worker takes another one; whoever ends the last piece of the
/// job makes the device runnable again. No thread waits for another one while
/// anything is runnable; one with nothing to do sleeps.
///
/// The devices may be divided over several processes. A group with devices of
/// more than one is packed when those of this process have arrived, and goes on
/// when what the others send for its next stage has come; the thread of the
/// transport opens its job then. Again no thread waits. Groups may become
/// ready in any order, in every process in another one: each run posts all its
/// receives first.
///
/// The result does not depend on the number of threads: pieces compute the same
/// elements the same way wherever they are cut (see commands in exec.fbs), and
/// collectives combine in the order of device numbers. Nor does it depend on
/// the number of processes.

#include "runtime/cpu/Arenas.h"
#include "runtime/cpu/CommandList.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/devices/Profile.h"
#include "runtime/devices/RunTrace.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"
#include "runtime/ranks/Division.h"
#include "runtime/ranks/Transport.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace meshc::runtime {

/// The processes that an executor's devices are divided over, at most as many
/// as devices. Those of one run make the same calls of it in the same order.
struct ExecutorGroup {
  int64_t ranks = 1;
  int64_t rank = 0;
  int64_t localRanks = 1;               ///< on this machine
  std::unique_ptr<Transport> transport; ///< with more than one rank
};

class Executor : public DeviceSet, private Transport::Listener {
public:
  /// Prepares every program: resolves kernels, creates products, lays out
  /// collectives, reserves the arenas (zeroed). `executable` must outlive the
  /// result. `threads` of 0: one per hardware thread.
  /// Errors: Damaged where a kernel is missing from `kernels`; DoesNotFit where
  /// the arenas of all processes on this machine are larger than its memory.
  static Result<std::unique_ptr<Executor>>
  create(const Executable &executable,
         std::span<const meshcKernelEntry> kernels, int threads,
         ExecutorGroup group = {});
  ~Executor() override;

  bool isLocal(int64_t device) const override {
    return division.isLocal(device);
  }
  /// The calling thread is one of the workers. Programs do not overlap.
  Status run(const exec::ProgramT &program) override;
  Status write(int64_t device, int buffer, uint64_t bytes,
               const std::function<void(std::byte *)> &fill) override;
  int64_t getMaxOpenWrites() const override { return INT64_MAX; }
  Status readLocal(int64_t device, int buffer, uint64_t offset, uint64_t bytes,
                   const std::function<void(const std::byte *)> &take) override;
  Result<const std::byte *> read(int64_t device, int buffer,
                                 uint64_t bytes) override;
  Result<uint8_t> decide(uint8_t mine) override;

  int getNumThreads() const override { return numWorkers; }
  /// Start of a buffer in the memory of a device of this process.
  std::byte *getBlock(int64_t device, int buffer) const {
    return arenas[device] + executable.data.buffers[buffer]->offset;
  }
  std::span<std::byte *const> getArenas() const { return arenas; }

  Profile getProfile() override;
  void resetProfile(bool timesCommands) override;
  void traceRuns(RunTrace *newTrace) override;
  void observeEnds(EndObserver newObserver) override {
    endObserver = std::move(newObserver);
  }

  /// Called for every command that a device starts, with its number in the
  /// program; of a collective when the device arrives; not for commands that
  /// are empty on it. Called by one thread at a time, which must not call the
  /// executor.
  using StartObserver = std::function<void(int64_t device, size_t command)>;
  /// Set between runs; null for none.
  void observeStarts(StartObserver newObserver) {
    observer = std::move(newObserver);
  }

private:
  /// Pieces of one command that several workers may take. Everything in it is
  /// guarded by `mutex`.
  struct Job {
    const PreparedCommand *command = nullptr;
    int64_t device = -1; ///< whose command it is; -1 for a collective
    int64_t group = -1;  ///< of the collective
    Collective::Stage stage = Collective::Stage::Combine; ///< of the group
    int64_t next = 0; ///< first piece that nobody has taken
    int64_t unfinished = 0;
    int64_t count = 0;
  };

  /// Where a device is in the run in progress. It is in the hands of one worker
  /// (which executes it, or the first pieces of its latest job), in `ready`, or
  /// parked.
  struct Place {
    size_t next = 0; ///< first command that has not been started
    /// Commands that were started, in jobs, and are not over.
    std::vector<const PreparedCommand *> running;
    bool isParked = false;
    std::list<Job> jobs; ///< of `running`, but for collectives
  };

  Executor(const Executable &executable, int numWorkers, ExecutorGroup group);

  Status createArenas(int64_t localRanks);

  /// Takes devices and pieces until the executor stops, or as the caller's
  /// worker until the run is over.
  void work(int worker, bool isCaller);
  /// Executes commands of a device, from its place on, until it is parked, its
  /// next command is a job or it has come to its end. Locked before and after.
  void advance(int64_t device, int worker, std::unique_lock<std::mutex> &lock);
  /// Whether the next command of a device, or its end, has to wait.
  bool isHeldUp(const Place &place) const;
  /// Makes a device runnable whose latest job has no pieces left to take, or
  /// parks it.
  void release(int64_t device);
  /// A command of a device is over.
  void finishCommand(int64_t device, const PreparedCommand &command);
  /// Opens a job with pieces, and takes part in it.
  void startJob(Job &job, int worker, std::unique_lock<std::mutex> &lock);
  /// Takes pieces of a job until none is left.
  void runPieces(Job &job, int worker, std::unique_lock<std::mutex> &lock);
  /// Makes the devices runnable that have waited for a job.
  void finishJob(Job &job);
  /// Makes a stage of a group its job.
  Job &makeGroupJob(size_t slot, Collective::Stage stage);
  /// Wakes up to `count` sleeping workers.
  void wake(int64_t count);
  void runPiece(const Job &job, int64_t piece, int worker);
  /// The run ends with the first one.
  void keepFailure(const Status &status);

  // What has to do with other processes, in ExecutorExchange.cpp.
  Status createStaging();
  /// Begins a run: nothing has come yet, and everything may.
  void postReceives();
  /// One of the parts that a stage of a group needs is there. Whether the group
  /// has a job now: stages without pieces are passed over, and after the last
  /// one its devices are runnable.
  bool addPart(size_t slot, Collective::Stage stage);
  /// Sends what a stage of a group has written, and goes on with the next one
  /// if everything has come.
  void finishStage(Job &job, int worker, std::unique_lock<std::mutex> &lock);
  void onReceived(size_t token) override;
  void onSent(size_t token) override;
  void onBroken(const Error &error) override;
  /// Sends and receives, and waits for the end of it.
  Status exchange(std::span<const TransportMessage> incoming,
                  std::span<const TransportMessage> outgoing);
  /// The first bytes of a buffer of devices [begin, end), in all processes.
  Status fetch(int64_t begin, int64_t end, int buffer, uint64_t bytes);

  // Traces, in ExecutorTrace.cpp.
  using Clock = std::chrono::steady_clock;
  void beginTrace();
  /// Makes the trace of a run that is over.
  void collectTrace(Clock::time_point begin, Clock::time_point end);
  std::vector<TraceEvent> traceGroup(size_t slot) const;

  /// A piece of a job that a worker has executed, or all of a command.
  struct TracedPiece {
    const PreparedCommand *command;
    int64_t device; ///< -1 for a collective
    int64_t group;  ///< of the collective
    Collective::Stage stage;
    Clock::time_point begin, end;
  };
  /// A group of a collective in a run that is traced.
  struct TracedGroup {
    struct Arrival {
      int64_t device;
      Clock::time_point time;
    };
    struct Span {
      Clock::time_point begin = Clock::time_point::max();
      Clock::time_point end = Clock::time_point::min();
    };
    std::vector<Arrival> arrivals;                  ///< in order
    std::array<Span, Collective::numStages> stages; ///< that had pieces
    Clock::time_point end;
  };

  struct alignas(64) Worker {
    void add(const Job &job, Clock::time_point begin, Clock::time_point end) {
      const double seconds = std::chrono::duration<double>(end - begin).count();
      times[size_t(job.command->source->action.type)] += seconds;
      commandSeconds[job.command->number] += seconds;
      if (isTraced)
        pieces.push_back(
            {job.command, job.device, job.group, job.stage, begin, end});
    }

    TimePerKind times{};
    std::vector<double> commandSeconds; ///< by number of the command
    bool isTraced = false;
    std::vector<TracedPiece> pieces; ///< of the run, if it is traced
    std::vector<std::byte> scratchMemory;
    std::byte *scratch = nullptr;
  };

  int64_t numDevices;
  int numWorkers;
  Arenas ownedArenas;
  std::vector<std::byte *> arenas;
  std::vector<std::vector<int64_t>> coordinates; ///< per device
  std::unique_ptr<LibraryPrimitives> library;
  std::vector<CommandList> lists; ///< per program
  std::vector<Worker> workers;
  std::vector<std::thread> threads;
  const Division division;
  Arenas staging; ///< one, or none without other processes

  // The run in progress. Everything is guarded by `mutex`.
  const CommandList *current = nullptr;
  std::vector<Place> places;     ///< per device
  std::vector<Job> groupJobs;    ///< per group of the program
  std::vector<int64_t> arrivals; ///< per group of the program
  /// Per group of the program and stage: messages to come, and one more while
  /// the stage before is not over.
  std::vector<std::array<int64_t, Collective::numStages>> pendingParts;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int64_t> ready;  ///< devices to execute
  std::deque<Job *> openJobs; ///< jobs with pieces left; collectives first
  int64_t unfinishedDevices = 0;
  int64_t sleepers = 0;
  bool stopping = false;
  std::optional<Error> failure;
  int64_t unsentMessages = 0;
  int64_t pendingReads = 0;    ///< messages of exchange() to come
  std::optional<Error> broken; ///< the connection to the others
  StartObserver observer;
  EndObserver endObserver;
  RunTrace *trace = nullptr;
  std::vector<TracedGroup> tracedGroups; ///< per group of the program
  double runSeconds = 0;                 ///< of all runs, on the wall
  int64_t runs = 0;

  /// What fetch() got, until something may have changed.
  struct {
    std::vector<std::byte> data;
    int64_t begin = 0, end = 0;
    int buffer = -1;
    uint64_t bytes = 0;
  } fetched;
  /// The last member: its thread ends before anything that it uses.
  std::unique_ptr<Transport> transport;
};

} // namespace meshc::runtime

#endif

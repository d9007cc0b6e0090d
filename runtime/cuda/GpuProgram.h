#ifndef MESHC_RUNTIME_CUDA_GPUPROGRAM_H
#define MESHC_RUNTIME_CUDA_GPUPROGRAM_H

#include "runtime/cuda/Communicator.h"
#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/UnsupportedProducts.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/devices/Profile.h"
#include "runtime/devices/RunTrace.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelUse.h"
#include "runtime/plans/CopyPlan.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace meshc::runtime::cuda {

/// One logical device: its memory and the two queues of its commands.
struct LogicalDevice {
  int64_t number = 0; ///< in the mesh
  DevicePointer arena = 0;
  DevicePointer matmulWorkspace = 0; ///< 0 without products
  OwnedStream compute;
  OwnedStream communication; ///< of higher priority

  Stream getStream(exec::Queue queue) const {
    return queue == exec::Queue::compute ? compute.get() : communication.get();
  }
};

/// What the commands of all programs work with.
struct GpuSession {
  Gpu *gpu = nullptr;
  const Executable *executable = nullptr;
  std::optional<KernelUse> use;       ///< none: see CudaOptions
  std::vector<LogicalDevice> devices; ///< of this process
  std::unique_ptr<MoveTable> moves;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<MatmulCalls> products; ///< null where there is no product
  UnsupportedProducts unsupported;
  bool checksCommands = false; ///< see CudaOptions
  DeviceSet::EndObserver endObserver;
};

/// A program as the driver sees it. All logical devices go through the commands
/// in step, issued by one thread: command 0 on each of them, command 1, ...
///
/// Every device has a stream per queue. Commands of one queue come after one
/// another by themselves; a command that waits for one of the other queue waits
/// for an event behind it. A run begins and ends on the first device's compute
/// stream:
///
///   compute        begin --> a --> b ----------> d --> end
///   communication      \--------> (after b) c --------/
///
/// Commands are issued one by one in the first run, in which libraries load
/// what they need; where a collective waits for other processes on the GPU
/// itself, that run waits for it before it goes on. The second records them in
/// a graph, and from then on a run is one launch of that graph.
class GpuProgram {
public:
  /// Reads a program and adds its collectives to the communicator. Products
  /// that cuBLASLt cannot compute are added to those of the session and left
  /// out, here and by build().
  /// Errors: UnsupportedOnGpu, DamagedProgram where a kernel is missing; with
  /// the command's name and place in the spec.
  static Result<std::unique_ptr<GpuProgram>>
  create(GpuSession &session, const exec::ProgramT &program);

  /// Lays the commands out, when all arenas are there; adds the copies that are
  /// boxes to the session's table of moves.
  Status build();

  /// Enqueues a run of the program.
  Status start(bool useGraph);
  /// When a command was under way on a device: seconds from the beginning of
  /// the run.
  struct Span {
    double begin, end;
  };
  /// Runs the program command by command; spans[command * devices + device].
  Result<std::vector<Span>> runTimed();
  /// Adds what devices did in such a run, which began at `trace.begin`.
  void addEvents(const std::vector<Span> &spans, RunTrace &trace) const;

  const exec::ProgramT &getSource() const { return source; }
  size_t getNumCommands() const { return commands.size(); }
  TimeClass getTimeClass(size_t command) const {
    return commands[command].timeClass;
  }

private:
  GpuProgram(GpuSession &session, const exec::ProgramT &program)
      : session(session), source(program) {}

  struct Launch {
    KernelHandle kernel;
    unsigned grid, block, sharedBytes;
  };
  struct Command {
    const exec::CommandT *source = nullptr;
    TimeClass timeClass = TimeClass::Kernel;
    exec::Queue queue = exec::Queue::compute;
    /// The last command of the other queue to wait for that nothing before it
    /// in its own queue has waited for; -1: none.
    int64_t waitsFor = -1;
    std::vector<OwnedEvent> ends; ///< per device, where another one waits

    // Kernel
    std::vector<Launch> launches;
    std::vector<uint64_t> parameters; ///< of all devices
    std::vector<void *> parameterPointers;
    size_t numParameters = 0;

    // Matmul
    MatmulPlan plan;
    MatmulCall *product = nullptr;

    // Collective
    size_t collective = 0; ///< its number in the communicator

    // Copy
    CopyPlan copy;
    std::vector<MoveLaunch> boxes; ///< per device
  };

  void findWaits();
  Status prepareKernel(const exec::KernelT &kernel, Command &command);
  Status buildMatmul(Command &command);
  Status addBoxes(Command &command);
  DevicePointer getAddress(const LogicalDevice &device,
                           const exec::OperandT &operand) const;
  MatmulPointers getMatmulPointers(const Command &command,
                                   const LogicalDevice &device) const;

  /// Issues all commands between the beginning and the end of a run. With
  /// `times`, an event before and one behind each, per command and device.
  Status issue(std::vector<OwnedEvent> *times);
  /// Whether a device gets anything of a command that is no collective.
  static bool isIssued(const Command &command);
  Status issueOn(const Command &command, size_t device);
  Status issueCopy(const Command &command, size_t device);
  Status record();
  /// `error` with the command's name and its place in the spec.
  Error locate(Error error, const exec::CommandT &command) const;
  /// `status` of a call for the graph of all commands, with the program's name.
  Status locateGraph(Status status) const;

  GpuSession &session;
  const exec::ProgramT &source;
  std::vector<Command> commands;
  OwnedEvent begin;
  std::vector<OwnedEvent> queueEnds; ///< of every stream but the first
  int64_t runs = 0;                  ///< that were issued command by command
  OwnedGraphExecutable graph;
};

} // namespace meshc::runtime::cuda

#endif

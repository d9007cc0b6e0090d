#ifndef MESHC_RUNTIME_CUDA_GPUPROGRAM_H
#define MESHC_RUNTIME_CUDA_GPUPROGRAM_H

#include "runtime/cuda/kinds/GpuCommand.h"
#include "runtime/devices/RunTrace.h"

#include <memory>
#include <optional>
#include <vector>

namespace meshc::runtime::cuda {

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

private:
  GpuProgram(GpuSession &session, const exec::ProgramT &program)
      : session(session), source(program) {}

  struct Command {
    const exec::CommandT *source = nullptr;
    exec::Queue queue = exec::Queue::compute;
    /// The last command of the other queue to wait for that nothing before it
    /// in its own queue has waited for; -1: none.
    int64_t waitsFor = -1;
    std::vector<OwnedEvent> ends;    ///< per device, where another one waits
    std::unique_ptr<GpuCommand> own; ///< null for a collective
    size_t collective = 0;           ///< its number in the communicator
  };

  void findWaits();
  /// Issues all commands between the beginning and the end of a run. With
  /// `times`, an event before and one behind each, per command and device.
  Status issue(std::vector<OwnedEvent> *times);
  Status record();
  Error locate(const Error &error, const exec::CommandT &command) const {
    return session.locate(error, source, command);
  }
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

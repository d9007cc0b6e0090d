#ifndef MESHC_RUNTIME_CUDA_KINDS_GPUCOMMAND_H
#define MESHC_RUNTIME_CUDA_KINDS_GPUCOMMAND_H

/// How each kind of command is issued to GPUs: a file per kind, a row per kind
/// in GpuCommand.cpp. Collectives alone are issued by the communicator, for all
/// devices together (GpuProgram.h).

#include "runtime/cuda/GpuSession.h"

#include <cstddef>
#include <memory>
#include <optional>

namespace meshc::runtime::cuda {

/// A command that every device computes by itself.
class GpuCommand {
public:
  virtual ~GpuCommand() = default;

  /// The queue that all commands of the kind are in, whatever they say.
  virtual std::optional<exec::Queue> getQueue() const { return std::nullopt; }
  /// Looks up what is known when all arenas are there.
  virtual Status build(GpuSession &) { return Status::success(); }
  /// Whether a device gets anything of it.
  virtual bool isIssued() const = 0;
  /// Enqueues it for the device of this process with that number.
  virtual Status issue(GpuSession &session, size_t device,
                       Stream stream) const = 0;
};

/// A command and its program, and what both work with.
struct GpuPreparation {
  GpuSession &session;
  const exec::ProgramT &program;
  const exec::CommandT &command;
};

using PreparedGpuCommand = Result<std::unique_ptr<GpuCommand>>;

/// Errors: DamagedProgram where a kernel is missing, those of the driver.
PreparedGpuCommand prepareKernel(const GpuPreparation &preparation);
/// Products that cuBLASLt cannot compute are added to those of the session and
/// left out, here and by build(). Errors: those of MatmulCalls::create.
PreparedGpuCommand prepareMatmul(const GpuPreparation &preparation);
PreparedGpuCommand prepareCopy(const GpuPreparation &preparation);

/// The command by its kind; null for collectives.
PreparedGpuCommand prepareGpuCommand(const GpuPreparation &preparation);

} // namespace meshc::runtime::cuda

#endif

#ifndef MESHC_RUNTIME_CPU_KINDS_CPUCOMMAND_H
#define MESHC_RUNTIME_CPU_KINDS_CPUCOMMAND_H

/// How each kind of command runs on CPU devices: a file per kind, a row per
/// kind in CpuCommand.cpp. Collectives alone are run by their groups of devices
/// (Executor.h).

#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelUse.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace meshc::runtime {

class LibraryPrimitives;

/// What a piece of a command works with.
struct CpuPlace {
  void *const *operands;      ///< of the device, in the command's order
  const int64_t *coordinates; ///< of the device in the mesh
  int worker;                 ///< number of the calling thread
  std::byte *scratch;         ///< of that worker
};

/// A command that every device computes by itself, with everything looked up.
class CpuCommand {
public:
  explicit CpuCommand(int64_t numPieces) : numPieces(numPieces) {}
  virtual ~CpuCommand() = default;

  /// Of one device's part, which different workers may run; 0: nothing to do.
  int64_t getNumPieces() const { return numPieces; }
  /// Runs one of them on the calling thread; no two threads may use one
  /// worker's number at once.
  virtual Status run(int64_t piece, const CpuPlace &place) const = 0;

  /// Bytes of scratch memory, 64-byte aligned, that run() needs beside what the
  /// library's primitives do.
  virtual uint64_t getScratchBytes() const { return 0; }

private:
  int64_t numPieces;
};

/// What commands of all kinds are prepared with.
struct CpuPreparation {
  const Executable &executable;
  const exec::ProgramT &program;
  const KernelUse &kernels;
  int workers;
  LibraryPrimitives &library;
};

using PreparedCpuCommand = Result<std::unique_ptr<CpuCommand>>;

/// Errors: Damaged where a kernel is not there, or was generated for other
/// operands than its command has.
PreparedCpuCommand prepareKernel(const exec::CommandT &command,
                                 const CpuPreparation &preparation);
/// Errors: see Matmul::create.
PreparedCpuCommand prepareMatmul(const exec::CommandT &command,
                                 const CpuPreparation &preparation);
/// Errors: see Convolution::create.
PreparedCpuCommand prepareConvolution(const exec::CommandT &command,
                                      const CpuPreparation &preparation);
PreparedCpuCommand prepareCopy(const exec::CommandT &command,
                               const CpuPreparation &preparation);
PreparedCpuCommand preparePut(const exec::CommandT &command,
                              const CpuPreparation &preparation);

/// The command by its kind; null for collectives.
PreparedCpuCommand prepareCpuCommand(const exec::CommandT &command,
                                     const CpuPreparation &preparation);

} // namespace meshc::runtime

#endif

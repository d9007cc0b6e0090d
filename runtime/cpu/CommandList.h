#ifndef MESHC_RUNTIME_CPU_COMMANDLIST_H
#define MESHC_RUNTIME_CPU_COMMANDLIST_H

#include "runtime/cpu/Convolution.h"
#include "runtime/cpu/Matmul.h"
#include "runtime/devices/Profile.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"
#include "runtime/plans/Collective.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace meshc::runtime {

/// A command with everything looked up, so that executing it reads no tables.
struct PreparedCommand {
  const exec::CommandT *source = nullptr;
  size_t number = 0; ///< among the commands of all programs
  TimeClass timeClass = TimeClass::Kernel;
  int64_t pieces = 1; ///< of one device's part; 0: nothing to do
  /// operands[device * numOperands + i] is operand i of a device.
  std::vector<void *> operands;
  size_t numOperands = 0;

  // TimeClass::Kernel
  meshcKernelFunction kernel = nullptr;
  int64_t extent = 0;
  int64_t extentPerPiece = 0;

  // TimeClass::Matmul
  Matmul *matmul = nullptr;

  // TimeClass::Convolution
  Convolution *convolution = nullptr;

  // TimeClass::Collective
  std::optional<Collective> collective;
  size_t firstGroup = 0; ///< number of its first group, see CommandList

  // TimeClass::Copy
  int64_t rows = 0;
  int64_t rowsPerPiece = 0;
};

/// A group of a collective, by its number within the program.
struct CommandGroup {
  size_t command;
  int64_t group; ///< of the collective
};

struct CommandList {
  std::vector<PreparedCommand> commands;
  std::vector<CommandGroup> groups; ///< of all collectives, in order
  uint64_t stagingBytes = 0;        ///< for messages with other processes
};

/// The products and convolutions of an executable; equal ones are created once.
class LibraryPrimitives {
public:
  LibraryPrimitives(int64_t pieces, int workers)
      : pieces(pieces), workers(workers) {}

  Result<Matmul *> get(const MatmulShape &shape);
  Result<Convolution *> get(const exec::ConvolutionT &shape,
                            ConvolutionElements elements);
  uint64_t getScratchBytes() const { return scratchBytes; }

private:
  int64_t pieces;
  int workers;
  uint64_t scratchBytes = 0;
  std::map<MatmulShape, std::unique_ptr<Matmul>> products;
  /// By all numbers of the command.
  std::map<std::vector<int64_t>, std::unique_ptr<Convolution>> convolutions;
};

/// Prepares a program for `workers` threads. `arenas` has the memory of every
/// device, null for those of other processes; `firstNumber` is the number of
/// its first command.
/// Errors: Damaged where a kernel is not in `kernels`, or was generated for
/// other operands than its command has; see Matmul::create and
/// Convolution::create.
Result<CommandList>
prepareProgram(const Executable &executable, const exec::ProgramT &program,
               std::span<const meshcKernelEntry> kernels,
               std::span<std::byte *const> arenas, const Division &division,
               int workers, size_t firstNumber, LibraryPrimitives &library);

/// Copies rows [begin, end) of operand 0 to operand 1; the rows of a command
/// are the positions of all its dimensions but the last, counted row-major.
void runCopy(const exec::CommandT &command, const std::byte *from,
             std::byte *to, int64_t begin, int64_t end);

} // namespace meshc::runtime

#endif

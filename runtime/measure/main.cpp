/// The main function of the program that measures a host: the compiler links
/// it, in the place of the commands of a model, with kernels that it has
/// compiled for the host.

#include "runtime/cpu/Processor.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/measure/Measure.h"
#include "runtime/ranks/Ranks.h"

#include <cstdlib>

#include <malloc.h>

using namespace meshc::runtime;

static Status measureProgram(double alone, double together) {
  Result<Executable> executable =
      Executable::load({meshc_program_data, size_t(meshc_program_size)});
  if (!executable)
    return executable.getError();
  if (Status fits = checkProcessor(executable->data); !fits)
    return fits;
  const meshc::exec::ProgramT *program = executable->findProgram("step");
  if (!program)
    program = executable->findProgram("eval");
  if (!program)
    return Error{ErrorCode::NothingToDo, "nothing to measure", ""};
  // As in executables: see runAction.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Result<Measurement> measurement =
      measure(*executable, {meshc_kernel_table, size_t(meshc_kernel_count)},
              *program, alone, together);
  if (!measurement)
    return measurement.getError();
  printOutput(toJson(*measurement) + "\n");
  return flushOutput();
}

/// The arguments: for how many seconds command by command, and as a whole.
int main(int argc, char **argv) {
  openStandardStreams();
  const Status status = measureProgram(argc > 1 ? std::atof(argv[1]) : 1,
                                       argc > 2 ? std::atof(argv[2]) : 0);
  if (status)
    return 0;
  printError(status.getError());
  return int(getExitCode(status.getError().code));
}

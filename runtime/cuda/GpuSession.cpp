#include "runtime/cuda/GpuSession.h"

#include <fmt/format.h>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

Error GpuSession::locate(Error error, const exec::ProgramT &program,
                         const exec::CommandT &command) const {
  error.message += fmt::format(", in command '{}' of program '{}'",
                               command.name, program.name);
  const exec::Span *span = command.span.get();
  if (error.note.empty() && span && span->file() >= 0)
    error.note = fmt::format("it computes {}:{}:{}",
                             executable->data.files[size_t(span->file())],
                             span->line(), span->column());
  return error;
}

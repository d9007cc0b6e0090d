#include "runtime/exec/kinds/CommandKind.h"

#include <cassert>
#include <iterator>

using namespace meshc;
using namespace meshc::runtime;

const CommandKind &runtime::getKind(exec::Action action) {
  // In the order of the schema.
  static const CommandKind *const kinds[] = {
      nullptr,   &kernelKind,      &matmulKind, &collectiveKind,
      &copyKind, &convolutionKind, &putKind};
  static_assert(std::size(kinds) == size_t(exec::Action::MAX) + 1);
  assert(action != exec::Action::NONE && "checkExecutable refuses it");
  return *kinds[size_t(action)];
}

#ifndef MESHC_DIALECT_INTERPRETER_SPMDINTERPRETER_H
#define MESHC_DIALECT_INTERPRETER_SPMDINTERPRETER_H

#include "dialect/SPMD.h"
#include "dialect/interpreter/Tensor.h"

namespace meshc::interpreter {

/// Runs an spmd program on every device of its mesh at once.
///
/// `state` holds whole tensors: inputs and variables are scattered under the
/// sharding their types have, with padding poisoned, outputs and written
/// variables are gathered. Fails with an error at the operation that is
/// unknown, whose tensor is missing or has other sizes, that reads out of
/// bounds, or whose replicas do not agree bit for bit.
template <class Domain>
mlir::LogicalResult runProgram(spmd::ProgramOp program,
                               ProgramState<Domain> &state);

} // namespace meshc::interpreter

#endif

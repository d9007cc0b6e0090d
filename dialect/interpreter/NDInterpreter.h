#ifndef MESHC_DIALECT_INTERPRETER_NDINTERPRETER_H
#define MESHC_DIALECT_INTERPRETER_NDINTERPRETER_H

#include "dialect/ND.h"
#include "dialect/interpreter/Tensor.h"

namespace meshc::interpreter {

/// Runs an nd program on whole tensors, as the operations define themselves.
///
/// Shardings are ignored: a reshard passes its operand on and a partial value
/// is the value. `state` gives every input and variable the program reads, in
/// the sizes of their types, and takes the outputs; variables change at the
/// end. Fails with an error at the operation that is unknown, or whose tensor
/// is missing or has other sizes.
template <class Domain>
mlir::LogicalResult runProgram(nd::ProgramOp program,
                               ProgramState<Domain> &state);

} // namespace meshc::interpreter

#endif

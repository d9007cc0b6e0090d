#ifndef MESHC_DIALECT_AGAIN_H
#define MESHC_DIALECT_AGAIN_H

#include "llvm/ADT/StringRef.h"

namespace meshc {

/// A unit attribute of operations that the backward phase computes again
/// because the spec asks for it (spmd-recompute-scopes): they are to run where
/// they are read. A kernel of the forward phase may have the same operands, but
/// must not take them along.
inline constexpr llvm::StringLiteral againAttrName = "nd.again";

} // namespace meshc

#endif

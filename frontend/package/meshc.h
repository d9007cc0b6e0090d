#ifndef MESHC_H
#define MESHC_H

/// All of meshc that another C++ program uses: a builder of programs, and what
/// they compile to.

#include "frontend/package/Program.h"

namespace meshc {

using frontend::Builder;
using frontend::Comparison;
using frontend::Dim;
using frontend::ElementType;
using frontend::Initializer;
using frontend::Reduction;
using frontend::Tensor;

} // namespace meshc

#endif

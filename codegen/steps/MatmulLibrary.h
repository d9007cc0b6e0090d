#ifndef MESHC_CODEGEN_STEPS_MATMULLIBRARY_H
#define MESHC_CODEGEN_STEPS_MATMULLIBRARY_H

#include <cstdint>

namespace meshc::codegen {

/// Which library multiplies: what a product can end with.
enum class MatmulLibrary : uint8_t { OneDnn, CublasLt };

/// What a product on a GPU may end with, by cuBLASLt's word for it: everything,
/// a bias alone, or none. A tensor that is added is no epilogue; with `Nothing`
/// that is left out too.
enum class MatmulEpilogues : uint8_t { All, Bias, None, Nothing };

} // namespace meshc::codegen

#endif

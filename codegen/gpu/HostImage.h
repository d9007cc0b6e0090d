#ifndef MESHC_CODEGEN_GPU_HOSTIMAGE_H
#define MESHC_CODEGEN_GPU_HOSTIMAGE_H

/// Images of kind `host`: GPU kernels as an x86-64 shared object that runs a
/// thread at a time, for tests without a GPU.
///
/// The object defines `void SYMBOL(void **parameters)` for each kernel, which
/// one thread of a block runs from beginning to end; `parameters` are pointers
/// to the arguments, as for cuLaunchKernel. What it needs of its executor are
/// the functions below, which are about the thread that calls them, and the
/// block's shared memory.

#include <cstdint>

extern "C" {

int32_t meshc_fiber_thread_id(void);
int32_t meshc_fiber_block_id(void);
/// Returns when all threads of the block have called it. `number` is that of
/// the barrier in its kernel, the same in all of them, however often an
/// optimiser has copied the call.
void meshc_fiber_barrier(int32_t number);
/// `bits` of the thread of the same warp (32 threads) whose number differs in
/// the bits of `mask`; all threads of the warp call it together. `number` is
/// that of the shuffle in its kernel.
int64_t meshc_fiber_shuffle_xor(int64_t bits, int32_t mask, int32_t number);
extern char meshc_fiber_shared[];
/// What PTX's approximate instructions on f32 compute, off by as much as the
/// PTX ISA allows (section 9.7.3), up or down as the operands' bits say: the
/// same operands give the same result. Exact where the ISA lists the result.
float meshc_fiber_div_full(float a, float b);
float meshc_fiber_sqrt_approx(float x);
float meshc_fiber_rsqrt_approx(float x);
float meshc_fiber_rcp_approx_ftz(float x);
float meshc_fiber_ex2_approx_ftz(float x);

} // extern "C"

#endif

#include "AbiShapes.h"

#include <gtest/gtest.h>

using namespace meshc::emulation;

TEST(Abi, TheDriversIsNvidias) {
#ifdef MESHC_CUDA_HEADERS
  EXPECT_EQ(getCudaShapes(), getRealCudaShapes());
#else
  GTEST_SKIP() << "there are no cuda.h, cublasLt.h and nccl.h of CUDA 13";
#endif
}

TEST(Abi, CuBlasLtsIsNvidias) {
#ifdef MESHC_CUDA_HEADERS
  EXPECT_EQ(getBlasLtShapes(), getRealBlasLtShapes());
#else
  GTEST_SKIP() << "there are no cuda.h, cublasLt.h and nccl.h of CUDA 13";
#endif
}

TEST(Abi, NcclsIsNvidias) {
#ifdef MESHC_CUDA_HEADERS
  EXPECT_EQ(getNcclShapes(), getRealNcclShapes());
#else
  GTEST_SKIP() << "there are no cuda.h, cublasLt.h and nccl.h of CUDA 13";
#endif
}

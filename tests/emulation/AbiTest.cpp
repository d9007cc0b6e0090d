#include "AbiShapes.h"

#include <gtest/gtest.h>

using namespace meshc::emulation;

TEST(Abi, TheDriversIsNvidias) {
#ifdef MESHC_CUDA_HEADERS
  EXPECT_EQ(getCudaShapes(), getRealCudaShapes());
#else
  GTEST_SKIP() << "there is no cuda.h of CUDA 13";
#endif
}

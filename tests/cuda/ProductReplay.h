#ifndef MESHC_TESTS_CUDA_PRODUCTREPLAY_H
#define MESHC_TESTS_CUDA_PRODUCTREPLAY_H

namespace meshc::runtime::test {

/// Registers a test for each of listProductCases(), on the first GPU. A product
/// that the library does not take is a skipped test, with what the library
/// said. One more test says what the library's relu makes of 0 and of NaN, and
/// fails if that is not what codegen/steps/README.md says.
void registerProducts();

} // namespace meshc::runtime::test

#endif

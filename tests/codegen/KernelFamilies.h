#ifndef MESHC_TESTS_CODEGEN_KERNELFAMILIES_H
#define MESHC_TESTS_CODEGEN_KERNELFAMILIES_H

#include "tests/codegen/ProgramText.h"

namespace meshc::test {

/// Programs whose kernels are of one family each. Tensors are of `type`, f32 or
/// a narrower float; what is summed is f32, as partitioning leaves it.

ProgramText getProduct(int64_t size, const std::string &type);
/// `from` to `to`, two floats.
ProgramText getConversion(int64_t size, const std::string &from,
                          const std::string &to);
/// gelu in its exact form.
ProgramText getGelu(int64_t size, const std::string &type = "f32");
/// Of the argument, and times the gradient of the result.
ProgramText getGeluGradient(int64_t size, const std::string &type = "f32");
ProgramText getLogistic(int64_t size, const std::string &type = "f32");
ProgramText getSoftmax(int64_t rows, int64_t columns,
                       const std::string &type = "f32");
/// From the result and its gradient.
ProgramText getSoftmaxGradient(int64_t rows, int64_t columns,
                               const std::string &type = "f32");
ProgramText getLayerNorm(int64_t rows, int64_t columns,
                         const std::string &type = "f32");
/// The shape of a normalisation's backward pass: a row's sum goes into its
/// columns, and columns are summed over all rows.
ProgramText getNormGradient(int64_t rows, int64_t columns,
                            const std::string &type = "f32");
/// Of logits and labels, which are i32; f32, one per row.
ProgramText getCrossEntropy(int64_t rows, int64_t columns,
                            const std::string &type = "f32");
/// Over all rows; the result is f32.
ProgramText getColumnSum(int64_t rows, int64_t columns,
                         const std::string &type = "f32");
/// The gradient of gelu, tanh form, times `g`, and its sum over all rows, the
/// gradient of a bias, f32.
ProgramText getSummedGeluGradient(int64_t rows, int64_t columns,
                                  const std::string &type = "f32");
/// The mean of the squares of x - y over everything; the result is f32.
ProgramText getMeanSquare(int64_t rows, int64_t columns,
                          const std::string &type = "f32");
/// Plus a vector.
ProgramText getTranspose(int64_t rows, int64_t columns,
                         const std::string &type = "f32");
/// Parameters of these sizes, f32, from gradients of `type`: one launch.
ProgramText getAdam(const std::vector<int64_t> &sizes,
                    const std::string &type = "f32");

} // namespace meshc::test

#endif

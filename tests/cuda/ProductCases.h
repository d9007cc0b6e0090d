#ifndef MESHC_TESTS_CUDA_PRODUCTCASES_H
#define MESHC_TESTS_CUDA_PRODUCTCASES_H

/// Products of cuBLASLt with every end that commands have, against sums in f64:
/// by the emulated library in tests, by the real one in meshc_kernel_replay.

#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/library/Gpu.h"
#include "runtime/cuda/library/Resources.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace meshc::runtime::test {

/// What the operands of a product hold.
enum class ProductData {
  random, ///< between -1 and 1, with all the bits that the type has
  /// The same, but that the terms of row 0 are zeros (in its even columns,
  /// where there is a bias), and in row 1 there is a NaN.
  special
};

/// A product with its end. All operands but the factors have the type `result`,
/// and the bits of relu i32.
struct ProductCase {
  std::string name;
  exec::MatmulT matmul;
  exec::ElementType factor = exec::ElementType::f32;
  exec::ElementType result = exec::ElementType::f32;
  ProductData data = ProductData::random;
};

/// What relu made of arguments for which the library's documentation does not
/// say it; every answer that was found.
struct ReluRules {
  std::set<bool> bitOfZero; ///< whether it left a bit for 0
  std::set<bool> bitOfNan;
  std::set<bool> keepsNan; ///< whether relu of NaN was NaN; it was 0 otherwise

  void add(const ReluRules &others);
  /// "sets the bit of 0, clears the bit of NaN, makes 0 of NaN".
  std::string str() const;
};

struct ProductOutcome {
  std::string problems; ///< by algorithm; empty: every value is as expected
  std::string refusal;  ///< why the library does not take it; empty: it does
  size_t algorithms = 0;
  ReluRules rules;
};

/// The products of one GPU.
class ProductRunner {
public:
  static Result<std::unique_ptr<ProductRunner>>
  create(const cuda::Driver &driver);

  /// Computes a product by every algorithm that the library offers for it.
  ///
  /// The bound of an element is that of its rounding to the type of the result,
  /// u |c|, and of the sum before: (terms + 1) v times the sum of the terms'
  /// magnitudes (Higham 2002, 4.2), bias and addend among them, through the
  /// slope of the activation. u is 2^-24, 2^-53, 2^-8 or 2^-11; v is 2^-24, or
  /// 2^-53 for f64, and twice that for 16-bit factors: tensor cores cut off
  /// what they add (Fasi, Higham, Mikaitis and Pranesh 2021, Numerical behavior
  /// of NVIDIA tensor cores). gelu itself may be wrong by 64 roundings of its
  /// argument in f32, its gradient by 256 of the product, of which
  /// cuBLASLt 13.1 needs 43 and 174 on an H200: its tanh is an approximation.
  /// In front of what it adds or applies, the sum may be rounded to the
  /// result's 16 bits as well: some of its algorithms do. Sums of columns are
  /// bound like the sum, of terms that are wrong as above.
  ///
  /// Bits of relu are compared where the sign of the argument is certain. NaN
  /// is expected where arithmetic gives it, but for relu; rules has what was
  /// found there. What a product reads must not change.
  ProductOutcome run(const ProductCase &test);

private:
  explicit ProductRunner(const cuda::Driver &driver) : driver(driver) {}

  const cuda::Driver &driver;
  std::unique_ptr<cuda::Gpu> gpu;
  cuda::OwnedStream stream;
  std::unique_ptr<cuda::MatmulCalls> calls;
  cuda::DeviceMemory workspace;
};

/// Every end in every type for which codegen has a command, with sizes that 8
/// divides and others, few and many terms, in batches too.
std::vector<ProductCase> listProductCases();

} // namespace meshc::runtime::test

#endif

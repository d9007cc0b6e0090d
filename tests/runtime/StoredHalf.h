#ifndef MESHC_TESTS_RUNTIME_STOREDHALF_H
#define MESHC_TESTS_RUNTIME_STOREDHALF_H

#include "runtime/exec/HalfFloats.h"

#include <ostream>

namespace meshc::runtime::test {

/// A number in 16 bits that takes part in expressions as a double.
template <class Half> class StoredHalf {
public:
  StoredHalf(double number = 0) : half(Half::round(float(number))) {}
  operator double() const { return double(half.toFloat()); }

  friend std::ostream &operator<<(std::ostream &out, StoredHalf number) {
    return out << double(number);
  }

private:
  Half half;
};

using StoredBF16 = StoredHalf<BFloat16>;
using StoredF16 = StoredHalf<Float16>;

} // namespace meshc::runtime::test

#endif

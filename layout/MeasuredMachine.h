#ifndef MESHC_LAYOUT_MEASUREDMACHINE_H
#define MESHC_LAYOUT_MEASUREDMACHINE_H

/// A host whose constants were measured.
///
/// What is fitted has the form that Machine prices by, and nothing but the
/// commands that were measured goes into it.

#include "layout/Machine.h"

#include <span>
#include <string>

namespace meshc::layout {

/// What a command of one device took on one thread.
struct MeasuredWork {
  double flops = 0, bytes = 0, us = 0;
};

/// The time of a product is a call, its flops and its bytes.
struct ProductFit {
  double rate = 0;                      ///< flop/us
  double byteRate = 0, farByteRate = 0; ///< bytes/us, in caches and in memory
  double callUs = 0;
  double worstError = 0; ///< of those it is fitted to, as a part of their time
};

/// The fit that is the least off in relative terms (sum of squares), none of
/// the four less than nothing; up to `nearBytes` a product is in the caches,
/// from `farBytes` on in memory. What there is no product for has the rate of
/// the other. Requires: each has flops, bytes and time.
ProductFit fitProducts(std::span<const MeasuredWork> products, double nearBytes,
                       double farBytes);

/// What was measured on a host; rates of one thread, in flop/us and bytes/us.
struct MeasuredHost {
  std::string processor;
  std::string date; ///< "2026-11-24"
  int64_t workers = 0;
  ProductFit matmul32, matmulBf16, matmul16, convolution;
  double arithmetic = 0;
  double nearRate = 0, farRate = 0, nearBytes = 0, farBytes = 0;
  double commandUs = 0, collectiveUs = 0;
  double collectiveRate = 0, collectiveFarRate = 0;
  double collectiveNearBytes = 0, collectiveFarBytes = 0;
};

/// Every number of `host` but those that say what it is, by name; the file of
/// a measurement has them under these names.
struct MeasuredField {
  std::string_view key;
  double *value;
};
std::vector<MeasuredField> getFields(MeasuredHost &host);

/// The machine "cpu" of a measured host.
class MeasuredMachine {
public:
  explicit MeasuredMachine(const MeasuredHost &host);
  MeasuredMachine(const MeasuredMachine &) = delete;
  MeasuredMachine &operator=(const MeasuredMachine &) = delete;

  const Machine &get() const { return machine; }

private:
  std::string source, label; ///< that constants refer to
  Machine machine;
};

} // namespace meshc::layout

#endif

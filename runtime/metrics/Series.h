#ifndef MESHC_RUNTIME_METRICS_SERIES_H
#define MESHC_RUNTIME_METRICS_SERIES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meshc::runtime {

/// What a number was over many steps, in memory that does not grow with them:
/// neighbouring steps share a bin, and bins that have become too many are
/// joined in pairs.
class Series {
public:
  /// Steps next to one another. Numbers that are not finite are only counted.
  struct Bin {
    int64_t firstStep = 0, lastStep = 0;
    int64_t count = 0; ///< of the finite ones
    double sum = 0, least = 0, most = 0;
    int64_t notFinite = 0;

    double getMean() const { return sum / double(count); }
  };
  static constexpr size_t mostBins = 1024;

  /// Steps come in ascending order.
  void add(int64_t step, double value);

  std::span<const Bin> getBins() const { return bins; }
  /// None while all were finite.
  std::optional<int64_t> getFirstNotFinite() const { return firstNotFinite; }

private:
  void joinPairs();

  std::vector<Bin> bins;
  int64_t binSteps = 1; ///< that go into a bin
  std::optional<int64_t> firstNotFinite;
};

} // namespace meshc::runtime

#endif

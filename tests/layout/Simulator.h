#ifndef MESHC_TESTS_LAYOUT_SIMULATOR_H
#define MESHC_TESTS_LAYOUT_SIMULATOR_H

/// Devices that hold one block each, as plainly as possible: the oracle for
/// transfers and reshard plans. It finds where blocks lie by its own reading of
/// the definition in layout/Sharding.h, not by the code under test.

#include "layout/ReshardStep.h"
#include "layout/Transfers.h"

#include <random>
#include <string>
#include <vector>

namespace meshc::layout::test {

/// Positions of a tensor or block in row-major order.
using Position = std::vector<int64_t>;

/// Where a device's block lies: in every dimension it starts at `start` (which
/// may be past the end), is `block` long, and owns `count` elements.
struct Place {
  Position start, block, count;
};

class Simulator {
public:
  Simulator(const Mesh &mesh, std::vector<int64_t> sizes, uint64_t seed);

  /// Gives every device its block of a random tensor of small integers. Terms
  /// of partial values are random as well; padding is NaN.
  void scatter(const Sharding &sharding);

  /// Runs one step as its collective works on whole blocks within its groups;
  /// `why` is set if the step is not such a collective.
  void run(const ReshardStep &step, std::string &why);

  /// Runs getTransfers; `why` is set if an element is written twice, or a read
  /// or write is out of bounds.
  void transfer(const Sharding &source, const Sharding &target,
                std::string &why);

  /// Empty if the devices hold the tensor under `sharding`; else where not.
  std::string compare(const Sharding &sharding) const;

private:
  Place getPlace(const Sharding &sharding, int64_t device) const;
  std::vector<Place> getPlaces(const Sharding &sharding) const;
  int64_t getTerm(const Sharding &sharding, int64_t device) const;
  void fill(const Sharding &sharding);
  std::vector<int64_t> getPeers(const ReshardStep &step, int64_t device) const;
  bool holdsTerm(const ReshardStep &step, int64_t device) const;
  void runBlockwise(const ReshardStep &step,
                    const std::vector<std::vector<double>> &before,
                    std::string &why);
  void runPermute(const ReshardStep &step,
                  const std::vector<std::vector<double>> &before,
                  std::string &why);
  void runExchange(const ReshardStep &step,
                   const std::vector<std::vector<double>> &before,
                   std::string &why);
  double combine(ReduceKind kind, double a, double b) const;

  const Mesh &mesh;
  std::vector<int64_t> sizes;
  std::mt19937_64 random;
  std::vector<double> tensor;
  std::vector<std::vector<double>> blocks; ///< per device
};

} // namespace meshc::layout::test

#endif

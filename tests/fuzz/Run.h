#ifndef MESHC_TESTS_FUZZ_RUN_H
#define MESHC_TESTS_FUZZ_RUN_H

/// A tree compiled and run in this process, against what it means.

#include "tests/end_to_end/Harness.h"
#include "tests/fuzz/Devices.h"

#include <functional>

namespace meshc::fuzz {

/// A program, what it is fed, and how it is split.
struct Case {
  Tree tree;
  uint64_t seed = 0; ///< of what it is fed
  std::vector<meshc::test::Layout> layouts;
};

struct Failure {
  /// Where, and what kind: two of one stage are taken for one defect.
  std::string stage;
  std::string message;

  explicit operator bool() const { return !stage.empty(); }
};

/// A legal layout of the tree under this mesh, drawn by `seed`.
meshc::test::Layout drawLayout(const Tree &tree, const std::string &mesh,
                               uint64_t seed);

/// How far a case is taken.
struct Checks {
  Precision getPrecision() const {
    return devices ? devices->precision : Precision::F32;
  }

  /// Kernels and steps are run, besides the interpreter; none: they are not.
  std::optional<DeviceSetting> devices = DeviceSetting();
  /// The layouts of a case that has none; called when the whole program is
  /// right.
  std::function<std::vector<meshc::test::Layout>()> draw;
  /// Called with the name of each stage before it.
  std::function<void(const std::string &)> enter = [](const std::string &) {};
};

/// Whether the program itself is wrong, whatever the layout.
bool isOfWhole(const Failure &failure);

/// Compiles and runs everything; the first thing that is wrong, or none.
Failure run(Case &item, const Checks &checks);

/// The spec with the layouts under which it is compiled.
std::string describe(const Case &item);

} // namespace meshc::fuzz

#endif

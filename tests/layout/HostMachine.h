#ifndef MESHC_TESTS_LAYOUT_HOSTMACHINE_H
#define MESHC_TESTS_LAYOUT_HOSTMACHINE_H

/// Machines whose devices are no GPUs, with prices made up.

#include "layout/Machine.h"

namespace meshc::layout::test {

struct HostRates {
  double transferUs = 5, roundUs = 1, exchangeFactor = 1.25;
  double wireRate = 12.5e3, copyRate = 12.5e3;
};

inline Machine makeHost(const HostRates &rates) {
  auto constant = [](double value) {
    return MachineConstant{"", "", value, Made::Assumed, "made up"};
  };
  return {"host", "made up",
          Machine::HostConstants{
              constant(9e4), constant(rates.copyRate),
              constant(rates.transferUs), constant(rates.roundUs),
              constant(rates.wireRate), constant(rates.exchangeFactor)}};
}

} // namespace meshc::layout::test

#endif

// A measured host: the fit, and how devices share its workers.

#include "layout/MeasuredMachine.h"

#include <gtest/gtest.h>

using namespace meshc::layout;

namespace {

/// 100 flop/us, 20 bytes/us, 3 us a call.
double getUs(double flops, double bytes) {
  return 3 + flops / 100 + bytes / 20;
}

MeasuredHost makeHost(int64_t workers) {
  MeasuredHost host;
  host.processor = "made up";
  host.date = "2026-11-24";
  for (const MeasuredField &field : getFields(host))
    *field.value = 1;
  host.workers = workers;
  host.matmul32 = {100, 20, 3, 0};
  host.nearBytes = 100;
  host.farBytes = 1000;
  host.nearRate = 50;
  host.farRate = 5;
  host.commandUs = 2;
  host.arithmetic = 10;
  host.collectiveUs = 4;
  host.collectiveRate = 25;
  return host;
}

TEST(MeasuredMachine, AFitFindsTheFormThatItHas) {
  std::vector<MeasuredWork> works;
  for (auto [flops, bytes] : {std::pair(250.0, 300.0),
                              {70.0, 5000.0},
                              {33000.0, 700.0},
                              {1e6, 3e5},
                              {5e4, 2e5},
                              {900.0, 20.0}})
    works.push_back({flops, bytes, getUs(flops, bytes)});
  const ProductFit fit = fitProducts(works);
  EXPECT_NEAR(fit.rate, 100, 0.1);
  EXPECT_NEAR(fit.byteRate, 20, 0.1);
  EXPECT_NEAR(fit.callUs, 3, 0.03);
  EXPECT_LT(fit.worstError, 1e-3);
}

TEST(MeasuredMachine, NothingIsLessThanNothing) {
  // More bytes in less time: no byte takes any.
  const std::vector<MeasuredWork> works = {
      {100, 10, 10}, {200, 5, 21}, {300, 1, 33}};
  const ProductFit fit = fitProducts(works);
  EXPECT_GT(fit.rate, 0);
  EXPECT_GT(fit.byteRate, 1e6);
  EXPECT_GE(fit.callUs, 0);
}

TEST(MeasuredMachine, EveryConstantWasMeasured) {
  const MeasuredMachine machine(makeHost(3));
  EXPECT_EQ(machine.get().getName(), "cpu");
  EXPECT_EQ(machine.get().getLabel(), "made up");
  EXPECT_FALSE(machine.get().getMemoryBytes());
  EXPECT_EQ(machine.get().getGpuConstants(), nullptr);
  for (const MachineConstant &constant : machine.get().getConstants()) {
    EXPECT_EQ(constant.made, Made::Measured) << constant.name;
    EXPECT_EQ(constant.source, "meshc doctor --measure, 2026-11-24");
  }
}

TEST(MeasuredMachine, ProductsAreACallFlopsAndBytes) {
  const MeasuredMachine machine(makeHost(3));
  EXPECT_NEAR(machine.get().findMatmulPrice(MatmulType::F32, 700, 300)->us,
              2 + getUs(700, 300), 1e-9);
  // Products of f64 are no calls of the library.
  EXPECT_FALSE(machine.get().findMatmulPrice(MatmulType::F64, 700, 300));
}

TEST(MeasuredMachine, MoreBytesTakeLongerInAndOutOfTheCaches) {
  const MeasuredMachine machine(makeHost(3));
  double last = 0;
  for (double bytes : {1, 70, 100, 101, 300, 999, 1000, 1001, 5000}) {
    const double us = machine.get().getKernelPrice(0, bytes).us;
    EXPECT_GT(us, last) << bytes;
    last = us;
  }
  EXPECT_NEAR(machine.get().getKernelPrice(0, 50).us, 2 + 1, 1e-9);
  EXPECT_NEAR(machine.get().getKernelPrice(0, 5000).us, 2 + 1000, 1e-9);
  EXPECT_NEAR(machine.get().getKernelPrice(7000, 50).us, 2 + 700, 1e-9);
}

TEST(MeasuredMachine, DevicesShareTheWorkers) {
  const MeasuredMachine machine(makeHost(3));
  auto share = [&](int64_t pieces, int64_t devices) {
    return machine.get().shareAmongWorkers({6}, pieces, devices).us;
  };
  EXPECT_NEAR(share(1, 1), 6, 1e-9);  // two workers have nothing to do
  EXPECT_NEAR(share(1, 3), 6, 1e-9);  // a device each
  EXPECT_NEAR(share(1, 4), 12, 1e-9); // two rounds
  EXPECT_NEAR(share(1, 6), 12, 1e-9);
  EXPECT_NEAR(share(3, 1), 2, 1e-9); // a piece each
  EXPECT_NEAR(share(2, 2), 6, 1e-9); // four pieces in two rounds
  EXPECT_NEAR(machine.get().getSharedCollectiveUs(50, 6), 6 * (4 + 2) / 3.0,
              1e-9);
}

} // namespace

// A measured host: the fit, and how devices share its workers.

#include "layout/MeasuredMachine.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace meshc::layout;

namespace {

/// 100 flop/us, 20 bytes/us up to 1000 bytes, 4 from 5000 on, 3 us a call.
double getUs(double flops, double bytes) {
  const double part = std::clamp((bytes - 1000) / 4000, 0.0, 1.0);
  const double near = std::min(bytes, 1000.0) / 20;
  const double far = std::max(bytes, 5000.0) / 4;
  return 3 + flops / 100 + near + part * (far - near);
}

MeasuredHost makeHost(int64_t workers) {
  MeasuredHost host;
  host.processor = "made up";
  host.date = "2026-11-24";
  for (const MeasuredField &field : getFields(host))
    *field.value = 1;
  host.workers = workers;
  host.matmul32 = {100, 20, 4, 3, 0};
  host.nearBytes = 1000;
  host.farBytes = 5000;
  host.nearRate = 50;
  host.farRate = 5;
  host.commandUs = 2;
  host.arithmetic = 10;
  host.collectiveUs = 4;
  host.collectiveRate = 25;
  host.collectiveFarRate = 5;
  host.collectiveNearBytes = 100;
  host.collectiveFarBytes = 500;
  return host;
}

TEST(MeasuredMachine, AFitFindsTheFormThatItHas) {
  std::vector<MeasuredWork> works;
  for (auto [flops, bytes] : {std::pair(250.0, 300.0),
                              {70.0, 5000.0},
                              {33000.0, 700.0},
                              {1e6, 3e5},
                              {5e4, 2e5},
                              {400.0, 3000.0},
                              {900.0, 20.0}})
    works.push_back({flops, bytes, getUs(flops, bytes)});
  const ProductFit fit = fitProducts(works, 1000, 5000);
  EXPECT_NEAR(fit.rate, 100, 0.1);
  EXPECT_NEAR(fit.byteRate, 20, 0.1);
  EXPECT_NEAR(fit.farByteRate, 4, 0.02);
  EXPECT_NEAR(fit.callUs, 3, 0.03);
  EXPECT_LT(fit.worstError, 1e-3);
}

TEST(MeasuredMachine, NothingIsLessThanNothing) {
  // More bytes in less time: no byte takes any.
  const std::vector<MeasuredWork> works = {
      {100, 10, 10}, {200, 5, 21}, {300, 1, 33}};
  const ProductFit fit = fitProducts(works, 1000, 5000);
  EXPECT_GT(fit.rate, 0);
  EXPECT_GT(fit.byteRate, 1e6);
  // None was of memory.
  EXPECT_EQ(fit.farByteRate, fit.byteRate);
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
  for (double bytes : {300, 1000, 2500, 5000, 90000})
    EXPECT_NEAR(machine.get().findMatmulPrice(MatmulType::F32, 700, bytes)->us,
                2 + getUs(700, bytes), 1e-9);
  // Products of f64 are no calls of the library.
  EXPECT_FALSE(machine.get().findMatmulPrice(MatmulType::F64, 700, 300));
}

TEST(MeasuredMachine, MoreBytesTakeLongerInAndOutOfTheCaches) {
  const MeasuredMachine machine(makeHost(3));
  double last = 0;
  for (double bytes : {1, 700, 1000, 1001, 3000, 4999, 5000, 5001, 9000}) {
    const double us = machine.get().getKernelPrice(0, bytes).us;
    EXPECT_GT(us, last) << bytes;
    last = us;
  }
  EXPECT_NEAR(machine.get().getKernelPrice(0, 50).us, 2 + 1, 1e-9);
  EXPECT_NEAR(machine.get().getKernelPrice(0, 6000).us, 2 + 1200, 1e-9);
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
  auto send = [&](int64_t bytes) {
    return machine.get().getSharedCollectiveUs(bytes, 6);
  };
  EXPECT_NEAR(send(50), 6 * (4 + 2) / 3.0, 1e-9);
  EXPECT_NEAR(send(1000), 6 * (4 + 200) / 3.0, 1e-9);
  EXPECT_NEAR(send(300), (send(100) + send(500)) / 2, 1e-9);
}

} // namespace

/// Which kernel moves a box: what the executable has is found, what it lacks is
/// named. Nothing is moved, so boxes may be larger than memory.

#include "runtime/cuda/MoveTable.h"
#include "runtime/cuda/library/Driver.h"
#include "runtime/exec/GpuKernels.h"
#include "tests/cuda/CudaTesting.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

namespace {

/// The error of adding boxes of f32 to the table, with the kernels of
/// ImageKernels.cpp, which has no wide ones; empty: there is none.
std::string add(std::vector<std::vector<Collective::MoveDim>> boxes) {
  return test::runEmulated({}, [&]() -> std::string {
    Result<const Driver *> driver = Driver::get();
    if (!driver)
      return driver.getError().message;
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
    if (!gpu)
      return gpu.getError().message;
    exec::ExecutableT executable;
    auto image = std::make_unique<exec::GpuImageT>();
    image->architecture = "host";
    image->kind = exec::ImageKind::host;
    std::ifstream file(MESHC_CUDA_TEST_IMAGE, std::ios::binary);
    image->data.assign(std::istreambuf_iterator<char>(file), {});
    executable.images.push_back(std::move(image));
    if (Status loaded = (*gpu)->load(executable); !loaded)
      return loaded.getError().message;
    MoveTable table(**gpu);
    std::vector<MoveList::Box> all;
    for (const auto &dims : boxes)
      all.push_back({{4096}, {8192}, dims});
    Result<MoveLaunch> launch =
        table.add(exec::ReduceKind::none, exec::ElementType::f32, all);
    if (!launch)
      return launch.getError().message;
    return launch->kernel || launch->pieces.count == 0 ? "" : "no kernel";
  });
}

constexpr int64_t limit = maxNarrowElements;
const std::string wide = "damaged program: its code for the GPU has no kernel "
                         "'meshc_move_4_wide'";

TEST(MoveTableTest, boxes_that_32_bits_count_through_need_no_wide_kernel) {
  EXPECT_EQ(add({{{5, 1, 1}}, {{3, 7, 9}, {5, 1, 1}}}), "");
  EXPECT_EQ(add({{{limit, 1, 1}}}), "");
  // Nothing to move, and nothing to divide by.
  EXPECT_EQ(add({{{4, 1, 1}, {0, 1, 1}}}), "");
  EXPECT_EQ(add({{{4, 1, 1}, {0, 1, 1}}, {{5, 1, 1}}}), "");
}

TEST(MoveTableTest, one_box_beyond_them_needs_it) {
  EXPECT_EQ(add({{{limit + 1, 1, 1}}}), wide);
  EXPECT_EQ(add({{{5, 1, 1}}, {{2, limit, 1}}}), wide);
  EXPECT_EQ(add({{{2, 1, limit}}, {{5, 1, 1}}}), wide);
}

// What a plan says of tables is what they take.
TEST(MoveTableTest, tables_are_as_large_as_measured) {
  std::mt19937 random(7);
  auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<MoveList::Box> boxes(size_t(draw(0, 4)));
    for (MoveList::Box &box : boxes) {
      box.sources.resize(size_t(draw(0, 3)));
      box.targets.resize(size_t(draw(1, 3)));
      // Sometimes empty, sometimes of more pieces than blocks of a launch.
      for (int64_t rank = draw(0, 3); rank > 0; --rank)
        box.dims.push_back({draw(round % 5 == 0 ? 0 : 1, 300), draw(1, 9), 1});
    }
    MoveList list;
    Result<MoveList::Pieces> added = list.add(boxes);
    ASSERT_TRUE(added);
    Result<uint64_t> measured = MoveList::measure(boxes);
    ASSERT_TRUE(measured);
    EXPECT_EQ(*measured, list.getBytes());
  }
  std::vector<Collective::MoveDim> scattered;
  for (int64_t dim = 0; dim <= maxMoveRank; ++dim)
    scattered.push_back({2, 3, int64_t(1) << (2 * dim)});
  const MoveList::Box box{{0}, {0}, scattered};
  Result<uint64_t> refused = MoveList::measure({&box, 1});
  Result<MoveList::Pieces> added = MoveList().add({&box, 1});
  ASSERT_FALSE(refused);
  ASSERT_FALSE(added);
  EXPECT_EQ(refused.getError().message, added.getError().message);
}

} // namespace

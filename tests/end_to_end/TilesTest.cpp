// Large values in tiles, made small: results beside the un-partitioned program
// in f64, on CPUs and emulated GPUs; and the memory that is left.

#include "ExecutableTesting.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

using meshc::test::Reference;

namespace {

const char *const tiles = MESHC_SOURCE_DIR "/tests/end_to_end/tiles.mesh";
/// Through both layers, their gradients and the head.
constexpr int64_t terms = 2 * 2 * (6 * 4 + 99 * 2) + 70 * 2 + 3 * 99;

const std::vector<std::pair<const char *, const char *>> splits = {
    {"", ""},
    {"a=3", "batch=a"},
    {"a=2", "heads=a"},
    {"a=2,b=3", "heads=a,batch=b"},
    {"a=2", "word=a"},
    {"a=3", "pos=a"},
    {"a=3", "key_pos=a"},
    {"a=8", "pos=a"}};

TEST(Tiles, equal_the_reference) {
  const Reference reference(tiles, {}, terms);
  // Of no, some and all dimensions that can be tiled.
  for (const char *bytes : {"16384", "4096", "512"})
    for (const auto &[mesh, layout] : splits) {
      SCOPED_TRACE(fmt::format("{} {} {}", mesh, layout, bytes));
      EXPECT_EQ(reference.compare(mesh, layout,
                                  fmt::format(" --tile-bytes {}", bytes)),
                "");
    }
}

/// Sizes that are prime, or have few divisors.
TEST(Tiles, of_sizes_that_divide_in_few_ways) {
  for (const char *size : {"pos=97", "pos=98", "pos=134", "word=131"}) {
    SCOPED_TRACE(size);
    EXPECT_EQ(Reference(tiles, {size}, 2 * terms)
                  .compare("a=2", "heads=a", " --tile-bytes 1024"),
              "");
  }
}

TEST(Tiles, beside_lookups) {
  const Reference reference(MESHC_SOURCE_DIR
                            "/tests/end_to_end/gathered_tiles.mesh",
                            {}, 2 * (3 + 64) + 6 * 4 * 64 * 3);
  for (const char *bytes : {"0", "512", "1024", "4096"})
    for (const auto &[mesh, layout] :
         {std::pair("", ""), std::pair("a=2", "heads=a"),
          std::pair("a=3", "batch=a")}) {
      SCOPED_TRACE(fmt::format("{} {} {}", mesh, layout, bytes));
      EXPECT_EQ(reference.compare(mesh, layout,
                                  fmt::format(" --tile-bytes {}", bytes)),
                "");
    }
}

TEST(Tiles, in_16_bits) {
  for (const char *precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    EXPECT_EQ(Reference(tiles, {}, terms, 1, {precision, 60})
                  .compare("a=3", "batch=a", " --tile-bytes 1024"),
              "");
  }
}

TEST(Tiles, on_gpus) {
  const Reference reference(tiles, {}, terms);
  for (const auto &[mesh, layout, devices] :
       {std::tuple("", "", 1), std::tuple("a=2", "heads=a", 2)}) {
    SCOPED_TRACE(layout);
    EXPECT_EQ(
        reference.compareOnGpus(mesh, layout, devices, " --tile-bytes 1024"),
        "");
  }
}

TEST(Tiles, have_the_same_bits_on_any_number_of_threads) {
  EXPECT_EQ(
      Reference(tiles, {}, terms)
          .compareThreads("a=2", "heads=a", {1, 2, 3, 5}, " --tile-bytes 1024"),
      "");
}

} // namespace

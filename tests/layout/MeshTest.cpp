#include "layout/Mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::layout;
using testing::ElementsAre;

TEST(Mesh, DevicesAreRowMajor) {
  Mesh mesh({{"rows", 2}, {"cols", 3}});
  EXPECT_EQ(mesh.getNumDevices(), 6);
  EXPECT_THAT(mesh.getCoordinates(4), ElementsAre(1, 1));
  EXPECT_THAT(mesh.getCoordinates(2), ElementsAre(0, 2));
  for (int64_t device = 0; device < 6; ++device)
    EXPECT_EQ(mesh.getDevice(mesh.getCoordinates(device)), device);
}

TEST(Mesh, WithoutAxesIsOneDevice) {
  Mesh mesh;
  EXPECT_EQ(mesh.getNumDevices(), 1);
  EXPECT_TRUE(mesh.getCoordinates(0).empty());
  EXPECT_EQ(mesh.getDevice({}), 0);
  EXPECT_THAT(mesh.getGroup(0, {}), ElementsAre(0));
}

TEST(Mesh, FindsAxesByName) {
  Mesh mesh({{"data", 4}, {"model", 2}});
  EXPECT_EQ(mesh.findAxis("model"), 1);
  EXPECT_EQ(mesh.findAxis("modle"), std::nullopt);
}

TEST(Mesh, PartsAreDigitsOfTheCoordinate) {
  Mesh mesh({{"x", 12}});
  // 12 = 2 x 3 x 2, major to minor.
  const AxisRef major{0, 1, 2}, middle{0, 2, 3}, minor{0, 6, 2};
  for (int64_t c = 0; c < 12; ++c) {
    const std::vector<int64_t> at{c};
    EXPECT_EQ(mesh.getCoordinate(major, at) * 6 +
                  mesh.getCoordinate(middle, at) * 2 +
                  mesh.getCoordinate(minor, at),
              c);
    EXPECT_EQ(mesh.getCoordinate(mesh.getWholeAxis(0), at), c);
  }
}

TEST(Mesh, GroupsDifferOnTheGivenPartsOnly) {
  Mesh mesh({{"a", 2}, {"b", 3}});
  const AxisRef a = mesh.getWholeAxis(0), b = mesh.getWholeAxis(1);
  EXPECT_THAT(mesh.getGroup(4, std::vector{a}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.getGroup(4, std::vector{b}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.getGroup(4, std::vector{a, b}),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(mesh.getGroup(4, std::vector{b, a}),
              ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Mesh, GroupsOverParts) {
  Mesh mesh({{"x", 8}});
  EXPECT_THAT(mesh.getGroup(5, std::vector<AxisRef>{{0, 1, 2}}),
              ElementsAre(1, 5));
  EXPECT_THAT(mesh.getGroup(5, std::vector<AxisRef>{{0, 2, 4}}),
              ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.getGroup(5, std::vector<AxisRef>{{0, 4, 2}, {0, 1, 2}}),
              ElementsAre(0, 4, 1, 5));
}

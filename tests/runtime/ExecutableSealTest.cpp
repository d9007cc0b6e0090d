#include "runtime/ExecutableSeal.h"

#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

TEST(SealTest, finds_whatever_changes) {
  TemporaryFolder folder;
  const std::string path = folder / "program";
  std::string bytes(1000, 'a');
  writeBytes(path, bytes);
  // Without one.
  EXPECT_EQ(checkSeal(path).getError().code, ErrorCode::DamagedProgram);
  ASSERT_TRUE(sealExecutable(path, 700));
  EXPECT_TRUE(checkSeal(path));
  const std::string sealed = readBytes(path);
  EXPECT_EQ(sealed.size(), bytes.size() + 48);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = char(damaged[i] ^ 1);
    writeBytes(path, damaged);
    Status found = checkSeal(path);
    // What debuggers read is not loaded.
    ASSERT_EQ(bool(found), i >= 700 && i < 1000) << i;
    if (!found) {
      EXPECT_EQ(getExitCode(found.getError().code), ExitCode::Damaged);
      EXPECT_THAT(found.getError().message, HasSubstr(path));
    }
  }
  for (size_t size = 0; size < sealed.size(); ++size) {
    writeBytes(path, sealed.substr(0, size));
    EXPECT_FALSE(checkSeal(path)) << size;
  }
  writeBytes(path, sealed + "x");
  EXPECT_FALSE(checkSeal(path));
  EXPECT_EQ(checkSeal(folder / "missing").getError().code,
            ErrorCode::CannotRead);
}

} // namespace

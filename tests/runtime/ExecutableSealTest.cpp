#include "runtime/exec/ExecutableSeal.h"

#include "tests/runtime/LinearModel.h"

#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

TEST(SealTest, finds_whatever_changes) {
  TemporaryFolder folder;
  const std::string path = folder / "program";
  std::string bytes(1000, 'a');
  writeBytes(path, bytes);
  // Without one.
  EXPECT_EQ(checkSeal(path.c_str()), SealState::Missing);
  ASSERT_TRUE(sealExecutable(path, 700));
  EXPECT_EQ(checkSeal(path.c_str()), SealState::Sound);
  const std::string sealed = readBytes(path);
  EXPECT_EQ(sealed.size(), bytes.size() + 48);
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = char(damaged[i] ^ 1);
    writeBytes(path, damaged);
    // What debuggers read is not loaded. The rest is the seal: its mark, the
    // number of bytes, whose high ones are more than there are, the digest.
    const SealState expected = i < 700    ? SealState::OtherBytes
                               : i < 1000 ? SealState::Sound
                               : i < 1008 ? SealState::Missing
                               : i < 1010 ? SealState::OtherBytes
                               : i < 1016 ? SealState::CutOff
                                          : SealState::OtherBytes;
    ASSERT_EQ(checkSeal(path.c_str()), expected) << i;
  }
  for (size_t size = 0; size < sealed.size(); ++size) {
    writeBytes(path, sealed.substr(0, size));
    EXPECT_EQ(checkSeal(path.c_str()), SealState::Missing) << size;
  }
  writeBytes(path, sealed + "x");
  EXPECT_EQ(checkSeal(path.c_str()), SealState::Missing);
  EXPECT_EQ(checkSeal((folder / "missing").c_str()), SealState::Unreadable);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(sealExecutable(folder / "missing", 0).getError().code,
            ErrorCode::CannotWrite);
}

} // namespace

/// Keys from files and variables, proofs, and text of others on a terminal.

#include "runtime/ranks/RankKey.h"
#include "runtime/io/Escape.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

RankKey makeKey(std::string_view text) {
  Result<RankKey> key = RankKey::fromText("test", text);
  EXPECT_TRUE(key);
  return *key;
}

std::string getHex(const std::string &bytes) {
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(RankKeyTest, a_proof_is_the_hmac_of_sizes_and_fields) {
  // From Python: hmac.new(b"0123456789abcdef", b"\2" + bytes(7) + b"ab" +
  // bytes(8), "sha256").hexdigest()
  EXPECT_EQ(getHex(makeKey("0123456789abcdef").prove({"ab", ""})),
            "41e4064de821cef3688bb86046e6795e2cf65bf87364b6695d071d0750a16c88");
}

TEST(RankKeyTest, a_proof_is_of_one_key_and_of_these_fields) {
  const RankKey key = makeKey("0123456789abcdef");
  const std::string proof = key.prove({"role", "number"});
  EXPECT_TRUE(key.isProven(proof, {"role", "number"}));
  EXPECT_FALSE(key.isProven(proof, {"rolen", "umber"}));
  EXPECT_FALSE(key.isProven(proof, {"role", "number", ""}));
  EXPECT_FALSE(key.isProven(proof, {"number", "role"}));
  EXPECT_FALSE(makeKey("0123456789abcdeF").isProven(proof, {"role", "number"}));
  EXPECT_FALSE(RankKey().isProven(proof, {"role", "number"}));
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string other = proof;
    other[i] = char(other[i] ^ 1);
    EXPECT_FALSE(key.isProven(other, {"role", "number"}));
  }
  EXPECT_FALSE(key.isProven(proof.substr(1), {"role", "number"}));
  EXPECT_FALSE(key.isProven("", {"role", "number"}));
  const RankKey other = key.derive({"data", "run"});
  EXPECT_NE(other.prove({"a"}), key.prove({"a"}));
  EXPECT_NE(other.prove({"a"}), key.derive({"data", "ruN"}).prove({"a"}));
}

TEST(RankKeyTest, made_keys_differ_and_can_be_read) {
  const std::string one = RankKey::makeText();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, RankKey::makeText());
  EXPECT_TRUE(makeKey(one).isGiven());
  EXPECT_FALSE(RankKey().isGiven());
}

TEST(RankKeyTest, files_are_for_this_user_alone) {
  TemporaryFolder folder;
  const std::string path = folder / "key";
  auto read = [&](const std::string &contents, mode_t mode) {
    writeBytes(path, contents);
    chmod(path.c_str(), mode);
    return RankKey::fromFile(path);
  };
  Result<RankKey> key = read("0123456789abcdef\r\n\n", 0600);
  ASSERT_TRUE(key) << key.getError().message;
  EXPECT_EQ(key->prove({"a"}), makeKey("0123456789abcdef").prove({"a"}));
  EXPECT_TRUE(read("0123456789abcdef", 0400));

  for (mode_t mode : {0640, 0604, 0620, 0602, 0611}) {
    Result<RankKey> open = read("0123456789abcdef", mode);
    ASSERT_FALSE(open);
    EXPECT_EQ(open.getError().code, ErrorCode::StoreKey);
    EXPECT_THAT(open.getError().message,
                HasSubstr("others may read or change"));
    EXPECT_EQ(open.getError().note, "chmod 600 " + path);
  }
  for (const std::string &contents :
       {std::string(), std::string("0123456789abcde\n"),
        std::string(5000, 'x')}) {
    Result<RankKey> wrong = read(contents, 0600);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.getError().code, ErrorCode::StoreKey);
    EXPECT_THAT(wrong.getError().message,
                HasSubstr("expected a key of 16 to 4096 bytes"));
  }
  EXPECT_EQ(RankKey::fromFile(folder / "none").getError().code,
            ErrorCode::CannotRead);
  EXPECT_THAT(RankKey::fromFile(folder.path.string()).getError().message,
              HasSubstr("expected a regular file"));
  // Without waiting for somebody to write.
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(RankKey::fromFile(folder / "pipe").getError().message,
              HasSubstr("expected a regular file"));
  if (geteuid() == 0) {
    ASSERT_TRUE(read("0123456789abcdef", 0600));
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_THAT(RankKey::fromFile(path).getError().message,
                HasSubstr("belongs to another user"));
  }
}

TEST(EscapeTest, control_characters_are_spelled_out) {
  EXPECT_EQ(escapeForTerminal("cannot read 'Zo\xc3\xab \"a\\b\"'"),
            "cannot read 'Zo\xc3\xab \"a\\b\"'");
  EXPECT_EQ(escapeForTerminal("\x1b[2J\x07\n\r\t\x7f"),
            "\\x1b[2J\\x07\\n\\r\\t\\x7f");
  // An escape sequence of one byte, text from right to left, no UTF-8.
  EXPECT_EQ(escapeForTerminal("\xc2\x9b"), "\\x9b");
  EXPECT_EQ(escapeForTerminal("\xe2\x80\xae"), "\\u202e");
  EXPECT_EQ(escapeForTerminal("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(escapeForTerminal("abcdef", 3), "abc...");
  EXPECT_EQ(escapeForTerminal(""), "");
}

} // namespace

/// The format by its description, and every way for a header to be wrong.

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/exec/Executable.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

std::string addLength(const std::string &json) {
  std::string text(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(text.data(), &length, sizeof(length));
  return text + json;
}

Result<SafetensorsHeader> parse(const std::string &file) {
  return readSafetensorsHeader(
      [&](uint64_t place, std::span<std::byte> target) {
        EXPECT_LE(place + target.size(), file.size());
        std::memcpy(target.data(), file.data() + place, target.size());
        return Status::success();
      },
      file.size(), "file");
}

/// Fails with a message that has these words.
void expectDamage(const std::string &file, const std::string &words,
                  ErrorCode code = ErrorCode::DamagedFile) {
  Result<SafetensorsHeader> header = parse(file);
  ASSERT_FALSE(header) << words;
  EXPECT_EQ(header.getError().code, code) << header.getError().message;
  EXPECT_THAT(header.getError().message, HasSubstr(words));
  EXPECT_THAT(header.getError().message, HasSubstr("'file'"));
}

/// A file with this header and so many bytes of elements.
std::string makeFile(const std::string &json, size_t bytes) {
  return addLength(json) + std::string(bytes, 'x');
}

TEST(SafetensorsTest, integers_that_are_for_data) {
  SafetensorsHeader data;
  data.entries = {{"u", exec::ElementType::u8, {3}},
                  {"i", exec::ElementType::i8, {2, 5}},
                  {"h", exec::ElementType::i16, {7}}};
  const std::string front = layOut(data);
  for (const char *type : {"\"U8\"", "\"I8\"", "\"I16\""})
    EXPECT_THAT(front, HasSubstr(type));
  Result<SafetensorsHeader> read = parse(front + std::string(3 + 10 + 14, 'x'));
  ASSERT_TRUE(read) << read.getError().message;
  ASSERT_EQ(read->entries.size(), 3u);
  for (const SafetensorsEntry &entry : read->entries) {
    const exec::ElementType expected = entry.name == "u" ? exec::ElementType::u8
                                       : entry.name == "i"
                                           ? exec::ElementType::i8
                                           : exec::ElementType::i16;
    EXPECT_EQ(entry.element, expected) << entry.name;
  }
}

TEST(SafetensorsTest, layout_is_that_of_the_format) {
  SafetensorsHeader header;
  header.metadata = {{"step", "12"}};
  header.entries = {{"c", exec::ElementType::i64, {2}},
                    {"w/\"1\"", exec::ElementType::f32, {3, 5}},
                    {"s", exec::ElementType::f32, {}},
                    {"h", exec::ElementType::bf16, {7}},
                    {"m", exec::ElementType::boolean, {3}}};
  const std::string front = layOut(header);
  EXPECT_EQ(front.size(), header.bytes);
  EXPECT_EQ(front.size() % 4096, 0u);
  uint64_t length = 0;
  std::memcpy(&length, front.data(), 8);
  EXPECT_EQ(length + 8, front.size());
  EXPECT_EQ(front[8], '{');
  EXPECT_EQ(header.entries[1].begin, front.size() + 16);
  EXPECT_EQ(header.entries[1].end, front.size() + 16 + 60);
  EXPECT_EQ(header.entries.back().end, front.size() + 16 + 60 + 4 + 14 + 3);

  Result<SafetensorsHeader> read =
      parse(front + std::string(16 + 60 + 4 + 14 + 3, 'x'));
  ASSERT_TRUE(read) << read.getError().message;
  EXPECT_EQ(read->metadata, header.metadata);
  ASSERT_EQ(read->entries.size(), header.entries.size());
  for (size_t i = 0; i < header.entries.size(); ++i) {
    EXPECT_EQ(read->entries[i].name, header.entries[i].name);
    EXPECT_EQ(read->entries[i].element, header.entries[i].element);
    EXPECT_EQ(read->entries[i].shape, header.entries[i].shape);
    EXPECT_EQ(read->entries[i].begin, header.entries[i].begin);
    EXPECT_EQ(read->entries[i].end, header.entries[i].end);
  }
}

TEST(SafetensorsTest, what_the_format_allows_is_read) {
  EXPECT_TRUE(parse(makeFile("{}", 0)));
  EXPECT_TRUE(parse(makeFile("{}   \n", 0)));
  EXPECT_TRUE(parse(
      makeFile(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8)));
  // Without elements, in front of and behind others.
  Result<SafetensorsHeader> empty = parse(makeFile(
      R"({"z":{"dtype":"I32","shape":[3,0],"data_offsets":[4,4]},
          "a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
          "y":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
      4));
  ASSERT_TRUE(empty) << empty.getError().message;
  EXPECT_EQ(empty->entries.size(), 3u);
  // In another order than they lie, at places that are no multiples of 4.
  EXPECT_TRUE(parse(makeFile(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[3,7]},
          "b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
      7)));
}

TEST(SafetensorsTest, lengths_that_the_file_cannot_have) {
  expectDamage("", "it has 0 bytes, expected at least 8");
  expectDamage("1234567", "it has 7 bytes, expected at least 8");
  expectDamage(std::string(8, '\xff'), "its header is to have");
  std::string tooLong = addLength("{}");
  tooLong[0] = 3;
  expectDamage(tooLong, "its header is to have 3 bytes, expected at most 2");
  // 2^33: more than there is, however long the file is.
  std::string huge = addLength("{}");
  huge[4] = 2;
  expectDamage(huge, "its header is to have 8589934594 bytes");
  expectDamage(addLength(""), "does not begin with '{'");
}

TEST(SafetensorsTest, headers_that_are_no_json) {
  expectDamage(addLength(" {}"), "does not begin with '{'");
  expectDamage(addLength("[]"), "does not begin with '{'");
  expectDamage(addLength("{"), "is no JSON");
  expectDamage(addLength("{} x"), "is no JSON");
  expectDamage(addLength("{\"\xff\": 1}"), "is no JSON");
  expectDamage(addLength("{\"a\": NaN}"), "is no JSON");
  for (const char *scalar : {"1.5", "1e3", "18446744073709551616",
                             "9223372036854775808", "null", "true"})
    expectDamage(addLength(fmt::format("{{\"a\": {}}}", scalar)),
                 "tensor 'a' is no object");
  std::string deep = "{\"a\": ";
  for (int i = 0; i < 100000; ++i)
    deep += "[";
  expectDamage(addLength(deep), "nested more than 8 deep");
}

TEST(SafetensorsTest, keys_that_are_twice) {
  const std::string tensor =
      R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expectDamage(makeFile(fmt::format(R"({{"a":{0},"a":{0}}})", tensor), 4),
               "the key 'a' twice");
  expectDamage(
      makeFile(
          R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})",
          4),
      "the key 'shape' twice");
}

TEST(SafetensorsTest, tensors_that_are_none) {
  auto expect = [](const std::string &tensor, const std::string &words,
                   size_t bytes = 4) {
    expectDamage(makeFile(fmt::format("{{\"a\": {}}}", tensor), bytes), words);
  };
  expect("1", "tensor 'a' is no object");
  expect("{}", "tensor 'a' has no text 'dtype'");
  expect(R"({"dtype":1,"shape":[],"data_offsets":[0,4]})", "no text 'dtype'");
  expect(R"({"dtype":"F32","data_offsets":[0,4]})", "has no list 'shape'");
  expect(R"({"dtype":"F32","shape":[1]})", "has no list 'data_offsets'");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})",
         "has no two data_offsets");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[0,"4"]})",
         "has no two data_offsets");
  expect(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})",
         "a size that is no positive integer");
  expect(R"({"dtype":"F32","shape":["1"],"data_offsets":[0,4]})",
         "a size that is no positive integer");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})", "is at -4");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", "is at 4 to 0");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})",
         "is at 0 to 8 of 4");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})",
         "has 4 bytes, expected 8 for F32[2]");
  // 2^32 * 2^32 * 4 is 0 in 64 bits.
  expect(R"({"dtype":"F32","shape":[4294967296,4294967296],
             "data_offsets":[0,4]})",
         "has more elements than any file");
  std::string sizes = "1";
  for (int i = 0; i < 64; ++i)
    sizes += ",1";
  expect(fmt::format(R"({{"dtype":"F32","shape":[{}],"data_offsets":[0,4]}})",
                     sizes),
         "65 dimensions");
  expect(R"({"dtype":"not a type","shape":[4],"data_offsets":[0,4]})",
         "has elements 'not a type', which are no type");
  expectDamage(makeFile(R"({"__metadata__": 3})", 0), "__metadata__");
}

TEST(SafetensorsTest, what_is_of_no_matter_to_a_program_is_no_damage) {
  Result<SafetensorsHeader> header = parse(makeFile(
      R"({"__metadata__":null,
          "a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},
          "b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      8));
  ASSERT_TRUE(header) << header.getError().message;
  EXPECT_EQ(header->entries[0].foreignType, "F8_E4M3");
  EXPECT_EQ(header->entries[0].shape, std::vector<int64_t>{4});
  EXPECT_EQ(header->entries[1].foreignType, "");
  header = parse(makeFile(
      R"({"__metadata__":{"a":3,"b":null,"c":1.5,"d":true,"e":"x"}})", 0));
  ASSERT_TRUE(header) << header.getError().message;
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"e", "x"}}));
}

TEST(SafetensorsTest, tensors_that_do_not_cover_the_file) {
  auto makeTwo = [](int first, int begin, int end, size_t bytes) {
    return makeFile(fmt::format(R"({{"a":{{"dtype":"BOOL","shape":[{0}],
                        "data_offsets":[0,{0}]}},
                       "b":{{"dtype":"BOOL","shape":[{1}],
                        "data_offsets":[{2},{3}]}}}})",
                                first, end - begin, begin, end),
                    bytes);
  };
  EXPECT_TRUE(parse(makeTwo(3, 3, 8, 8)));
  expectDamage(makeTwo(4, 3, 8, 8), "tensors 'a' and 'b' overlap");
  expectDamage(makeTwo(8, 0, 8, 8), "overlap");
  expectDamage(makeTwo(2, 3, 8, 8), "no tensor has the 1 bytes before 'b'");
  expectDamage(makeTwo(3, 3, 7, 8), "no tensor has its last 1 bytes");
  expectDamage(makeFile("{}", 5), "no tensor has its last 5 bytes");
}

} // namespace

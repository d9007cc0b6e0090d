/// Readers of sequences and tables, on sound files and on what they refuse.

#include "runtime/samples/Readers.h"
#include "runtime/samples/Conversion.h"
#include "runtime/samples/TextUnits.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class ReadersTest : public testing::Test {
protected:
  ReadersTest() {
    source.input = "x";
    source.train = "file";
    sizes = {3};
  }

  Result<Samples> open(const std::string &bytes) {
    writeBytes(folder / "file", bytes);
    return openSamples(
        {source, folder / "file", folder.path.string(), sizes, element});
  }
  void expectError(const std::string &bytes, ErrorCode code,
                   const std::string &message) {
    Result<Samples> opened = open(bytes);
    ASSERT_FALSE(opened) << message;
    EXPECT_EQ(opened.getError().code, code) << opened.getError().message;
    EXPECT_THAT(opened.getError().message, HasSubstr(message));
    EXPECT_THAT(opened.getError().message, HasSubstr(folder / "file"));
  }
  /// The samples, one after the other.
  template <typename T> std::vector<T> readAll(const std::string &bytes) {
    Result<Samples> opened = open(bytes);
    EXPECT_TRUE(opened) << opened.getError().message;
    if (!opened)
      return {};
    const SampleShape &shape = (*opened)->getShape();
    EXPECT_EQ(getBytes(shape.element), int64_t(sizeof(T)));
    std::vector<T> values;
    for (int64_t sample = 0; sample < shape.numSamples; ++sample) {
      std::vector<T> part(size_t(shape.getSampleElements()));
      EXPECT_TRUE((*opened)->read(sample * shape.stride,
                                  std::as_writable_bytes(std::span(part))));
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  /// llm.c's header.
  static std::string makeHeader(int32_t mark, int32_t version, int32_t count) {
    std::string header(1024, '\0');
    const int32_t head[] = {mark, version, count};
    std::memcpy(header.data(), head, sizeof(head));
    return header;
  }
  template <typename T> static std::string toBytes(const std::vector<T> &ids) {
    return {reinterpret_cast<const char *>(ids.data()), ids.size() * sizeof(T)};
  }

  TemporaryFolder folder;
  exec::DataSourceT source;
  std::vector<int64_t> sizes;
  exec::ElementType element = exec::ElementType::i64;
};

class TokensTest : public ReadersTest {
protected:
  TokensTest() {
    source.reader = exec::DataReader::tokens;
    source.stride = 2;
  }
};

TEST_F(TokensTest, windows_of_ids) {
  const std::vector<uint16_t> ids = {1, 2, 50256, 4, 65535, 6, 7, 8};
  const auto expected = ElementsAre(1, 2, 50256, 50256, 4, 65535, 65535, 6, 7);
  EXPECT_THAT(readAll<uint16_t>(makeHeader(20240520, 1, 8) + toBytes(ids)),
              expected);
  source.units = "u16";
  EXPECT_THAT(readAll<uint16_t>(toBytes(ids)), expected);
  EXPECT_THAT(readAll<uint16_t>(makeHeader(20240520, 1, 8) + toBytes(ids)),
              expected);
  source.units = "i32";
  EXPECT_THAT(
      readAll<int32_t>(toBytes(std::vector<int32_t>{7, 1 << 30, -1, 3})),
      ElementsAre(7, 1 << 30, -1));
  source.units = "";
  source.stride = 5;
  EXPECT_THAT(readAll<int32_t>(
                  makeHeader(20240801, 7, 8) +
                  toBytes(std::vector<int32_t>{9, 8, 7, 6, 5, 4, 128255, 2})),
              ElementsAre(9, 8, 7, 4, 128255, 2));
}

TEST_F(TokensTest, what_is_refused) {
  const std::string ids(16, '\1');
  expectError(ids, ErrorCode::WrongData, "does not begin as llm.c's files do");
  expectError(makeHeader(20240520, 2, 8) + ids, ErrorCode::WrongData,
              "has version 2 of its format, expected 1");
  for (int32_t count : {7, 9, -1, 1 << 30})
    expectError(makeHeader(20240520, 1, count) + ids, ErrorCode::DamagedFile,
                "16 bytes of ids, expected " + std::to_string(count) +
                    " ids of 2 bytes");
  expectError(makeHeader(20240801, 7, 2) + std::string(8, '\1'),
              ErrorCode::WrongData, "has 2 ids, one sample of input 'x' has 3");
  source.units = "u16";
  expectError(std::string(17, '\1'), ErrorCode::DamagedFile,
              "17 bytes of ids, expected a multiple of 2");
  expectError("", ErrorCode::WrongData, "has 0 ids");
  expectError(makeHeader(20240801, 7, 4) + ids, ErrorCode::WrongData,
              "says that its ids are i32, the data block that they are u16");
}

/// A file that is cut off after it was opened is an error, no signal.
TEST_F(TokensTest, a_file_that_is_cut_off) {
  source.units = "u16";
  Result<Samples> opened = open(std::string(1 << 20, '\1'));
  ASSERT_TRUE(opened);
  ASSERT_EQ(truncate((folder / "file").c_str(), 1000), 0);
  std::array<std::byte, 6> window{};
  for (int64_t first : {0, 498}) {
    Status read = (*opened)->read(first, window);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.getError().code, ErrorCode::CannotRead);
  }
}

TEST_F(TokensTest, digests_differ_where_ids_do) {
  source.units = "u16";
  std::string bytes(600, '\1');
  const std::string first = *(*open(bytes))->getDigest(true);
  EXPECT_EQ(first, *(*open(bytes))->getDigest(true));
  bytes[300] = 2;
  EXPECT_NE(first, *(*open(bytes))->getDigest(true));
  bytes[300] = 1;
  source.stride = 1;
  EXPECT_NE(first, *(*open(bytes))->getDigest(true));
}

class TextTest : public ReadersTest {
protected:
  TextTest() {
    source.reader = exec::DataReader::text;
    source.stride = 3;
  }
};

TEST_F(TextTest, bytes) {
  source.units = "bytes";
  const std::string text = "h\xc3\xb6r zu\xff";
  for (const std::string &file : {text, compress(text)})
    EXPECT_THAT(readAll<uint8_t>(file),
                ElementsAre('h', 0xc3, 0xb6, 'r', ' ', 'z'));
}

TEST_F(TextTest, characters_in_the_order_of_their_numbers) {
  source.units = "chars";
  // a 0, r 1, z 2, ö 3, € 4, 😀 5
  const std::string text = "r\xc3\xb6"
                           "a\xf0\x9f\x98\x80\xe2\x82\xacz";
  for (const std::string &file : {text, compress(text)})
    EXPECT_THAT(readAll<int32_t>(file), ElementsAre(1, 3, 0, 5, 4, 2));
  source.train = "train";
  writeBytes(folder / "train", "za\xe2\x82\xac.");
  EXPECT_THAT(readAll<int32_t>("a\xe2\x82\xac."), ElementsAre(1, 3, 0));
}

TEST_F(TextTest, what_is_refused) {
  source.units = "chars";
  // A byte that goes on, one that leads to nothing, too long a form, a
  // surrogate, more than Unicode has, a cut off character.
  for (const char *wrong : {"\x80", "\xff", "\xc0\xaf", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xe2\x82", "\xc3("})
    expectError("abcd" + std::string(wrong), ErrorCode::DamagedFile,
                "byte 4 begins no character of UTF-8");
  expectError("ab", ErrorCode::WrongData,
              "has 2 characters, one sample of input 'x' has 3");
  source.train = "train";
  writeBytes(folder / "train", "abc");
  expectError("abcab\xc3\xb6", ErrorCode::WrongData,
              "its character 5 is U+00F6, which the text for training does "
              "not have");
  source.units = "bytes";
  expectError("", ErrorCode::WrongData, "has 0 bytes");
}

TEST_F(TextTest, numbers_become_text_again) {
  const std::string text = "r\xc3\xb6"
                           "a\xf0\x9f\x98\x80\xe2\x82\xac~\x7f\xc2\x80";
  writeBytes(folder / "file", text);
  for (const char *name : {"bytes", "chars"}) {
    source.units = name;
    Result<TextUnits> units = TextUnits::open(source, folder.path.string());
    ASSERT_TRUE(units);
    EXPECT_EQ(units->getSize(), *name == 'b' ? 256 : 8);
    std::string again;
    const auto numbers = units->encode(std::as_bytes(std::span(text)), "text");
    ASSERT_TRUE(numbers);
    for (int32_t number : *numbers)
      again += units->decode(number);
    EXPECT_EQ(again, text);
  }
}

/// How far a file is that is read as a whole is told, of the packed bytes where
/// it is packed.
TEST_F(TextTest, listeners_hear_how_far_it_is) {
  source.units = "bytes";
  std::string text;
  for (uint64_t i = 0; i < 1000000; ++i)
    text += char('a' + i * i % 23);
  for (const std::string &file : {text, compress(text)}) {
    writeBytes(folder / "file", file);
    std::vector<uint64_t> heard;
    SampleRequest request{source, folder / "file", folder.path.string(), sizes,
                          element};
    request.listener = [&](uint64_t bytes, uint64_t allBytes) {
      heard.push_back(bytes);
      EXPECT_EQ(allBytes, file.size());
    };
    ASSERT_TRUE(openSamples(request));
    EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.back(), file.size());
  }
}

class RowsTest : public ReadersTest {
protected:
  RowsTest() {
    source.reader = exec::DataReader::rows;
    source.columns = {"b", "long name", "a"};
    element = exec::ElementType::f32;
  }
};

TEST_F(RowsTest, columns_by_their_names) {
  const std::string table = "a,b,c,\"long name\"\n"
                            "1,2.5,\"x, \"\"y\"\"\",-3e2\r\n"
                            "\n" // an empty line is none
                            " 4 ,\"5\",,0.125";
  for (const std::string &file : {table, table + "\n", compress(table)})
    EXPECT_THAT(readAll<double>(file), ElementsAre(2.5, -300, 1, 5, 0.125, 4));
  element = exec::ElementType::i64;
  EXPECT_THAT(readAll<int64_t>("b,a,long name\n9223372036854775807,-5,0\n"),
              ElementsAre(INT64_MAX, 0, -5));
}

/// As spreadsheets and people write them.
TEST_F(RowsTest, marks_signs_and_blanks) {
  const std::string mark = "\xef\xbb\xbf";
  for (const std::string &names : {std::string("b,long name,a\n"),
                                   std::string("\"b\",\"long name\",\"a\"\n")})
    EXPECT_THAT(readAll<double>(mark + names + "+1, +2.5 ,\t-3\n"),
                ElementsAre(1, 2.5, -3));
  expectError("b,long name,a\n" + mark + "1,2,3\n", ErrorCode::WrongData,
              "row 2: column 'b' is ");
  for (const char *number : {"+-1", "++1", "+", "1 2", "- 1"})
    expectError(std::string("b,long name,a\n1,") + number + ",3\n",
                ErrorCode::WrongData,
                fmt::format("row 2: column 'long name' is \"{}\", expected a "
                            "number",
                            number));
  element = exec::ElementType::i64;
  EXPECT_THAT(readAll<int64_t>("b,long name,a\n+1, 2,-3\n"),
              ElementsAre(1, 2, -3));
}

TEST_F(RowsTest, as_many_columns_as_an_input_takes) {
  sizes = {2};
  Result<Samples> opened = open("a,b,long name\n1,2,3\n");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.getError().message,
              HasSubstr("takes 2 numbers of a row, of which 3 are named"));
}

TEST_F(RowsTest, what_is_refused) {
  const std::string names = "a,b,long name\n1,2,3\n";
  expectError("", ErrorCode::WrongData,
              "is empty: its first row names the columns");
  expectError("a,b\n1,2\n", ErrorCode::WrongData, "has no column 'long name'");
  expectError("a,b,long name,a\n", ErrorCode::WrongData, "has two columns 'a'");
  expectError(names + "1,2\n", ErrorCode::WrongData,
              "row 3: 2 cells, the first row names 3 columns");
  expectError(names + "1,2,3,4\n", ErrorCode::WrongData,
              "row 3: 4 cells, the first row names 3 columns");
  expectError(names + "1,,3\n", ErrorCode::WrongData,
              "row 3: column 'b' is empty");
  expectError(names + "1,2,3\n1,two,3\n", ErrorCode::WrongData,
              "row 4: column 'b' is \"two\", expected a number");
  for (const char *number : {"1e999", "nan", "inf", "0x10", "1.5.5", "1 2"})
    expectError(names + "1," + number + ",3\n", ErrorCode::WrongData,
                "row 3: column 'b' is \"" + std::string(number));
  expectError(names + "1,\"2,3\n", ErrorCode::WrongData, "row 3: ");
  expectError(names + "1,2\"2,3\n", ErrorCode::WrongData, "row 3: ");
  element = exec::ElementType::i64;
  for (const char *number : {"1.0", "9223372036854775808", "1e3"})
    expectError(names + "1," + number + ",3\n", ErrorCode::WrongData,
                "expected an integer");
}

/// A number too small for any float is 0; one too large is no infinity.
TEST_F(RowsTest, numbers_that_an_input_has) {
  const std::string names = "b,long name,a\n";
  element = exec::ElementType::f32;
  EXPECT_THAT(readAll<double>(names + "1e-400,-1e-50,3.4028235e38\n"),
              ElementsAre(0, -1e-50, 3.4028235e38));
  // The least that is not rounded to the largest f32: 2^128 - 2^103.
  for (const char *number : {"1e39", "-1e39", "1e999", "3.4028235677973366e38"})
    expectError(names + "1," + number + ",3\n", ErrorCode::WrongData,
                fmt::format("row 2: column 'long name' is \"{}\", which is "
                            "beyond f32",
                            number));
  element = exec::ElementType::f64;
  EXPECT_THAT(readAll<double>(names + "1e39,-1e300,3.4028235677973366e38\n"),
              ElementsAre(1e39, -1e300, 3.4028235677973366e38));
  expectError(names + "1,2,-1e309\n", ErrorCode::WrongData,
              "row 2: column 'a' is \"-1e309\", which is beyond f64");
}

/// What an input takes of each type of elements.
TEST(ConversionTest, integers_stay_what_they_are) {
  const std::vector<int64_t> elements = {0, 6, 7, -1, int64_t(1) << 31};
  const auto bytes = std::as_bytes(std::span(elements));
  const SamplesInMemory array("file", {SampleElement::i64, {}, 1, 5},
                              {bytes.begin(), bytes.end()});
  exec::PortT port;
  port.name = "x";
  port.layout = std::make_unique<exec::TensorLayoutT>();
  auto check = [&](exec::ElementType type, int64_t bound, int64_t first) {
    port.layout->element = type;
    port.index_bound = bound;
    Result<Conversion> conversion = Conversion::create(array, port);
    ASSERT_TRUE(conversion);
    std::array<std::byte, 40> target{};
    const std::optional<int64_t> wrong =
        conversion->convert(bytes.data(), 5, target.data());
    EXPECT_EQ(wrong.value_or(5), first);
    EXPECT_EQ(conversion->check(bytes.data(), 5), wrong);
    if (wrong)
      EXPECT_THAT(
          conversion->getError(array, *wrong).message,
          HasSubstr(bound ? std::string("expects at least 0 and less than")
                          : fmt::format("expects {}", getName(type))));
  };
  check(exec::ElementType::i32, 0, 4); // beyond the type
  check(exec::ElementType::i32, 7, 2);
  check(exec::ElementType::i32, 8, 3);
  check(exec::ElementType::i64, 0, 5);
  check(exec::ElementType::i64, 8, 3);
  check(exec::ElementType::f64, 0, 5);
  check(exec::ElementType::i8, 0, 4);
  check(exec::ElementType::u8, 0, 3);
  check(exec::ElementType::u8, 7, 2);
}

TEST(ConversionTest, booleans_are_0_or_1) {
  const std::vector<uint8_t> elements = {0, 1, 1, 2};
  const auto bytes = std::as_bytes(std::span(elements));
  const SamplesInMemory array("file", {SampleElement::u8, {}, 1, 4},
                              {bytes.begin(), bytes.end()});
  exec::PortT port;
  port.name = "x";
  port.layout = std::make_unique<exec::TensorLayoutT>();
  port.layout->element = exec::ElementType::boolean;
  Result<Conversion> conversion = Conversion::create(array, port);
  ASSERT_TRUE(conversion);
  EXPECT_FALSE(conversion->takesAll());
  EXPECT_FALSE(conversion->isCopy());
  std::array<std::byte, 4> target{};
  EXPECT_EQ(conversion->convert(bytes.data(), 4, target.data()), 3);
  EXPECT_EQ(target[1], std::byte(1));
  EXPECT_THAT(conversion->getError(array, 3).message,
              HasSubstr("sample 3 is 2, input 'x' expects at least 0 and less "
                        "than 2"));
  port.layout->element = exec::ElementType::bf16;
  EXPECT_FALSE(Conversion::create(array, port));
}

/// Infinities and NaN are what they are, and no finite number becomes one.
TEST(ConversionTest, floats_stay_finite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double most = std::numeric_limits<float>::max();
  // Rounded to the largest f32, and the first that is not: half a unit further.
  const double half = 0x1p103;
  const std::vector<double> elements = {
      0.1,      -most,     std::nextafter(most + half, 0),
      infinity, -infinity, NAN,
      1e-300,   -1e39,     most + half};
  const auto bytes = std::as_bytes(std::span(elements));
  const auto count = int64_t(elements.size());
  const SamplesInMemory array("file", {SampleElement::f64, {}, 1, count},
                              {bytes.begin(), bytes.end()});
  exec::PortT port;
  port.name = "x";
  port.layout = std::make_unique<exec::TensorLayoutT>();
  port.layout->element = exec::ElementType::f32;
  Result<Conversion> conversion = Conversion::create(array, port);
  ASSERT_TRUE(conversion);
  EXPECT_FALSE(conversion->takesAll());
  std::vector<float> target(elements.size());
  auto *to = reinterpret_cast<std::byte *>(target.data());
  EXPECT_EQ(conversion->convert(bytes.data(), count, to), 7);
  EXPECT_EQ(conversion->check(bytes.data(), count), 7);
  EXPECT_EQ(conversion->check(bytes.data() + 8 * 8, 1), 0);
  EXPECT_THAT(target,
              ElementsAre(0.1f, float(-most), float(most), float(infinity),
                          float(-infinity), testing::IsNan(), 0, 0, 0));
  EXPECT_THAT(conversion->getError(array, 7).message,
              HasSubstr("is -1e+39, input 'x' expects f32"));
  port.layout->element = exec::ElementType::f64;
  EXPECT_TRUE(Conversion::create(array, port)->takesAll());
}

} // namespace

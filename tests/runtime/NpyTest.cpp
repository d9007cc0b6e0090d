/// .npy files against bytes written by NumPy 1.24 and damaged ones.

#include "runtime/data/Npy.h"
#include "runtime/data/NpyFile.h"

#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <random>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

Result<HostArray> parse(const std::string &bytes) {
  MemoryReader reader(std::as_bytes(std::span(bytes)));
  return parseNpy(reader, "a.npy");
}

/// A file of the given version with this header text, padded as NumPy does.
std::string makeNpy(const std::string &header, const std::string &elements,
                    char version = 1) {
  const size_t before = version == 1 ? 10 : 12;
  std::string padded = header;
  while ((before + padded.size() + 1) % 64 != 0)
    padded += ' ';
  padded += '\n';
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  for (size_t i = 0; i < before - 8; ++i)
    text += char(padded.size() >> (8 * i));
  return text + padded + elements;
}

std::string makeElements(std::initializer_list<float> values) {
  std::string text;
  for (float value : values)
    text.append(reinterpret_cast<const char *>(&value), 4);
  return text;
}

TEST(NpyTest, reads_what_numpy_writes) {
  const std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  for (char version : {1, 2, 3}) {
    Result<HostArray> array =
        parse(makeNpy(header, makeElements({1, 2, 3, 4, 5, 6.5}), version));
    ASSERT_TRUE(array) << array.getError().message;
    EXPECT_EQ(array->element, exec::ElementType::f32);
    EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(reinterpret_cast<const float *>(array->data.data())[5], 6.5f);
  }
  // Scalars and vectors have their own spelling.
  Result<HostArray> scalar =
      parse(makeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
                    makeElements({7})));
  ASSERT_TRUE(scalar);
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(getScalar(*scalar), 7);
  Result<HostArray> vector = parse(
      makeNpy("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}",
              makeElements({7, 8})));
  ASSERT_TRUE(vector);
  EXPECT_EQ(vector->shape, (std::vector<int64_t>{2}));
  // An empty array of a size that would overflow.
  Result<HostArray> empty =
      parse(makeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': "
                    "(0, 9000000000000000000), }",
                    ""));
  ASSERT_TRUE(empty) << empty.getError().message;
}

/// The elements of a vector of three, of a type of NumPy's, by both readers.
template <typename T>
std::vector<T> readThree(const std::string &type, const std::string &bytes) {
  const std::string text = makeNpy(
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (3,), }}",
                  type),
      bytes);
  Result<HostArray> array = parse(text);
  EXPECT_TRUE(array) << type << ": " << array.getError().message;
  std::vector<T> found(3), again(3);
  if (!array || array->data.size() != 3 * sizeof(T))
    return {};
  std::memcpy(found.data(), array->data.data(), array->data.size());
  TemporaryFolder folder;
  writeBytes(folder / "a.npy", text);
  Result<NpyFile> file = NpyFile::open(folder / "a.npy");
  EXPECT_TRUE(file);
  EXPECT_EQ(file->getElement(), array->element);
  // From any place.
  for (int64_t first : {1, 0})
    EXPECT_TRUE(file->read(first, std::as_writable_bytes(std::span(again))
                                      .subspan(size_t(first) * sizeof(T))));
  EXPECT_EQ(again, found) << type;
  return found;
}

TEST(NpyTest, types_that_meshc_has_not_are_read_as_wider_ones) {
  using namespace std::string_literals;
  EXPECT_EQ(readThree<float>("<f2", "\x00\x3c\x00\xc1\x01\x00"s),
            (std::vector<float>{1, -2.5f, 0x1p-24f}));
  EXPECT_EQ(readThree<float>(">f2", "\x3c\x00\xc1\x00\x7c\x00"s),
            (std::vector<float>{1, -2.5f, INFINITY}));
  EXPECT_EQ(readThree<int32_t>("<u2", "\x00\x00\x02\x01\xff\xff"s),
            (std::vector<int32_t>{0, 258, 65535}));
  EXPECT_EQ(readThree<int64_t>(
                "<u4", "\x01\x00\x00\x00\x00\x00\x00\x80\xff\xff\xff\xff"s),
            (std::vector<int64_t>{1, int64_t(1) << 31, 4294967295}));
  EXPECT_EQ(readThree<int64_t>("<u8", "\x01\x00\x00\x00\x00\x00\x00\x00"
                                      "\xff\xff\xff\xff\xff\xff\xff\x7f"
                                      "\x02\x00\x00\x00\x00\x00\x00\x00"s),
            (std::vector<int64_t>{1, INT64_MAX, 2}));
  EXPECT_EQ(readThree<float>(">f4", "\x3f\x80\x00\x00\xc0\x20\x00\x00"
                                    "\x40\x40\x00\x00"s),
            (std::vector<float>{1, -2.5f, 3}));
  EXPECT_EQ(readThree<int16_t>(">i2", "\x00\x01\xff\xfe\x7f\xff"s),
            (std::vector<int16_t>{1, -2, 32767}));
}

TEST(NpyTest, what_has_no_wider_type_is_refused_by_its_type) {
  auto expect = [](const std::string &descr, const std::string &bytes,
                   const std::string &words) {
    Result<HostArray> array = parse(makeNpy(
        fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}",
                    descr),
        bytes));
    ASSERT_FALSE(array) << descr;
    EXPECT_EQ(array.getError().code, ErrorCode::UnsupportedArray) << descr;
    EXPECT_THAT(array.getError().message, HasSubstr(words));
  };
  expect("[('a', '<f4'), ('b', '<i4', (2,))]", std::string(12, 'x'),
         "has records [('a', '<f4'), ('b', '<i4', (2,))], expected numbers or "
         "booleans");
  expect("'<c8'", std::string(8, 'x'), "has elements of type \"<c8\"");
  expect("'<f3'", std::string(3, 'x'), "has elements of type \"<f3\"");
  expect("'<u8'", std::string(8, '\xff'),
         "has the integer 18446744073709551615, expected less than 2^63");
  // A list that does not end is damage.
  Result<HostArray> open = parse(makeNpy("{'descr': [('a', '<f4')", ""));
  ASSERT_FALSE(open);
  EXPECT_EQ(open.getError().code, ErrorCode::DamagedFile);
}

TEST(NpyTest, writes_what_it_reads) {
  TemporaryFolder folder;
  for (auto [element, type] : {std::pair{exec::ElementType::f32, "<f4"},
                               {exec::ElementType::f64, "<f8"},
                               {exec::ElementType::i32, "<i4"},
                               {exec::ElementType::i64, "<i8"},
                               {exec::ElementType::i16, "<i2"},
                               {exec::ElementType::i8, "|i1"},
                               {exec::ElementType::u8, "|u1"},
                               {exec::ElementType::boolean, "|b1"}})
    for (const std::vector<int64_t> &shape :
         {std::vector<int64_t>{}, {5}, {2, 3}, {1, 2, 1, 7}}) {
      HostArray array{element, shape, {}};
      for (int64_t i = 0; i < array.getNumElements() * getElementBytes(element);
           ++i)
        array.data.push_back(std::byte(i % 2));
      ASSERT_TRUE(writeNpy(folder / "a.npy", array));
      const std::string bytes = readBytes(folder / "a.npy");
      EXPECT_THAT(bytes, HasSubstr(type));
      // Elements start at a multiple of 64.
      EXPECT_EQ((bytes.size() - array.data.size()) % 64, 0u);
      Result<HostArray> read = readNpy(folder / "a.npy");
      ASSERT_TRUE(read) << read.getError().message;
      EXPECT_EQ(read->element, element);
      EXPECT_EQ(read->shape, shape);
      EXPECT_EQ(read->data, array.data);
    }
}

TEST(NpyTest, the_exact_bytes_of_a_vector) {
  TemporaryFolder folder;
  HostArray array{exec::ElementType::i32, {1}, std::vector<std::byte>(4)};
  ASSERT_TRUE(writeNpy(folder / "a.npy", array));
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
  expected += std::string(60, ' ') + '\n' + std::string(4, '\0');
  EXPECT_EQ(readBytes(folder / "a.npy"), expected);
}

TEST(NpyTest, unsupported_types_and_orders) {
  for (const char *type : {"<f3", "<c8", "|O", "<U3", "f4"}) {
    Result<HostArray> array =
        parse(makeNpy(std::string("{'descr': '") + type +
                          "', 'fortran_order': False, 'shape': (1,), }",
                      "abcd"));
    ASSERT_FALSE(array);
    EXPECT_EQ(array.getError().code, ErrorCode::UnsupportedArray);
    EXPECT_THAT(array.getError().message, HasSubstr(type));
  }
  Result<HostArray> fortran = parse(makeNpy(
      "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd"));
  ASSERT_FALSE(fortran);
  EXPECT_EQ(fortran.getError().code, ErrorCode::UnsupportedArray);
  EXPECT_THAT(fortran.getError().message, HasSubstr("Fortran order"));
}

TEST(NpyTest, damaged_headers) {
  auto expectDamage = [](const std::string &bytes, const std::string &message) {
    Result<HostArray> array = parse(bytes);
    ASSERT_FALSE(array) << bytes;
    EXPECT_EQ(array.getError().code, ErrorCode::DamagedFile) << bytes;
    EXPECT_THAT(array.getError().message, HasSubstr(message));
    EXPECT_THAT(array.getError().message, HasSubstr("'a.npy' is damaged"));
  };
  expectDamage("", "does not begin as a .npy file does");
  expectDamage("no data at all", "does not begin as a .npy file does");
  expectDamage("\x93NUMPY", "does not begin as a .npy file does");
  EXPECT_THAT(parse("PK\3\4 an archive").getError().message,
              HasSubstr("is a zip archive, as .npz files and PyTorch's are, "
                        "expected a .npy file"));
  expectDamage(makeNpy("{}", "", 9), "format version 9");
  for (const char *header : {
           "",
           "{",
           "{}",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': "
           "(1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': "
           "(99999999999999999999,)}",
           "((((((((((((((((((((((((((((((",
       })
    expectDamage(makeNpy(header, "abcd"), "its header is not well-formed");
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 33; ++i)
    deep += "1,";
  expectDamage(makeNpy(deep + ")}", "abcd"), "its header is not well-formed");
  expectDamage(makeNpy(std::string(20000, ' '), "", 2),
               "expected at most 10000");
  expectDamage(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12),
               "4294967295 bytes, expected at most 10000");
  expectDamage(std::string("\x93NUMPY\x01\x00\x80\x00{", 11), "cut off");
}

TEST(NpyTest, lengths_that_do_not_match) {
  auto make = [](const std::string &shape, const std::string &elements) {
    return parse(makeNpy(
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }",
        elements));
  };
  for (auto [shape, elements, message] :
       {std::tuple{"(2,)", "abcd",
                   "at most 4 bytes of elements, expected 8 for its shape "
                   "f32[2]"},
        {"(2,)", "abcdabcda",
         "9 bytes of elements, expected 8 for its shape f32[2]"},
        {"(4611686018427387905,)", "abcd", "expected more than any file has"},
        {"(2147483648, 2147483648, 2147483648)", "abcd",
         "expected more than any file has"}}) {
    Result<HostArray> array = make(shape, elements);
    ASSERT_FALSE(array);
    EXPECT_EQ(array.getError().code, ErrorCode::DamagedFile);
    EXPECT_THAT(array.getError().message, HasSubstr(message));
  }
  Result<HostArray> boolean = parse(makeNpy(
      "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\1\2"));
  ASSERT_FALSE(boolean);
  EXPECT_THAT(boolean.getError().message, HasSubstr("a boolean is 2"));
}

TEST(NpyTest, random_damage_never_crashes) {
  const std::string sound =
      makeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
              makeElements({1, 2, 3, 4, 5, 6}));
  for (size_t size = 0; size < sound.size(); ++size)
    EXPECT_FALSE(parse(sound.substr(0, size)));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = sound;
    for (int i = 0; i < 3; ++i)
      damaged[random() % 80] = char(random());
    refused += parse(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, 15000);
}

/// A file of 64 GiB, of which nothing is stored, is refused for what it says,
/// not read first.
TEST(NpyTest, a_longer_file_is_not_read) {
  TemporaryFolder folder;
  const std::string sound =
      makeNpy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "");
  writeBytes(folder / "long.npy", sound);
  std::filesystem::resize_file(folder / "long.npy", uintmax_t(1) << 36);
  Result<HostArray> array = readNpy(folder / "long.npy");
  ASSERT_FALSE(array);
  EXPECT_EQ(array.getError().code, ErrorCode::DamagedFile);
  EXPECT_THAT(array.getError().message,
              HasSubstr("more than 8 bytes of elements, expected 8"));
}

TEST(NpyTest, a_file_is_written_as_a_whole_or_stays) {
  TemporaryFolder folder;
  const HostArray small{exec::ElementType::i32, {1}, std::vector<std::byte>(4)};
  const HostArray large{
      exec::ElementType::i32, {4096}, std::vector<std::byte>(16384)};
  const std::string path = folder / "a.npy";
  ASSERT_TRUE(writeNpy(path, small));
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const std::string before = readBytes(path);

  // As on a disk that is full behind the first bytes.
  rlimit unlimited{};
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const rlimit limited{1000, unlimited.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  Status written = writeNpy(path, large);
  setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.getError().message, HasSubstr("File too large"));
  EXPECT_EQ(readBytes(path), before);

  ASSERT_TRUE(writeNpy(path, large));
  EXPECT_EQ(readBytes(path).size(), 128u + 16384u);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  // Nothing else is left there; links stay links.
  const std::string link = folder / "link.npy";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  ASSERT_TRUE(writeNpy(link, small));
  EXPECT_EQ(readBytes(path), before);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path),
                          std::filesystem::directory_iterator()),
            2);
}

TEST(NpyTest, files_that_cannot_be_opened) {
  TemporaryFolder folder;
  Result<HostArray> missing = readNpy(folder / "missing.npy");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.getError().code, ErrorCode::CannotRead);
  HostArray array{exec::ElementType::i32, {1}, std::vector<std::byte>(4)};
  Status written = writeNpy(folder / "no/a.npy", array);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.getError().code, ErrorCode::CannotWrite);
  EXPECT_THAT(written.getError().message, HasSubstr("cannot write"));
  if (FILE *full = std::fopen("/dev/full", "w")) {
    std::fclose(full);
    EXPECT_FALSE(writeNpy("/dev/full", array));
  }
}

} // namespace

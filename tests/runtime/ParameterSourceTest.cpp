/// Parameters in folders of .npy files: what fits, what does not, and blocks of
/// them.

#include "runtime/data/ParameterSource.h"

#include "runtime/data/Npy.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

/// Element i is i.
HostArray makeCount(std::vector<int64_t> shape) {
  HostArray array{exec::ElementType::i32, std::move(shape), {}};
  for (int32_t i = 0; i < array.getNumElements(); ++i) {
    const auto *bytes = reinterpret_cast<const std::byte *>(&i);
    array.data.insert(array.data.end(), bytes, bytes + 4);
  }
  return array;
}

class ParameterSourceTest : public testing::Test {
protected:
  std::unique_ptr<ParameterSource> open() {
    auto source = openParameterSource(folder.path.string());
    EXPECT_TRUE(source) << source.getError().message;
    return source ? std::move(*source) : nullptr;
  }

  /// Which of parameters i32[2, 3] of these names the folder has.
  Status compare(const std::vector<std::string> &names,
                 const std::string &mayLack = "") {
    std::vector<exec::VariableT> variables(names.size());
    std::vector<const exec::VariableT *> parameters;
    for (size_t i = 0; i < names.size(); ++i) {
      variables[i].name = names[i];
      variables[i].layout = std::make_unique<exec::TensorLayoutT>(
          makeLayout(exec::ElementType::i32, {{"row", 2}, {"column", 3}}));
      parameters.push_back(&variables[i]);
    }
    return compareParameters(*open(), "DIR", parameters,
                             [&](const exec::VariableT &variable) {
                               return variable.name == mayLack;
                             });
  }

  TemporaryFolder folder;
};

TEST_F(ParameterSourceTest, files_are_called_like_parameters) {
  ASSERT_TRUE(writeNpy(folder / "w.npy", makeCount({2, 3})));
  ASSERT_TRUE(writeNpy(folder / "layer.attn.wq.npy", makeCount({5})));
  ASSERT_TRUE(writeNpy(folder / "layer.npy", makeCount({})));
  writeBytes(folder / "README", "what else is there");
  writeBytes(folder / ".npy", "a file without a name");
  auto source = open();
  ASSERT_TRUE(source);
  ASSERT_EQ(source->getEntries().size(), 3u);
  const ParameterSource::Entry *entry = source->find("layer/attn/wq");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->element, exec::ElementType::i32);
  EXPECT_EQ(entry->shape, (std::vector<int64_t>{5}));
  EXPECT_EQ(entry->place, folder / "layer.attn.wq.npy");
  EXPECT_TRUE(source->find("layer"));
  EXPECT_TRUE(source->find("w"));
  EXPECT_FALSE(source->find("layer/attn"));
  EXPECT_FALSE(source->find("x"));
}

/// Every block of an uneven split over two axes, in whichever dims.
TEST_F(ParameterSourceTest, devices_read_their_blocks) {
  const std::vector<int64_t> sizes = {5, 2, 7};
  ASSERT_TRUE(writeNpy(folder / "w.npy", makeCount(sizes)));
  auto source = open();
  const layout::Mesh mesh({{"a", 3}, {"b", 2}});
  for (size_t first = 0; first < 3; ++first)
    for (size_t second = 0; second < 3; ++second) {
      layout::Sharding sharding;
      sharding.dims.resize(3);
      sharding.dims[first].push_back({0, 1, 3});
      sharding.dims[second].push_back({1, 1, 2});
      for (int64_t device = 0; device < 6; ++device) {
        const Placement placement = getPlacement(mesh, sizes, sharding, device);
        int64_t count = 1;
        for (int64_t size : placement.block)
          count *= size;
        std::vector<int32_t> block(size_t(count), -1);
        ASSERT_TRUE(
            source->readBlock(*source->find("w"), placement,
                              reinterpret_cast<std::byte *>(block.data())));
        std::vector<int32_t> expected(block.size(), -1);
        for (int64_t i = 0; i < placement.owned[0].count; ++i)
          for (int64_t j = 0; j < placement.owned[1].count; ++j)
            for (int64_t k = 0; k < placement.owned[2].count; ++k)
              expected[size_t(
                  (i * placement.block[1] + j) * placement.block[2] + k)] =
                  int32_t(((placement.owned[0].offset + i) * 2 +
                           placement.owned[1].offset + j) *
                              7 +
                          placement.owned[2].offset + k);
        EXPECT_EQ(block, expected) << first << second << device;
      }
    }
}

TEST_F(ParameterSourceTest, digests_are_of_the_elements) {
  // Longer than what is read at a time.
  HostArray array = makeCount({700, 500});
  ASSERT_TRUE(writeNpy(folder / "a.npy", array));
  ASSERT_TRUE(writeNpy(folder / "b.npy", array));
  array.data[size_t(1300000)] ^= std::byte(1);
  ASSERT_TRUE(writeNpy(folder / "c.npy", array));
  auto source = open();
  auto getDigest = [&](const char *name) {
    return *source->getDigest(*source->find(name));
  };
  EXPECT_EQ(getDigest("a"), getDigest("b"));
  EXPECT_NE(getDigest("a"), getDigest("c"));
}

TEST_F(ParameterSourceTest, all_that_differs_is_named) {
  for (const char *name : {"a", "b.w", "x", "b.x"})
    ASSERT_TRUE(
        writeNpy(folder / (std::string(name) + ".npy"), makeCount({2, 3})));
  EXPECT_TRUE(compare({"a", "b/w", "x", "b/x"}));
  ASSERT_TRUE(writeNpy(folder / "b.w.npy", makeCount({3, 2})));
  Status fits = compare({"a", "b/w", "c", "b/d"});
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.getError().code, ErrorCode::WrongParameters);
  const std::string place = folder.path.string();
  EXPECT_EQ(fits.getError().message,
            "'DIR' does not fit the model: 2 parameters are missing: 'c' "
            "(i32[row=2, column=3]) and 'b/d' (i32[row=2, column=3]); 1 file "
            "has another type or shape: '" +
                place +
                "/b.w.npy' is i32[3, 2], expected i32[row=2, column=3]; 2 "
                "files are for no parameter: '" +
                place + "/b.x.npy' and '" + place + "/x.npy'");
  // What is given elsewhere is neither missing nor wrong, nor for none.
  fits = compare({"a", "b/w", "x", "b/x"}, "b/w");
  EXPECT_TRUE(fits) << fits.getError().message;
}

TEST_F(ParameterSourceTest, ten_of_many_are_named) {
  std::vector<std::string> names;
  for (int i = 0; i < 13; ++i)
    names.push_back("w" + std::to_string(i));
  Status fits = compare(names);
  ASSERT_FALSE(fits);
  EXPECT_THAT(fits.getError().message,
              HasSubstr("13 parameters are missing: 'w0' (i32"));
  EXPECT_THAT(fits.getError().message,
              testing::EndsWith("'w9' (i32[row=2, column=3]) and 3 more"));
}

TEST_F(ParameterSourceTest, what_is_no_such_folder) {
  auto expect = [](const std::string &path, ErrorCode code,
                   const std::string &message) {
    auto source = openParameterSource(path);
    ASSERT_FALSE(source);
    EXPECT_EQ(source.getError().code, code);
    EXPECT_THAT(source.getError().message, HasSubstr(message));
  };
  expect(folder / "none", ErrorCode::CannotRead, "No such file or directory");
  ASSERT_TRUE(writeNpy(folder / "w.npy", makeCount({2, 3})));
  expect(folder / "w.npy", ErrorCode::CannotRead,
         "w.npy': it is a file, expected a checkpoint, a .safetensors file, or "
         "a folder of .npy files");
  writeBytes(folder / "v.npy", "\x93NUMPY garbage");
  expect(folder.path.string(), ErrorCode::DamagedFile, "v.npy' is damaged");
}

TEST_F(ParameterSourceTest, a_folder_of_other_files) {
  TemporaryFolder other;
  for (const char *name : {"config.json", "pytorch_model.bin"})
    writeBytes(other / name, "x");
  auto source = openParameterSource(other.path.string());
  ASSERT_FALSE(source);
  EXPECT_EQ(source.getError().code, ErrorCode::WrongParameters);
  EXPECT_THAT(source.getError().message,
              HasSubstr("has no file that parameters are read from, which are "
                        ".npy and .safetensors; it has 'config.json', "
                        "'pytorch_model.bin'"));
  EXPECT_THAT(source.getError().note, HasSubstr("safetensors.torch.save_file"));
  for (const char *name : {"a.txt", "b.txt", "c.txt"})
    writeBytes(other / name, "x");
  EXPECT_THAT(openParameterSource(other.path.string()).getError().message,
              HasSubstr("'config.json' and 1 more"));
}

TEST_F(ParameterSourceTest, a_file_that_changes_is_an_error) {
  ASSERT_TRUE(writeNpy(folder / "w.npy", makeCount({2, 3})));
  auto source = open();
  // Another file under its name, with another header or the same one.
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{6}, {2, 3}}) {
    ASSERT_TRUE(writeNpy(folder / "w.npy", makeCount(shape)));
    auto digest = source->getDigest(*source->find("w"));
    ASSERT_FALSE(digest);
    EXPECT_EQ(digest.getError().code, ErrorCode::CannotRead);
    EXPECT_THAT(digest.getError().message,
                HasSubstr("w.npy': it was changed while it was read"));
  }
}

} // namespace

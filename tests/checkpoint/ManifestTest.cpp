/// What a manifest says, and what it may not say.

#include "runtime/checkpoint/Manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

Manifest makeManifest() {
  Manifest manifest;
  manifest.producer = "meshc 0.1.0";
  manifest.model = "m\"\n\x01";
  manifest.specSha256 = "12ab";
  manifest.mesh = "a = 2, b = 3";
  manifest.precision = "bf16";
  manifest.processes = 2;
  manifest.savedAt = 1700000000;
  manifest.position = {120, -7, 32, 1000, {{"x", "aa"}, {"y", "bb"}}};
  manifest.files = {
      {getShardName(0, 2), 100, {digest({})}},
      {getShardName(1, 2), pieceBytes + 1, {Digest{1}, Digest{2}}}};
  manifest.tensors = {{"w",
                       exec::BufferRole::parameter,
                       exec::ElementType::f32,
                       {{"r", 7}, {"c", 5}},
                       {{0, {{0, 7}, {0, 3}}}, {1, {{0, 7}, {3, 2}}}}},
                      {"adam/step",
                       exec::BufferRole::state,
                       exec::ElementType::i32,
                       {},
                       {{1, {}}}}};
  return manifest;
}

TEST(ManifestTest, is_read_as_it_was_written) {
  const Manifest written = makeManifest();
  Result<Manifest> read = parseManifest(renderManifest(written), "m");
  ASSERT_TRUE(read) << read.getError().message;
  EXPECT_EQ(renderManifest(*read), renderManifest(written));
  EXPECT_EQ(read->model, written.model);
  EXPECT_EQ(read->position.seed, -7);
  EXPECT_EQ(read->position.data, written.position.data);
  EXPECT_EQ(read->files[1].pieces, written.files[1].pieces);
  EXPECT_EQ(read->tensors[0].blocks[1].box, (Box{{0, 7}, {3, 2}}));
  EXPECT_EQ(read->tensors[0].getName({{0, 7}, {3, 2}}), "w[0:7, 3:5]");
  EXPECT_EQ(read->tensors[1].getName({}), "adam/step");
  EXPECT_EQ(read->getBytes(), 100 + pieceBytes + 1);
}

TEST(ManifestTest, no_bit_changes_unnoticed) {
  const std::string text = renderManifest(makeManifest());
  for (size_t place = 0; place < text.size(); ++place)
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[place] = char(changed[place] ^ 1 << bit);
      EXPECT_FALSE(parseManifest(changed, "m")) << place << " " << bit;
    }
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parseManifest(text.substr(0, length), "m")) << length;
  EXPECT_FALSE(parseManifest(text + " ", "m"));
}

TEST(ManifestTest, one_of_another_version_says_so) {
  for (const auto &[version, age] :
       {std::pair(1, "an older meshc"), std::pair(3, "a newer meshc")}) {
    Result<Manifest> other = parseManifest(
        fmt::format(
            R"({{"format": "meshc.checkpoint", "version": {}, "other": {{}}}})",
            version),
        "m");
    ASSERT_FALSE(other);
    const Error &error = other.getError();
    EXPECT_EQ(error.code, ErrorCode::CheckpointVersion);
    EXPECT_EQ(int(getExitCode(error.code)), 4);
    EXPECT_THAT(error.message, HasSubstr(fmt::format("version {}", version)));
    EXPECT_THAT(error.note, HasSubstr(age));
  }
}

/// One that is changed and then sealed, as who means harm would.
void expectDamage(const std::function<void(Manifest &)> &change,
                  const std::string &words) {
  Manifest manifest = makeManifest();
  change(manifest);
  Result<Manifest> read = parseManifest(renderManifest(manifest), "m");
  ASSERT_FALSE(read) << words;
  EXPECT_EQ(read.getError().code, ErrorCode::DamagedFile);
  EXPECT_THAT(read.getError().message, HasSubstr(words));
}

TEST(ManifestTest, files_are_those_of_its_folder) {
  for (const char *name :
       {"", "/etc/passwd", "../shard-00000-of-00002.safetensors",
        "shard-00000-of-00002.safetensors/x", "shard-0-of-2.safetensors",
        "shard-00002-of-00002.safetensors", "shard--0001-of-00002.safetensors",
        "shard-00000-of-00002.safetensors\n",
        "shard-+0000-of-00002.safetensors", "SHARD-00000-of-00002.safetensors",
        "manifest.json"})
    expectDamage([&](Manifest &m) { m.files[0].name = name; },
                 "is not called like one of a checkpoint");
  expectDamage([](Manifest &m) { m.files[1].name = m.files[0].name; },
               "named twice");
  expectDamage([](Manifest &m) { m.files[0].pieces.clear(); },
               "has 0 digests, expected 1 for 100 bytes");
  expectDamage([](Manifest &m) { m.files[0].bytes = UINT64_MAX >> 1; },
               "'bytes', expected 0 to");
}

TEST(ManifestTest, blocks_tile_their_tensor) {
  const std::string words = "overlap or leave something out";
  auto change = [](auto modify) {
    return [=](Manifest &m) { modify(m.tensors[0]); };
  };
  expectDamage(change([](StoredTensor &t) { t.blocks.pop_back(); }), words);
  expectDamage(change([](StoredTensor &t) { t.blocks.clear(); }), words);
  expectDamage(change([](StoredTensor &t) { t.blocks.push_back(t.blocks[0]); }),
               words);
  expectDamage(change([](StoredTensor &t) {
                 t.blocks[1].box = {{0, 7}, {2, 3}};
               }),
               words);
  expectDamage(change([](StoredTensor &t) {
                 t.blocks[1].box = {{0, 6}, {3, 2}};
               }),
               words);
  const std::string outside = "a block that is not inside of it";
  expectDamage(change([](StoredTensor &t) {
                 t.blocks[1].box = {{0, 7}, {3, 3}};
               }),
               outside);
  expectDamage(change([](StoredTensor &t) {
                 t.blocks[1].box = {{0, 7}, {-1, 3}};
               }),
               outside);
  expectDamage(change([](StoredTensor &t) {
                 t.blocks[1].box = {{0, 7}, {3, 0}};
               }),
               outside);
  expectDamage(change([](StoredTensor &t) { t.blocks[1].box.pop_back(); }),
               "another number of dimensions");
  expectDamage(change([](StoredTensor &t) { t.blocks[1].file = 2; }),
               "'file', expected 0 to 1");
}

TEST(ManifestTest, tensors_are_such_as_there_are) {
  expectDamage([](Manifest &m) { m.tensors[1].name = "w"; }, "is there twice");
  expectDamage([](Manifest &m) { m.tensors[0].dims[0].size = 0; },
               "dimensions that no tensor has");
  expectDamage(
      [](Manifest &m) {
        for (StoredDim &dim : m.tensors[0].dims)
          dim.size = int64_t(1) << 40;
      },
      "dimensions that no tensor has");
  expectDamage(
      [](Manifest &m) {
        m.tensors[0].dims.assign(65, {"one", 1});
      },
      "dimensions that no tensor has");
  expectDamage([](Manifest &m) { m.position.step = -1; }, "'step'");
}

TEST(ManifestTest, what_is_no_manifest) {
  auto getMessage = [](const std::string &text) {
    Result<Manifest> read = parseManifest(text, "m");
    EXPECT_FALSE(read);
    return read ? "" : read.getError().message;
  };
  EXPECT_THAT(getMessage(""), HasSubstr("'m' is damaged: its JSON is no JSON"));
  EXPECT_THAT(getMessage("{}"), HasSubstr("its format is not"));
  EXPECT_THAT(getMessage("[]"), HasSubstr("is no object"));
  EXPECT_THAT(getMessage(R"({"format": "meshc.checkpoint", "version": 2})"),
              HasSubstr("its digest is not that of its text"));
  EXPECT_THAT(getMessage(R"({"format": "meshc.checkpoint", "format": "x"})"),
              HasSubstr("the key 'format' twice"));
  EXPECT_THAT(getMessage(std::string(size_t(1) << 26, ' ')),
              HasSubstr("expected at most"));
}

} // namespace

/// Checkpoints between meshes and numbers of processes, and damaged ones.

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/OtherModel.h"

#include "runtime/checkpoint/CheckpointParameters.h"
#include "runtime/checkpoint/Saver.h"
#include "tests/checkpoint/StateProgram.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

namespace {

void save(Session &session, const std::string &folder, int64_t step) {
  SaveRequest request;
  request.folder = folder;
  Result<std::unique_ptr<Saver>> saver =
      Saver::create(session.getDevices(), session.getRanks(), request, {},
                    /*resumesFromFolder=*/false);
  ASSERT_TRUE(saver) << saver.getError().message;
  ASSERT_TRUE((*saver)->save(step));
  Status finished = (*saver)->finish();
  ASSERT_TRUE(finished) << finished.getError().message;
}

/// A mesh and how many processes share it.
struct Place {
  MeshSizes mesh;
  int64_t ranks = 1;
};

/// Calls `body` with sessions of all processes.
void runAt(const Place &place, const std::function<void(Session &)> &body) {
  if (place.ranks == 1)
    return body(*makeStateSession(place.mesh));
  runRanks(place.ranks,
           [&](Ranks &ranks) { body(*makeStateSession(place.mesh, &ranks)); });
}

const std::vector<Place> places = {
    {{}, 1},  {{2, 2}, 1},    {{3}, 1}, {{8}, 1},       {{2, 2}, 2},
    {{3}, 3}, {{2, 2, 2}, 1}, {{8}, 4}, {{2, 2, 2}, 3}, {{3, 2}, 4}};

TEST(CheckpointTest, chains_of_saves_and_loads_keep_every_bit) {
  const State state = makeState(makeStateProgram({}), 1);
  for (uint32_t seed = 0; seed < 3; ++seed) {
    TemporaryFolder folder;
    std::vector<Place> chain = places;
    std::shuffle(chain.begin(), chain.end(), std::mt19937(seed));
    for (size_t i = 0; i < chain.size(); ++i)
      runAt(chain[i], [&](Session &session) {
        const std::string before = folder / std::to_string(i - 1);
        if (i == 0) {
          setState(session, state);
        } else {
          // Other values first, so that none is right by chance.
          setState(session, makeState(session.getExecutable(), 99));
          Result<Checkpoint> checkpoint = Checkpoint::open(before);
          ASSERT_TRUE(checkpoint) << checkpoint.getError().message;
          EXPECT_THAT(compareWithModel(checkpoint->getManifest(),
                                       session.getExecutable().data),
                      IsEmpty());
          Status loaded = checkpoint->load(session.getDevices());
          ASSERT_TRUE(loaded) << loaded.getError().message;
        }
        const State found = getState(session);
        for (const auto &[name, bytes] : state)
          EXPECT_EQ(found.at(name), bytes) << name << " in link " << i;
        save(session, folder / std::to_string(i), int64_t(i));
      });
  }
}

TEST(CheckpointTest, whole_tensors_are_read_from_blocks) {
  const State state = makeState(makeStateProgram({}), 2);
  for (const Place &place : places) {
    TemporaryFolder folder;
    runAt(place, [&](Session &session) {
      setState(session, state);
      save(session, folder / "saved", 3);
    });
    Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
    ASSERT_TRUE(checkpoint);
    EXPECT_TRUE(checkpoint->verify());
    for (const StoredTensor &tensor : checkpoint->getManifest().tensors) {
      Result<HostArray> array = checkpoint->read(tensor);
      ASSERT_TRUE(array) << array.getError().message;
      EXPECT_EQ(array->data, state.at(tensor.name)) << tensor.name;
    }
  }
}

/// Blocks of every place from files of every other one; padding stays.
TEST(CheckpointTest, parameters_are_a_source_of_blocks) {
  const State state = makeState(makeStateProgram({}), 3);
  for (const Place &place : {places[1], places[7], places[9]}) {
    TemporaryFolder folder;
    runAt(place, [&](Session &session) {
      setState(session, state);
      save(session, folder / "saved", 3);
    });
    EXPECT_TRUE(isCheckpoint(folder / "saved"));
    EXPECT_TRUE(isCheckpoint(folder / "saved/step-00000003"));
    EXPECT_FALSE(isCheckpoint(folder.path.string()));
    auto source = CheckpointParameters::open(folder / "saved", {});
    ASSERT_TRUE(source) << source.getError().message;
    for (const Place &other : places) {
      const Executable executable = makeStateProgram(other.mesh);
      size_t parameters = 0;
      for (const auto &variable : executable.data.variables) {
        const ParameterSource::Entry *entry = (*source)->find(variable->name);
        EXPECT_EQ(entry != nullptr, isOfModel(variable->role))
            << variable->name;
        if (!entry)
          continue;
        ++parameters;
        const std::vector<int64_t> sizes = getSizes(*variable->layout);
        EXPECT_EQ(entry->shape, sizes);
        const auto bytes = size_t(getElementBytes(entry->element));
        const std::vector<std::byte> &whole = state.at(variable->name);
        for (int64_t device = 0; device < executable.getNumDevices();
             ++device) {
          const Placement placement = getPlacement(
              executable.mesh, sizes, getSharding(*variable->layout), device);
          std::vector<std::byte> expected(
              size_t(getLocalElements(*variable->layout)) * bytes,
              std::byte(0x5A));
          std::vector<std::byte> found = expected;
          forEachRow(sizes, placement,
                     [&](int64_t from, int64_t to, int64_t count) {
                       std::memcpy(&expected[size_t(to) * bytes],
                                   &whole[size_t(from) * bytes],
                                   size_t(count) * bytes);
                     });
          Status read = (*source)->readBlock(*entry, placement, found.data());
          ASSERT_TRUE(read) << read.getError().message;
          EXPECT_EQ(found, expected) << variable->name << " on " << device;
        }
      }
      EXPECT_EQ(parameters, (*source)->getEntries().size());
    }
  }
}

TEST(CheckpointTest, no_replica_is_written_twice) {
  uint64_t stateBytes = 0;
  for (const auto &[name, bytes] : makeState(makeStateProgram({}), 1))
    stateBytes += bytes.size();
  for (const Place &place : places) {
    TemporaryFolder folder;
    runAt(place, [&](Session &session) { save(session, folder / "saved", 0); });
    Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
    ASSERT_TRUE(checkpoint);
    const Manifest &manifest = checkpoint->getManifest();
    EXPECT_LE(manifest.files.size(), size_t(place.ranks));
    EXPECT_EQ(manifest.processes, place.ranks);
    uint64_t headers = 0;
    for (const StoredFile &file : manifest.files) {
      const std::string bytes =
          readBytes(checkpoint->getPath() + "/" + file.name);
      EXPECT_EQ(bytes.size(), file.bytes);
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), sizeof(length));
      headers += sizeof(length) + length;
    }
    EXPECT_EQ(manifest.getBytes(), headers + stateBytes);
    // One process has every tensor whole, under its own name.
    for (const StoredTensor &tensor : manifest.tensors)
      if (place.ranks == 1) {
        EXPECT_EQ(tensor.blocks.size(), 1u) << tensor.name;
      }
  }
}

TEST(CheckpointTest, blocks_are_written_by_who_owns_them_first) {
  TemporaryFolder folder;
  runAt({{2, 2}, 4},
        [&](Session &session) { save(session, folder / "saved", 0); });
  Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(checkpoint);
  // [rows 7 over a, columns 5 over b]: a block for each rank.
  const StoredTensor *w = checkpoint->getManifest().find("w");
  ASSERT_EQ(w->blocks.size(), 4u);
  EXPECT_EQ(w->blocks[0].box, (Box{{0, 4}, {0, 3}}));
  EXPECT_EQ(w->blocks[3].box, (Box{{4, 3}, {3, 2}}));
  EXPECT_EQ(w->blocks[3].file, 3);
  // Whole on all devices: the first one's.
  const StoredTensor *b = checkpoint->getManifest().find("b");
  ASSERT_EQ(b->blocks.size(), 1u);
  EXPECT_EQ(b->blocks[0].file, 0);
}

TEST(CheckpointTest, the_newest_of_a_folder_is_meant) {
  TemporaryFolder folder;
  std::unique_ptr<Session> session = makeStateSession({2});
  save(*session, folder / "a", 9);
  fs::rename(folder / "a/step-00000009", folder / "a/step-00000010");
  EXPECT_TRUE(Checkpoint::open(folder / "a"));
  EXPECT_TRUE(Checkpoint::open(folder / "a/step-00000010"));
  fs::create_directory(folder / "a/step-00000011");
  Result<Checkpoint> newest = Checkpoint::open(folder / "a");
  ASSERT_FALSE(newest);
  EXPECT_EQ(newest.getError().code, ErrorCode::CannotRead);
  EXPECT_THAT(newest.getError().message, HasSubstr("step-00000011"));
  for (const char *name : {"empty", "missing"}) {
    if (name == std::string("empty"))
      fs::create_directory(folder / name);
    Result<Checkpoint> none = Checkpoint::open(folder / name);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.getError().code, ErrorCode::NoCheckpoint);
  }
}

/// A checkpoint of two processes, some of which is changed.
class DamagedCheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    runAt({{2, 2}, 2}, [&](Session &session) {
      setState(session, makeState(session.getExecutable(), 1));
      save(session, folder / "saved", 4);
    });
  }
  void expectDamage(const std::string &words,
                    ErrorCode code = ErrorCode::DamagedFile) {
    Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
    Status status =
        checkpoint ? checkpoint->verify() : Status(checkpoint.getError());
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.getError().code, code);
    EXPECT_THAT(status.getError().message, HasSubstr(words));
    // Nothing of it gets to a device as if it were sound.
    std::unique_ptr<Session> session = makeStateSession({3});
    if (checkpoint) {
      EXPECT_FALSE(checkpoint->load(session->getDevices()));
    }
  }

  TemporaryFolder folder;
  const std::string place = folder / "saved/step-00000004";
  const std::string shard = place + "/" + getShardName(1, 2);
};

TEST_F(DamagedCheckpointTest, every_byte_of_every_file_counts) {
  for (const char *name : {"manifest.json", "shard-00000-of-00002.safetensors",
                           "shard-00001-of-00002.safetensors"}) {
    const std::string path = place + "/" + name;
    const std::string bytes = readBytes(path);
    // Headers are padded to 4096 bytes.
    for (size_t at = 0; at<bytes.size(); at += bytes.size()> 3000 ? 13 : 1) {
      std::string changed = bytes;
      changed[at] = char(changed[at] ^ 4);
      writeBytes(path, changed);
      Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
      Status status =
          checkpoint ? checkpoint->verify() : Status(checkpoint.getError());
      ASSERT_FALSE(status) << name << " " << at;
      EXPECT_THAT(status.getError().message, HasSubstr(name));
    }
    writeBytes(path, bytes);
  }
  Result<Checkpoint> sound = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(sound);
  EXPECT_TRUE(sound->verify());
}

TEST_F(DamagedCheckpointTest, files_that_are_cut_off_longer_or_gone) {
  const std::string bytes = readBytes(shard);
  for (size_t length : {size_t(0), size_t(7), size_t(4096), bytes.size() - 1}) {
    writeBytes(shard, bytes.substr(0, length));
    expectDamage("it has " + std::to_string(length) + " bytes, expected");
  }
  writeBytes(shard, bytes + "x");
  expectDamage("bytes, expected");
  fs::remove(shard);
  expectDamage("No such file", ErrorCode::CannotRead);
  writeBytes(folder / "elsewhere", bytes);
  fs::create_symlink(folder / "elsewhere", shard);
  expectDamage("is no plain file");
  fs::remove(shard);
  fs::create_directory(shard);
  expectDamage("is no plain file");
}

TEST_F(DamagedCheckpointTest, files_of_another_checkpoint) {
  std::unique_ptr<Session> session = makeStateSession({2, 2});
  save(*session, folder / "other", 4);
  fs::copy_file(folder / "other/step-00000004/manifest.json",
                place + "/manifest.json", fs::copy_options::overwrite_existing);
  expectDamage("shard-00000-of-00001.safetensors': No such file",
               ErrorCode::CannotRead);
}

/// A manifest that was changed and sealed again: what the files have is then
/// all that can contradict it.
TEST_F(DamagedCheckpointTest, manifests_that_their_files_contradict) {
  const std::string path = place + "/manifest.json";
  Result<Manifest> sound = parseManifest(readBytes(path), path);
  ASSERT_TRUE(sound);
  auto expect = [&](const std::function<void(Manifest &)> &change,
                    const std::string &words) {
    Manifest manifest = *sound;
    change(manifest);
    writeBytes(path, renderManifest(manifest));
    expectDamage(words);
  };
  expect([](Manifest &m) { m.tensors[0].name = "other"; },
         "it has no tensor 'other");
  expect([](Manifest &m) { m.tensors.pop_back(); }, "names");
  expect([](Manifest &m) { m.tensors[0].element = exec::ElementType::i32; },
         "it has no tensor 'w");
  expect(
      [](Manifest &m) {
        StoredTensor &w = m.tensors[0];
        std::swap(w.blocks[0].file, w.blocks[1].file);
      },
      "it has no tensor 'w");
}

TEST(OtherModelTest, is_told_by_what_differs) {
  TemporaryFolder folder;
  save(*makeStateSession({2}), folder / "saved", 0);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(checkpoint);
  Executable model = makeStateProgram({3}, /*bigRows=*/8);
  model.data.variables[2]->name = "bias";
  // Of a precision of computation: on either side, or on none.
  model.data.variables[3]->name = "fp16/loss_scale";
  EXPECT_THAT(compareWithModel(checkpoint->getManifest(), model.data),
              testing::ElementsAre(
                  "'w' is f32[rows=7, columns=5] in the checkpoint, "
                  "f32[rows=8, columns=5] in the model",
                  "'adam/m/w' is f32[rows=7, columns=5] in the checkpoint, "
                  "f32[rows=8, columns=5] in the model",
                  "the checkpoint has no 'bias', f32[columns=5]",
                  "the model has no 'b', f32[columns=5]",
                  "the model has no 'mean/steps', i32"));
  Status checked = checkModel(checkpoint->getManifest(), model.data, "saved");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.getError().code, ErrorCode::OtherModel);
  EXPECT_THAT(checked.getError().message, HasSubstr("5 of its values differ"));
  EXPECT_THAT(checked.getError().note, HasSubstr("; the model has no 'b'"));
}

TEST(OtherModelTest, another_recipe_is_told_by_the_state_that_it_keeps) {
  TemporaryFolder folder;
  save(*makeStateSession({2}), folder / "saved", 0);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(checkpoint);
  auto check = [&](const std::map<std::string, std::string> &renamed) {
    Executable model = makeStateProgram({3});
    for (const auto &variable : model.data.variables)
      if (auto found = renamed.find(variable->name); found != renamed.end())
        variable->name = found->second;
    Status checked = checkModel(checkpoint->getManifest(), model.data, "saved");
    return checked ? std::string() : checked.getError().message;
  };
  EXPECT_EQ(check({}), "");
  EXPECT_THAT(check({{"adam/m/w", "lion/m/w"}}),
              HasSubstr("of another recipe than"));
  EXPECT_THAT(check({{"adam/m/w", "lion/m/w"}}),
              HasSubstr(": it has state of adam and lacks that of lion"));
  EXPECT_THAT(check({{"adam/m/w", "adam/m/b"}}),
              HasSubstr(": it has state of adam of 'w' and lacks that of adam "
                        "of 'b'"));
  EXPECT_THAT(check({{"adam/m/w", "ema/w"}}), HasSubstr("lacks that of ema"));
  // A value of the model differs, too.
  EXPECT_THAT(check({{"adam/m/w", "lion/m/w"}, {"b", "bias"}}),
              HasSubstr("of another model"));
}

/// Of checkpoints from before optimizers were functions of the step.
TEST(OtherModelTest, the_step_that_adam_counted_is_passed_over) {
  TemporaryFolder folder;
  Executable before = makeStateProgram({2}, /*bigRows=*/5);
  before.data.variables[3]->name = "adam/step";
  Result<std::unique_ptr<Session>> session =
      Session::create(std::move(before), {}, openCpuDevices, /*threads=*/1, {},
                      /*ranks=*/nullptr);
  ASSERT_TRUE(session);
  save(**session, folder / "saved", 0);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(checkpoint);
  Executable model = makeStateProgram({3}, /*bigRows=*/5);
  model.data.variables[3]->name = "adam/step";
  EXPECT_FALSE(isPassedOver(checkpoint->getManifest(), model.data));
  model.data.variables.erase(model.data.variables.begin() + 3);
  EXPECT_TRUE(isPassedOver(checkpoint->getManifest(), model.data));
  EXPECT_THAT(compareWithModel(checkpoint->getManifest(), model.data),
              IsEmpty());
}

TEST(OtherModelTest, dimensions_in_another_order_are_others) {
  TemporaryFolder folder;
  save(*makeStateSession({2}, nullptr, /*bigRows=*/5), folder / "saved", 0);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder / "saved");
  ASSERT_TRUE(checkpoint);
  Executable model = makeStateProgram({3}, /*bigRows=*/5);
  auto &dims = model.data.variables[0]->layout->dims;
  dims[0]->name = "lines"; // is called otherwise now
  EXPECT_THAT(compareWithModel(checkpoint->getManifest(), model.data),
              IsEmpty());
  dims[0]->name = "columns";
  dims[1]->name = "rows";
  EXPECT_THAT(compareWithModel(checkpoint->getManifest(), model.data),
              testing::SizeIs(1));
}

} // namespace

/// Weights in files of other programs: what fits a model, what does not, and
/// what is said of it.

#include "runtime/weights/WeightParameters.h"

#include "runtime/exec/HalfFloats.h"
#include "runtime/weights/TensorFiles.h"
#include "runtime/weights/WeightExport.h"
#include "tests/runtime/HostArrays.h"
#include "tests/weights/WriteTensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

HostArray makeFloats(std::vector<int64_t> shape, float first) {
  HostArray array{exec::ElementType::f32, std::move(shape), {}};
  std::vector<float> values(static_cast<size_t>(array.getNumElements()));
  for (float &value : values)
    value = first++;
  return makeArray(array.element, array.shape, values);
}

class WeightParametersTest : public testing::Test {
protected:
  using Tensors = std::vector<std::pair<std::string, HostArray>>;

  WeightParametersTest() {
    addParameter("words", {{"vocab", 5}, {"d", 2}});
    addParameter("layer/w", {{"layers", 2}, {"d", 2}, {"e", 3}});
  }

  void addParameter(const std::string &name,
                    const std::vector<std::pair<std::string, int64_t>> &dims,
                    exec::ElementType element = exec::ElementType::f32) {
    auto variable = std::make_unique<exec::VariableT>();
    variable->name = name;
    variable->layout = std::make_unique<exec::TensorLayoutT>();
    variable->layout->element = element;
    for (const auto &[dim, size] : dims) {
      auto each = std::make_unique<exec::DimShardingT>();
      each->name = dim;
      each->size = size;
      variable->layout->dims.push_back(std::move(each));
    }
    parameters.push_back(variable.get());
    variables.push_back(std::move(variable));
  }

  std::string write(const std::string &name, const Tensors &tensors) {
    writeTensors(folder / name, tensors);
    return folder / name;
  }

  Result<std::unique_ptr<ParameterSource>> open(const std::string &path,
                                                const std::string &text) {
    if (text.empty())
      return WeightParameters::open(path, nullptr, parameters);
    Result<NameMap> map = parseNameMap(text, "a.map");
    EXPECT_TRUE(map) << map.getError().message;
    return map ? WeightParameters::open(path, &*map, parameters)
               : map.getError();
  }

  void expectError(const std::string &path, const std::string &map,
                   ErrorCode code, const std::string &words,
                   const std::string &note = "") {
    auto source = open(path, map);
    ASSERT_FALSE(source) << words;
    EXPECT_EQ(source.getError().code, code);
    EXPECT_THAT(source.getError().message, HasSubstr(words));
    EXPECT_THAT(source.getError().note, HasSubstr(note));
  }

  /// The whole of a parameter of floats.
  std::vector<float> read(const ParameterSource &source,
                          const std::string &name) {
    const ParameterSource::Entry *entry = source.find(name);
    EXPECT_TRUE(entry) << name;
    if (!entry)
      return {};
    Placement placement{getWhole(entry->shape), entry->shape};
    std::vector<float> values(size_t(getVolume(placement.owned)));
    Status done = source.readBlock(
        *entry, placement, reinterpret_cast<std::byte *>(values.data()));
    EXPECT_TRUE(done) << done.getError().message;
    return values;
  }

  TemporaryFolder folder;
  std::vector<std::unique_ptr<exec::VariableT>> variables;
  std::vector<const exec::VariableT *> parameters;
};

const std::string stacked = "prefix model.\n"
                            "ignore *.bias\n"
                            "words = wte\n"
                            "layer/w = h.{layers}.w [e, d]\n";

TEST_F(WeightParametersTest, names_of_the_spec_need_no_map) {
  const std::string path =
      write("a.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)},
                              {"words", makeFloats({5, 2}, 100)}});
  auto source = open(path, "");
  ASSERT_TRUE(source) << source.getError().message;
  EXPECT_EQ(read(**source, "layer/w")[11], 11);
  EXPECT_EQ(read(**source, "words")[0], 100);
  EXPECT_TRUE(compareParameters(**source, path, parameters,
                                [](const auto &) { return false; }));
}

TEST_F(WeightParametersTest, a_folder_of_files_is_one_source) {
  write("a.safetensors", {{"model.h.1.w", makeFloats({3, 2}, 10)},
                          {"model.h.1.bias", makeFloats({3}, 0)}});
  write("b.safetensors",
        {{"h.0.w", makeFloats({3, 2}, 0)}, {"wte", makeFloats({5, 2}, 100)}});
  writeBytes(folder / "config.json", "{}");
  EXPECT_TRUE(TensorFiles::isAny(folder.path.string()));
  auto source = open(folder.path.string(), stacked);
  ASSERT_TRUE(source) << source.getError().message;
  EXPECT_EQ((*source)->getEntries().size(), 2u);
  // Transposed, layer by layer.
  EXPECT_EQ(read(**source, "layer/w"),
            (std::vector<float>{0, 2, 4, 1, 3, 5, 10, 12, 14, 11, 13, 15}));
  auto digest = (*source)->getDigest(*(*source)->find("layer/w"));
  ASSERT_TRUE(digest);
  write("b.safetensors",
        {{"h.0.w", makeFloats({3, 2}, 1)}, {"wte", makeFloats({5, 2}, 100)}});
  auto other = open(folder.path.string(), stacked);
  ASSERT_TRUE(other);
  auto otherDigest = (*other)->getDigest(*(*other)->find("layer/w"));
  ASSERT_TRUE(otherDigest);
  EXPECT_NE(*digest, *otherDigest);

  write("c.safetensors", {{"wte", makeFloats({5, 2}, 0)}});
  expectError(folder.path.string(), stacked, ErrorCode::DamagedFile,
              "both have a tensor 'wte'");
}

TEST_F(WeightParametersTest, narrow_floats_become_wide_ones) {
  std::vector<BFloat16> brains;
  std::vector<Float16> halves;
  for (int i = 0; i < 10; ++i) {
    brains.push_back(BFloat16::round(float(i) - 4.5f));
    halves.push_back(Float16::round(float(i) / 8));
  }
  addParameter("wide", {{"vocab", 5}, {"d", 2}}, exec::ElementType::f64);
  auto source =
      open(write("a.safetensors",
                 {{"layer.w", makeFloats({2, 2, 3}, 0)},
                  {"words", makeArray(exec::ElementType::bf16, {5, 2}, brains)},
                  {"wide", makeArray(exec::ElementType::f16, {5, 2}, halves)}}),
           "");
  ASSERT_TRUE(source) << source.getError().message;
  const std::vector<float> words = read(**source, "words");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(words[size_t(i)], float(i) - 4.5f);
  const ParameterSource::Entry &entry = *(*source)->find("wide");
  std::vector<double> wide(10);
  ASSERT_TRUE((*source)->readBlock(entry, {getWhole(entry.shape), entry.shape},
                                   reinterpret_cast<std::byte *>(wide.data())));
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(wide[size_t(i)], double(i) / 8);

  const std::vector<double> doubles(10);
  expectError(
      write("b.safetensors",
            {{"words", makeArray(exec::ElementType::f64, {5, 2}, doubles)}}),
      "", ErrorCode::WrongArray, "is f64[5, 2], expected f32[5, 2]",
      "it is parameter 'words'");
}

TEST_F(WeightParametersTest, tensors_that_do_not_fit) {
  const auto w = [](float first) { return makeFloats({3, 2}, first); };
  const HostArray words = makeFloats({5, 2}, 0);
  expectError(write("a.safetensors", {{"h.0.w", w(0)}, {"wte", words}}),
              stacked, ErrorCode::WrongParameters,
              "there is a tensor 'h.0.w', but no 'h.1.w'",
              "a.map:4 has it for 'layer/w'");
  expectError(write("b.safetensors", {{"h.0.w", w(0)},
                                      {"model.h.0.w", w(0)},
                                      {"h.1.w", w(0)},
                                      {"wte", words}}),
              stacked, ErrorCode::WrongParameters,
              "has both 'h.0.w' and 'model.h.0.w'");
  expectError(write("c.safetensors", {{"h.0.w", w(0)},
                                      {"h.1.w", makeFloats({2, 3}, 0)},
                                      {"wte", words}}),
              stacked, ErrorCode::WrongArray,
              "h.1.w' is f32[2, 3], expected f32[3, 2]",
              "a.map:4 has it for 'layer/w'");
  // What no rule is for, and a parameter that is missing as a whole.
  const std::string path = write(
      "d.safetensors", {{"wte", words}, {"lm_head", words}, {"x.bias", words}});
  auto source = open(path, stacked);
  ASSERT_TRUE(source) << source.getError().message;
  Status fits = compareParameters(**source, path, parameters,
                                  [](const auto &) { return false; });
  ASSERT_FALSE(fits);
  EXPECT_THAT(fits.getError().message,
              HasSubstr("1 parameter is missing: 'layer/w'"));
  EXPECT_THAT(fits.getError().message,
              HasSubstr("1 tensor is for no parameter: '"));
  EXPECT_THAT(fits.getError().message, HasSubstr("d.safetensors: lm_head'"));
  EXPECT_THAT(fits.getError().message, testing::Not(HasSubstr("bias")));
}

/// As Hugging Face writes it: other files of the folder are of other models.
TEST_F(WeightParametersTest, an_index_names_the_files_of_a_model) {
  std::filesystem::create_directory(folder / "m");
  write("m/a.safetensors", {{"words", makeFloats({5, 2}, 0)}});
  write("m/b.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)}});
  write("m/older.safetensors", {{"words", makeFloats({5, 2}, 100)}});
  const std::string index = folder / "m/model.safetensors.index.json";
  const auto writeIndex = [&](const std::string &map) {
    writeBytes(index, fmt::format(
                          R"({{"metadata": {{"total_size": 1.5e9}},
                               "weight_map": {}}})",
                          map));
  };
  expectError(folder / "m", "", ErrorCode::DamagedFile,
              "both have a tensor 'words'");
  writeIndex(R"({"words": "a.safetensors", "layer.w": "b.safetensors"})");
  for (const std::string &path : {folder / "m", index}) {
    auto source = open(path, "");
    ASSERT_TRUE(source) << source.getError().message;
    EXPECT_EQ((*source)->getFiles().size(), 2u);
    EXPECT_TRUE(TensorFiles::isAny(path));
  }
  for (const char *name : {"c.safetensors", "../m/a.safetensors", "."}) {
    writeIndex(fmt::format(R"({{"words": "{}"}})", name));
    expectError(
        folder / "m", "", ErrorCode::WrongData,
        fmt::format("names the file '{}', which is not beside it", name),
        "all files that it names are the model");
  }
  writeIndex(R"({"words": 3})");
  expectError(folder / "m", "", ErrorCode::DamagedFile,
              "the file of tensor 'words' is no text");
  writeIndex("{}");
  expectError(folder / "m", "", ErrorCode::DamagedFile, "has no weight_map");
  writeBytes(index, "{");
  expectError(index, "", ErrorCode::DamagedFile, "is no JSON");
}

TEST_F(WeightParametersTest, types_that_no_tensor_of_a_program_has) {
  const std::string path =
      write("a.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)},
                              {"words", makeFloats({5, 2}, 0)},
                              {"other", makeFloats({4}, 0)}});
  const auto setType = [&](const std::string &tensor) {
    std::string bytes = readBytes(path);
    const size_t place = bytes.find("F32", bytes.find('"' + tensor + '"'));
    bytes.replace(place, 3, "U32");
    writeBytes(path, bytes);
  };
  setType("other");
  expectError(path, "", ErrorCode::UnsupportedArray,
              "a.safetensors: other' has elements of type U32, which are not "
              "read, and is no parameter",
              "a map of names can leave it out");
  auto source = open(path, "words = words\nlayer/w = layer.w\nignore oth*");
  EXPECT_TRUE(source) << source.getError().message;
  setType("words");
  expectError(path, "words = words\nlayer/w = layer.w\nignore oth*",
              ErrorCode::UnsupportedArray,
              "a.safetensors: words' has elements of type U32, which are not "
              "read");
}

TEST_F(WeightParametersTest, rules_that_do_not_fit_the_model) {
  const std::string path = write("a.safetensors", {});
  for (const auto &[map, words] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"worde = a", "the model has no parameter 'worde'; did you mean"},
           {"words = a [d]", "dim 'vocab' of 'words' is in no name and no"},
           {"words = a [d vocab d]", "dim 'd' stands twice"},
           {"words = a.{d} [vocab d]", "dim 'd' stands twice"},
           {"words = a [d, vocap]",
            "has no dim 'vocap'; did you mean 'vocab'?"},
           {"words [1 of 2 vocab] = a", "of size 5 has no 2 equal slices"},
           {"words [1 of 2 d] = a", "do not have each of its elements once"},
           {"words = a\nwords = b", "do not have each of its elements once"},
           {"words = a.{d = x}", "has 2 positions, of which 1 are named"},
           {"words = a [d, 1 of 9223372036854775807 vocab]",
            "more elements than 64 bits count"}})
    expectError(path, map, ErrorCode::WrongParameters, words);
}

TEST_F(WeightParametersTest, what_cannot_be_exported) {
  const std::string path =
      write("a.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)},
                              {"words", makeFloats({5, 2}, 100)}});
  auto source = open(path, "");
  ASSERT_TRUE(source);
  const auto write = [&](const std::string &text) {
    Result<NameMap> map = parseNameMap(text, "a.map");
    EXPECT_TRUE(map) << map.getError().message;
    return exportWeights(**source, parameters, &*map, folder / "out", {},
                         [](uint64_t, uint64_t) {});
  };
  for (const auto &[map, words] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"words = a", "no rule for parameter 'layer/w'"},
           {"words = a [1 of 2 vocab, d]\nlayer/w = b",
            "a.map:1: of tensor 'a', which is f32[10, 2], no rule has 10"},
           {"words = a [1 of 2 vocab, d]\nlayer/w = a [layers d e]",
            "a.map:2: tensor 'a' is f32[12] by this rule, and f32[10, 2] by"},
           {"words [1 of 2 d] = a [vocab d]\nwords [2 of 2 d] = a [vocab d]\n"
            "layer/w = b",
            "a.map:2: tensor 'a' has elements that another rule writes, "
            "too"}}) {
    Result<size_t> count = write(map);
    ASSERT_FALSE(count) << words;
    EXPECT_EQ(count.getError().code, ErrorCode::WrongParameters);
    EXPECT_THAT(count.getError().message, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  Result<size_t> count = write("words [1 of 2 d] = a\nwords [2 of 2 d] = b\n"
                               "layer/w = c");
  ASSERT_TRUE(count) << count.getError().message;
  EXPECT_EQ(*count, 3u);
}

// What stands above a prefix is called without it; of several the first is
// written.
TEST_F(WeightParametersTest, prefixes_are_for_what_is_below_them) {
  const std::string text = "words = wte\n"
                           "prefix model.\n"
                           "prefix old.\n"
                           "layer/w = h.{layers}.w [e, d]\n";
  for (const char *prefix : {"", "model.", "old."}) {
    const std::string path =
        write("a.safetensors",
              {{"wte", makeFloats({5, 2}, 100)},
               {prefix + std::string("h.0.w"), makeFloats({3, 2}, 0)},
               {prefix + std::string("h.1.w"), makeFloats({3, 2}, 10)}});
    auto source = open(path, text);
    ASSERT_TRUE(source) << source.getError().message;
    Result<NameMap> map = parseNameMap(text, "a.map");
    Result<size_t> count =
        exportWeights(**source, parameters, &*map, folder / "out", {},
                      [](uint64_t, uint64_t) {});
    ASSERT_TRUE(count) << count.getError().message;
    Result<TensorFiles> written = TensorFiles::open(folder / "out");
    ASSERT_TRUE(written);
    std::vector<std::string> names;
    for (const auto &[name, tensor] : written->getTensors())
      names.push_back(name);
    EXPECT_THAT(names, ElementsAre("model.h.0.w", "model.h.1.w", "wte"));
  }
  const std::string path =
      write("a.safetensors", {{"model.wte", makeFloats({5, 2}, 100)},
                              {"h.0.w", makeFloats({3, 2}, 0)},
                              {"h.1.w", makeFloats({3, 2}, 10)}});
  auto source = open(path, text);
  ASSERT_TRUE(source);
  EXPECT_FALSE((*source)->find("words"));
}

TEST_F(WeightParametersTest, some_parameters_are_exported) {
  const std::string path =
      write("a.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)},
                              {"words", makeFloats({5, 2}, 100)}});
  auto source = open(path, "");
  ASSERT_TRUE(source);
  const ExportChoice words = {
      [](const exec::VariableT &each) { return each.name == "words"; },
      std::nullopt};
  auto write = [&](const char *text) {
    Result<NameMap> map = parseNameMap(text, "a.map");
    EXPECT_TRUE(map) << map.getError().message;
    return exportWeights(**source, parameters, &*map, folder / "out", words,
                         [](uint64_t, uint64_t) {});
  };
  // Of what is left out neither a rule is needed, nor is there an error in one.
  for (const char *text : {"words = wte", "words = wte\nlayer/w = w"}) {
    Result<size_t> count = write(text);
    ASSERT_TRUE(count) << count.getError().message;
    EXPECT_EQ(*count, 1u);
    Result<TensorFiles> written = TensorFiles::open(folder / "out");
    ASSERT_TRUE(written);
    EXPECT_EQ(written->getTensors().count("wte"), 1u);
  }
  Result<size_t> count = write("words = all [1 of 2 vocab d]\n"
                               "layer/w = all [2 of 2 layers d e]\n");
  ASSERT_FALSE(count);
  EXPECT_EQ(count.getError().code, ErrorCode::WrongParameters);
}

// Ties go to even; what is rounded is the number, not an f32 of it.
TEST_F(WeightParametersTest, floats_are_rounded) {
  const std::vector<float> numbers = {0,
                                      -0.0f,
                                      1.00390625f,   // a tie of bf16
                                      1.01171875f,   // and one to even above
                                      1.00390637f,   // a bit more than the tie
                                      -65504,        // the largest f16
                                      5.9604645e-8f, // the smallest one
                                      INFINITY,
                                      -INFINITY,
                                      3.1415927f};
  HostArray array = makeFloats({5, 2}, 0);
  std::memcpy(array.data.data(), numbers.data(), numbers.size() * 4);
  const std::string path =
      write("a.safetensors",
            {{"layer.w", makeFloats({2, 2, 3}, 0)}, {"words", array}});
  auto source = open(path, "");
  ASSERT_TRUE(source);
  for (const exec::ElementType type :
       {exec::ElementType::bf16, exec::ElementType::f16}) {
    Result<size_t> count =
        exportWeights(**source, parameters, nullptr, folder / "out",
                      {nullptr, type}, [](uint64_t, uint64_t) {});
    ASSERT_TRUE(count) << count.getError().message;
    Result<TensorFiles> written = TensorFiles::open(folder / "out");
    ASSERT_TRUE(written);
    const FileTensor &tensor = written->getTensors().at("words");
    EXPECT_EQ(tensor.entry.element, type);
    TensorReader reader(tensor);
    auto elements = reader.read(0, 10);
    ASSERT_TRUE(elements);
    for (size_t i = 0; i < numbers.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, &(*elements)[2 * i], 2);
      EXPECT_EQ(bits, type == exec::ElementType::bf16
                          ? BFloat16::round(numbers[i]).bits
                          : Float16::round(numbers[i]).bits)
          << numbers[i];
    }
  }
  // A bit behind a tie of bf16, which an f32 has no place for.
  const double wide[] = {1.00390625 + 0x1p-40, -1.00390625 + 0x1p-40};
  HostArray doubles{exec::ElementType::f64, {2}, {}};
  doubles.data.resize(sizeof(wide));
  std::memcpy(doubles.data.data(), wide, sizeof(wide));
  addParameter("wide", {{"e", 2}}, exec::ElementType::f64);
  auto third =
      open(write("c.safetensors", {{"layer.w", makeFloats({2, 2, 3}, 0)},
                                   {"wide", doubles},
                                   {"words", array}}),
           "");
  ASSERT_TRUE(third) << third.getError().message;
  ASSERT_TRUE(exportWeights(**third, parameters, nullptr, folder / "out",
                            {nullptr, exec::ElementType::bf16},
                            [](uint64_t, uint64_t) {}));
  Result<TensorFiles> written = TensorFiles::open(folder / "out");
  ASSERT_TRUE(written);
  TensorReader reader(written->getTensors().at("wide"));
  auto elements = reader.read(0, 2);
  ASSERT_TRUE(elements);
  uint16_t bits[2];
  std::memcpy(bits, elements->data(), sizeof(bits));
  EXPECT_EQ(BFloat16{bits[0]}.toFloat(), 1.0078125f);
  EXPECT_EQ(BFloat16{bits[1]}.toFloat(), -1.0f);
  parameters.pop_back();
  // Too large for f16, not for bf16.
  const float large = 65520;
  std::memcpy(array.data.data() + 12, &large, 4);
  auto other =
      open(write("b.safetensors",
                 {{"layer.w", makeFloats({2, 2, 3}, 0)}, {"words", array}}),
           "");
  ASSERT_TRUE(other);
  auto round = [&](exec::ElementType type) {
    return exportWeights(**other, parameters, nullptr, folder / "out2",
                         {nullptr, type}, [](uint64_t, uint64_t) {});
  };
  EXPECT_TRUE(round(exec::ElementType::bf16));
  const Result<size_t> count = round(exec::ElementType::f16);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.getError().code, ErrorCode::ValueOutOfRange);
  EXPECT_EQ(count.getError().message,
            "'words' has 65520, which is too large for f16");
}

} // namespace

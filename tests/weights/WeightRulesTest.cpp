/// Random rules against their description: where each element of a parameter
/// lies, read into the blocks of any mesh, and written back.

#include "runtime/exec/Executable.h"
#include "runtime/weights/WeightExport.h"
#include "runtime/weights/WeightParameters.h"
#include "tests/weights/WriteTensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

using Tensors = std::map<std::string, HostArray>;

/// Some parameters of one shape, a rule for each, and what these mean.
struct Case {
  std::vector<std::unique_ptr<exec::VariableT>> variables;
  std::vector<std::vector<int32_t>> values; ///< of each, in C order
  std::string map;
  Tensors tensors;

  std::vector<const exec::VariableT *> getParameters() const {
    std::vector<const exec::VariableT *> parameters;
    for (const auto &variable : variables)
      parameters.push_back(variable.get());
    return parameters;
  }
};

class CaseMaker {
public:
  explicit CaseMaker(unsigned seed) : random(seed) {}

  Case make() {
    const int64_t rank = draw(0, 4), numSlices = draw(1, 3);
    for (int64_t i = 0; i < rank; ++i)
      sizes.push_back(draw(1, 5));
    order.resize(size_t(rank));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    numNamed = rank == 0 ? 0 : size_t(draw(0, std::min<int64_t>(rank, 2)));
    axes.clear();
    for (size_t i = numNamed; i < order.size(); ++i) {
      if (axes.empty() || draw(0, 1))
        axes.emplace_back();
      axes.back().push_back(order[i]);
    }
    // One axis has the slices of all parameters.
    slicedAxis = axes.empty() ? 0 : size_t(draw(0, int64_t(axes.size()) - 1));
    const int64_t numParameters = axes.empty() ? 1 : numSlices;
    for (int64_t i = 0; i < numParameters; ++i)
      add(i, numParameters);
    return std::move(made);
  }

private:
  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  }

  static std::string getDim(size_t dim) {
    return std::string(1, char('a' + dim));
  }

  void add(int64_t slice, int64_t numSlices) {
    auto variable = std::make_unique<exec::VariableT>();
    variable->name = fmt::format("p/{}", slice);
    variable->layout = std::make_unique<exec::TensorLayoutT>();
    variable->layout->element = exec::ElementType::i32;
    int64_t volume = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto dim = std::make_unique<exec::DimShardingT>();
      dim->name = getDim(i);
      dim->size = sizes[i];
      volume *= sizes[i];
      variable->layout->dims.push_back(std::move(dim));
    }
    std::string line = variable->name + " = t";
    for (size_t i = 0; i < numNamed; ++i)
      line += fmt::format(".{{{}}}", getDim(order[i]));
    line += " [";
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0)
        line += ", ";
      if (i == slicedAxis && numSlices > 1)
        line += fmt::format("{} of {} ", slice + 1, numSlices);
      for (size_t dim : axes[i])
        line += getDim(dim) + " ";
    }
    made.map += line + "]\n";

    std::vector<int32_t> values(static_cast<size_t>(volume));
    for (int64_t i = 0; i < volume; ++i) {
      values[size_t(i)] = int32_t(draw(-1000000, 1000000));
      std::vector<int64_t> index(sizes.size());
      int64_t rest = i;
      for (size_t j = sizes.size(); j-- > 0; rest /= sizes[j])
        index[j] = rest % sizes[j];
      store(index, slice, numSlices, values[size_t(i)]);
    }
    made.variables.push_back(std::move(variable));
    made.values.push_back(std::move(values));
  }

  /// Puts an element where the rule says that it is, index by index.
  void store(const std::vector<int64_t> &index, int64_t slice,
             int64_t numSlices, int32_t value) {
    std::string name = "t";
    for (size_t i = 0; i < numNamed; ++i)
      name += fmt::format(".{}", index[order[i]]);
    std::vector<int64_t> shape;
    int64_t place = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      int64_t position = 0, size = 1;
      for (size_t dim : axes[i]) {
        position = position * sizes[dim] + index[dim];
        size *= sizes[dim];
      }
      if (i == slicedAxis) {
        position += slice * size;
        size *= numSlices;
      }
      shape.push_back(size);
      place = place * size + position;
    }
    HostArray &array = made.tensors[name];
    array.element = exec::ElementType::i32;
    array.shape = shape;
    array.data.resize(size_t(array.getNumElements()) * 4);
    std::memcpy(&array.data[size_t(place) * 4], &value, 4);
  }

  std::mt19937 random;
  std::vector<int64_t> sizes;
  std::vector<size_t> order; ///< of dims: those in the name come first
  size_t numNamed = 0;
  std::vector<std::vector<size_t>> axes;
  size_t slicedAxis = 0;
  Case made;
};

class WeightRulesTest : public testing::TestWithParam<unsigned> {};

TEST_P(WeightRulesTest, blocks_of_any_mesh_and_back) {
  TemporaryFolder folder;
  const Case made = CaseMaker(GetParam()).make();
  SCOPED_TRACE(made.map);
  writeTensors(folder / "in.safetensors", made.tensors);
  Result<NameMap> map = parseNameMap(made.map, "a.map");
  ASSERT_TRUE(map) << map.getError().message;
  const std::vector<const exec::VariableT *> parameters = made.getParameters();
  auto source =
      WeightParameters::open(folder / "in.safetensors", &*map, parameters);
  ASSERT_TRUE(source) << source.getError().message;
  ASSERT_EQ((*source)->getEntries().size(), parameters.size());

  std::mt19937 random(GetParam());
  for (size_t number = 0; number < parameters.size(); ++number) {
    const std::vector<int64_t> sizes = getSizes(*parameters[number]->layout);
    const ParameterSource::Entry *entry =
        (*source)->find(parameters[number]->name);
    ASSERT_TRUE(entry);
    // Parts that begin and end anywhere, in blocks with room behind them.
    for (int round = 0; round < 5; ++round) {
      Placement placement;
      int64_t elements = 1;
      for (int64_t size : sizes) {
        const int64_t begin = int64_t(random() % uint64_t(size + 1));
        const int64_t count = int64_t(random() % uint64_t(size - begin + 1));
        placement.owned.push_back({begin, count});
        placement.block.push_back(count + int64_t(random() % 2));
        elements *= placement.block.back();
      }
      constexpr int32_t untouched = 7654321;
      std::vector<int32_t> block(size_t(elements), untouched);
      std::vector<int32_t> expected = block;
      forEachRow(sizes, placement,
                 [&](int64_t whole, int64_t local, int64_t count) {
                   std::copy_n(&made.values[number][size_t(whole)], count,
                               &expected[size_t(local)]);
                 });
      Status read = (*source)->readBlock(
          *entry, placement, reinterpret_cast<std::byte *>(block.data()));
      ASSERT_TRUE(read) << read.getError().message;
      EXPECT_EQ(block, expected);
    }
  }

  uint64_t last = 0;
  Result<size_t> count =
      exportWeights(**source, parameters, &*map, folder / "out.safetensors", {},
                    [&](uint64_t bytes, uint64_t all) {
                      EXPECT_LE(bytes, all);
                      last = all - bytes;
                    });
  ASSERT_TRUE(count) << count.getError().message;
  EXPECT_EQ(*count, made.tensors.size());
  EXPECT_EQ(last, 0u);
  Result<TensorFiles> written = TensorFiles::open(folder / "out.safetensors");
  ASSERT_TRUE(written) << written.getError().message;
  ASSERT_EQ(written->getTensors().size(), made.tensors.size());
  for (const auto &[name, array] : made.tensors) {
    const FileTensor &tensor = written->getTensors().at(name);
    EXPECT_EQ(tensor.entry.shape, array.shape) << name;
    TensorReader reader(tensor);
    auto elements = reader.read(0, array.getNumElements());
    ASSERT_TRUE(elements) << elements.getError().message;
    EXPECT_TRUE(std::ranges::equal(*elements, array.data)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WeightRulesTest, testing::Range(0u, 100u));

} // namespace

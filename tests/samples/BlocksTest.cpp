/// Batches in the blocks of devices, against what files and shardings say
/// element by element.

#include "runtime/samples/Dataset.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/ProgramBuilder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

struct Case {
  std::vector<int64_t> mesh;
  size_t axis; ///< the place of the batch among three dims
  exec::ElementType element;
};

constexpr int64_t batch = 7, rows = 5, columns = 3, numSamples = 11;

class BlocksTest : public testing::TestWithParam<Case> {};

template <typename T>
void compare(const Dataset &dataset, const Executable &executable,
             const exec::PortT &port, size_t axis,
             const std::vector<int64_t> &samples, const std::string &file) {
  const std::vector<int64_t> sizes = getSizes(*port.layout);
  for (int64_t device = 0; device < executable.mesh.getNumDevices(); ++device) {
    std::vector<T> block(size_t(getLocalElements(*port.layout)), T(-1));
    Status filled = dataset.fill(0, executable.mesh, device, samples,
                                 reinterpret_cast<std::byte *>(block.data()));
    ASSERT_TRUE(filled) << filled.getError().message;
    const Placement placement =
        getPlacement(executable.mesh, sizes, getSharding(*port.layout), device);
    int64_t place[3], own[3];
    for (own[0] = 0; own[0] < placement.owned[0].count; ++own[0])
      for (own[1] = 0; own[1] < placement.owned[1].count; ++own[1])
        for (own[2] = 0; own[2] < placement.owned[2].count; ++own[2]) {
          int64_t at = 0, element = 0;
          for (size_t i = 0; i < 3; ++i) {
            place[i] = placement.owned[i].offset + own[i];
            at = at * placement.block[i] + own[i];
            if (i != axis)
              element = element * sizes[i] + place[i];
          }
          const int64_t sample = samples[size_t(place[axis])];
          EXPECT_EQ(block[size_t(at)],
                    T(uint8_t(file[size_t(sample * rows * columns + element)])))
              << "device " << device;
        }
  }
}

TEST_P(BlocksTest, have_the_samples_that_were_asked_for) {
  const auto &[mesh, axis, element] = GetParam();
  std::vector<std::pair<std::string, int64_t>> axes;
  for (size_t i = 0; i < mesh.size(); ++i)
    axes.emplace_back(std::string(1, char('a' + i)), mesh[i]);
  ProgramBuilder builder(axes);
  std::vector<Dim> dims = {{"y", rows}, {"x", columns}};
  dims.insert(dims.begin() + ptrdiff_t(axis), {"batch", batch});
  // Each axis splits another dim.
  for (size_t i = 0; i < mesh.size(); ++i)
    dims[(axis + i) % 3].axes = {builder.axis(int32_t(i))};
  const exec::TensorLayoutT layout = makeLayout(element, dims);
  builder.beginProgram("step");
  builder.addInput("x", layout, builder.addBuffer("x", layout));
  auto source = std::make_unique<exec::DataSourceT>();
  source->input = "x";
  source->train = "x";
  builder.get().data.push_back(std::move(source));
  builder.get().sample_dim = "batch";
  const Executable executable = builder.finish();

  std::mt19937 random(5);
  std::string elements;
  for (int64_t i = 0; i < numSamples * rows * columns; ++i)
    elements += char(random());
  TemporaryFolder folder;
  writeBytes(folder / "x", makeIdx({numSamples, rows, columns}, elements));
  Result<Dataset> dataset =
      Dataset::load(executable, *executable.findProgram("step"),
                    Dataset::Split::Train, folder.path.string());
  ASSERT_TRUE(dataset) << dataset.getError().message;
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < batch; ++i)
    samples.push_back(int64_t(random() % numSamples));
  const exec::PortT &port = *executable.findProgram("step")->inputs[0];
  switch (element) {
  case exec::ElementType::f32:
    return compare<float>(*dataset, executable, port, axis, samples, elements);
  case exec::ElementType::f64:
    return compare<double>(*dataset, executable, port, axis, samples, elements);
  case exec::ElementType::i32:
    return compare<int32_t>(*dataset, executable, port, axis, samples,
                            elements);
  case exec::ElementType::u8:
    return compare<uint8_t>(*dataset, executable, port, axis, samples,
                            elements);
  case exec::ElementType::i16:
    return compare<int16_t>(*dataset, executable, port, axis, samples,
                            elements);
  default:
    return compare<int64_t>(*dataset, executable, port, axis, samples,
                            elements);
  }
}

std::vector<Case> makeCases() {
  std::vector<Case> cases;
  for (const std::vector<int64_t> &mesh :
       {std::vector<int64_t>{}, {3}, {2, 2}, {3, 2}, {2, 1, 4}})
    for (size_t axis = 0; axis < 3; ++axis)
      for (exec::ElementType element :
           {exec::ElementType::f32, exec::ElementType::f64,
            exec::ElementType::i32, exec::ElementType::i64,
            exec::ElementType::u8, exec::ElementType::i16})
        cases.push_back({mesh, axis, element});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Meshes, BlocksTest, testing::ValuesIn(makeCases()),
                         [](const testing::TestParamInfo<Case> &tested) {
                           const Case &each = tested.param;
                           return fmt::format("mesh_{}_batch_{}_{}",
                                              fmt::join(each.mesh, "x"),
                                              each.axis, getName(each.element));
                         });

} // namespace

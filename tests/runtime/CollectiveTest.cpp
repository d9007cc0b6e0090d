/// Every collective between any two shardings, against element-by-element
/// bookkeeping that shares nothing with the layout library.

#include "runtime/cpu/Executor.h"
#include "tests/runtime/ProgramBuilder.h"
#include "tests/runtime/StoredHalf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

using Axes = std::vector<int64_t>;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Coordinate of `device` on a part of an axis, from the definition.
int64_t getCoordinate(const Axes &axes, exec::AxisRef ref, int64_t device) {
  for (size_t i = axes.size(); i-- > size_t(ref.axis()) + 1;)
    device /= axes[i];
  const int64_t size = axes[ref.axis()];
  return device % size / (size / (ref.pre() * ref.size())) % ref.size();
}

/// Where element `index` of a dimension lies: whether `device` holds it, and at
/// which position of its block.
struct Place {
  bool isHere = true;
  int64_t position = 0;
};

Place findElement(const Axes &axes, const exec::DimShardingT &dim,
                  int64_t device, int64_t index) {
  Place place;
  int64_t block = dim.size;
  for (const exec::AxisRef &ref : dim.axes) {
    block = ceilDivide(block, ref.size());
    place.isHere &= index / block == getCoordinate(axes, ref, device);
    index %= block;
  }
  place.position = index;
  return place;
}

int64_t getBlockSize(const exec::DimShardingT &dim) {
  int64_t block = dim.size;
  for (const exec::AxisRef &ref : dim.axes)
    block = ceilDivide(block, ref.size());
  return block;
}

/// Position of a two-dimensional element in a device's block; -1 if it is not
/// there.
int64_t findPosition(const Axes &axes, const exec::TensorLayoutT &layout,
                     int64_t device, int64_t row, int64_t column) {
  Place first = findElement(axes, *layout.dims[0], device, row);
  Place second = findElement(axes, *layout.dims[1], device, column);
  if (!first.isHere || !second.isHere)
    return -1;
  return first.position * getBlockSize(*layout.dims[1]) + second.position;
}

/// Which term of a partial value a device holds: its coordinates on the partial
/// axes as one number.
int64_t getTerm(const Axes &axes, const exec::TensorLayoutT &layout,
                int64_t device) {
  int64_t term = 0;
  for (const exec::AxisRef &ref : layout.partial_axes)
    term = term * ref.size() + getCoordinate(axes, ref, device);
  return term;
}

int64_t countTerms(const exec::TensorLayoutT &layout) {
  int64_t count = 1;
  for (const exec::AxisRef &ref : layout.partial_axes)
    count *= ref.size();
  return count;
}

template <typename T> T combine(exec::ReduceKind kind, T a, T b) {
  switch (kind) {
  case exec::ReduceKind::sum:
    return a + b;
  case exec::ReduceKind::max:
    return std::max(a, b);
  case exec::ReduceKind::min:
    return std::min(a, b);
  case exec::ReduceKind::none:
    break;
  }
  ADD_FAILURE() << "no reduction";
  return a;
}

/// Every sharding of a tensor of two dimensions in which each part serves one
/// purpose.
std::vector<exec::TensorLayoutT>
listShardings(const std::vector<exec::AxisRef> &parts, int64_t rows,
              int64_t columns, exec::ElementType element,
              exec::ReduceKind kind) {
  std::vector<exec::TensorLayoutT> result;
  // Purposes: 0 none, 1 rows, 2 columns, 3 partial.
  int64_t count = 1;
  for (size_t i = 0; i < parts.size(); ++i)
    count *= 4;
  for (int64_t choice = 0; choice < count; ++choice) {
    std::vector<exec::AxisRef> uses[4];
    int64_t rest = choice;
    for (const exec::AxisRef &part : parts) {
      uses[rest % 4].push_back(part);
      rest /= 4;
    }
    auto add = [&] {
      // Both halves of an axis in order are the axis: one split, one rounding.
      auto join = [](const std::vector<exec::AxisRef> &axes) {
        if (axes.size() == 2 && axes[0].axis() == axes[1].axis() &&
            axes[0].pre() * axes[0].size() == axes[1].pre())
          return std::vector<exec::AxisRef>{
              {axes[0].axis(), axes[0].pre(), axes[0].size() * axes[1].size()}};
        return axes;
      };
      result.push_back(makeLayout(
          element, {{"r", rows, join(uses[1])}, {"c", columns, join(uses[2])}},
          uses[3].empty() ? exec::ReduceKind::none : kind, uses[3]));
    };
    add();
    // The other order of two axes on one dimension is another sharding.
    for (int dim : {1, 2})
      if (uses[dim].size() == 2) {
        std::swap(uses[dim][0], uses[dim][1]);
        add();
      }
  }
  return result;
}

/// Runs one collective on random terms and checks every element of every
/// target block. `strided` puts both blocks into buffers of columns.
template <typename T>
void check(const std::vector<std::pair<std::string, int64_t>> &mesh,
           const exec::TensorLayoutT &source, const exec::TensorLayoutT &target,
           int threads, bool isInPlace, bool isStrided) {
  Axes axes;
  int64_t devices = 1;
  for (const auto &[name, size] : mesh) {
    axes.push_back(size);
    devices *= size;
  }
  const int64_t rows = source.dims[0]->size;
  const int64_t columns = source.dims[1]->size;
  ProgramBuilder builder(mesh);
  const int from = builder.addBuffer("from", source);
  const int to = isInPlace ? from : builder.addBuffer("to", target);
  builder.beginProgram("p");
  exec::CommandT &command = builder.addCollective(
      exec::CollectiveKind::exchange, source, from, target, to);
  if (isStrided)
    for (auto &operand : command.operands)
      operand->strides = {1, operand->shape[0]};
  auto getStored = [&](const exec::TensorLayoutT &layout, int64_t position) {
    const int64_t blockRows = getBlockSize(*layout.dims[0]);
    const int64_t blockColumns = getBlockSize(*layout.dims[1]);
    return isStrided
               ? position / blockColumns + position % blockColumns * blockRows
               : position;
  };

  Executable executable = builder.finish();
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, {}, threads);
  ASSERT_TRUE(executor) << executor.getError().message;
  // Small integers: their sums are exact in every type, bf16 too.
  std::mt19937 random(11);
  const int64_t terms = countTerms(source);
  std::vector<T> values(static_cast<size_t>(terms * rows * columns));
  for (T &value : values)
    value = std::is_same_v<T, uint8_t> ? T(random() % 2)
                                       : T(int(random() % 40) - 20);
  auto getValue = [&](int64_t term, int64_t row, int64_t column) {
    return values[(term * rows + row) * columns + column];
  };
  for (int64_t device = 0; device < devices; ++device) {
    T *block = reinterpret_cast<T *>((*executor)->getBlock(device, from));
    // Padding must not matter.
    std::fill_n(block, getLocalElements(source), T(99));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t position = findPosition(axes, source, device, row, column);
        if (position >= 0)
          block[getStored(source, position)] =
              getValue(getTerm(axes, source, device), row, column);
      }
  }

  ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));

  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      T expected = getValue(0, row, column);
      for (int64_t term = 1; term < terms; ++term)
        expected =
            combine(source.partial, expected, getValue(term, row, column));
      // Devices that hold the element, by the term they hold.
      std::vector<std::vector<T>> found(countTerms(target));
      for (int64_t device = 0; device < devices; ++device) {
        int64_t position = findPosition(axes, target, device, row, column);
        if (position < 0)
          continue;
        const T *block =
            reinterpret_cast<const T *>((*executor)->getBlock(device, to));
        found[getTerm(axes, target, device)].push_back(
            block[getStored(target, position)]);
      }
      for (const std::vector<T> &replicas : found) {
        ASSERT_FALSE(replicas.empty());
        for (T replica : replicas)
          ASSERT_EQ(replica, replicas[0]) << "replicas differ";
      }
      T whole = found[0][0];
      for (size_t term = 1; term < found.size(); ++term)
        whole = combine(target.partial, whole, found[term][0]);
      ASSERT_EQ(whole, expected)
          << "row " << row << ", column " << column << ", from "
          << toString(source) << " to " << toString(target);
    }
}

struct MeshCase {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> mesh;
  /// Parts that may each be used once.
  std::vector<exec::AxisRef> parts;
};

class CollectiveTest : public testing::TestWithParam<MeshCase> {};

TEST_P(CollectiveTest, all_pairs_of_shardings) {
  const MeshCase &mesh = GetParam();
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 7}, {3, 2}}) {
    std::vector<exec::TensorLayoutT> shardings =
        listShardings(mesh.parts, rows, columns, exec::ElementType::f32,
                      exec::ReduceKind::sum);
    for (const exec::TensorLayoutT &source : shardings)
      for (const exec::TensorLayoutT &target : shardings) {
        check<float>(mesh.mesh, source, target, 1, false, false);
        if (HasFatalFailure())
          return;
      }
  }
}

TEST_P(CollectiveTest, other_types_and_reductions) {
  const MeshCase &mesh = GetParam();
  using exec::ElementType;
  using exec::ReduceKind;
  auto checkAll = [&]<typename T>(ElementType element, ReduceKind kind) {
    std::vector<exec::TensorLayoutT> shardings =
        listShardings(mesh.parts, 3, 5, element, kind);
    // From the layouts in which the last part is partial to all others.
    for (size_t i = shardings.size() * 3 / 4; i < shardings.size(); ++i)
      for (const exec::TensorLayoutT &target : shardings)
        if (!testing::Test::HasFatalFailure())
          check<T>(mesh.mesh, shardings[i], target, 2, false, false);
  };
  checkAll.template operator()<double>(ElementType::f64, ReduceKind::sum);
  checkAll.template operator()<int32_t>(ElementType::i32, ReduceKind::max);
  checkAll.template operator()<int64_t>(ElementType::i64, ReduceKind::min);
  checkAll.template operator()<float>(ElementType::f32, ReduceKind::max);
  checkAll.template operator()<StoredBF16>(ElementType::bf16, ReduceKind::sum);
  checkAll.template operator()<StoredF16>(ElementType::f16, ReduceKind::sum);
  checkAll.template operator()<StoredBF16>(ElementType::bf16, ReduceKind::max);
  checkAll.template operator()<StoredF16>(ElementType::f16, ReduceKind::min);
  checkAll.template operator()<uint8_t>(ElementType::boolean, ReduceKind::max);
  checkAll.template operator()<uint8_t>(ElementType::boolean, ReduceKind::min);
  checkAll.template operator()<int8_t>(ElementType::i8, ReduceKind::sum);
  checkAll.template operator()<int16_t>(ElementType::i16, ReduceKind::sum);
}

TEST_P(CollectiveTest, strided_operands) {
  const MeshCase &mesh = GetParam();
  std::vector<exec::TensorLayoutT> shardings = listShardings(
      mesh.parts, 5, 7, exec::ElementType::f32, exec::ReduceKind::sum);
  for (size_t i = 0; i < shardings.size(); i += 3)
    for (const exec::TensorLayoutT &target : shardings) {
      check<float>(mesh.mesh, shardings[i], target, 2, false, true);
      if (HasFatalFailure())
        return;
    }
}

TEST_P(CollectiveTest, in_place_where_the_blocks_are_the_same) {
  const MeshCase &mesh = GetParam();
  std::vector<exec::TensorLayoutT> shardings = listShardings(
      mesh.parts, 50, 70, exec::ElementType::f32, exec::ReduceKind::sum);
  auto haveSameBlocks = [](const exec::TensorLayoutT &a,
                           const exec::TensorLayoutT &b) {
    return getSharding(a).dims == getSharding(b).dims;
  };
  int count = 0;
  for (const exec::TensorLayoutT &source : shardings)
    for (const exec::TensorLayoutT &target : shardings)
      if (haveSameBlocks(source, target) && !HasFatalFailure()) {
        check<float>(mesh.mesh, source, target, 2, true, false);
        ++count;
      }
  EXPECT_GT(count, 4);
}

TEST_P(CollectiveTest, large_ones_are_cut_into_pieces) {
  const MeshCase &mesh = GetParam();
  std::vector<exec::TensorLayoutT> shardings = listShardings(
      mesh.parts, 301, 1003, exec::ElementType::f32, exec::ReduceKind::sum);
  for (size_t i = 0; i < shardings.size(); i += 7)
    for (size_t j = 0; j < shardings.size(); j += 5)
      if (!HasFatalFailure())
        check<float>(mesh.mesh, shardings[i], shardings[j], 3, false, false);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, CollectiveTest,
    testing::Values(
        MeshCase{"two", {{"x", 2}}, {{0, 1, 2}}},
        MeshCase{"four", {{"x", 4}}, {{0, 1, 4}}},
        MeshCase{"halves_of_four", {{"x", 4}}, {{0, 1, 2}, {0, 2, 2}}},
        MeshCase{"two_by_two", {{"x", 2}, {"y", 2}}, {{0, 1, 2}, {1, 1, 2}}},
        MeshCase{"two_by_three", {{"x", 2}, {"y", 3}}, {{0, 1, 2}, {1, 1, 3}}}),
    [](const testing::TestParamInfo<MeshCase> &info) {
      return info.param.name;
    });

/// Collectives of tensors of several sizes and splits over one axis: all in one
/// transfer, or each alone.
Executable makeMembers(const std::vector<std::pair<std::string, int64_t>> &mesh,
                       exec::CollectiveKind kind, unsigned seed,
                       bool areTogether) {
  std::mt19937 random(seed);
  ProgramBuilder builder(mesh);
  const int32_t axis = int32_t(random() % mesh.size());
  builder.beginProgram("p");
  exec::CommandT *command = nullptr;
  const std::vector<int64_t> tensors[] = {{5, 7}, {3}, {2, 3}, {16}, {70, 50}};
  for (const std::vector<int64_t> &sizes : tensors) {
    std::vector<Dim> dims, targetDims;
    for (size_t i = 0; i < sizes.size(); ++i)
      dims.push_back({std::string(1, char('a' + i)), sizes[i]});
    // The other axes split a dimension each, or nothing.
    for (int32_t other = 0; other < int32_t(mesh.size()); ++other)
      if (size_t place = random() % (dims.size() + 1);
          other != axis && place < dims.size())
        dims[place].axes.push_back(builder.axis(other));
    targetDims = dims;
    const size_t place = random() % dims.size();
    auto partial = exec::ReduceKind::sum;
    std::vector<exec::AxisRef> partialAxes = {builder.axis(axis)};
    if (kind == exec::CollectiveKind::reduce_scatter)
      targetDims[place].axes.push_back(builder.axis(axis));
    if (kind == exec::CollectiveKind::all_gather) {
      dims[place].axes.push_back(builder.axis(axis));
      partial = exec::ReduceKind::none;
      partialAxes.clear();
    }
    const exec::TensorLayoutT source =
        makeLayout(exec::ElementType::f32, dims, partial, partialAxes);
    const exec::TensorLayoutT target =
        makeLayout(exec::ElementType::f32, targetDims);
    const int from = builder.addBuffer("from", source);
    const bool isInPlace =
        kind == exec::CollectiveKind::all_reduce && random() % 2;
    const int to = isInPlace ? from : builder.addBuffer("to", target);
    if (areTogether && command)
      builder.addMember(*command, source, from, target, to);
    else
      command = &builder.addCollective(kind, source, from, target, to);
  }
  return builder.finish();
}

TEST(CollectiveMembersTest, get_the_bits_that_each_gets_alone) {
  using Mesh = std::vector<std::pair<std::string, int64_t>>;
  for (const Mesh &mesh : {Mesh{{"x", 4}}, Mesh{{"x", 2}, {"y", 2}},
                           Mesh{{"x", 2}, {"y", 3}}, Mesh{{"x", 5}}})
    for (exec::CollectiveKind kind : {exec::CollectiveKind::all_reduce,
                                      exec::CollectiveKind::reduce_scatter,
                                      exec::CollectiveKind::all_gather})
      for (unsigned seed = 0; seed < 8; ++seed) {
        const Executable alone = makeMembers(mesh, kind, seed, false);
        const Executable together = makeMembers(mesh, kind, seed, true);
        ASSERT_EQ(alone.data.programs[0]->commands.size(), 5u);
        ASSERT_EQ(together.data.programs[0]->commands.size(), 1u);
        Result<std::unique_ptr<Executor>> sets[] = {
            Executor::create(alone, {}, 1), Executor::create(together, {}, 2)};
        for (auto &set : sets) {
          ASSERT_TRUE(set);
          std::mt19937 random(seed);
          for (std::byte *arena : (*set)->getArenas())
            for (uint64_t i = 0; i + 4 <= alone.data.arena_bytes; i += 4) {
              // Sums depend on the order of the terms.
              const float value =
                  std::ldexp(float(random()), int(random() % 40) - 50);
              std::memcpy(arena + i, &value, 4);
            }
          const Executable &executable = (*set)->getExecutable();
          ASSERT_TRUE((*set)->run(*executable.data.programs[0]));
        }
        for (size_t device = 0; device < (*sets[0])->getArenas().size();
             ++device)
          ASSERT_EQ(std::memcmp((*sets[0])->getArenas()[device],
                                (*sets[1])->getArenas()[device],
                                alone.data.arena_bytes),
                    0)
              << "seed " << seed << ", device " << device;
      }
}

TEST(CollectiveOrderTest, sums_in_rank_order) {
  // In f32, ((1e8 + 1) - 1e8) + 1 is 1 and any other association of the four
  // terms differs from it or depends on the order.
  ProgramBuilder builder({{"x", 4}});
  exec::TensorLayoutT whole = makeLayout(exec::ElementType::f32, {{"d", 1}});
  exec::TensorLayoutT partial =
      makeLayout(exec::ElementType::f32, {{"d", 1}}, exec::ReduceKind::sum,
                 {builder.axis(0)});
  int buffer = builder.addBuffer("value", whole);
  builder.beginProgram("p");
  builder.addCollective(exec::CollectiveKind::all_reduce, partial, buffer,
                        whole, buffer);
  Executable executable = builder.finish();
  for (int threads = 1; threads <= 4; ++threads) {
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(executable, {}, threads);
    ASSERT_TRUE(executor);
    const float terms[] = {1e8f, 1, -1e8f, 1};
    for (int64_t device = 0; device < 4; ++device)
      std::memcpy((*executor)->getBlock(device, buffer), &terms[device], 4);
    ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));
    for (int64_t device = 0; device < 4; ++device) {
      float sum;
      std::memcpy(&sum, (*executor)->getBlock(device, buffer), 4);
      EXPECT_EQ(sum, 1.0f);
    }
  }
}

/// 1 + 2^-9 + 2^-9 + 2^-8 in bf16: each sum of two is rounded back to 1, the
/// sum of all, 1 + 2^-7, is not. In rows and in columns.
TEST(CollectiveOrderTest, sixteen_bits_are_rounded_once) {
  for (bool isStrided : {false, true}) {
    ProgramBuilder builder({{"x", 4}});
    exec::TensorLayoutT whole =
        makeLayout(exec::ElementType::bf16, {{"a", 3}, {"b", 1500}});
    exec::TensorLayoutT partial =
        makeLayout(exec::ElementType::bf16, {{"a", 3}, {"b", 1500}},
                   exec::ReduceKind::sum, {builder.axis(0)});
    int terms = builder.addBuffer("terms", whole);
    int sums = builder.addBuffer("sums", whole);
    builder.beginProgram("p");
    exec::CommandT &command = builder.addCollective(
        exec::CollectiveKind::all_reduce, partial, terms, whole, sums);
    if (isStrided)
      for (auto &operand : command.operands)
        operand->strides = {1, 3};
    Executable executable = builder.finish();
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(executable, {}, 2);
    ASSERT_TRUE(executor);
    const double values[] = {1, 0x1p-9, 0x1p-9, 0x1p-8};
    for (int64_t device = 0; device < 4; ++device)
      std::fill_n(
          reinterpret_cast<StoredBF16 *>((*executor)->getBlock(device, terms)),
          4500, StoredBF16(values[device]));
    ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));
    for (int64_t device = 0; device < 4; ++device)
      for (int64_t i = 0; i < 4500; ++i)
        ASSERT_EQ(double(reinterpret_cast<const StoredBF16 *>(
                      (*executor)->getBlock(device, sums))[i]),
                  1 + 0x1p-7);
  }
}

TEST(CollectiveOrderTest, max_of_a_nan_is_nan) {
  ProgramBuilder builder({{"x", 3}});
  exec::TensorLayoutT whole = makeLayout(exec::ElementType::f32, {{"d", 3}});
  exec::TensorLayoutT partial =
      makeLayout(exec::ElementType::f32, {{"d", 3}}, exec::ReduceKind::max,
                 {builder.axis(0)});
  int buffer = builder.addBuffer("value", whole);
  builder.beginProgram("p");
  builder.addCollective(exec::CollectiveKind::all_reduce, partial, buffer,
                        whole, buffer);
  Executable executable = builder.finish();
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, {}, 2);
  ASSERT_TRUE(executor);
  // Device i has its NaN at element i.
  for (int64_t device = 0; device < 3; ++device) {
    float terms[] = {1, 2, 3};
    terms[device] = std::numeric_limits<float>::quiet_NaN();
    std::memcpy((*executor)->getBlock(device, buffer), terms, sizeof(terms));
  }
  ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));
  for (int64_t device = 0; device < 3; ++device) {
    float found[3];
    std::memcpy(found, (*executor)->getBlock(device, buffer), sizeof(found));
    for (float value : found)
      EXPECT_TRUE(std::isnan(value));
  }
}

} // namespace

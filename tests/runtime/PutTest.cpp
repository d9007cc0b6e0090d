/// Puts on CPUs (exec.fbs): values against sums in f64, bits however they are
/// cut into pieces, and what a program may not say of one.

#include "runtime/cpu/Put.h"

#include "runtime/cpu/Executor.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/SumBlock.h"
#include "runtime/plans/CpuPieces.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using exec::ElementType;
using testing::HasSubstr;

namespace {

/// What a loop is in: kept and indexed, summed, kept.
enum class LoopClass { Batch, Term, Column };

struct TestLoop {
  LoopClass kind;
  int64_t size;
};

/// Row-major strides of the loops that `has` says, in the order `order`; of
/// size 1 or absent: 0. With the positions, which come last in `sizes`.
std::vector<int64_t> layOut(const std::vector<int64_t> &sizes,
                            const std::vector<bool> &has,
                            const std::vector<size_t> &order) {
  std::vector<int64_t> strides(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;)
    if (has[order[i]]) {
      strides[order[i]] = stride;
      stride *= sizes[order[i]];
    }
  return strides;
}

class PutTest : public testing::Test {
protected:
  std::mt19937 random{1};

  int64_t draw(int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  }

  /// A put of these loops whose tensors are stored in random orders.
  exec::PutT makePut(const std::vector<TestLoop> &loops, int64_t positions) {
    std::vector<int64_t> sizes;
    std::vector<bool> inInput, inIndex, inResult;
    for (const TestLoop &loop : loops) {
      sizes.push_back(loop.size);
      inInput.push_back(true);
      inIndex.push_back(loop.kind != LoopClass::Column);
      inResult.push_back(loop.kind != LoopClass::Term);
    }
    sizes.push_back(positions);
    inInput.push_back(false);
    inIndex.push_back(false);
    inResult.push_back(true);
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), size_t(0));
    exec::PutT put;
    auto getStrides = [&](const std::vector<bool> &has) {
      std::shuffle(order.begin(), order.end(), random);
      return layOut(sizes, has, order);
    };
    put.input_strides = getStrides(inInput);
    put.index_strides = getStrides(inIndex);
    put.result_strides = getStrides(inResult);
    put.positions = positions;
    put.position_stride = put.result_strides.back();
    put.sizes = sizes;
    for (auto *numbers : {&put.sizes, &put.input_strides, &put.index_strides,
                          &put.result_strides})
      numbers->pop_back();
    return put;
  }
};

/// Calls `visit(input, index, result)` with the offsets of every element.
void forEachElement(
    const exec::PutT &put,
    const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  int64_t count = 1;
  for (int64_t size : put.sizes)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    int64_t input = 0, index = 0, result = 0, rest = i;
    for (size_t loop = put.sizes.size(); loop-- > 0;) {
      const int64_t position = rest % put.sizes[loop];
      rest /= put.sizes[loop];
      input += position * put.input_strides[loop];
      index += position * put.index_strides[loop];
      result += position * put.result_strides[loop];
    }
    visit(input, index, result);
  }
}

int64_t countElements(const exec::PutT &put,
                      const std::vector<int64_t> &strides) {
  int64_t count = 1;
  for (size_t i = 0; i < put.sizes.size(); ++i)
    if (strides[i] > 0)
      count *= put.sizes[i];
  return count;
}

/// Values of the input, as they are in memory.
struct Values {
  std::vector<std::byte> memory;
  std::vector<double> numbers;
};

Values store(ElementType element, std::vector<double> numbers) {
  Values values{{}, std::move(numbers)};
  const auto width = size_t(getElementBytes(element));
  values.memory.resize(values.numbers.size() * width);
  for (size_t i = 0; i < values.numbers.size(); ++i) {
    double &number = values.numbers[i];
    std::byte *const place = &values.memory[i * width];
    auto number32 = float(number);
    if (element == ElementType::f64) {
      std::memcpy(place, &number, sizeof(number));
      continue;
    }
    if (isHalfFloat(element)) {
      narrowRow(element, &number32, place, 1, 1);
      widenRow(element, place, 1, &number32, 1);
    } else {
      std::memcpy(place, &number32, sizeof(number32));
    }
    number = number32;
  }
  return values;
}

/// The result of a put, in pieces of so many units.
template <typename Sum, typename Index>
std::vector<Sum> compute(const exec::PutT &put, ElementType element,
                         const std::vector<std::byte> &input,
                         const std::vector<Index> &index,
                         int64_t unitsPerPiece) {
  const Put command(put, element,
                    sizeof(Index) == 4 ? ElementType::i32 : ElementType::i64);
  std::vector<Sum> result(
      size_t(countElements(put, put.result_strides) * put.positions),
      std::numeric_limits<Sum>::quiet_NaN());
  void *operands[] = {const_cast<std::byte *>(input.data()),
                      const_cast<Index *>(index.data()), result.data()};
  std::vector<std::byte> scratch(command.getScratchBytes() + 64);
  auto *const aligned = reinterpret_cast<std::byte *>(
      (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const int64_t units = command.getPlan().getNumUnits();
  for (int64_t begin = 0; begin < units; begin += unitsPerPiece)
    command.run(begin, std::min(begin + unitsPerPiece, units), operands,
                aligned);
  return result;
}

/// Sums in f64, and those of magnitudes.
template <typename Index>
std::pair<std::vector<double>, std::vector<double>>
sum(const exec::PutT &put, const Values &values,
    const std::vector<Index> &index) {
  std::vector<double> sums(
      size_t(countElements(put, put.result_strides) * put.positions));
  std::vector<double> magnitudes = sums;
  forEachElement(put, [&](int64_t from, int64_t at, int64_t to) {
    const Index position = index[size_t(at)];
    if (position < 0 || int64_t(position) >= put.positions)
      return;
    const auto place = size_t(to + int64_t(position) * put.position_stride);
    sums[place] += values.numbers[size_t(from)];
    magnitudes[place] += std::abs(values.numbers[size_t(from)]);
  });
  return {sums, magnitudes};
}

class Puts : public PutTest {
protected:
  template <typename Sum, typename Index>
  void check(const exec::PutT &put, ElementType element) {
    std::vector<double> numbers(size_t(countElements(put, put.input_strides)));
    std::normal_distribution<double> normal;
    for (double &number : numbers)
      number = normal(random);
    const Values values = store(element, std::move(numbers));
    std::vector<Index> index(size_t(countElements(put, put.index_strides)));
    for (Index &position : index)
      position = random() % 8 == 0
                     ? (random() % 2 ? std::numeric_limits<Index>::min()
                                     : std::numeric_limits<Index>::max())
                     : Index(draw(-1, put.positions));
    const std::vector<Sum> whole =
        compute<Sum>(put, element, values.memory, index, INT64_MAX / 2);
    const auto [sums, magnitudes] = sum(put, values, index);
    const double unit = std::numeric_limits<Sum>::epsilon() / 2;
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_LE(std::abs(double(whole[i]) - sums[i]),
                3 * sumBlock * unit * magnitudes[i])
          << i;
    for (int64_t unitsPerPiece : {1, 2, 3, 7, 64}) {
      const std::vector<Sum> pieces =
          compute<Sum>(put, element, values.memory, index, unitsPerPiece);
      ASSERT_EQ(
          std::memcmp(pieces.data(), whole.data(), whole.size() * sizeof(Sum)),
          0)
          << unitsPerPiece;
    }
  }
};

TEST_F(Puts, have_the_sums_of_f64_and_the_same_bits_in_any_pieces) {
  for (int round = 0; round < 300; ++round) {
    std::vector<TestLoop> loops;
    const auto count = int(draw(0, 5));
    for (int i = 0; i < count; ++i)
      loops.push_back({LoopClass(random() % 3), draw(2, 5)});
    // A line longer than a tile.
    if (random() % 8 == 0)
      loops.push_back({LoopClass::Column, draw(250, 600)});
    const exec::PutT put = makePut(loops, draw(1, 7));
    SCOPED_TRACE(round);
    switch (random() % 4) {
    case 0:
      check<float, int32_t>(put, ElementType::f32);
      break;
    case 1:
      check<double, int64_t>(put, ElementType::f64);
      break;
    case 2:
      check<float, int64_t>(put, ElementType::bf16);
      break;
    case 3:
      check<float, int32_t>(put, ElementType::f16);
      break;
    }
    if (HasFatalFailure())
      return;
  }
}

/// More rows than are listed at a time, of few terms.
TEST_F(Puts, of_many_rows) {
  const exec::PutT put =
      makePut({{LoopClass::Term, 5}, {LoopClass::Column, 3}}, 70001);
  check<float, int32_t>(put, ElementType::f32);
  const Values values =
      store(ElementType::f32, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024,
                               2048, 4096, 8192, 16384});
  const std::vector<int64_t> index = {65536, 70000, 65535, 65536, INT64_MAX};
  const std::vector<float> result = compute<float>(
      put, ElementType::f32, values.memory, index, INT64_MAX / 2);
  const auto [sums, magnitudes] = sum(put, values, index);
  EXPECT_THAT(result, testing::Pointwise(testing::Eq(), sums));
  EXPECT_EQ(std::count(result.begin(), result.end(), 0), 3 * 70001 - 9);
}

/// One accumulator of 2^14 equal terms would be far off (SumBlock.h).
TEST_F(Puts, of_many_terms_err_as_blocks_do) {
  constexpr int64_t terms = 20000;
  const exec::PutT put =
      makePut({{LoopClass::Term, terms}, {LoopClass::Column, 2}}, 3);
  const Values values =
      store(ElementType::f32, std::vector<double>(size_t(2 * terms), 0.1));
  const std::vector<int32_t> index(size_t(terms), 1);
  const std::vector<float> result = compute<float>(
      put, ElementType::f32, values.memory, index, INT64_MAX / 2);
  const double expected = double(terms) * values.numbers[0];
  // Above the bound for blocks no sum of this kind is.
  const double bound = sumBlock * countSumLevels(terms) * 0x1p-24;
  for (int64_t column = 0; column < 2; ++column) {
    const auto column32 = size_t(column * put.result_strides[1]);
    const double sum = result[column32 + size_t(put.position_stride)];
    EXPECT_LE(std::abs(sum / expected - 1), bound);
    EXPECT_EQ(result[column32], 0);
    EXPECT_EQ(result[column32 + size_t(2 * put.position_stride)], 0);
  }
}

TEST_F(Puts, are_cut_by_what_they_move) {
  exec::CommandT command;
  command.action.Set(
      makePut({{LoopClass::Term, 2000}, {LoopClass::Column, 512}}, 1000));
  command.flops = 2000 * 512;
  command.bytes = 4 * (2000 * 512 + 2000 + 1000 * 512);
  // Rows of two tiles.
  EXPECT_EQ(PutPlan(*command.action.AsPut()).getNumUnits(), 2000);
  EXPECT_EQ(countPieces(command, 1, 1), 1);
  EXPECT_EQ(countPieces(command, 1, 2), 8);
  command.bytes = 1000;
  command.flops = 1000;
  EXPECT_EQ(countPieces(command, 1, 2), 1);
}

//===-- What a program may say --------------------------------------------===//

/// Seven rows of three go to five.
std::unique_ptr<ProgramBuilder> makeProgram() {
  auto builder = std::make_unique<ProgramBuilder>(
      std::vector<std::pair<std::string, int64_t>>{{"d", 1}});
  builder->beginProgram("step");
  const int input = builder->addBuffer("input", 7 * 3 * 4);
  const int index = builder->addBuffer("index", 7 * 8);
  const int result = builder->addBuffer("result", 5 * 3 * 4);
  exec::CommandT &command =
      builder->addCopy(builder->view(input, ElementType::f32, {7, 3}),
                       builder->view(result, ElementType::f32, {5, 3}));
  command.operands.insert(command.operands.begin() + 1,
                          builder->view(index, ElementType::i32, {7}));
  exec::PutT put;
  put.positions = 5;
  put.position_stride = 3;
  put.sizes = {7, 3};
  put.input_strides = {3, 1};
  put.index_strides = {1, 0};
  put.result_strides = {0, 1};
  command.action.Set(std::move(put));
  command.flops = 21;
  return builder;
}

TEST(PutCommand, runs_as_the_program_says) {
  const Executable executable = makeProgram()->finish();
  for (int threads : {1, 3}) {
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(executable, {}, threads);
    ASSERT_TRUE(executor) << executor.getError().message;
    const exec::ProgramT &program = *executable.data.programs.front();
    const auto &operands = program.commands.front()->operands;
    ASSERT_TRUE((*executor)->write(
        0, operands[0]->buffer, 7 * 3 * 4, [](std::byte *memory) {
          for (int i = 0; i < 21; ++i)
            reinterpret_cast<float *>(memory)[i] = float(1 << i);
        }));
    ASSERT_TRUE((*executor)->write(
        0, operands[1]->buffer, 7 * 4, [](std::byte *memory) {
          const int32_t index[] = {4, 0, 4, -1, 5, 0, 2};
          std::memcpy(memory, index, sizeof(index));
        }));
    ASSERT_TRUE((*executor)->run(program));
    std::vector<float> result;
    ASSERT_TRUE((*executor)->readLocal(
        0, operands[2]->buffer, 0, 5 * 3 * 4, [&](const std::byte *memory) {
          const auto *const first = reinterpret_cast<const float *>(memory);
          result.assign(first, first + 15);
        }));
    EXPECT_THAT(result, testing::ElementsAre(0x8008, 0x10010, 0x20020, 0, 0, 0,
                                             0x40000, 0x80000, 0x100000, 0, 0,
                                             0, 0x41, 0x82, 0x104));
  }
}

struct Defect {
  std::string message;
  std::function<void(exec::ExecutableT &, exec::CommandT &, exec::PutT &)>
      inflict;
};

const Defect defects[] = {
    {"a put is of CPUs only",
     [](auto &data, auto &, auto &) { data.target = exec::Target::cuda; }},
    {"a put has 2 operands and 1 results, expected 3 and 1",
     [](auto &, auto &command, auto &) { command.operands.pop_back(); }},
    {"a put has 3 operands and 2 results, expected 3 and 1",
     [](auto &, auto &command, auto &) { command.results = 2; }},
    {"a put has an index of element type f32",
     [](auto &, auto &command, auto &) {
       command.operands[1]->element = ElementType::f32;
     }},
    {"a put of element type i32 is not supported",
     [](auto &, auto &command, auto &) {
       command.operands[0]->element = ElementType::i32;
     }},
    {"a put of element type bf16 has a result of bf16, expected f32",
     [](auto &, auto &command, auto &) {
       command.operands[0]->element = ElementType::bf16;
       command.operands[2]->element = ElementType::bf16;
     }},
    {"a put's strides are not as many as the sizes of its loops",
     [](auto &, auto &, auto &put) { put.index_strides.pop_back(); }},
    {"a put has 0 positions and the stride 3",
     [](auto &, auto &, auto &put) { put.positions = 0; }},
    {"a put has 5 positions and the stride 0",
     [](auto &, auto &, auto &put) { put.position_stride = 0; }},
    {"a put has a loop of size 1, strides 3, 1 and 0",
     [](auto &, auto &, auto &put) { put.sizes[0] = 1; }},
    {"a put has a loop of size 3, strides 0, 0 and 1",
     [](auto &, auto &, auto &put) { put.input_strides[1] = 0; }},
    {"a put has a loop of size 7, strides 3, -1 and 0",
     [](auto &, auto &, auto &put) { put.index_strides[0] = -1; }},
    {"a put has a loop of size 3, strides 1, 0 and -1",
     [](auto &, auto &, auto &put) { put.result_strides[1] = -1; }},
    {"a put sums a loop that its index lacks",
     [](auto &, auto &, auto &put) { put.result_strides[1] = 0; }},
    {"a put has 2^32 - 1 terms or more",
     [](auto &, auto &, auto &put) { put.sizes[0] = int64_t(UINT32_MAX); }},
    {"operand 0 reaches byte",
     [](auto &, auto &, auto &put) { put.input_strides[0] = 4; }},
    {"operand 1 reaches byte",
     [](auto &, auto &, auto &put) { put.index_strides[0] = 3; }},
    {"operand 2 reaches byte",
     [](auto &, auto &, auto &put) { put.position_stride = 4; }},
    {"operand 2 has one element written several times",
     [](auto &, auto &, auto &put) { put.position_stride = 2; }},
    {"a put does not write all of its result",
     [](auto &, auto &, auto &put) { put.positions = 4; }},
    // As many elements, but not those that its shape has.
    {"a put does not write all of its result",
     [](auto &data, auto &command, auto &put) {
       data.buffers[size_t(command.operands[2]->buffer)]->bytes *= 2;
       data.arena_bytes *= 2;
       put.position_stride = 6;
     }},
    // Two small operands, of which nothing would bound the terms.
    {"a put reads one element several times",
     [](auto &, auto &command, auto &put) {
       command.operands[0]->shape = command.operands[1]->shape = {4, 4};
       command.operands[0]->strides = command.operands[1]->strides = {1, 1};
       put.sizes = {4, 4};
       put.input_strides = put.index_strides = {1, 1};
       put.result_strides = {0, 0};
     }},
    {"a put reads the memory it writes",
     [](auto &, auto &command, auto &) {
       command.operands[2]->buffer = command.operands[0]->buffer;
     }},
    {"the number of its operations is 22, expected 0 to 21",
     [](auto &, auto &command, auto &) { command.flops = 22; }},
};

TEST(PutCommand, is_refused_with_a_defect) {
  for (const Defect &defect : defects) {
    const std::unique_ptr<ProgramBuilder> builder = makeProgram();
    exec::CommandT &command =
        *builder->get().programs.front()->commands.front();
    defect.inflict(builder->get(), command, *command.action.AsPut());
    Result<Executable> executable = Executable::load(builder->serialize());
    ASSERT_FALSE(executable) << defect.message;
    EXPECT_EQ(executable.getError().code, ErrorCode::DamagedProgram);
    EXPECT_THAT(executable.getError().message, HasSubstr(defect.message));
  }
}

} // namespace

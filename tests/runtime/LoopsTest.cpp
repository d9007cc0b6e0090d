/// Loops of programs: what their commands become in each iteration, that
/// iterations wait for what they need and nothing else, and what is no loop.

#include "runtime/exec/Loops.h"
#include "runtime/cpu/Executor.h"
#include "runtime/exec/PlanIds.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

constexpr exec::ElementType i64 = exec::ElementType::i64;

/// sum[i] += x[i]; all[i] = sum[i].
void accumulate(void *const *operands, const int64_t *, int64_t begin,
                int64_t end) {
  const auto *x = static_cast<const int64_t *>(operands[0]);
  auto *sum = static_cast<int64_t *>(operands[1]);
  auto *all = static_cast<int64_t *>(operands[2]);
  for (int64_t i = begin; i < end; ++i)
    all[i] = sum[i] += x[i];
}

const meshcKernelEntry kernels[] = {{"accumulate", accumulate}};

void addLoop(ProgramBuilder &builder, const std::string &name, int first,
             int commands, int64_t iterations, bool isReversed = false) {
  auto loop = std::make_unique<exec::LoopT>();
  loop->name = name;
  loop->first = first;
  loop->commands = commands;
  loop->iterations = iterations;
  loop->is_reversed = isReversed;
  builder.get().programs.back()->loops.push_back(std::move(loop));
}

std::unique_ptr<exec::OperandT> moved(std::unique_ptr<exec::OperandT> operand,
                                      std::vector<int64_t> steps) {
  operand->steps = std::move(steps);
  return operand;
}

/// Sums of the rows of x so far, row by row: x and the result have 5 x 3 rows
/// of 7 numbers, which are taken in the order of two nested loops.
struct RunningSums {
  static constexpr int64_t outer = 5, inner = 3, row = 7;
  static constexpr int64_t rowBytes = row * 8;
  ProgramBuilder builder{{{"devices", 2}}};
  int x, sum, all;

  explicit RunningSums(bool outerReversed = false, bool innerReversed = false) {
    x = builder.addBuffer("x", outer * inner * rowBytes);
    sum = builder.addBuffer("sum", rowBytes);
    all = builder.addBuffer("all", outer * inner * rowBytes);
    builder.beginProgram("p");
    const std::vector<int64_t> steps = {inner * rowBytes, rowBytes};
    builder.addKernel("accumulate", row,
                      list(moved(builder.view(x, i64, {row}), steps),
                           builder.view(sum, i64, {row}),
                           moved(builder.view(all, i64, {row}), steps)),
                      2);
    addLoop(builder, "o", 0, 1, outer, outerReversed);
    addLoop(builder, "i", 0, 1, inner, innerReversed);
  }
};

const exec::ProgramT &getProgram(const Executable &executable) {
  return *executable.data.programs[0];
}

TEST(LoopsTest, nested_loops_run_in_their_order) {
  for (bool outerReversed : {false, true})
    for (bool innerReversed : {false, true})
      for (int threads : {1, 3}) {
        RunningSums sums(outerReversed, innerReversed);
        const Executable executable = sums.builder.finish();
        ASSERT_EQ(getProgram(executable).commands.size(), 15U);
        Result<std::unique_ptr<Executor>> executor =
            Executor::create(executable, kernels, threads);
        ASSERT_TRUE(executor) << executor.getError().message;
        constexpr int64_t count = 15 * RunningSums::row;
        for (int64_t device : {0, 1}) {
          std::vector<int64_t> x(count);
          for (int64_t i = 0; i < count; ++i)
            x[size_t(i)] = i * i + device;
          std::memcpy((*executor)->getBlock(device, sums.x), x.data(),
                      x.size() * 8);
          std::memset((*executor)->getBlock(device, sums.sum), 0,
                      RunningSums::rowBytes);
        }
        ASSERT_TRUE((*executor)->run(getProgram(executable)));
        for (int64_t device : {0, 1}) {
          std::vector<int64_t> all(count);
          std::memcpy(all.data(), (*executor)->getBlock(device, sums.all),
                      all.size() * 8);
          std::vector<int64_t> sum(RunningSums::row);
          for (int64_t o = 0; o < 5; ++o)
            for (int64_t i = 0; i < 3; ++i)
              for (int64_t k = 0; k < RunningSums::row; ++k) {
                const int64_t place = (outerReversed ? 4 - o : o) * 3 +
                                      (innerReversed ? 2 - i : i);
                const int64_t at = place * RunningSums::row + k;
                sum[size_t(k)] += at * at + device;
                ASSERT_EQ(all[size_t(at)], sum[size_t(k)]);
              }
        }
      }
}

TEST(LoopsTest, commands_have_names_and_offsets_of_their_iteration) {
  RunningSums sums(false, true);
  const Executable executable = sums.builder.finish();
  const auto &commands = getProgram(executable).commands;
  EXPECT_EQ(commands[0]->name, "accumulate [o = 0] [i = 2]");
  EXPECT_EQ(commands[14]->name, "accumulate [o = 4] [i = 0]");
  EXPECT_EQ(commands[0]->operands[0]->offset, 2 * 56U);
  EXPECT_EQ(commands[5]->operands[0]->offset, (3 + 0) * 56U);
  EXPECT_EQ(commands[5]->operands[1]->offset, 0U);
  EXPECT_THAT(commands[5]->operands[0]->steps, IsEmpty());
  EXPECT_THAT(getProgram(executable).loops, IsEmpty());
}

/// A trace names commands as the plan does, which has the loops.
TEST(LoopsTest, iterations_have_the_ids_of_their_command) {
  RunningSums sums;
  sums.builder.addCopy(sums.builder.view(sums.sum, i64, {RunningSums::row}),
                       sums.builder.view(sums.all, i64, {RunningSums::row}));
  exec::ExecutableT file(sums.builder.get());
  const exec::ProgramT &program = *file.programs[0];
  EXPECT_THAT(countRepeats(program), ElementsAre(15, 1));
  const auto ids = getPlanIds(program);
  ASSERT_EQ(ids.size(), 2U);
  const Executable executable = sums.builder.finish();
  const exec::ProgramT &expanded = getProgram(executable);
  const auto expandedIds =
      getPlanIds(expanded, executable.getSources(expanded));
  ASSERT_EQ(expandedIds.size(), 16U);
  for (size_t i = 0; i < 15; ++i)
    EXPECT_EQ(expandedIds[i], ids[0]);
  EXPECT_EQ(expandedIds[15], ids[1]);
  EXPECT_EQ(getPlanDigest(file, program),
            getPlanDigest(executable.data, expanded,
                          executable.getSources(expanded)));
  EXPECT_NE(getPlanDigest(file, program),
            getPlanDigest(executable.data, expanded));
}

/// Of x = 2 rows, y = 2 rows: each row is copied, twice, within one iteration.
TEST(LoopsTest, iterations_wait_for_the_bytes_they_share) {
  ProgramBuilder builder({{"devices", 1}});
  const int x = builder.addBuffer("x", 2 * 24);
  const int y = builder.addBuffer("y", 2 * 24);
  const int z = builder.addBuffer("z", 24);
  builder.beginProgram("p");
  auto row = [&](int buffer, std::vector<int64_t> steps) {
    return moved(builder.view(buffer, i64, {3}), std::move(steps));
  };
  builder.addCopy(row(x, {24}), row(y, {24}));
  builder.addCopy(row(y, {24}), row(z, {}));
  addLoop(builder, "t", 0, 2, 2);
  builder.addCopy(builder.view(y, i64, {3}), builder.view(x, i64, {3}));
  const Executable executable = builder.finish();
  const auto &commands = getProgram(executable).commands;
  ASSERT_EQ(commands.size(), 5U);
  EXPECT_THAT(commands[0]->waits, IsEmpty());
  EXPECT_THAT(commands[1]->waits, ElementsAre(0));
  EXPECT_THAT(commands[2]->waits, IsEmpty()); // another row than 0 and 1
  EXPECT_THAT(commands[3]->waits, ElementsAre(1, 2)); // z, y[1]
  EXPECT_THAT(commands[4]->waits, ElementsAre(0));    // y[0], x[0]
}

TEST(LoopsTest, every_defect_is_named) {
  struct Defect {
    std::string message;
    std::function<void(exec::ProgramT &)> inflict;
  };
  const Defect defects[] = {
      {"loop 1 ('i') has 1 commands from 1 on, of 1",
       [](auto &program) { program.loops[1]->first = 1; }},
      {"loop 0 ('o') has 1 commands from -1 on, of 1",
       [](auto &program) { program.loops[0]->first = -1; }},
      {"loop 0 ('o') has 0 commands from 0 on, of 1",
       [](auto &program) { program.loops[0]->commands = 0; }},
      {"loop 0 ('o') has 0 iterations, expected 1 to 131072",
       [](auto &program) { program.loops[0]->iterations = 0; }},
      {"loop 0 ('o') has 131073 iterations, expected 1 to 131072",
       [](auto &program) { program.loops[0]->iterations = 131073; }},
      {"it has more than 131072 commands in all iterations of its loops",
       [](auto &program) {
         program.loops[0]->iterations = 43691;
         program.commands[0]->operands.clear();
         program.commands[0]->results = 0;
       }},
      {"command 0 ('accumulate'): operand 0 moves in 2 loops, expected 1",
       [](auto &program) { program.loops.pop_back(); }},
      {"command 0 ('accumulate'): operand 0 moves beyond any memory",
       [](auto &program) { program.commands[0]->operands[0]->steps[1] = -8; }},
      {"command 0 ('accumulate'): operand 2 moves beyond any memory",
       [](auto &program) {
         program.commands[0]->operands[2]->steps[0] = int64_t(1) << 55;
       }},
      {"command 0 ('accumulate'): operand 2 moves beyond any memory",
       [](auto &program) {
         program.commands[0]->operands[2]->offset = ~uint64_t(7);
       }},
      {"it waits for command 0, which is not before it",
       [](auto &program) { program.commands[0]->waits = {0}; }},
      {"command 13 ('accumulate [o = 4] [i = 1]'): operand 0 reaches byte 848 "
       "of buffer 'x', which has 840",
       [](auto &program) { program.commands[0]->operands[0]->steps[0] += 16; }},
      {"loop 1 ('i') ends behind the loop it begins in",
       [](auto &program) {
         program.commands.push_back(
             std::make_unique<exec::CommandT>(*program.commands[0]));
         program.loops[1]->commands = 2;
       }},
      {"loop 1 ('i') is not in order",
       [](auto &program) {
         program.commands.push_back(
             std::make_unique<exec::CommandT>(*program.commands[0]));
         program.loops[0]->first = 1;
       }},
      {"more than 8 loops inside of one another",
       [](auto &program) {
         for (int i = 0; i < 7; ++i)
           program.loops.push_back(
               std::make_unique<exec::LoopT>(*program.loops[0]));
       }},
  };
  for (const Defect &defect : defects) {
    RunningSums sums;
    defect.inflict(*sums.builder.get().programs[0]);
    EXPECT_THAT(checkExecutable(sums.builder.get()), HasSubstr(defect.message));
    const Result<Executable> executable =
        Executable::load(sums.builder.serialize());
    ASSERT_FALSE(executable) << defect.message;
    EXPECT_THAT(executable.getError().message, HasSubstr(defect.message));
  }
  EXPECT_EQ(checkExecutable(RunningSums().builder.get()), "");
}

TEST(LoopsTest, flipped_bits_never_crash) {
  std::vector<uint8_t> bytes = RunningSums().builder.serialize();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= uint8_t(1 << bit);
      if (const Result<Executable> executable = Executable::load(bytes))
        for (const auto &program : executable->data.programs)
          EXPECT_THAT(program->loops, IsEmpty());
      bytes[i] ^= uint8_t(1 << bit);
    }
}

/// Iterations are checked one by one: only one of them shares memory.
TEST(LoopsTest, defects_of_one_iteration_are_found) {
  ProgramBuilder builder({{"devices", 1}});
  const int x = builder.addBuffer("x", 5 * 24);
  builder.beginProgram("p");
  builder.addCopy(moved(builder.view(x, i64, {3}), {24}),
                  builder.view(x, i64, {3}, {}, 72));
  addLoop(builder, "t", 0, 1, 5);
  EXPECT_THAT(checkExecutable(builder.get()),
              HasSubstr("command 3 ('copy [t = 3]'): a copy reads the memory "
                        "it writes"));
}

} // namespace

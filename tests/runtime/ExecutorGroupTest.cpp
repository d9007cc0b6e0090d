/// Devices divided over several processes: collectives, whole runs and values
/// are, bit for bit, those of one process. The processes are threads here, each
/// with its own executor and connections of TCP to the others.

#include "runtime/app/Session.h"
#include "runtime/cpu/Executor.h"
#include "runtime/ranks/SocketTransport.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/ProgramBuilder.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;
using Stage = Collective::Stage;

TEST(DivisionTest, parts_are_contiguous_and_equal_up_to_one) {
  for (int64_t devices = 1; devices <= 24; ++devices)
    for (int64_t ranks = 1; ranks <= devices; ++ranks) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Division division{devices, ranks, rank};
        EXPECT_EQ(division.getBegin(), next);
        EXPECT_GE(division.getNumLocal(), devices / ranks);
        EXPECT_LE(division.getNumLocal(), (devices + ranks - 1) / ranks);
        next = division.getEnd();
        for (int64_t device = 0; device < devices; ++device) {
          const bool isHere = device >= division.getBegin() && device < next;
          EXPECT_EQ(division.isLocal(device), isHere);
          EXPECT_EQ(division.getRank(device) == rank, isHere);
        }
      }
      EXPECT_EQ(next, devices);
    }
}

/// Every sharding of a tensor of two dimensions that uses each axis for one
/// purpose: none, the first dimension, the second, or partial.
std::vector<exec::TensorLayoutT>
listShardings(const std::vector<exec::AxisRef> &axes, int64_t rows,
              int64_t columns, exec::ReduceKind kind = exec::ReduceKind::sum) {
  std::vector<exec::TensorLayoutT> result;
  int64_t count = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    count *= 4;
  for (int64_t choice = 0; choice < count; ++choice) {
    std::vector<exec::AxisRef> uses[4];
    int64_t rest = choice;
    for (const exec::AxisRef &axis : axes) {
      uses[rest % 4].push_back(axis);
      rest /= 4;
    }
    result.push_back(
        makeLayout(f32, {{"r", rows, uses[1]}, {"c", columns, uses[2]}},
                   uses[3].empty() ? exec::ReduceKind::none : kind, uses[3]));
  }
  return result;
}

/// Values whose sums depend on the order of the terms.
void fillRandom(std::byte *data, size_t bytes, std::mt19937 &random) {
  for (size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
    const float value = std::ldexp(float(random()), int(random() % 40) - 50);
    std::memcpy(data + i, &value, sizeof(value));
  }
}

using Memory = std::vector<std::vector<std::byte>>; ///< by device

/// Arenas for a tensor and its image under a collective.
Memory makeMemory(int64_t devices, int64_t rows, int64_t columns) {
  std::mt19937 random(7);
  Memory memory(devices, std::vector<std::byte>(rows * columns * 8));
  for (std::vector<std::byte> &arena : memory)
    fillRandom(arena.data(), arena.size(), random);
  return memory;
}

/// A collective with its operands; the result lies in the second half of the
/// arenas or, in place, where the source is.
struct Example {
  exec::CollectiveT command;
  exec::OperandT from, to;
  uint64_t toOffset;

  Example(const exec::TensorLayoutT &source, const exec::TensorLayoutT &target,
          bool isStrided, bool isInPlace)
      : toOffset(isInPlace ? 0
                           : source.dims[0]->size * source.dims[1]->size * 4) {
    command.source = std::make_unique<exec::TensorLayoutT>(source);
    command.target = std::make_unique<exec::TensorLayoutT>(target);
    for (auto [operand, layout] : {std::pair{&from, &source}, {&to, &target}}) {
      operand->element = f32;
      operand->shape = getLocalShape(*layout);
      operand->strides = isStrided ? std::vector<int64_t>{1, operand->shape[0]}
                                   : getStrides(operand->shape);
    }
  }

  /// Runs the parts of all ranks, handing their messages over.
  Memory run(const layout::Mesh &mesh, int64_t ranks, Memory memory) const {
    const int64_t devices = mesh.getNumDevices();
    std::vector<Collective> parts;
    Memory staging;
    std::vector<std::vector<std::byte *>> arenas;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Division division{devices, ranks, rank};
      uint64_t stagingBytes = 0;
      const Collective::Member member{getShardingChange(command), &from, 0, &to,
                                      toOffset};
      parts.push_back(
          Collective::create(mesh, {&member, 1}, division, stagingBytes));
      staging.emplace_back(stagingBytes, std::byte(0xff));
      arenas.emplace_back(devices, nullptr);
      for (int64_t device = 0; device < devices; ++device)
        if (division.isLocal(device))
          arenas.back()[device] = memory[device].data();
    }
    for (int64_t group = 0; group < parts[0].getNumGroups(); ++group)
      for (Stage stage : {Stage::Pack, Stage::Combine, Stage::Spread}) {
        for (int64_t rank = 0; rank < ranks; ++rank)
          for (int64_t i = 0; i < parts[rank].getNumPieces(group, stage); ++i)
            parts[rank].run(group, stage, i, arenas[rank],
                            staging[rank].data());
        if (stage != Stage::Spread)
          handOver(parts, group, stage, staging);
      }
    return memory;
  }

private:
  static void handOver(const std::vector<Collective> &parts, int64_t group,
                       Stage stage, Memory &staging) {
    const Stage next = Stage(size_t(stage) + 1);
    size_t expected = 0, found = 0;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      expected += parts[rank].getIncoming(group, next).size();
      for (const auto &out : parts[rank].getOutgoing(group, stage))
        for (const auto &in : parts[out.peer].getIncoming(group, next)) {
          if (in.peer != int64_t(rank))
            continue;
          ++found;
          ASSERT_EQ(in.bytes, out.bytes);
          std::memcpy(staging[out.peer].data() + in.offset,
                      staging[rank].data() + out.offset, in.bytes);
        }
    }
    ASSERT_EQ(expected, found);
  }
};

void checkDivided(const layout::Mesh &mesh, const exec::TensorLayoutT &source,
                  const exec::TensorLayoutT &target, bool isStrided,
                  bool isInPlace, const Memory &memory) {
  const Example example(source, target, isStrided, isInPlace);
  const Memory whole = example.run(mesh, 1, memory);
  for (int64_t ranks = 2; ranks <= mesh.getNumDevices(); ++ranks)
    ASSERT_EQ(example.run(mesh, ranks, memory), whole)
        << ranks << " ranks, from " << toString(source) << " to "
        << toString(target);
}

struct MeshCase {
  std::string name;
  std::vector<layout::MeshAxis> axes;
  std::vector<exec::AxisRef> parts; ///< that may each be used once
};

class DividedCollectiveTest : public testing::TestWithParam<MeshCase> {};

TEST_P(DividedCollectiveTest, equals_that_of_one_process) {
  const layout::Mesh mesh(GetParam().axes);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 7}, {12, 2}}) {
    const Memory memory = makeMemory(mesh.getNumDevices(), rows, columns);
    const std::vector<exec::TensorLayoutT> shardings =
        listShardings(GetParam().parts, rows, columns);
    for (const exec::TensorLayoutT &source : shardings)
      for (const exec::TensorLayoutT &target : shardings)
        for (bool isStrided : {false, true}) {
          const bool haveSameBlocks =
              getSharding(source).dims == getSharding(target).dims;
          checkDivided(mesh, source, target, isStrided, false, memory);
          if (haveSameBlocks)
            checkDivided(mesh, source, target, isStrided, true, memory);
          if (HasFatalFailure())
            return;
        }
  }
}

/// Long enough that the processes combine a share each. Maxima are combined
/// before they are sent, too.
TEST_P(DividedCollectiveTest, equals_it_where_sums_are_divided) {
  const layout::Mesh mesh(GetParam().axes);
  constexpr int64_t rows = 257, columns = 131;
  const Memory memory = makeMemory(mesh.getNumDevices(), rows, columns);
  int64_t seen = 0;
  for (exec::ReduceKind kind : {exec::ReduceKind::sum, exec::ReduceKind::max}) {
    const std::vector<exec::TensorLayoutT> shardings =
        listShardings(GetParam().parts, rows, columns, kind);
    for (const exec::TensorLayoutT &source : shardings)
      for (const exec::TensorLayoutT &target : shardings) {
        if (source.partial_axes.empty())
          continue;
        const bool isInPlace =
            getSharding(source).dims == getSharding(target).dims;
        checkDivided(mesh, source, target, ++seen % 2 == 0, isInPlace, memory);
        if (HasFatalFailure())
          return;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, DividedCollectiveTest,
    testing::Values(
        MeshCase{"two", {{"x", 2}}, {{0, 1, 2}}},
        MeshCase{"five", {{"x", 5}}, {{0, 1, 5}}},
        MeshCase{"halves_of_four", {{"x", 4}}, {{0, 1, 2}, {0, 2, 2}}},
        MeshCase{"two_by_three", {{"x", 2}, {"y", 3}}, {{0, 1, 2}, {1, 1, 3}}},
        MeshCase{"three_by_two", {{"x", 3}, {"y", 2}}, {{0, 1, 3}, {1, 1, 2}}}),
    [](const testing::TestParamInfo<MeshCase> &info) {
      return info.param.name;
    });

/// Something whose bits depend on every element, and that takes a while that
/// depends on the device: groups become ready in ever other orders.
void mix(void *const *operands, const int64_t *coordinates, int64_t begin,
         int64_t end) {
  auto *values = static_cast<float *>(operands[0]);
  for (int64_t i = begin; i < end; ++i)
    values[i] = std::sin(values[i] * 1.7f + float(coordinates[0]) * 0.3f +
                         float(coordinates[1]) * 0.7f + float(i % 13));
  static std::atomic<uint32_t> state = 1;
  if (uint32_t random = (state = state * 1664525 + 1013904223) >> 24;
      random < 40)
    std::this_thread::sleep_for(std::chrono::microseconds(random * 10));
}

const meshcKernelEntry kernels[] = {{"mix", mix}};

/// Programs of kernels and collectives between random shardings; every second
/// collective takes a smaller tensor along.
Executable
makeRandomProgram(const std::vector<std::pair<std::string, int64_t>> &mesh,
                  int64_t rows, int64_t columns, unsigned seed) {
  ProgramBuilder builder(mesh);
  std::vector<exec::TensorLayoutT> shardings =
      listShardings({builder.axis(0), builder.axis(1)}, rows, columns);
  std::vector<exec::TensorLayoutT> smallShardings =
      listShardings({builder.axis(0), builder.axis(1)}, 3, 7);
  std::mt19937 random(seed);
  // Half-open: the value in buffer i has the sharding that follows it.
  std::vector<int> buffers, smallBuffers;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(
        builder.addBuffer("b" + std::to_string(i), rows * columns * 4));
    smallBuffers.push_back(
        builder.addBuffer("s" + std::to_string(i), 3 * 7 * 4));
  }
  for (const char *name : {"first", "second"}) {
    builder.beginProgram(name);
    size_t held = 0;
    int from = 0, smallFrom = 0;
    size_t smallHeld = 0;
    builder.addInput("in", shardings[held], buffers[from]);
    auto mixAll = [&](int buffer, const exec::TensorLayoutT &layout) {
      const int64_t elements = getLocalElements(layout);
      builder.addKernel("mix", elements,
                        list(builder.view(buffer, f32, {elements})), 1,
                        int64_t(1) << 20);
    };
    for (int i = 0; i < 12; ++i) {
      mixAll(buffers[from], shardings[held]);
      const size_t next = random() % shardings.size();
      const int to = int(from + 1 + random() % 2) % 3;
      exec::CommandT &command =
          builder.addCollective(exec::CollectiveKind::exchange, shardings[held],
                                buffers[from], shardings[next], buffers[to]);
      // Members agree on what they reduce by.
      const bool reduces = shardings[held].partial != exec::ReduceKind::none ||
                           shardings[next].partial != exec::ReduceKind::none;
      const size_t smallNext = reduces ? next : held;
      const bool fits =
          (smallShardings[smallHeld].partial != exec::ReduceKind::none ||
           smallShardings[smallNext].partial != exec::ReduceKind::none) ==
          reduces;
      if (i % 2 == 1 && fits) {
        const int smallTo = (smallFrom + 1) % 3;
        mixAll(smallBuffers[smallFrom], smallShardings[smallHeld]);
        std::swap(builder.get().programs.back()->commands.back(),
                  builder.get().programs.back()->commands.end()[-2]);
        builder.addMember(command, smallShardings[smallHeld],
                          smallBuffers[smallFrom], smallShardings[smallNext],
                          smallBuffers[smallTo]);
        smallHeld = smallNext;
        smallFrom = smallTo;
      }
      held = next;
      from = to;
    }
    builder.addOutput("out", shardings[held], buffers[from]);
    builder.addOutput("small", smallShardings[smallHeld],
                      smallBuffers[smallFrom]);
  }
  return builder.finish();
}

/// Runs both programs in turn, some times; all arenas in the end, and what
/// was read in between.
std::string runPrograms(const Executable &executable, Executor &executor) {
  std::string bits;
  for (int round = 0; round < 6; ++round)
    for (const auto &program : executable.data.programs) {
      const exec::PortT &in = *program->inputs[0];
      HostArray array{f32, getSizes(*in.layout), {}};
      array.data.resize(size_t(array.getNumElements()) * 4);
      std::mt19937 random{unsigned(round)};
      fillRandom(array.data.data(), array.data.size(), random);
      EXPECT_TRUE(scatter(executor, *in.layout, in.buffer, array.data));
      Status ran = executor.run(*program);
      EXPECT_TRUE(ran) << ran.getError().message;
      for (const auto &out : program->outputs) {
        Result<HostArray> result = gather(executor, *out->layout, out->buffer);
        EXPECT_TRUE(result);
        bits.append(reinterpret_cast<const char *>(result->data.data()),
                    result->data.size());
      }
      Result<uint8_t> decided = executor.decide(uint8_t(round * 7));
      EXPECT_TRUE(decided && *decided == uint8_t(round * 7));
    }
  return bits;
}

TEST(ExecutorGroupTest, runs_equal_those_of_one_process) {
  const std::vector<std::pair<std::string, int64_t>> meshes[] = {
      {{"x", 2}, {"y", 3}}, {{"x", 4}, {"y", 1}}, {{"x", 1}, {"y", 5}}};
  unsigned seed = 0;
  for (const auto &mesh : meshes)
    // Small blocks are read all at once, large ones one by one.
    for (auto [rows, columns] :
         {std::pair<int64_t, int64_t>{5, 7}, {290, 190}}) {
      const Executable executable =
          makeRandomProgram(mesh, rows, columns, ++seed);
      Result<std::unique_ptr<Executor>> whole =
          Executor::create(executable, kernels, 1);
      ASSERT_TRUE(whole);
      const std::string expected = runPrograms(executable, **whole);
      for (int64_t ranks = 2; ranks <= executable.getNumDevices(); ++ranks)
        runRanks(ranks, [&](Ranks &group) {
          Result<std::unique_ptr<Transport>> transport =
              SocketTransport::create(group);
          ASSERT_TRUE(transport) << transport.getError().message;
          const int threads = int(1 + (group.getRank() + seed) % 3);
          Result<std::unique_ptr<Executor>> part = Executor::create(
              executable, kernels, threads,
              {ranks, group.getRank(), ranks, std::move(*transport)});
          ASSERT_TRUE(part) << part.getError().message;
          EXPECT_EQ(runPrograms(executable, **part), expected);
          EXPECT_TRUE(group.getStore().barrier("done", 60));
        });
    }
}

TEST(ExecutorGroupTest, a_rank_that_is_gone_ends_the_run) {
  const Executable executable =
      makeRandomProgram({{"x", 2}, {"y", 2}}, 5, 7, 1);
  runRanks(2, [&](Ranks &group) {
    Result<std::unique_ptr<Transport>> transport =
        SocketTransport::create(group);
    ASSERT_TRUE(transport);
    Result<std::unique_ptr<Executor>> part = Executor::create(
        executable, kernels, 2, {2, group.getRank(), 2, std::move(*transport)});
    ASSERT_TRUE(part);
    Status ran = (*part)->run(*executable.data.programs[0]);
    EXPECT_TRUE(ran);
    ASSERT_TRUE(group.getStore().barrier("ran", 60));
    if (!group.isFirst()) {
      part->reset();
      return;
    }
    for (int i = 0; i < 3; ++i) {
      ran = (*part)->run(*executable.data.programs[1]);
      ASSERT_FALSE(ran);
      EXPECT_EQ(ran.getError().code, ErrorCode::RankLost);
      EXPECT_THAT(ran.getError().message,
                  testing::HasSubstr("lost the connection to rank 1"));
    }
    EXPECT_FALSE((*part)->decide(1));
  });
}

TEST(ExecutorGroupTest, more_processes_than_devices_are_an_error) {
  runRanks(3, [&](Ranks &group) {
    Result<std::unique_ptr<Session>> session =
        Session::create(LinearModel::makeProgram(2), LinearModel::getKernels(),
                        openCpuDevices, 1, {}, &group);
    ASSERT_FALSE(session);
    EXPECT_EQ(session.getError().code, ErrorCode::WrongRanks);
    EXPECT_EQ(session.getError().message,
              "3 processes for a mesh of 2 devices");
  });
}

} // namespace

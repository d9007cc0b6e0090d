// Puts as kernels of GPUs: the bits of the CPU's, in any order of threads.

#include "codegen/ExecTypes.h"
#include "codegen/gpu/PutShape.h"
#include "runtime/cpu/Put.h"
#include "runtime/exec/Executable.h"
#include "tests/codegen/KernelCases.h"
#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;

namespace {

/// What a loop is in: kept and indexed, summed, kept.
enum class LoopClass { Batch, Term, Column };

struct TestLoop {
  LoopClass kind;
  int64_t size;
};

struct TestPut {
  std::vector<TestLoop> loops;
  int64_t positions;
  std::string input = "f32", index = "i32", sum = "f32";
};

class GpuPuts : public ::testing::Test {
protected:
  std::mt19937 random{1};

  int64_t draw(int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  }

  std::string write(const TestPut &put);
  /// Positions, some of them outside of the result.
  std::vector<int64_t> drawIndex(const TestPut &put);
  void check(const TestPut &put, const std::vector<int64_t> &index);
  void check(const TestPut &put) { check(put, drawIndex(put)); }
};

int64_t countTerms(const TestPut &put) {
  int64_t count = 1;
  for (const TestLoop &loop : put.loops)
    if (loop.kind != LoopClass::Column)
      count *= loop.size;
  return count;
}

/// The program @p of the put alone, with the tensors stored in random orders.
std::string GpuPuts::write(const TestPut &put) {
  // The last loop is that of the positions.
  const size_t numLoops = put.loops.size() + 1;
  auto addTensor = [&](const std::string &element, auto has) {
    std::vector<size_t> order;
    for (size_t loop = 0; loop < numLoops; ++loop)
      if (has(loop))
        order.push_back(loop);
    std::shuffle(order.begin(), order.end(), random);
    std::string named, shape, map;
    for (size_t loop : order) {
      const int64_t size =
          loop < put.loops.size() ? put.loops[loop].size : put.positions;
      const char *comma = named.empty() ? "" : ", ";
      named += fmt::format("{}\"d{}\"={}", comma, loop, size);
      map += fmt::format("{}d{}", comma, loop);
      shape += fmt::format("{}x", size);
    }
    return std::tuple(fmt::format("!nd.tensor<[{}], {}, <>>", named, element),
                      fmt::format("tensor<{}{}>", shape, element), map);
  };
  auto isKind = [&](size_t loop, LoopClass kind) {
    return loop < put.loops.size() && put.loops[loop].kind == kind;
  };
  const auto [x, xType, xMap] = addTensor(
      put.input, [&](size_t loop) { return loop < put.loops.size(); });
  const auto [i, iType, iMap] = addTensor(put.index, [&](size_t loop) {
    return isKind(loop, LoopClass::Batch) || isKind(loop, LoopClass::Term);
  });
  const auto [y, yType, yMap] = addTensor(
      put.sum, [&](size_t loop) { return !isKind(loop, LoopClass::Term); });
  std::string loops;
  for (size_t loop = 0; loop < numLoops; ++loop)
    loops += fmt::format("{}d{}", loop > 0 ? ", " : "", loop);
  std::string maps;
  for (const std::string &map : {xMap, iMap, yMap})
    maps += fmt::format("{}affine_map<({}) -> ({})>", maps.empty() ? "" : ", ",
                        loops, map);
  return fmt::format(R"(
nd.mesh ["x"=1]
spmd.program @p {{
  %x = spmd.input "x" of {0} : {1}
  %i = spmd.input "i" of {2} : {3}
  %y = spmd.put %x[%i] {{indexing_maps = [{6}]}} : {1}, {3} -> {5}
  spmd.output "y" of {4}, %y : {5}
}})",
                     x, xType, i, iType, y, yType, maps);
}

std::vector<int64_t> GpuPuts::drawIndex(const TestPut &put) {
  const int64_t outside[] = {-1, put.positions,
                             std::numeric_limits<int32_t>::min(),
                             std::numeric_limits<int32_t>::max(),
                             // Of 64 bits, where the index has them.
                             put.index == "i64" ? int64_t(1) << 32 : -2};
  std::vector<int64_t> index(size_t(countTerms(put)));
  for (int64_t &position : index)
    position = random() % 8 == 0 ? outside[random() % std::size(outside)]
                                 : draw(0, put.positions - 1);
  return index;
}

exec::ElementType getElement(const std::string &name) {
  for (exec::ElementType element : exec::EnumValuesElementType())
    if (runtime::getName(element) == name)
      return element;
  ADD_FAILURE() << "no element type " << name;
  return exec::ElementType::f32;
}

/// The result as the runtime computes it on CPUs.
F64Tensor computeOnCpu(steps::PutOp step, const TestPut &put, F64State &state) {
  auto getType = [](Value value) {
    return cast<RankedTensorType>(value.getType());
  };
  const runtime::Put command(step.getLoops(), getElement(put.input),
                             getElement(put.index));
  std::vector<char> memory[3];
  const Value tensors[] = {step.getInput(), step.getIndex(), step.getResult()};
  for (auto [bytes, tensor] : llvm::zip_equal(memory, tensors))
    bytes.resize(size_t(codegen::getBytes(getType(tensor))));
  writeBlock(state.inputs.at("x"), getType(step.getInput()), memory[0].data());
  writeBlock(state.inputs.at("i"), getType(step.getIndex()), memory[1].data());
  std::vector<std::byte> scratch(command.getScratchBytes() + 64);
  void *operands[] = {memory[0].data(), memory[1].data(), memory[2].data()};
  command.run(0, command.getPlan().getNumUnits(), operands,
              reinterpret_cast<std::byte *>(
                  llvm::alignTo(uintptr_t(scratch.data()), 64)));
  F64Tensor result(getType(step.getResult()).getShape());
  for (size_t i = 0; i < result.elements.size(); ++i)
    if (put.sum == "f64")
      result.elements[i] = reinterpret_cast<double *>(memory[2].data())[i];
    else
      result.elements[i] =
          double(reinterpret_cast<float *>(memory[2].data())[i]);
  return result;
}

void GpuPuts::check(const TestPut &put, const std::vector<int64_t> &index) {
  const std::string text = write(put);
  SCOPED_TRACE(text);
  auto runner = KernelRunner::createGpu(text);
  ASSERT_TRUE(runner);
  auto step = runner->getStep<steps::PutOp>(0);
  auto getShape = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  F64State state;
  F64Tensor &x = state.inputs["x"] = F64Tensor(getShape(step.getInput()));
  std::normal_distribution<double> normal;
  const auto element = cast<RankedTensorType>(step.getInput().getType());
  for (auto &number : x.elements)
    number = interpreter::roundTo<interpreter::F64>(
        random() % 16 == 0 ? -0.0 : normal(random),
        interpreter::getElementKind(element.getElementType()));
  F64Tensor &i = state.inputs["i"] = F64Tensor(getShape(step.getIndex()));
  i.elements.assign(index.begin(), index.end());
  const F64Tensor expected = computeOnCpu(step, put, state);
  if (writesKernelCases()) {
    F64State results;
    results.outputs["y"] = expected;
    return writeKernelCase(text, state, results, 0);
  }
  using emulation::FiberOrder;
  for (FiberOrder order :
       {FiberOrder{FiberOrder::forward}, FiberOrder{FiberOrder::backward},
        FiberOrder{FiberOrder::random, 5}}) {
    runner->setOrder(order);
    runner->run(state);
    const F64Tensor &found = state.outputs.at("y");
    for (size_t at = 0; at < expected.elements.size(); ++at) {
      const double want = std::get<double>(expected.elements[at]);
      const double got = std::get<double>(found.elements[at]);
      ASSERT_TRUE(got == want && std::signbit(got) == std::signbit(want))
          << got << ", expected " << want << " at " << at;
    }
  }
}

/// The gradient of 65,536 tokens' embeddings: launches that a GPU is full of,
/// and memory for numbers of terms alone.
TEST(PutShapes, of_a_table_of_tokens) {
  exec::PutT put;
  put.positions = 50257;
  put.position_stride = 768;
  put.sizes = {64, 1024, 768};
  put.input_strides = {1024 * 768, 768, 1};
  put.index_strides = {1024, 1, 0};
  put.result_strides = {0, 0, 1};
  const codegen::PutShape shape(runtime::PutPlan(put), 4);
  EXPECT_EQ(shape.numberBits, 32U);
  EXPECT_EQ(shape.digits, 2U);
  EXPECT_EQ(shape.buckets, 256);
  EXPECT_EQ(shape.numChunks, 64);
  EXPECT_EQ(shape.lanes, 4);
  EXPECT_EQ(shape.teams, 8);
  EXPECT_EQ(shape.tiles, 6);
  EXPECT_EQ(shape.rowBlocks, 1571);
  EXPECT_LE(shape.workspaceBytes, 20 * 65536 + 4 * 50258 + 64);
}

TEST_F(GpuPuts, of_any_loops_have_the_bits_of_the_cpu) {
  const TestPut types[] = {{{}, 0, "f32", "i32", "f32"},
                           {{}, 0, "f64", "i64", "f64"},
                           {{}, 0, "bf16", "i64", "f32"},
                           {{}, 0, "f16", "i32", "f32"}};
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    TestPut put = types[size_t(round) % std::size(types)];
    const auto count = int(draw(0, 4));
    for (int i = 0; i < count; ++i)
      put.loops.push_back({LoopClass(random() % 3), draw(1, 5)});
    // Some that fill accesses, teams and tiles.
    if (random() % 3 == 0)
      put.loops.push_back({LoopClass::Column, 4 * draw(1, 75)});
    put.positions = draw(1, 7);
    check(put);
    if (HasFatalFailure())
      return;
  }
}

/// Rows of more than two digits, and those of many terms beside most of none.
TEST_F(GpuPuts, of_many_rows) {
  for (int64_t rows : {31, 32, 255, 300, 70001})
    check({{{LoopClass::Term, 37}, {LoopClass::Column, 3}}, rows});
}

/// Sums of one block of terms, of several and of blocks of blocks, in a random
/// order; chunks of the index that are whole and one that is not.
TEST_F(GpuPuts, of_many_terms) {
  const int64_t counts[] = {1, 0, 63, 64, 65, 128, 4096, 4097};
  std::vector<int64_t> index;
  for (auto [row, count] : llvm::enumerate(counts))
    index.insert(index.end(), size_t(count), int64_t(row));
  index.push_back(-1);
  index.push_back(int64_t(std::size(counts)));
  std::shuffle(index.begin(), index.end(), random);
  const auto terms = int64_t(index.size());
  for (int64_t columns : {1, 6, 132})
    check({{{LoopClass::Term, terms}, {LoopClass::Column, columns}},
           std::size(counts),
           columns == 6 ? "bf16" : "f32"},
          index);
}

TEST_F(GpuPuts, of_one_row) {
  const TestPut put = {{{LoopClass::Term, 9001}, {LoopClass::Column, 8}}, 300};
  check(put, std::vector<int64_t>(9001, 257));
}

TEST_F(GpuPuts, of_no_row) {
  const TestPut put = {{{LoopClass::Term, 70}, {LoopClass::Column, 5}}, 7};
  check(put, std::vector<int64_t>(70, 7));
}

} // namespace

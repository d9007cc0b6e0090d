// How fast generated kernels run on one thread, beside a copy of the same
// bytes: the figure behind the block sizes and lane counts in codegen/.
//
// Each case runs on blocks that stay in a second-level cache and on blocks that
// do not. `bytes` counts every tensor of the kernel's interface once.

#include "tests/codegen/KernelRunner.h"

#include <benchmark/benchmark.h>

#include <cstring>

using namespace meshc::test;

namespace {

using Writer = void (*)(ProgramText &);

void writeAdd(ProgramText &text) {
  text.input("z", "b d");
  text.pointwise("y", "b d", {"x", "z"}, "%r = arith.addf %a0, %a1 : f32");
  text.output("y");
}

void writeGelu(ProgramText &text) {
  text.pointwise("y", "b d", {"x"},
                 "%half = arith.constant 0.5 : f32\n"
                 "%one = arith.constant 1.0 : f32\n"
                 "%c = arith.constant 0.707106769 : f32\n"
                 "%h = arith.mulf %half, %a0 : f32\n"
                 "%s = arith.mulf %a0, %c : f32\n"
                 "%e = math.erf %s : f32\n"
                 "%p = arith.addf %one, %e : f32\n"
                 "%r = arith.mulf %h, %p : f32");
  text.output("y");
}

void writeSoftmax(ProgramText &text) {
  text.reduce("m", "b", {"x"}, "arith.maximumf", "0xFF800000");
  text.pointwise("c", "b d", {"x", "m"}, "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
  text.pointwise("y", "b d", {"e", "s"}, "%r = arith.divf %a0, %a1 : f32");
  text.output("y");
}

void writeRowSums(ProgramText &text) {
  text.reduce("s", "b", {"x"}, "arith.addf", "0.0");
  text.output("s");
}

void writeColumnSums(ProgramText &text) {
  text.reduce("s", "d", {"x"}, "arith.addf", "0.0");
  text.output("s");
}

void writeTranspose(ProgramText &text) {
  text.pointwise("y", "d b", {"x"}, "");
  text.output("y");
}

void runKernel(benchmark::State &state, Writer write) {
  ProgramText text;
  text.dim("b", state.range(0));
  text.dim("d", state.range(1));
  text.input("x", "b d");
  write(text);
  auto runner = KernelRunner::create(text.str());
  if (!runner || runner->getSteps().size() != 1)
    return state.SkipWithError("it is not one kernel");
  std::vector<std::vector<float>> blocks;
  std::vector<void *> operands;
  int64_t bytes = 0;
  for (mlir::Value value : KernelRunner::getTensors(runner->getSteps()[0])) {
    auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
    blocks.emplace_back(size_t(type.getNumElements()), 0.5f);
    operands.push_back(blocks.back().data());
    bytes += type.getNumElements() * int64_t(sizeof(float));
  }
  for (auto _ : state) {
    runner->call(0, operands);
    benchmark::ClobberMemory();
  }
  state.counters["bytes"] = benchmark::Counter(
      double(bytes) * double(state.iterations()), benchmark::Counter::kIsRate);
}

void runCopy(benchmark::State &state) {
  std::vector<float> from(size_t(state.range(0) * state.range(1)), 0.5f);
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.counters["bytes"] = benchmark::Counter(
      2.0 * double(from.size() * sizeof(float)) * double(state.iterations()),
      benchmark::Counter::kIsRate);
}

/// 96 KiB and 32 MiB per tensor.
void setSizes(benchmark::internal::Benchmark *bench) {
  bench->Args({24, 1024})->Args({8192, 1024});
}

} // namespace

BENCHMARK(runCopy)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, add, writeAdd)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, gelu, writeGelu)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, softmax, writeSoftmax)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, row_sums, writeRowSums)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, column_sums, writeColumnSums)->Apply(setSizes);
BENCHMARK_CAPTURE(runKernel, transpose, writeTranspose)->Apply(setSizes);
BENCHMARK_MAIN();

// What this machine can do at best: oneDNN's matmul, a copy, a sum of several
// buffers. The limits in the reports are made of these.
//
// Every thread works on a problem of its own: devices side by side are how a
// mesh runs. Set OMP_NUM_THREADS=1, or oneDNN threads inside each problem too.

#include <benchmark/benchmark.h>
#include <dnnl.hpp>

#include <cstring>
#include <thread>
#include <vector>

/// C[m, n] = A[m, k] B[k, n] in f32; reports multiply-adds times two.
static void matmul(benchmark::State &state) {
  const dnnl::memory::dim m = state.range(0), k = state.range(1),
                          n = state.range(2);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  auto describe = [](dnnl::memory::dim rows, dnnl::memory::dim columns) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::format_tag::ab);
  };
  dnnl::memory a(describe(m, k), engine), b(describe(k, n), engine),
      c(describe(m, n), engine);
  for (dnnl::memory *operand : {&a, &b, &c})
    std::memset(operand->get_data_handle(), 0, operand->get_desc().get_size());
  dnnl::matmul product(dnnl::matmul::primitive_desc(
      dnnl::matmul::desc(a.get_desc(), b.get_desc(), c.get_desc()), engine));
  for (auto _ : state) {
    product.execute(
        stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  }
  state.counters["flops"] =
      benchmark::Counter(double(2 * m * k * n) * double(state.iterations()),
                         benchmark::Counter::kIsRate);
}

/// Copies buffers far larger than the caches; reports bytes read plus written.
static void copy(benchmark::State &state) {
  const size_t bytes = size_t(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.counters["bytes"] =
      benchmark::Counter(2.0 * double(bytes) * double(state.iterations()),
                         benchmark::Counter::kIsRate);
}

static const int numThreads = int(std::thread::hardware_concurrency());

BENCHMARK(matmul)
    ->Args({512, 4096, 4096})
    ->Args({512, 512, 2048})
    ->Threads(numThreads)
    ->UseRealTime();
BENCHMARK(copy)->Arg(128 << 20)->Threads(numThreads)->UseRealTime();

BENCHMARK_MAIN();
